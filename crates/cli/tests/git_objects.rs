//! Objects of repositories: damaged, gone with all of the repository, and shared by projects that
//! have nothing else in common.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rappel_testing::Project;
use rappel_testing::git::{attempt, git};
use support::World;

fn commit(folder: &Path, file: &str, text: &str) {
    std::fs::write(folder.join(file), text).unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "-qm", file]);
}

fn the_pack(folder: &Path) -> PathBuf {
    let packs = std::fs::read_dir(folder.join(".git/objects/pack")).unwrap();
    let mut packs = packs.map(|entry| entry.unwrap().path());
    packs.find(|path| path.extension().is_some_and(|end| end == "pack")).unwrap()
}

/// Four commits in one pack.
fn packed() -> World {
    let world = World::of(Project::new());
    let root = world.project.root();
    git(root, &["init", "-q"]);
    for number in 0..4 {
        let text: String = (0..60).map(|line| format!("{number} {line}\n")).collect();
        commit(root, &format!("f{number}"), &text);
    }
    git(root, &["gc", "-q"]);
    world
}

/// Overwrites some bytes of the pack.
fn spoil_pack(root: &Path, at: u64) {
    let pack = the_pack(root);
    std::fs::set_permissions(&pack, std::fs::Permissions::from_mode(0o644)).unwrap();
    let file = std::fs::File::options().write(true).open(&pack).unwrap();
    file.write_all_at(&[0xa5; 25], at).unwrap();
    assert!(!attempt(root, &["fsck", "--full"]).status.success(), "spoilt at {at}");
}

fn loose(root: &Path, name: &str) -> PathBuf {
    let id = git(root, &["rev-parse", name]);
    root.join(".git/objects").join(&id[..2]).join(id[2..].trim_end())
}

fn overwrite(path: &Path, bytes: &[u8]) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_pack_that_is_spoilt_inside_is_noticed_and_its_objects_come_back() {
    for at in [12, 40, 90, 140, 300] {
        for since in ["nothing", "a file", "a commit"] {
            let when = format!("spoilt at {at}, {since} since");
            let world = packed();
            let root = world.project.root();
            let id = world.save("whole");
            match since {
                "a file" => world.write("f1", "changed"),
                "a commit" => commit(root, "later", "later"),
                _ => {}
            }
            spoil_pack(root, at);

            let status = world.json_at_any_exit(&["status"]);
            assert_eq!(status["state"], "degraded", "{when}: {status}");
            assert!(status["reasons"].to_string().contains("is damaged"), "{when}: {status}");
            let doctor = world.face(&["doctor"]);
            assert!(doctor.contains("is damaged"), "{when}: {doctor}");
            let plan = world.face(&["restore", &id, "--dry-run"]);
            assert!(plan.contains("that git lacks"), "{when}: {plan}");

            let restored = world.run(&["restore", &id, "--confirm"]);
            let said = world.shown(&restored);
            assert!(restored.status.success(), "{when}: {said}");
            assert!(said.contains("missing objects restored"), "{when}: {said}");
            git(root, &["fsck", "--full", "--strict"]);
            assert_eq!(world.json(&["recover"])["restores"].as_array().unwrap().len(), 0);
            assert_eq!(world.json(&["status"])["state"], "protected", "{when}");
        }
    }
}

/// What no checkpoint holds and can still be read in a damaged pack is not lost with it.
#[test]
fn what_is_whole_in_a_damaged_pack_stays_readable() {
    let world = packed();
    let root = world.project.root();
    let id = world.save("whole");
    git(root, &["checkout", "-qb", "later"]);
    commit(root, "later", "later");
    git(root, &["checkout", "-q", "-"]);
    let note = "nobody names me";
    std::fs::write(world.project.outside().join("note"), note).unwrap();
    let path = world.project.outside().join("note");
    let dangling = git(root, &["hash-object", "-w", path.to_str().unwrap()]);
    git(root, &["repack", "-qadk"]);
    world.save("packed again");
    spoil_pack(root, 12);
    let restored = world.run(&["restore", &id, "--confirm"]);
    assert!(restored.status.success(), "{}", world.shown(&restored));
    git(root, &["fsck", "--full", "--strict"]);
    git(root, &["log", "later"]);
    assert_eq!(git(root, &["cat-file", "blob", dangling.trim_end()]), note);
}

#[test]
fn a_commit_whose_objects_are_spoilt_is_not_said_to_be_saved() {
    for what in ["HEAD", "HEAD^{tree}", "HEAD:later"] {
        let world = packed();
        let root = world.project.root();
        let id = world.save("whole");
        let whole = git(root, &["rev-parse", "HEAD"]);
        commit(root, "later", "later");
        let place = loose(root, what);
        overwrite(&place, b"spoilt");
        let newest = std::fs::read_to_string(root.join(".git/refs/heads/master"))
            .or_else(|_| std::fs::read_to_string(root.join(".git/refs/heads/main")))
            .unwrap();

        let restored = world.run(&["restore", &id, "--confirm"]);
        let said = world.shown(&restored);
        assert!(restored.status.success(), "{what}: {said}");
        assert!(said.contains("is not saved whole before the restore"), "{what}: {said}");
        assert_eq!(git(root, &["rev-parse", "HEAD"]), whole, "{what}");
        git(root, &["rev-list", "--objects", "HEAD"]);
        // Undo goes back to it, as it was.
        let undone = world.run(&["undo"]);
        assert!(undone.status.success(), "{what}: {}", world.shown(&undone));
        assert_eq!(git(root, &["rev-parse", "HEAD"]), newest, "{what}");
        assert_eq!(std::fs::read(&place).unwrap(), b"spoilt", "{what}");
    }
}

