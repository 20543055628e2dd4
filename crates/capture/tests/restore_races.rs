//! Restores during which somebody else is at work: nothing of theirs is lost.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod restore_support;

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rappel_capture::restore::{Error, Outcome, Result};
use rappel_store::disk::{Disk, Op};
use rappel_testing::{Fault, FaultDisk, Loss, Project, Thing, snapshot};
use restore_support::*;

/// Applies the scene's plan; right before the first operation that fits, somebody acts.
fn apply_while(
    scene: &Scene,
    condition: impl Fn(&Op<'_>) -> bool + Send + 'static,
    act: impl FnOnce() + Send + 'static,
) -> Result<Outcome> {
    let disk = FaultDisk::new();
    disk.before(condition, act);
    scene.apply(&scene.plan(&|_| true), &(disk as Arc<dyn Disk>))
}

fn is_exchange(name: &'static str) -> impl Fn(&Op<'_>) -> bool + Send + 'static {
    move |op| matches!(op, Op::Exchange { b, .. } if b.ends_with(name))
}

/// The intent gets its mark of that number: the first before the swaps, the second before what was
/// displaced is removed.
fn is_mark(number: u32) -> impl Fn(&Op<'_>) -> bool + Send + 'static {
    let marks = AtomicU32::new(0);
    move |op| {
        let mark = matches!(op, Op::Write { path, offset: 1.., .. }
            if path.parent().is_some_and(|folder| folder.ends_with("intents")));
        mark && marks.fetch_add(1, Ordering::Relaxed) + 1 == number
    }
}

fn is_first_sync_of_folders(op: &Op<'_>) -> bool {
    matches!(op, Op::SyncDir(path) if path.ends_with("project"))
}

fn two_files() -> Scene {
    Scene::new(
        Project::new().file("a", "old a").file("b", "old b").file("gone", "old gone"),
        &Project::new().file("a", "new a").file("b", "new b"),
    )
}

#[test]
fn an_edit_between_checkpoint_and_swap_is_put_back() {
    for edit in ["other a", "other length of a"] {
        let scene = two_files();
        let path = scene.project.path("a");
        let outcome =
            apply_while(&scene, is_exchange("a"), move || std::fs::write(&path, edit).unwrap())
                .unwrap();
        assert!(!outcome.is_clean());
        assert_eq!(outcome.conflicts[0].path, rel("a"));
        assert_eq!(read(&scene.project.path("a")), edit.as_bytes());
        assert_eq!(read(&scene.project.path("b")), b"new b");
        assert!(!outcome.written.iter().any(|written| written.path == rel("a")));
        scene.assert_tidy();
    }
}

#[test]
fn a_file_replaced_between_checkpoint_and_swap_is_put_back() {
    let scene = two_files();
    let path = scene.project.path("a");
    let outcome = apply_while(&scene, is_exchange("a"), move || {
        let beside = path.with_extension("swp");
        std::fs::write(&beside, "saved by an editor").unwrap();
        std::fs::rename(&beside, &path).unwrap();
    })
    .unwrap();
    assert_eq!(outcome.conflicts.len(), 1);
    assert_eq!(read(&scene.project.path("a")), b"saved by an editor");
    scene.assert_tidy();
}

#[test]
fn an_edit_of_a_file_that_should_go_is_put_back() {
    let scene = Scene::new(
        Project::new().file("d/e/gone", "old").file("d/other", "x"),
        &Project::new().file("keep", "k"),
    );
    let path = scene.project.path("d/e/gone");
    let outcome = apply_while(
        &scene,
        |op| matches!(op, Op::Rename { from, .. } if from.ends_with("gone")),
        move || std::fs::write(&path, "edited").unwrap(),
    )
    .unwrap();
    assert_eq!(outcome.conflicts.last().unwrap().path, rel("d/e/gone"));
    let now: Vec<_> = scene.now().into_keys().collect();
    assert_eq!(now, ["d", "d/e", "d/e/gone", "keep"]);
    assert_eq!(read(&scene.project.path("d/e/gone")), b"edited");
    scene.assert_tidy();
}

#[test]
fn a_file_created_meanwhile_is_left_alone() {
    let scene = Scene::new(
        Project::new().file("a", "old"),
        &Project::new().file("a", "new").file("c", "ours"),
    );
    let path = scene.project.path("c");
    let outcome = apply_while(
        &scene,
        |op| matches!(op, Op::Rename { to, .. } if to.ends_with("c")),
        move || std::fs::write(&path, "theirs").unwrap(),
    )
    .unwrap();
    assert_eq!(outcome.conflicts[0].path, rel("c"));
    assert_eq!(read(&scene.project.path("c")), b"theirs");
    assert_eq!(read(&scene.project.path("a")), b"new");
    scene.assert_tidy();
}

#[test]
fn a_displaced_file_that_somebody_writes_to_stays_and_is_named() {
    // Open before the restore, written to after the swap, through a handle that outlives it.
    let scene = two_files();
    let mut writer =
        std::fs::OpenOptions::new().append(true).open(scene.project.path("a")).unwrap();
    let mut late = writer.try_clone().unwrap();
    let outcome = apply_while(&scene, is_first_sync_of_folders, move || {
        late.write_all(b", and more").unwrap();
    })
    .unwrap();
    assert_eq!(read(&scene.project.path("a")), b"new a");
    let kept = &outcome.kept[0];
    assert_eq!(kept.path, rel("a"));
    writer.write_all(b", and on").unwrap();
    assert_eq!(read(&scene.project.path(kept.at.as_bytes())), b"old a, and more, and on");
    assert!(!outcome.warnings.is_empty() || !outcome.is_clean(), "{outcome:?}");
}

#[test]
fn a_silent_holder_is_a_warning_only() {
    let scene = two_files();
    let _holder =
        std::fs::OpenOptions::new().append(true).open(scene.project.path("gone")).unwrap();
    let outcome = scene.restore().unwrap();
    assert!(outcome.is_clean());
    assert_eq!(outcome.kept[0].path, rel("gone"));
    assert!(outcome.warnings[0].contains("gone"), "{outcome:?}");
    assert_eq!(read(&scene.project.path(outcome.kept[0].at.as_bytes())), b"old gone");
}

#[test]
fn a_reader_does_not_keep_a_file() {
    let scene = two_files();
    let _reader = std::fs::File::open(scene.project.path("gone")).unwrap();
    let outcome = scene.restore().unwrap();
    assert!(outcome.kept.is_empty());
    assert_eq!(scene.now(), scene.after);
}

#[test]
fn a_write_right_before_the_removal_is_noticed() {
    // The writer opens the displaced file by its new name, after everybody looked for writers.
    let scene = two_files();
    let project = scene.project.root().to_owned();
    let outcome = apply_while(&scene, is_mark(2), move || {
        for (name, thing) in snapshot(&project) {
            if matches!(&thing, Thing::File { bytes, .. } if bytes == b"old gone") {
                std::fs::write(project.join(name), "written at the last moment").unwrap();
            }
        }
    })
    .unwrap();
    assert!(!outcome.is_clean());
    assert_eq!(outcome.conflicts[0].path, rel("gone"));
    assert_eq!(read(&scene.project.path("gone")), b"written at the last moment");
}

#[test]
fn a_parent_swapped_for_a_link_stops_the_restore_and_nothing_is_written_elsewhere() {
    let scene = Scene::new(
        Project::new().file("d/a", "old a").file("d/b", "old b").file("z", "old z"),
        &Project::new().file("d/a", "new a").file("d/b", "new b").file("z", "new z"),
    );
    let outside = scene.project.outside().join("elsewhere");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a"), "theirs").unwrap();
    std::fs::write(outside.join("b"), "theirs").unwrap();
    let (folder, moved, to) =
        (scene.project.path("d"), scene.project.path("moved"), outside.clone());
    let error = apply_while(&scene, is_exchange("b"), move || {
        std::fs::rename(&folder, &moved).unwrap();
        symlink(&to, &folder).unwrap();
    })
    .unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let theirs = snapshot(&outside);
    assert_eq!(theirs.len(), 2, "{theirs:?}");
    assert!(theirs.values().all(|t| matches!(t, Thing::File { bytes, .. } if bytes == b"theirs")));
    assert_eq!(read(&scene.project.path("z")), b"old z");
    // What was moved away under our hands is all still there.
    let moved = snapshot(&scene.project.path("moved"));
    let holds = |text: &str| {
        moved.values().any(|t| matches!(t, Thing::File { bytes, .. } if bytes == text.as_bytes()))
    };
    assert!(holds("old a") && holds("old b"), "{moved:?}");
}

#[test]
fn a_workspace_replaced_during_the_restore_is_not_written() {
    let scene = two_files();
    let (root, moved) = (scene.project.root().to_owned(), scene.project.outside().join("moved"));
    let (there, away) = (root.clone(), moved.clone());
    let error = apply_while(
        &scene,
        |op| {
            matches!(op, Op::Sync(path) if path.extension().is_some_and(|e| e == "tmp")
            && path.components().any(|c| c.as_os_str() == "project"))
        },
        move || {
            std::fs::rename(&there, &away).unwrap();
            std::fs::create_dir(&there).unwrap();
            std::fs::write(there.join("a"), "another project").unwrap();
        },
    )
    .unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(snapshot(&root).len(), 1);
    assert_eq!(read(&root.join("a")), b"another project");
    assert_eq!(snapshot(&moved), scene.before);
}

/// Leaves a restore half-done.
fn interrupted(at: u64) -> (Scene, Arc<FaultDisk>) {
    let present = Project::in_memory()
        .file("a", "old a")
        .file("b", "old b")
        .file("c", "old c")
        .file("gone", "old gone");
    let target = Project::in_memory()
        .file("a", "new a")
        .file("b", "new b")
        .file("c", "new c")
        .file("added/n", "new n");
    let scene = Scene::new(present, &target);
    let disk = FaultDisk::in_memory(Fault::Crash { at });
    let _ = scene.apply(&scene.plan(&|_| true), &(disk.clone() as Arc<dyn Disk>));
    disk.lose(Loss::all()[0]);
    (scene, disk)
}

#[test]
fn edits_in_a_half_restored_tree_are_kept_and_listed() {
    let mut tried = 0;
    for at in 1..80 {
        for forward in [true, false] {
            let (scene, disk) = interrupted(at);
            if scene.intents(&real()).list().unwrap().open.is_empty() {
                continue;
            }
            tried += 1;
            std::fs::write(scene.project.path("b"), "an hour of work").unwrap();
            std::fs::create_dir_all(scene.project.path("added")).unwrap();
            std::fs::write(scene.project.path("added/mine"), "a new file").unwrap();
            let gate: Arc<dyn Disk> = disk;
            let outcome = scene.recover(&gate, forward).unwrap().unwrap();
            assert!(outcome.conflicts.iter().any(|c| c.path == rel("b")), "{at}: {outcome:?}");
            let now = scene.now();
            let bytes = |name: &str| match now.get(name) {
                Some(Thing::File { bytes, .. }) => {
                    Some(String::from_utf8_lossy(bytes).into_owned())
                }
                _ => None,
            };
            assert_eq!(bytes("b").as_deref(), Some("an hour of work"), "{at}");
            assert_eq!(bytes("added/mine").as_deref(), Some("a new file"), "{at}");
            let version = if forward { "new" } else { "old" };
            assert_eq!(bytes("a"), Some(format!("{version} a")), "{at}: {now:?}");
            assert_eq!(bytes("c"), Some(format!("{version} c")), "{at}");
            assert_eq!(bytes("gone").is_some(), !forward, "{at}");
            assert_eq!(bytes("added/n").is_some(), forward, "{at}");
            assert!(!now.keys().any(|path| path.contains(".rappel-")), "{at}: {now:?}");
        }
    }
    assert!(tried > 40, "{tried}");
}

#[test]
fn a_path_removed_from_a_half_restored_tree_stays_removed_and_is_listed() {
    for at in 20..60 {
        for forward in [true, false] {
            let (scene, disk) = interrupted(at);
            if scene.intents(&real()).list().unwrap().open.is_empty() {
                continue;
            }
            std::fs::remove_file(scene.project.path("a")).unwrap();
            let gate: Arc<dyn Disk> = disk;
            let outcome = scene.recover(&gate, forward).unwrap().unwrap();
            assert!(outcome.conflicts.iter().any(|c| c.path == rel("a")), "{at}: {outcome:?}");
            assert!(!scene.project.path("a").exists(), "{at}");
            assert!(!scene.now().keys().any(|path| path.contains(".rappel-")), "{at}");
        }
    }
}

#[test]
fn a_displaced_file_edited_in_a_half_restored_tree_survives_both_ways() {
    for forward in [true, false] {
        let (scene, disk) = displaced_and_edited();
        let gate: Arc<dyn Disk> = disk;
        let outcome = scene.recover(&gate, forward).unwrap().unwrap();
        assert!(!outcome.is_clean(), "{outcome:?}");
        let now = scene.now();
        let edited = now
            .iter()
            .find(|(_, t)| matches!(t, Thing::File { bytes, .. } if bytes == b"old a, edited"));
        let (name, _) = edited.unwrap_or_else(|| panic!("{now:?}"));
        if !forward {
            assert_eq!(name, "a");
        }
    }
}

/// A restore that stopped after all swaps, with an edit in what was displaced from `a`.
fn displaced_and_edited() -> (Scene, Arc<FaultDisk>) {
    for at in 1.. {
        let (scene, disk) = interrupted(at);
        let now = scene.now();
        let slot = now.iter().find(|(name, thing)| {
            name.contains(".rappel-")
                && matches!(thing, Thing::File { bytes, .. } if bytes == b"old a")
        });
        if let Some((slot, _)) = slot {
            std::fs::write(scene.project.path(slot), "old a, edited").unwrap();
            return (scene, disk);
        }
    }
    unreachable!()
}

#[test]
fn an_unfinished_restore_bars_others_above_and_below() {
    let (scene, _disk) = interrupted(30);
    let error = scene.restore().unwrap_err();
    assert!(matches!(error, Error::Unfinished { .. }), "{error}");
    let intents = scene.intents(&real());
    let below = scene.project.path("some/folder");
    std::fs::create_dir_all(&below).unwrap();
    assert_eq!(intents.concerning(&below).unwrap().len(), 1);
    assert_eq!(intents.concerning(scene.project.outside()).unwrap().len(), 1);
    assert!(intents.concerning(Path::new("/usr")).unwrap().is_empty());
    let names = intents.list().unwrap().open[0].staging_paths(scene.project.root());
    let staged: Vec<_> = scene.now().into_keys().filter(|p| p.contains(".rappel-")).collect();
    assert!(!staged.is_empty());
    for name in &staged {
        assert!(names.iter().any(|path| path.to_string() == *name), "{name}");
    }
    scene.recover(&real(), false).unwrap().unwrap();
    assert!(intents.concerning(&below).unwrap().is_empty());
}

#[test]
fn two_restores_at_once_are_one_restore() {
    let scene =
        Arc::new(Scene::new(Project::new().file("a", "old"), &Project::new().file("a", "new")));
    let other = scene.clone();
    let disk = FaultDisk::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    disk.before(is_exchange("a"), move || {
        let second = other.restore();
        sender.send(matches!(second, Err(Error::Running { .. }))).unwrap();
        let id = other.intents(&real()).list().unwrap().open[0].header.id;
        assert!(matches!(other.intents(&real()).take(id), Err(Error::Running { .. })));
    });
    let plan = scene.plan(&|_| true);
    scene.apply(&plan, &(disk as Arc<dyn Disk>)).unwrap();
    assert!(receiver.recv().unwrap(), "the second restore must be told that one is running");
    assert_eq!(scene.now(), scene.after);
    scene.assert_tidy();
}
