//! Restores that work: every kind of change, and nothing else touched.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod restore_support;

use std::os::unix::fs::MetadataExt;

use rappel_testing::{Project, cannot_run};
use rappel_types::ActionKind;
use restore_support::*;

#[test]
fn everything_becomes_what_the_target_holds() {
    let (present, target) = everything();
    let scene = Scene::new(present, &target);
    let inode = std::fs::metadata(scene.project.path("same")).unwrap().ino();
    let outcome = scene.restore().unwrap();
    assert_eq!(scene.now(), scene.after);
    assert!(outcome.is_clean(), "{outcome:?}");
    assert!(outcome.warnings.is_empty(), "{outcome:?}");
    assert_eq!(std::fs::metadata(scene.project.path("same")).unwrap().ino(), inode);
    scene.assert_tidy();
}

#[test]
fn what_was_written_is_reported_with_its_fresh_stat() {
    let scene = Scene::new(
        Project::new().file("a", "old").file("gone", "x"),
        &Project::new().file("a", "new").file("d/b", "b"),
    );
    let outcome = scene.restore().unwrap();
    let written: Vec<_> = outcome.written.iter().map(|w| w.path.to_string()).collect();
    assert_eq!(written, ["a", "d", "d/b"]);
    for written in &outcome.written {
        let meta = std::fs::symlink_metadata(scene.project.path(written.path.as_bytes())).unwrap();
        assert_eq!(written.meta.identity.inode, meta.ino());
        assert_eq!(written.meta.size, meta.size());
        let ctime = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
        assert_eq!(written.meta.ctime, ctime);
    }
    assert_eq!(outcome.deleted, [rel("gone")]);
    assert_eq!((outcome.counts.create, outcome.counts.overwrite, outcome.counts.delete), (2, 1, 1));
}

#[test]
fn a_large_file_and_many_files() {
    let mut present = Project::new().file("large", vec![1; 3 << 20]);
    let mut target = Project::new().file("large", vec![2; 5 << 20]);
    for number in 0..200 {
        present = present.file(format!("d{}/f{number}", number % 9), format!("old {number}"));
        target = target.file(format!("d{}/f{number}", number % 9), format!("new {number}"));
    }
    let scene = Scene::new(present, &target);
    scene.restore().unwrap();
    assert_eq!(scene.now(), scene.after);
    scene.assert_tidy();
}

#[test]
fn nothing_to_do_is_nothing_done() {
    let scene = Scene::new(Project::new().file("a", "x"), &Project::new().file("a", "x"));
    let outcome = scene.restore().unwrap();
    assert_eq!(outcome, rappel_capture::restore::Outcome::default());
    assert!(!scene.home.path().join("intents").exists());
}

#[test]
fn an_ignored_file_keeps_its_folder() {
    let scene = Scene::new(
        Project::new()
            .file("build/out.o", "ignored")
            .file("build/notes", "held")
            .file("build/sub/held", "held"),
        &Project::new().file("a", "a"),
    );
    let plan = scene.plan(&|path| path.as_bytes() != b"build/out.o");
    let folder = plan.actions.iter().find(|action| action.path == rel("build")).unwrap();
    assert_eq!(folder.action, ActionKind::Skip);
    assert!(folder.reason.contains("build/out.o"), "{}", folder.reason);
    let outcome = scene.apply(&plan, &real()).unwrap();
    assert!(outcome.is_clean());
    let now: Vec<_> = scene.now().into_keys().collect();
    assert_eq!(now, ["a", "build", "build/out.o"]);
}

#[test]
fn a_file_that_appears_in_a_folder_that_should_go_keeps_it() {
    let scene = Scene::new(Project::new().file("d/held", "held"), &Project::new());
    let plan = scene.plan(&|_| true);
    std::fs::write(scene.project.path("d/late"), "unheld").unwrap();
    let outcome = scene.apply(&plan, &real()).unwrap();
    assert_eq!(outcome.conflicts[0].path, rel("d"));
    let now: Vec<_> = scene.now().into_keys().collect();
    assert_eq!(now, ["d", "d/late"]);
    scene.assert_tidy();
}

