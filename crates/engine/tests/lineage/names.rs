//! How a checkpoint of a lineage is meant, and what it is never meant by.

use rappel::formats::Form;
use rappel::types::Reference;
use rappel::{Error, ErrorKind, Rappel};
use rappel_testing::Project;

use crate::scene::{import, show, with_files, words};
use crate::support::{World, reference};

fn fails(rappel: &Rappel, text: &str) -> Error {
    rappel.show(&text.parse::<Reference>().unwrap()).unwrap_err()
}

#[test]
fn numbers_are_named_with_their_form_and_without_leading_zeros() {
    let world = World::new(Project::new().file("a", "1"));
    let own = world.save("own");
    let all = vec![with_files("001", 1, &[("x", "1")]), with_files("003", 3, &[("x", "3")])];
    import(&world, Form::Aiwg, "/x/.aiwg", all);
    let rappel = world.open();
    assert_eq!(show(&rappel, "1").manifest.id.as_str(), own, "a number is the workspace's own");
    for text in ["aiwg:3", "aiwg:003", "aiwg-003"] {
        assert_eq!(show(&rappel, text).manifest.id.as_str(), "aiwg-003", "{text}");
    }
    assert_eq!(show(&rappel, "aiwg:3~1").manifest.id.as_str(), "aiwg-001");
    assert_eq!(fails(&rappel, "3").kind(), ErrorKind::NotFound);
    assert_eq!(fails(&rappel, "aiwg:2").kind(), ErrorKind::NotFound);
    assert_eq!(fails(&rappel, "loki:3").kind(), ErrorKind::NotFound);
    assert_eq!(fails(&rappel, "aiwg:1~1").kind(), ErrorKind::NotFound);
}

#[test]
fn two_histories_with_001_neither_hide_nor_delete_each_other() {
    let world = World::new(Project::new().file("a", "1"));
    let one = import(&world, Form::Aiwg, "/one", vec![with_files("001", 1, &[("x", "one")])]);
    let two = import(&world, Form::Aiwg, "/two", vec![with_files("001", 2, &[("x", "two")])]);
    assert_eq!(one.imported + two.imported, 2);
    assert_ne!(one.lineage.unwrap().workspace, two.lineage.unwrap().workspace);
    let rappel = world.open();
    let Error::Ambiguous { candidates, .. } = fails(&rappel, "aiwg:001") else { panic!() };
    assert_eq!(candidates.len(), 2);
    assert_eq!(fails(&rappel, "aiwg:1").kind(), ErrorKind::Usage);
    for id in &candidates {
        assert_eq!(show(&rappel, id).manifest.id.as_str(), id);
    }
    rappel.delete(&[reference(&candidates[0])], true).unwrap();
    assert_eq!(show(&world.open(), "aiwg:001").manifest.id.as_str(), candidates[1]);
    world.open().gc(true, false).unwrap();
    assert_eq!(show(&world.open(), "aiwg:001").manifest.id.as_str(), candidates[1]);
    world.verify();
}

#[test]
fn two_workspaces_import_the_same_folder_apart() {
    let world = World::new(Project::new().file("a", "1"));
    let other = tempfile::tempdir().unwrap();
    let there = Rappel::open(world.options_at(other.path())).unwrap();
    let all = || vec![words("cp-1", 1)];
    import(&world, Form::Loki, "/x", all());
    let arrivals = crate::scene::arrivals(Form::Loki, "/x", all());
    assert_eq!(there.import_checkpoints(&arrivals).unwrap().imported, 1);
    let here = world.open();
    assert_eq!(show(&here, "loki:cp-1").manifest.id.as_str(), "cp-1");
    assert_eq!(show(&there, "loki:cp-1").manifest.id.as_str(), "loki-cp-1");
    assert!(matches!(fails(&here, "loki-cp-1"), Error::Elsewhere { .. }));
    there.delete(&[reference("loki:cp-1")], true).unwrap();
    assert_eq!(show(&world.open(), "loki:cp-1").manifest.id.as_str(), "cp-1");
}

#[test]
fn a_beginning_that_fits_several_names_them_all() {
    let world = World::new(Project::new().file("a", "1"));
    let own = world.save("own");
    let last = if own.ends_with('x') { 'y' } else { 'x' };
    let foreign = format!("{}{last}", &own[..own.len() - 1]);
    import(&world, Form::Lugh, "/x", vec![words(&foreign, 1)]);
    let rappel = world.open();
    let Error::Ambiguous { candidates, .. } = fails(&rappel, &own[..own.len() - 1]) else {
        panic!()
    };
    assert_eq!(candidates, [own.clone(), format!("lugh:{foreign}")]);
    for id in candidates {
        show(&rappel, &id);
    }
    assert_eq!(show(&rappel, &own).manifest.id.as_str(), own);
}

#[test]
fn a_deleted_one_is_told_and_comes_back_by_either_name() {
    let world = World::new(Project::new().file("a", "1"));
    world.save("own");
    import(&world, Form::Aiwg, "/x", vec![words("003", 3)]);
    for name in ["aiwg:3", "aiwg-003"] {
        world.open().delete(&[reference("aiwg:3")], false).unwrap();
        let rappel = world.open();
        assert!(matches!(fails(&rappel, "aiwg:3"), Error::Deleted { .. }));
        assert!(matches!(fails(&rappel, "aiwg-003"), Error::Deleted { .. }));
        assert!(rappel.undelete("3").is_err(), "a number is the workspace's own");
        rappel.undelete(name).unwrap();
        show(&world.open(), "aiwg:3");
    }
}
