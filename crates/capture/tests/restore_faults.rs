//! Restores that are interrupted: at every operation, in every way, and carried on either way.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod restore_support;

use std::sync::Arc;

use rappel_capture::restore::Error;
use rappel_store::disk::Disk;
use rappel_testing::{Failure, Fault, FaultDisk, Loss, Project};
use restore_support::*;

/// A small project in which each kind of step occurs, so that every operation can be tried.
fn small() -> (Project, Project) {
    let present = Project::in_memory()
        .file("edit", "old text")
        .file("gone/a", "deleted")
        .file("was-dir/x", "below")
        .file("was-file", "in the way")
        .file("dir-to-link/in", "inner")
        .symlink("link-to-dir", "edit")
        .file("closed/a", "old a")
        .mode("closed", 0o555)
        .file("run", "x")
        .symlink("link", "edit");
    let target = Project::in_memory()
        .file("edit", "new text, longer")
        .file("added/b", "created")
        .mode("added", 0o500)
        .file("was-dir", "a file now")
        .file("was-file/y", "a folder now")
        .symlink("dir-to-link", "run")
        .file("link-to-dir/z", "a folder now")
        .file("closed/a", "new a")
        .mode("closed", 0o555)
        .file("run", "x")
        .mode("run", 0o755)
        .symlink("link", "run");
    (present, target)
}

fn operations() -> u64 {
    let (present, target) = small();
    let scene = Scene::new(present, &target);
    let disk = FaultDisk::in_memory(Fault::None);
    scene.apply(&scene.plan(&|_| true), &(disk.clone() as Arc<dyn Disk>)).unwrap();
    assert_eq!(scene.now(), scene.after);
    disk.count()
}