/// The undo writes the branch as a file, because git refuses a ref to a commit that it does not have.
#[test]
fn a_restore_over_lost_objects_can_be_undone_and_redone_again_and_again() {
    for branch in ["main", "HEAD"] {
        for lost_again in [false, true] {
            let when = format!("{branch}, lost again: {lost_again}");
            let world = packed();
            let root = world.project.root();
            let objects = root.join(".git/objects");
            if branch == "HEAD" {
                git(root, &["checkout", "-q", "--detach"]);
            }
            let id = world.save("whole");
            let portrait = || {
                let status = git(root, &["status", "--porcelain=v2", "--branch"]);
                (status, git(root, &["rev-list", "--objects", "--all", "HEAD"]))
            };
            let whole = portrait();
            commit(root, "later", "later");
            let newest = git(root, &["rev-parse", "HEAD"]);
            std::fs::remove_dir_all(&objects).unwrap();
            let lost = || {
                let head = std::fs::read_to_string(root.join(".git/HEAD")).unwrap();
                match head.strip_prefix("ref: ") {
                    Some(name) => {
                        std::fs::read_to_string(root.join(".git").join(name.trim_end())).unwrap()
                    }
                    None => head,
                }
            };
            let run = |arguments: &[&str]| {
                let output = world.run(arguments);
                assert!(output.status.success(), "{when}: {}", world.shown(&output));
            };
            run(&["restore", &id, "--confirm"]);
            assert_eq!(portrait(), whole, "{when}");
            for _ in 0..2 {
                run(&["undo"]);
                assert_eq!(lost(), newest, "{when}, undone");
                assert_eq!(std::fs::read_to_string(root.join("later")).unwrap(), "later");
                if lost_again {
                    std::fs::remove_dir_all(&objects).unwrap();
                }
                run(&["redo"]);
                assert_eq!(portrait(), whole, "{when}, redone");
                git(root, &["fsck", "--full", "--strict", "--no-reflogs"]);
            }
        }
    }
}

#[test]
fn an_empty_commit_object_is_noticed_and_comes_back() {
    let world = packed();
    let root = world.project.root();
    commit(root, "later", "later");
    let id = world.save("whole");
    overwrite(&loose(root, "HEAD"), b"");
    world.write("f1", "changed");
    let status = world.json_at_any_exit(&["status"]);
    assert_eq!(status["state"], "degraded", "{status}");
    let restored = world.run(&["restore", &id, "--confirm"]);
    assert!(restored.status.success(), "{}", world.shown(&restored));
    git(root, &["fsck", "--full", "--strict"]);
}

/// Git gives an old pack a new time when it was about to write an object that is in it.
#[test]
fn a_pack_that_only_has_a_new_time_is_no_damage() {
    let world = packed();
    let root = world.project.root();
    world.save("whole");
    let before = std::fs::metadata(the_pack(root)).unwrap().modified().unwrap();
    let file = std::fs::File::open(the_pack(root)).unwrap();
    file.set_modified(before - std::time::Duration::from_secs(3600)).unwrap();
    assert_eq!(world.json(&["status"])["state"], "protected");
    assert_eq!(world.json(&["save", "again"])["partial"], false);
}

#[test]
fn a_repository_that_is_gone_is_said_by_status_and_save() {
    let world = packed();
    let root = world.project.root();
    let id = world.save("whole");
    let portrait = git(root, &["log", "--oneline"]);
    std::fs::remove_dir_all(root.join(".git")).unwrap();
    let status = world.json_at_any_exit(&["status"]);
    assert_eq!(status["state"], "degraded", "{status}");
    assert!(status["reasons"].to_string().contains("the repository is gone"), "{status}");
    let said = world.face(&["save", "without"]);
    assert!(said.contains("the git repository is gone"), "{said}");
    // It is said once; who wants it gone is left alone.
    let said = world.face(&["save", "without it again"]);
    assert!(!said.contains("is gone"), "{said}");
    assert_eq!(world.json(&["status"])["state"], "protected");
    let restored = world.run(&["restore", &id, "--only", "git", "--confirm"]);
    assert!(restored.status.success(), "{}", world.shown(&restored));
    assert_eq!(git(root, &["log", "--oneline"]), portrait);
}

#[test]
fn a_repository_gets_no_object_of_another_project() {
    let world = World::of(Project::new());
    let (private, public) = (world.project.outside().join("private"), world.project.root());
    std::fs::create_dir(&private).unwrap();
    for folder in [private.as_path(), public] {
        git(folder, &["init", "-q"]);
        commit(folder, "LICENSE", "the same in both\n");
    }
    commit(&private, "secret", "password hunter2\n");
    let saved = world.command(&["save", "private"]).current_dir(&private).output().unwrap();
    assert!(saved.status.success());
    commit(public, "code", "fn main() {}\n");
    world.save("public");
    let copy = world.project.outside().join("copy");
    world.json(&["restore", "latest", "--to", copy.to_str().unwrap()]);
    let all = git(&copy, &["cat-file", "--batch-all-objects", "--batch-check"]);
    let own = git(public, &["cat-file", "--batch-all-objects", "--batch-check"]);
    assert_eq!(all, own);
}
