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

/// One record of a checkpoint or a tombstone of it, at a place of its own.
fn entry(number: u64, kind: Kind, checkpoint: u8, birth: u64, pack: u64) -> Entry {
    let name = format!("chk_{checkpoint}");
    let body = match kind {
        Kind::Manifest => Body::Manifest(Box::new(Outline {
            id: name.parse().unwrap(),
            workspace: WorkspaceId(1 + u64::from(checkpoint % 2)),
            sequence: u64::from(checkpoint),
            created_at: rappel_types::Timestamp::from_millis(i64::from(checkpoint)),
            trigger: if checkpoint.is_multiple_of(3) { "thought-completed" } else { "manual" }
                .into(),
            holds_files: !checkpoint.is_multiple_of(3),
            parent: None,
            description: None,
            session: None,
            tags: vec!["made".into()],
            positions: Vec::new(),
        })),
        Kind::Label if number.is_multiple_of(2) => {
            let json = r#"{"version": 1, "add": ["given"], "remove": ["made"]}"#.into();
            Body::Document { key: name, json }
        }
        Kind::Label => {
            let json = r#"{"version": 1, "add": ["made"], "remove": ["given"]}"#.into();
            Body::Document { key: name, json }
        }
        _ => Body::Document { key: name, json: "{}".into() },
    };
    let id = ObjectId([number as u8; 32]);
    Entry { pack: PackId::Log(pack), offset: number, kind, id, birth, body }
}

/// What a tag means, one label after the other.
fn has(tag: &str, labels: &[(u64, bool)]) -> bool {
    let mut has = tag == "made";
    let mut labels = labels.to_vec();
    labels.sort_unstable();
    for (_, even) in labels {
        has = (tag == "given") == even;
    }
    has
}

proptest::proptest! {
    /// Records come in any order (gc copies old ones behind newer ones) and go with their packs.
    #[test]
    fn what_counts_is_always_what_the_records_say(
        steps in proptest::collection::vec((0..4_u8, 0..5_u8, 1..30_u64, 1..5_u64), 1..60),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut index = Index::create(&folder.path().join("index.db")).unwrap().unwrap();
        // Kind, checkpoint, birth, pack, number.
        let mut known: Vec<(u8, u8, u64, u64, u64)> = Vec::new();
        for (number, (step, checkpoint, birth, pack)) in (1_u64..).zip(steps) {
            match step {
                3 => {
                    let commit = Commit { retired: vec![PackId::Log(pack)], ..commit(number) };
                    index.apply(&[], Some(&commit), Some(&position(number))).unwrap();
                    known.retain(|(_, _, _, of, _)| *of != pack);
                }
                _ => {
                    let kind = [Kind::Manifest, Kind::Tombstone, Kind::Label][usize::from(step)];
                    let entry = entry(number, kind, checkpoint, birth, pack);
                    index.apply(&[entry], Some(&commit(number)), Some(&position(number))).unwrap();
                    known.push((step, checkpoint, birth, pack, number));
                }
            }
            let newest = |of: u8, checkpoint: u8| {
                let of = known.iter().filter(move |one| one.0 == of && one.1 == checkpoint);
                of.map(|one| one.2).max()
            };
            for workspace in [1, 2] {
                for folded in [true, false] {
                    let of = Of::One(WorkspaceId(workspace));
                    let wanted = Wanted { folded: Some(folded), ..Wanted::all(of, Order::Number) };
                    let expected: Vec<u64> = (0..5_u8)
                        .rev()
                        .filter(|one| {
                            1 + u64::from(one % 2) == workspace
                                && one.is_multiple_of(3) == folded
                                && newest(0, *one).is_some()
                                && newest(0, *one) >= newest(1, *one)
                        })
                        .map(u64::from)
                        .collect();
                    let found = index.page(&wanted, None).unwrap();
                    let found: Vec<u64> = found.iter().map(|row| row.sequence).collect();
                    proptest::prop_assert_eq!(&found, &expected);
                    proptest::prop_assert_eq!(index.count(&wanted).unwrap(), expected.len());
                    for tag in ["made", "given"] {
                        let expected: Vec<u64> = expected
                            .iter()
                            .copied()
                            .filter(|checkpoint| {
                                let of = known.iter().filter(|one| {
                                    one.0 == 2 && u64::from(one.1) == *checkpoint
                                });
                                let labels: Vec<_> = of.map(|one| (one.2, one.4.is_multiple_of(2))).collect();
                                has(tag, &labels)
                            })
                            .collect();
                        // Two labels of one commit may be read in either order.
                        let births: Vec<_> =
                            known.iter().filter(|one| one.0 == 2).map(|one| (one.1, one.2)).collect();
                        let mut apart = births.clone();
                        apart.sort_unstable();
                        apart.dedup();
                        if apart.len() == births.len() {
                            let tagged = Wanted { tag: Some(tag), ..wanted };
                            let found = index.page(&tagged, None).unwrap();
                            let found: Vec<u64> = found.iter().map(|row| row.sequence).collect();
                            proptest::prop_assert_eq!(&found, &expected, "{}", tag);
                            proptest::prop_assert_eq!(index.count(&tagged).unwrap(), expected.len());
                        }
                    }
                }
            }
        }
        index.clear().unwrap();
        let all = Wanted::all(Of::AllBut(&[]), Order::Time);
        proptest::prop_assert_eq!(index.count(&all).unwrap(), 0);
    }
}