#[test]
fn any_operation_that_fails_leaves_all_or_nothing() {
    let operations = operations();
    assert!(operations > 50, "{operations}");
    for failure in [Failure::Io, Failure::NoSpace, Failure::ShortWrite] {
        for at in 1..=operations {
            let (present, target) = small();
            let scene = Scene::new(present, &target);
            let disk = FaultDisk::in_memory(Fault::Fail { at, failure });
            let plan = scene.plan(&|_| true);
            let result = scene.apply(&plan, &(disk.clone() as Arc<dyn Disk>));
            let what = format!("{failure:?} at {at}: {:?}", disk.trace().get(at as usize - 1));
            match result {
                Ok(outcome) => {
                    assert!(outcome.is_clean(), "{what}: {outcome:?}");
                    let kept: Vec<_> = outcome.kept.iter().map(|k| k.at.to_string()).collect();
                    let mut now = scene.now();
                    now.retain(|path, _| !kept.contains(path));
                    assert_eq!(now, scene.after, "{what}");
                    if !kept.is_empty() {
                        assert!(!outcome.warnings.is_empty(), "{what}");
                        continue;
                    }
                    if outcome.warnings.iter().any(|warning| warning.contains("intent")) {
                        if let Some(finished) = scene.recover(&real(), true) {
                            assert!(finished.unwrap().is_clean(), "{what}");
                        }
                        assert_eq!(scene.now(), scene.after, "{what}");
                    }
                }
                Err(Error::RolledBack { outcome, .. }) => {
                    assert!(outcome.is_clean(), "{what}: {outcome:?}");
                    assert_eq!(scene.now(), scene.before, "{what}");
                }
                Err(Error::Store(_)) => assert_eq!(scene.now(), scene.before, "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
            scene.assert_tidy();
        }
    }
}

/// What each sync costs is what a restore of a few files costs.
#[test]
fn each_file_and_each_folder_is_synced_once() {
    let (mut present, mut target) = (Project::in_memory(), Project::in_memory());
    for file in 0..10 {
        let path = format!("d{}/f{file}", file % 5);
        present = present.file(&path, format!("old {file}"));
        target = target.file(&path, format!("new {file}"));
    }
    let scene = Scene::new(present.file("d0/added", "").file("d5/added", ""), &target);
    let disk = FaultDisk::in_memory(Fault::None);
    scene.apply(&scene.plan(&|_| true), &(disk.clone() as Arc<dyn Disk>)).unwrap();
    let trace = disk.trace();
    let count = |op: &str, of: &str| {
        let fits = |line: &&String| line.starts_with(op) && line.contains(of);
        trace.iter().filter(fits).count()
    };
    assert_eq!(count("Sync(", "/project/"), 10, "{trace:#?}");
    // The six folders, one of which is gone by then, and the one above it.
    assert_eq!(count("SyncDir(", "/project"), 7, "{trace:#?}");
    assert_eq!((count("Sync(", "intents"), count("SyncDir(", "intents")), (1, 2), "{trace:#?}");
    assert_eq!(count("SyncAll(", ""), 0, "{trace:#?}");
}

/// Crashes a restore at `at`, loses power, and recovers.
fn crash_and_recover(at: u64, loss: Loss, forward: bool, exchanges: bool) -> bool {
    let (present, target) = small();
    let scene = Scene::new(present, &target);
    let disk = FaultDisk::in_memory(Fault::Crash { at });
    if !exchanges {
        disk.without_exchange();
    }
    let gate: Arc<dyn Disk> = disk.clone();
    let result = scene.apply(&scene.plan(&|_| true), &gate);
    let what = format!("{loss:?} at {at} ({forward}): {:?}", disk.trace().get(at as usize - 1));
    let crashed = disk.has_crashed();
    disk.lose(loss);
    let what = format!("{what}\nafter the loss: {:#?}", scene.now());
    match scene.recover(&gate, forward) {
        Some(outcome) => {
            let outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(outcome.is_clean(), "{what}: {outcome:?}");
            assert!(outcome.kept.is_empty(), "{what}: {outcome:?}");
            let expected = if forward { &scene.after } else { &scene.before };
            assert_eq!(scene.now(), *expected, "{what}");
        }
        // Without an intent nothing was begun, or everything was finished.
        None if result.is_ok() => assert_eq!(scene.now(), scene.after, "{what}"),
        None => {
            let now = scene.now();
            assert!(now == scene.before || now == scene.after, "{what}\n{now:?}");
        }
    }
    // Twice in a row: there is nothing left to do.
    assert!(scene.recover(&gate, forward).is_none(), "{what}");
    let left: Vec<_> = scene.now().into_keys().filter(|path| path.contains(".rappel-")).collect();
    assert!(left.is_empty(), "{what}: {left:?}");
    crashed
}

fn crash_everywhere(forward: bool) {
    for loss in Loss::all() {
        let mut at = 1;
        while crash_and_recover(at, loss, forward, true) {
            at += 1;
        }
        assert!(at > 50);
    }
}

#[test]
fn a_file_system_that_cannot_exchange_is_as_safe() {
    for forward in [true, false] {
        for loss in [Loss::all()[0], Loss::all()[4], Loss::all()[8]] {
            let mut at = 1;
            while crash_and_recover(at, loss, forward, false) {
                at += 1;
            }
        }
    }
}

/// So many that the whole file system is synced instead of each file.
#[test]
fn a_large_restore_can_be_interrupted_too() {
    for (number, at) in (1..900).step_by(23).enumerate() {
        let (mut present, mut target) = (Project::in_memory(), Project::in_memory());
        for file in 0..100 {
            let path = format!("d{}/f{file}", file % 7);
            present = present.file(&path, format!("old {file}"));
            target = target.file(&path, format!("new {file}"));
        }
        let scene = Scene::new(present, &target);
        let disk = FaultDisk::in_memory(Fault::Crash { at });
        let gate: Arc<dyn Disk> = disk.clone();
        let done = scene.apply(&scene.plan(&|_| true), &gate).is_ok();
        let losses = Loss::all();
        disk.lose(losses[number % losses.len()]);
        let forward = number % 2 == 0;
        if let Some(outcome) = scene.recover(&gate, forward) {
            assert!(outcome.unwrap().is_clean(), "{at}");
            assert_eq!(scene.now(), if forward { scene.after } else { scene.before }, "{at}");
        } else {
            assert!(scene.now() == scene.before || done, "{at}");
        }
    }
}

#[test]
fn a_crash_at_any_operation_can_be_finished() {
    crash_everywhere(true);
}

#[test]
fn a_crash_at_any_operation_can_be_rolled_back() {
    crash_everywhere(false);
}

/// Crashes a restore, then its recovery, then recovers again, maybe the other way.
#[test]
fn a_recovery_that_crashes_itself_can_be_carried_on_either_way() {
    let kind = Loss::all()[0];
    let total = operations();
    for first in (1..=total).step_by(7) {
        for (once, again) in [(true, true), (true, false), (false, true), (false, false)] {
            for second in (1..=total).step_by(5) {
                let (present, target) = small();
                let scene = Scene::new(present, &target);
                let disk = FaultDisk::in_memory(Fault::Crash { at: first });
                let gate: Arc<dyn Disk> = disk.clone();
                let plan = scene.plan(&|_| true);
                let _ = scene.apply(&plan, &gate);
                disk.lose(kind);
                disk.set(Fault::Crash { at: second });
                let _ = scene.recover(&gate, once);
                let what = format!("{first} {once} {second} {again}: {:#?}", disk.trace());
                disk.lose(kind);
                if let Some(outcome) = scene.recover(&gate, again) {
                    let outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(outcome.is_clean(), "{what}: {outcome:?}");
                    let expected = if again { &scene.after } else { &scene.before };
                    assert_eq!(scene.now(), *expected, "{what}");
                } else {
                    // Never begun, or the first recovery got through.
                    let now = scene.now();
                    let expected = if once { &scene.after } else { &scene.before };
                    assert!(now == *expected || now == scene.before, "{what}");
                }
                let left: Vec<_> =
                    scene.now().into_keys().filter(|path| path.contains(".rappel-")).collect();
                assert!(left.is_empty(), "{what}: {left:?}");
            }
        }
    }
}
