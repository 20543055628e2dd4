//! A restore brings back what was, and loses nothing of what is.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use std::os::unix::fs::PermissionsExt;

use rappel::types::ActionKind;
use rappel::{ErrorKind, Phase, RestoreOptions, SaveOptions, Snapshot};
use rappel_store::disk::Op;
use rappel_testing::{FaultDisk, Project, snapshot};
use support::{World, path, reference};

#[test]
fn everything_comes_back_and_undo_takes_it_away_again() {
    let world = World::new(
        Project::new()
            .file("src/main.rs", "fn main() {}\n")
            .file("README.md", "hello\n")
            .file("run.sh", "#!/bin/sh\n")
            .mode("run.sh", 0o755)
            .dir("empty")
            .symlink("link", "README.md"),
    );
    let first = world.save("first");
    let before = world.snapshot();
    world.write("src/main.rs", "fn main() { broken }\n");
    world.remove("README.md");
    world.remove("link");
    world.remove("empty");
    world.write("new/deep/file.txt", "new\n");
    std::fs::set_permissions(world.project.path("run.sh"), PermissionsExt::from_mode(0o644))
        .unwrap();
    let damaged = world.snapshot();

    let report = world.restore(&first);
    assert_eq!(world.snapshot(), before);
    assert!(report.done.unwrap().verified);
    world.undo();
    assert_eq!(world.snapshot(), damaged);
    world.redo();
    assert_eq!(world.snapshot(), before);
    world.verify();
}

#[test]
fn a_dry_run_changes_nothing_at_all() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("a", "2");
    world.write("b", "3");
    let (tree, home) = (world.snapshot(), snapshot(world.home.path()));
    let report = world.open().plan_restore(&reference(&first), &RestoreOptions::default()).unwrap();
    assert!(report.dry_run);
    assert_eq!((report.summary.files.overwrite, report.summary.files.delete), (1, 1));
    assert_eq!(world.snapshot(), tree);
    let now = snapshot(world.home.path());
    // SQLite's own files may be touched by opening them; what is kept may not.
    for (path, thing) in &home {
        if !path.starts_with("index.db") && path != "lock" {
            assert_eq!(now.get(path), Some(thing), "{path}");
        }
    }
    assert_eq!(world.open().list(&rappel::ListFilter::default()).unwrap().total, 1);
}

#[test]
fn a_plan_that_changed_since_it_was_shown_is_refused() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("a", "2");
    let shown = world.open().plan_restore(&reference(&first), &RestoreOptions::default()).unwrap();
    world.write("b", "3");
    let options = RestoreOptions { expected: Some(shown.plan), ..RestoreOptions::default() };
    let error = world.open().restore(&reference(&first), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(world.read("a"), "2");
    world.remove("b");
    world.open().restore(&reference(&first), &options).unwrap();
    assert_eq!(world.read("a"), "1");
}

