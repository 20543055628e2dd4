//! Restoring a checkpoint that came from elsewhere, and taking that back.

use rappel::formats::Form;
use rappel::formats::Portable;
use rappel::{RestoreOptions, SaveOptions};
use rappel_testing::Project;

use crate::scene::{import, session, show, with_files};
use crate::support::{World, reference};

fn world() -> (World, String) {
    let world = World::new(Project::new().file("a.txt", "own").file("b.txt", "own b"));
    let own = world.save("own");
    (world, own)
}

/// A checkpoint that holds only a part of the files.
fn part(id: &str) -> Portable {
    let mut one = with_files(id, 1, &[("a.txt", "theirs"), (".loki/state.json", "{}")]);
    let files = one.files.as_mut().unwrap();
    files.whole = false;
    files.state_dirs = vec![".loki".parse().unwrap()];
    one
}

#[test]
fn the_next_checkpoint_keeps_its_own_parent_and_names_what_was_restored() {
    let (world, own) = world();
    import(&world, Form::Lugh, "/x", vec![with_files("cp-1", 1, &[("a.txt", "theirs")])]);
    let report = world.restore("lugh:cp-1");
    assert_eq!(world.read("a.txt"), "theirs");
    assert!(!world.exists("b.txt"), "the checkpoint holds all files");
    let safety = report.done.unwrap().safety_checkpoint.unwrap();
    let next = world.save("next");
    let manifest = show(&world.open(), &next).manifest;
    assert_eq!(manifest.parent.as_ref(), Some(&safety));
    assert_eq!(manifest.metadata["restored_from"], "cp-1");
    assert_eq!(show(&world.open(), safety.as_str()).manifest.parent.unwrap().as_str(), own);
    world.write("a.txt", "later");
    let later = show(&world.open(), &world.save("later")).manifest;
    assert_eq!(later.parent.unwrap().as_str(), next);
    assert!(!later.metadata.contains_key("restored_from"));
}

#[test]
fn undo_takes_it_back_and_never_steps_into_the_lineage() {
    let (world, own) = world();
    let all = vec![
        with_files("cp-1", 1, &[("a.txt", "theirs 1")]),
        with_files("cp-2", 2, &[("a.txt", "theirs 2")]),
    ];
    import(&world, Form::Lugh, "/x", all);
    let before = world.snapshot();
    world.restore("cp-2");
    world.undo();
    assert_eq!(world.snapshot(), before);
    world.redo();
    assert_eq!(world.read("a.txt"), "theirs 2");
    world.undo();
    assert_eq!(world.snapshot(), before);
    // A checkpoint after the restore, too, leads back to the workspace's own history.
    world.restore("cp-2");
    world.write("a.txt", "went on");
    world.save("went on");
    world.write("a.txt", "edited");
    let mut seen = Vec::new();
    while let Ok(step) = world.open().next_undo() {
        let manifest = show(&world.open(), step.to.as_str()).manifest;
        assert!(manifest.origin.is_none(), "{step:?}");
        seen.push(step.to.to_string());
        world.open().step(&step, false, &RestoreOptions::default()).unwrap();
        assert!(seen.len() < 10, "{seen:?}");
    }
    assert!(seen.contains(&own) || world.read("a.txt") == "own", "{seen:?}");
}

#[test]
fn a_part_of_the_files_deletes_nothing() {
    let (world, _) = world();
    import(&world, Form::Loki, "/x", vec![part("cp-1")]);
    assert!(show(&world.open(), "cp-1").manifest.partial);
    let report = world.restore("loki:cp-1");
    assert_eq!(report.summary.files.delete, 0);
    assert_eq!((world.read("a.txt"), world.read("b.txt")), ("theirs".into(), "own b".into()));
    assert_eq!(world.read(".loki/state.json"), "{}");
}

#[test]
fn a_folder_keeps_the_mode_that_it_has_here() {
    use std::os::unix::fs::PermissionsExt;
    let (world, _) = world();
    world.write(".loki/own", "x");
    let folder = world.project.path(".loki");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    import(&world, Form::Loki, "/x", vec![part("cp-1")]);
    world.restore("cp-1");
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn its_sessions_stay_as_they_came() {
    let (world, _) = world();
    let mut one = with_files("cp-1", 1, &[("a.txt", "theirs")]);
    one.sessions = vec![session("s", &["a thought"])];
    import(&world, Form::Caf, "/x", vec![one]);
    let plan = world.open().plan_restore(&reference("cp-1"), &RestoreOptions::default()).unwrap();
    assert!(plan.full_plan.agents.is_empty());
    assert!(plan.warnings.iter().any(|said| said.contains("came from elsewhere")), "{plan:?}");
    world.restore("cp-1");
    let held = show(&world.open(), "cp-1").manifest.agents.unwrap().sessions.remove(0);
    let view = world.open().session(&held.id).unwrap();
    assert!(!view.status.is_live(), "{view:?}");
}

#[test]
fn a_save_while_nothing_changed_since_is_a_checkpoint_of_its_own() {
    let (world, _) = world();
    import(&world, Form::Lugh, "/x", vec![with_files("cp-1", 1, &[("a.txt", "theirs")])]);
    world.restore("cp-1");
    let saved = world.open().save(&SaveOptions::default()).unwrap().checkpoint;
    assert!(saved.created && saved.lineage.is_none() && saved.manifest.origin.is_none());
    assert_eq!(saved.manifest.files.unwrap().tree, {
        show(&world.open(), "cp-1").manifest.files.unwrap().tree
    });
}
