//! Restores by an ordinary user, whom closed folders keep out.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod restore_support;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use rappel_store::disk::Disk;
use rappel_testing::user::as_ordinary_user;
use rappel_testing::{Fault, FaultDisk, Loss, Project};
use restore_support::*;

fn closed() -> (Project, Project) {
    let present = Project::in_memory()
        .file("d/a", "old a")
        .file("d/gone", "g")
        .file("d/deep/b", "old b")
        .file("leaving/x", "x")
        .mode("d/a", 0o400)
        .mode("d/deep", 0o500)
        .mode("d", 0o555)
        .mode("leaving", 0o555);
    let target = Project::in_memory()
        .file("d/a", "new a")
        .file("d/deep/b", "new b")
        .file("d/new/c", "c")
        .mode("d/a", 0o444)
        .mode("d/new", 0o500)
        .mode("d/deep", 0o500)
        .mode("d", 0o511);
    (present, target)
}

/// Opens everything up again, so that the temporary folders can be removed.
fn open_up(project: &Project) {
    for path in ["d", "d/deep", "d/new", "leaving"] {
        let path = project.path(path);
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755));
    }
}

#[test]
fn closed_folders_are_opened_for_the_work_and_closed_again() {
    as_ordinary_user("closed_folders_are_opened_for_the_work_and_closed_again", || {
        let (present, target) = closed();
        let scene = Scene::new(present, &target);
        let outcome = scene.restore().unwrap();
        assert!(outcome.is_clean(), "{outcome:?}");
        assert_eq!(scene.now(), scene.after);
        scene.assert_tidy();
        open_up(&scene.project);
        open_up(&target);
    });
}

#[test]
fn a_crash_leaves_nothing_that_cannot_be_recovered() {
    as_ordinary_user("a_crash_leaves_nothing_that_cannot_be_recovered", || {
        for forward in [true, false] {
            for at in 1.. {
                let (present, target) = closed();
                let scene = Scene::new(present, &target);
                let disk = FaultDisk::in_memory(Fault::Crash { at });
                let gate: Arc<dyn Disk> = disk.clone();
                let _ = scene.apply(&scene.plan(&|_| true), &gate);
                let crashed = disk.has_crashed();
                disk.lose(Loss::all()[0]);
                if let Some(outcome) = scene.recover(&gate, forward) {
                    let outcome = outcome.unwrap_or_else(|error| panic!("{at}: {error}"));
                    assert!(outcome.is_clean(), "{at}: {outcome:?}");
                    let expected = if forward { &scene.after } else { &scene.before };
                    assert_eq!(scene.now(), *expected, "{at}");
                }
                open_up(&scene.project);
                open_up(&target);
                if !crashed {
                    break;
                }
            }
        }
    });
}

#[test]
fn an_owner_that_cannot_be_kept_is_a_warning() {
    as_ordinary_user("an_owner_that_cannot_be_kept_is_a_warning", || {
        // A file that everybody may read and that belongs to root, in a folder of ours.
        let scene = Scene::new(Project::new().file("a", "old"), &Project::new().file("a", "new"));
        let root = rappel_store::beneath::Root::open(std::path::Path::new("/etc"), real()).unwrap();
        let theirs = root.open_file(&rel("passwd")).unwrap();
        let ours = scene.root(&real()).create_file(&rel("copy"), 0o600).unwrap();
        let failed = ours.copy_attributes(&theirs);
        assert!(failed.iter().any(|what| what.starts_with("the owner")), "{failed:?}");
    });
}
