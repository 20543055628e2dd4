//! Objects of repositories: spoilt inside a pack, and shared by projects that have nothing else in
//! common.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rappel_testing::Project;
use support::World;

fn git(folder: &Path, arguments: &[&str]) -> Output {
    Command::new("git")
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "gc.auto=0"])
        .args(arguments)
        .output()
        .unwrap()
}

fn must(folder: &Path, arguments: &[&str]) -> String {
    let output = git(folder, arguments);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {words}");
    String::from_utf8(output.stdout).unwrap()
}

fn commit(folder: &Path, file: &str, text: &str) {
    std::fs::write(folder.join(file), text).unwrap();
    must(folder, &["add", "."]);
    must(folder, &["commit", "-qm", file]);
}

fn the_pack(folder: &Path) -> PathBuf {
    let packs = std::fs::read_dir(folder.join(".git/objects/pack")).unwrap();
    let mut packs = packs.map(|entry| entry.unwrap().path());
    packs.find(|path| path.extension().is_some_and(|end| end == "pack")).unwrap()
}

#[test]
fn a_pack_that_is_spoilt_inside_stops_no_restore_and_its_objects_come_back_if_that_is_said() {
    let mut mended = 0;
    for at in [12, 40, 90, 140, 300] {
        let world = World::of(Project::new());
        let root = world.project.root();
        must(root, &["init", "-q"]);
        for number in 0..4 {
            let text: String = (0..60).map(|line| format!("{number} {line}\n")).collect();
            commit(root, &format!("f{number}"), &text);
        }
        must(root, &["gc", "-q"]);
        let id = world.save("whole");
        let pack = the_pack(root);
        std::fs::set_permissions(&pack, std::fs::Permissions::from_mode(0o644)).unwrap();
        let file = std::fs::File::options().write(true).open(&pack).unwrap();
        file.write_all_at(&[0xa5; 25], at).unwrap();
        assert!(!git(root, &["fsck", "--full"]).status.success(), "spoilt at {at}");

        let restored = world.run(&["restore", &id, "--confirm"]);
        let said = world.shown(&restored);
        assert!(restored.status.success(), "spoilt at {at}: {said}");
        assert_eq!(world.json(&["recover"])["restores"].as_array().unwrap().len(), 0);
        // Git notices some of it only when it reads everything; then nothing is claimed.
        if said.contains("objects") {
            must(root, &["fsck", "--full", "--strict"]);
            mended += 1;
        }
    }
    assert!(mended > 0);
}

#[test]
fn a_repository_gets_no_object_of_another_project() {
    let world = World::of(Project::new());
    let (private, public) = (world.project.outside().join("private"), world.project.root());
    std::fs::create_dir(&private).unwrap();
    for folder in [private.as_path(), public] {
        must(folder, &["init", "-q"]);
        commit(folder, "LICENSE", "the same in both\n");
    }
    commit(&private, "secret", "password hunter2\n");
    let saved = world.command(&["save", "private"]).current_dir(&private).output().unwrap();
    assert!(saved.status.success());
    commit(public, "code", "fn main() {}\n");
    world.save("public");
    let copy = world.project.outside().join("copy");
    world.json(&["restore", "latest", "--to", copy.to_str().unwrap()]);
    let all = must(&copy, &["cat-file", "--batch-all-objects", "--batch-check"]);
    let own = must(public, &["cat-file", "--batch-all-objects", "--batch-check"]);
    assert_eq!(all, own);
}