#[test]
fn a_path_is_restored_alone() {
    let world = World::new(Project::new().file("a/x", "1").file("a/y", "1").file("b", "1"));
    let first = world.save("first");
    world.write("a/x", "2");
    world.write("a/z", "2");
    world.write("b", "2");
    let only = |text: &str| RestoreOptions { paths: vec![path(text)], ..RestoreOptions::default() };
    world.open().restore(&reference(&first), &only("a")).unwrap();
    assert_eq!((world.read("a/x"), world.read("b")), ("1".into(), "2".into()));
    assert!(!world.exists("a/z"));
    world.undo();
    assert_eq!((world.read("a/x"), world.read("a/z")), ("2".into(), "2".into()));
    let error = world.open().restore(&reference(&first), &only("nowhere")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn ignored_files_are_not_touched() {
    let world = World::new(
        Project::new()
            .file(".gitignore", "*.log\nbuild/\n")
            .file("src/a", "1")
            .file("src/keep", "1"),
    );
    world.git(&["init", "-q"]);
    let first = world.save("first");
    world.write("src/debug.log", "precious");
    world.write("build/out", "precious");
    world.write("added/b", "2");
    world.write("added/trace.log", "precious");
    world.restore(&first);
    assert!(!world.exists("added/b"));
    for kept in ["src/debug.log", "build/out", "added/trace.log"] {
        assert_eq!(world.read(kept), "precious", "{kept}");
    }
}

#[test]
fn what_was_ignored_then_and_is_not_now_is_kept() {
    let world =
        World::new(Project::new().file(".gitignore", "data\n").file("a", "1").file("data", "mine"));
    world.git(&["init", "-q"]);
    let first = world.save("data is ignored");
    world.write(".gitignore", "\n");
    world.write("data", "mine, edited");
    world.save("data is not ignored any more");
    let report = world.restore(&first);
    assert_eq!(world.read("data"), "mine, edited");
    assert_eq!(world.read(".gitignore"), "data\n");
    let skipped = report.actions.iter().find(|action| action.path == path("data")).unwrap();
    assert_eq!(skipped.action, ActionKind::Skip);
}

#[test]
fn what_was_captured_then_and_is_ignored_now_comes_back_and_nothing_is_lost() {
    let world = World::new(Project::new().file("data", "old").file("a", "1"));
    world.git(&["init", "-q"]);
    let first = world.save("data is captured");
    world.write(".gitignore", "data\n");
    world.save("data is ignored");
    world.write("data", "precious");
    world.restore(&first);
    assert_eq!(world.read("data"), "old");
    world.undo();
    assert_eq!(world.read("data"), "precious");
}

#[test]
fn rules_edited_since_the_last_save_do_not_hide_a_file_from_the_safety_checkpoint() {
    let world = World::new(Project::new().file("data", "old").file("a", "1"));
    world.git(&["init", "-q"]);
    let first = world.save("data is captured");
    world.write(".gitignore", "data\n");
    world.write("data", "precious");
    world.restore(&first);
    assert_eq!(world.read("data"), "old");
    world.undo();
    assert_eq!(world.read("data"), "precious");
    assert_eq!(world.read(".gitignore"), "data\n");
}

#[test]
fn oversize_files_stay_as_they_are() {
    let config = "[files]\nmax_file_size = \"1KiB\"\n";
    let world = World::new(Project::new().file("rappel.toml", config).file("a", "1"));
    let first = world.save("first");
    world.write("big", "x".repeat(2000));
    world.write("a", "2");
    world.restore(&first);
    assert_eq!((world.read("a"), world.read("big").len()), ("1".into(), 2000));
    // One that was small enough then and is too large now would be overwritten: a conflict.
    world.write("small", "s");
    let second = world.save("small");
    world.write("small", "s".repeat(5000));
    world.restore(&second);
    assert_eq!(world.read("small"), "s");
    world.undo();
    assert_eq!(world.read("small").len(), 5000);
}

#[test]
fn files_folders_and_links_change_places() {
    for (then, now) in [
        ("file", "dir"),
        ("dir", "file"),
        ("file", "link"),
        ("link", "file"),
        ("dir", "link"),
        ("link", "dir"),
    ] {
        let world = World::new(Project::new().file("other", "1").file("elsewhere/x", "1"));
        let make = |kind: &str| match kind {
            "file" => world.write("thing", "file"),
            "dir" => world.write("thing/inner", "dir"),
            _ => std::os::unix::fs::symlink("elsewhere", world.project.path("thing")).unwrap(),
        };
        make(then);
        let first = world.save("first");
        let before = world.snapshot();
        world.remove("thing");
        make(now);
        let after = world.snapshot();
        world.restore(&first);
        assert_eq!(world.snapshot(), before, "{then} over {now}");
        world.undo();
        assert_eq!(world.snapshot(), after, "{now} over {then}");
    }
}

#[test]
fn a_folder_with_ignored_content_is_not_replaced_by_a_file() {
    let world = World::new(Project::new().file("thing", "file").file("a", "1"));
    let first = world.save("first");
    world.remove("thing");
    world.write("thing/node_modules/left-pad", "precious");
    world.write("thing/x", "1");
    world.write("a", "2");
    let error = world.open().restore(&reference(&first), &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(world.read("thing/node_modules/left-pad"), "precious");
    assert_eq!(world.read("a"), "2");
}

#[test]
fn a_checkpoint_goes_into_a_folder_of_its_own() {
    let world = World::new(Project::new().file("a/b", "1").symlink("l", "a").dir("empty"));
    let first = world.save("first");
    let before = world.snapshot();
    world.write("a/b", "2");
    let out = world.project.outside().join("copy");
    let copied =
        world.open().restore_to(&reference(&first), &out, &RestoreOptions::default()).unwrap();
    assert_eq!(copied.files, 2);
    assert_eq!(snapshot(&out), before);
    assert_eq!(world.read("a/b"), "2");
    let again = world.open().restore_to(&reference(&first), &out, &RestoreOptions::default());
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn the_next_checkpoint_follows_the_restored_one() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("a", "2");
    let second = world.save("second");
    world.restore(&first);
    world.write("a", "3");
    let third = world.save("third");
    let rappel = world.open();
    let parent =
        |id: &str| rappel.show(&reference(id)).unwrap().manifest.parent.unwrap().to_string();
    assert_eq!((parent(&second), parent(&third)), (first.clone(), first.clone()));
    assert_eq!(rappel.resolve(&reference("latest~1"), true).unwrap().id.to_string(), first);
}

#[test]
fn a_save_right_after_a_restore_finds_nothing_changed() {
    let world = World::new(Project::new().file("a", "1").file("b", "1"));
    let first = world.save("first");
    world.write("a", "2");
    world.save("second");
    world.restore(&first);
    world.clock.advance(61_000);
    let saved = world.open().save(&SaveOptions::default()).unwrap().checkpoint;
    let files = saved.manifest.files.unwrap();
    assert_eq!((files.added, files.modified, files.deleted), (0, 0, 0));
    let restored = world.open().show(&reference(&first)).unwrap().manifest.files.unwrap();
    assert_eq!(files.tree, restored.tree);
}

#[test]
fn status_goes_by_what_was_restored() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("a", "2");
    world.restore(&first);
    let status = world.open().status().unwrap();
    assert_eq!((status.latest.unwrap(), status.unsaved), (first, 0));
}

#[test]
fn an_edit_right_after_a_restore_is_saved_whatever_its_length() {
    let world = World::new(Project::new().file("a", "first"));
    let first = world.save("first");
    world.write("a", "later");
    let edited = world.project.path("a");
    let disk = FaultDisk::new();
    // The displaced file is removed after everything was verified.
    disk.before(
        |op| matches!(op, Op::Unlink(path) if path.to_string_lossy().contains(".rappel-")),
        move || {
            std::fs::write(edited, "mine!").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
        },
    );
    let mut options = world.options();
    options.disk = disk;
    let rappel = rappel::Rappel::open(options).unwrap();
    rappel.restore(&reference(&first), &RestoreOptions::default()).unwrap();
    assert_eq!(world.read("a"), "mine!");
    let saved = world.save("after");
    let mut held = Vec::new();
    world.open().cat(&reference(&saved), &path("a"), &mut held).unwrap();
    assert_eq!(held, b"mine!");
}

#[test]
fn a_spoilt_configuration_does_not_bar_the_way_back() {
    let config = "[files]\nexclude = [\"scratch\"]\n";
    let world = World::new(Project::new().file("rappel.toml", config).file("a", "1"));
    let first = world.save("first");
    world.write("rappel.toml", "[files");
    world.write("a", "2");
    world.write("scratch", "precious");
    let error = world.open().save(&SaveOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    assert!(!world.open().warnings().is_empty());
    world.restore(&first);
    assert_eq!((world.read("a"), world.read("rappel.toml")), ("1".into(), config.into()));
    assert_eq!(world.read("scratch"), "precious");
    assert!(world.open().warnings().is_empty());
    world.undo();
    assert_eq!((world.read("a"), world.read("rappel.toml")), ("2".into(), "[files".into()));
}

#[test]
fn facets_that_are_not_built_cannot_be_asked_for() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    let only = Some([rappel::types::Facet::Process].into());
    let options = SaveOptions { only: only.clone(), ..SaveOptions::default() };
    assert_eq!(world.open().save(&options).unwrap_err().kind(), ErrorKind::Usage);
    let options = RestoreOptions { only, ..RestoreOptions::default() };
    let error = world.open().restore(&reference(&first), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn a_mistaken_path_saves_nothing() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    let options = RestoreOptions { paths: vec![path("nope")], ..RestoreOptions::default() };
    let error = world.open().restore(&reference(&first), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(world.open().list(&rappel::ListFilter::default()).unwrap().total, 1);
}

#[test]
fn whoever_watches_sees_how_many_files_are_written() {
    let project = Project::new().file("a", "1").file("d/b", "1").symlink("l", "a").file("same", "");
    let world = World::new(project);
    let first = world.save("first");
    world.write("a", "2");
    world.remove("d");
    world.remove("l");
    let options = world.options();
    let progress = options.operation.progress.clone();
    let rappel = rappel::Rappel::open(options).unwrap();
    rappel.restore(&reference(&first), &RestoreOptions::default()).unwrap();
    let seen = progress.snapshot_of(Phase::Staging);
    assert_eq!((seen.done, seen.total), (3, Some(3)));
    // The folder of `d/b` is made, not staged.
    let seen = progress.snapshot_of(Phase::Swapping);
    assert_eq!((seen.done, seen.total), (4, Some(4)));
    assert_eq!(progress.snapshot().phase, Phase::Recording);

    let options = world.options();
    let progress = options.operation.progress.clone();
    let rappel = rappel::Rappel::open(options).unwrap();
    let there = world.project.outside().join("there");
    rappel.restore_to(&reference(&first), &there, &RestoreOptions::default()).unwrap();
    let expected = Snapshot { phase: Phase::WritingOut, done: 4, total: Some(4), bytes: 0 };
    assert_eq!(progress.snapshot(), expected);
}

#[test]
fn status_and_list_name_the_same_latest_after_a_restore() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("a", "2");
    let second = world.save("second");
    assert_eq!(world.open().status().unwrap().based_on, None);
    world.restore(&first);
    let status = world.open().status().unwrap();
    assert_eq!(status.latest.as_ref(), Some(&second));
    assert_eq!(status.latest, world.open().list(&rappel::ListFilter::default()).unwrap().latest);
    assert_eq!((status.based_on, status.unsaved), (Some(first), 0));
}

#[test]
fn a_plan_is_carried_out_as_it_was_or_not_at_all() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("a", "2");
    world.clock.advance(61_000);
    let rappel = world.open();
    let options = RestoreOptions::default();
    let plan = rappel.plan_restore(&reference(&first), &options).unwrap();
    world.write("b", "made meanwhile");
    let changed = rappel.apply(&plan, &options).unwrap_err();
    assert!(matches!(changed, rappel::Error::PlanChanged { .. }), "{changed:?}");
    assert_eq!((world.read("a"), world.exists("b")), ("2".into(), true));
    let plan = rappel.plan_restore(&reference(&first), &options).unwrap();
    rappel.apply(&plan, &options).unwrap();
    assert_eq!((world.read("a"), world.exists("b")), ("1".into(), false));
}
