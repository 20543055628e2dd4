use super::*;

fn position(sequence: u64) -> Position {
    let id = ObjectId([sequence as u8; 32]);
    Position { pack: 1, offset: 64, end: 100, id, sequence, generation: 0 }
}

fn commit(sequence: u64) -> Commit {
    let json = serde_json::json!({
        "version": 1, "home": "0000000000000001", "sequence": sequence, "generation": 0,
        "at": "2026-11-15T14:30:22Z", "previous": null, "length": 0, "hash": ObjectId([0; 32]),
    });
    Commit::decode(json.to_string().as_bytes()).unwrap()
}

#[test]
fn a_run_of_ones_own_is_taken_in_only_right_behind_the_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = Index::create(&folder.path().join("index.db")).unwrap().unwrap();
    index.complete().unwrap();
    let at = |index: &Index| index.position().unwrap().map_or(0, |known| known.sequence);
    index.apply_own(&[], &commit(1), &position(1), 0).unwrap();
    assert_eq!(at(&index), 1);
    // Somebody else is further on, or the index was cleared to be built anew.
    index.apply_own(&[], &commit(3), &position(3), 2).unwrap();
    assert_eq!(at(&index), 1);
    index.clear().unwrap();
    index.apply_own(&[], &commit(1), &position(1), 0).unwrap();
    assert_eq!(at(&index), 0);
    // Whoever builds it takes in what there is, gaps included.
    index.apply(&[], Some(&commit(5)), Some(&position(5))).unwrap();
    index.complete().unwrap();
    index.apply_own(&[], &commit(6), &position(6), 5).unwrap();
    assert_eq!(at(&index), 6);
    assert_eq!(index.acknowledged().unwrap(), Some(position(6)));
    index.clear().unwrap();
    assert_eq!(index.acknowledged().unwrap(), Some(position(6)), "what was durable stays known");
}