#[test]
fn a_file_over_a_folder_with_uncaptured_content_is_refused_at_once() {
    let scene = Scene::new(
        Project::new().file("d/ignored", "x").file("d/held", "y"),
        &Project::new().file("d", "a file"),
    );
    let plan = scene.plan(&|path| path.as_bytes() != b"d/ignored");
    assert_eq!(plan.conflicts[0].path, rel("d"));
    assert!(scene.apply(&plan, &real()).unwrap_err().is_conflict());
    assert_eq!(scene.now(), scene.before);
}

#[test]
fn owners_access_lists_and_attributes_are_carried_over() {
    let scene = Scene::new(
        Project::new().file("a", "old").mode("a", 0o640),
        &Project::new().file("a", "new").mode("a", 0o640),
    );
    let path = scene.project.path("a");
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::setxattr(&path, "user.note", b"mine", flags) {
        return cannot_run(&format!("no attributes on this file system: {error}"));
    }
    if let Err(error) = std::os::unix::fs::chown(&path, Some(12), Some(34)) {
        return cannot_run(&format!("only root gives files away: {error}"));
    }
    // One named user with all rights, under a mask that the mode shows as the group's bits.
    let list: [&[u8]; 6] = [
        &2u32.to_le_bytes(),
        b"\x01\0\x06\0\xff\xff\xff\xff",
        b"\x02\0\x07\0\x2a\0\0\0",
        b"\x04\0\x04\0\xff\xff\xff\xff",
        b"\x10\0\x04\0\xff\xff\xff\xff",
        b"\x20\0\0\0\xff\xff\xff\xff",
    ];
    if let Err(error) =
        rustix::fs::setxattr(&path, "system.posix_acl_access", &list.concat(), flags)
    {
        return cannot_run(&format!("no access lists on this file system: {error}"));
    }
    let outcome = scene.restore().unwrap();
    assert!(outcome.warnings.is_empty(), "{outcome:?}");
    let mut value = [0u8; 64];
    let length = rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"mine");
    let length = rustix::fs::getxattr(&path, "system.posix_acl_access", &mut value[..]).unwrap();
    assert_eq!(&value[..length], list.concat());
    let meta = std::fs::metadata(&path).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o640);
    assert_eq!((meta.uid(), meta.gid()), (12, 34));
}

#[test]
fn a_hard_link_is_a_warning_and_the_other_name_keeps_its_content() {
    let scene = Scene::new(
        Project::new().file("a", "shared"),
        &Project::new().file("a", "new").file("b", "shared"),
    );
    std::fs::hard_link(scene.project.path("a"), scene.project.path("b")).unwrap();
    let outcome = scene.restore().unwrap();
    assert!(outcome.warnings[0].contains("2 names"), "{outcome:?}");
    assert_eq!(read(&scene.project.path("a")), b"new");
    assert_eq!(read(&scene.project.path("b")), b"shared");
}

#[test]
fn a_disk_without_room_is_refused_before_anything_changes() {
    use rappel_types::{Content, Node};
    let mut scene = Scene::new(Project::new().file("a", "x"), &Project::new().file("a", "y"));
    let Node::File { content: Content::Whole(id), .. } = scene.target[0].node else { panic!() };
    let content = Content::Chunked(id);
    let node = Node::File { mode: 0o644, size: 1 << 45, content };
    scene.target.push(rappel_types::Entry { path: rel("huge"), node });
    let error = scene.restore().unwrap_err();
    assert!(error.to_string().contains("more needed"), "{error}");
    assert_eq!(scene.now(), scene.before);
    scene.assert_tidy();
}

#[test]
fn ctrl_c_puts_everything_back() {
    let (present, target) = everything();
    let scene = std::sync::Arc::new(Scene::new(present, &target));
    let disk = rappel_testing::FaultDisk::new();
    let inner = scene.clone();
    disk.before(
        |op| matches!(op, rappel_store::disk::Op::Exchange { .. }),
        move || inner.cancel.cancel(),
    );
    let disk: std::sync::Arc<dyn rappel_store::disk::Disk> = disk;
    let error = scene.apply(&scene.plan(&|_| true), &disk).unwrap_err();
    assert!(is_rolled_back(&error), "{error}");
    assert!(error.to_string().contains("cancelled"));
    assert_eq!(scene.now(), scene.before);
    scene.assert_tidy();
}
