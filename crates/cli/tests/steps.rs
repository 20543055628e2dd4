//! `recover --steps`: with git alone, its patches bring back what a checkpoint holds.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;

use rappel_testing::git::{command, git};
use rappel_testing::project::{Snapshot, snapshot};
use serde_json::Value;
use support::World;

fn apply(folder: &Path, patch: &str) {
    let mut git = command(folder)
        .args(["apply", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(patch.as_bytes()).unwrap();
    let output = git.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{patch}");
}

/// The commit and the patches of the steps that lead to a checkpoint.
fn code_state(world: &World, id: &str) -> (String, Vec<String>) {
    let point = world.json(&["recover", "--steps", id]);
    let code = &point["recovery_instructions"][0];
    assert_eq!(code["step"], "restore_code_state");
    let patches = code["patches"].as_array().unwrap().iter();
    let patches = patches.map(|patch| patch.as_str().unwrap().to_owned()).collect();
    (code["commit_hash"].as_str().unwrap().to_owned(), patches)
}

/// Everything below a folder but git's own.
fn tree_of(folder: &Path) -> Snapshot {
    let mut all = snapshot(folder);
    all.retain(|path, _| path != ".git" && !path.starts_with(".git/"));
    all
}

/// A clone of the repository elsewhere, at a commit.
fn checked_out(world: &World, name: &str, commit: &str) -> std::path::PathBuf {
    let folder = world.project.outside().join(name);
    let from = world.project.root().to_str().unwrap();
    git(world.project.outside(), &["clone", "-q", "--no-local", from, name]);
    git(&folder, &["checkout", "-q", commit]);
    folder
}

/// Asserts that a clone and the patches make what the workspace holds now.
fn assert_brings_back(world: &World, id: &str, name: &str) -> Vec<String> {
    let (commit, patches) = code_state(world, id);
    let one_by_one = checked_out(world, &format!("{name}-each"), &commit);
    for patch in &patches {
        apply(&one_by_one, patch);
    }
    assert_eq!(tree_of(&one_by_one), tree_of(world.project.root()));
    let at_once = checked_out(world, &format!("{name}-all"), &commit);
    if !patches.is_empty() {
        apply(&at_once, &patches.concat());
    }
    assert_eq!(tree_of(&at_once), tree_of(world.project.root()));
    patches
}

fn repository(hash: &str) -> World {
    let world = World::new();
    world.write("gone.txt", "was here\n");
    world.write("turns/into/a/file", "x\n");
    world.write("becomes-folder", "y\n");
    world.write("becomes-link", "z\n");
    world.write("tool.sh", "#!/bin/sh\n");
    world.write("no end", "no line end");
    world.write(".gitattributes", "*.txt filter=evil diff=evil\n*.raw -text\n");
    std::fs::write(world.project.path("bytes.raw"), [0u8, 1, 2, 255, 254]).unwrap();
    git(world.project.root(), &["init", "-q", "-b", "main", "--object-format", hash]);
    git(world.project.root(), &["add", "-A"]);
    git(world.project.root(), &["commit", "-q", "-m", "All of it"]);
    world
}

/// Edits of every kind since the commit.
fn edit(world: &World) {
    let path = |name: &str| world.project.path(name);
    world.write("a.txt", "one\n2\nthree\nfour");
    world.remove("gone.txt");
    std::fs::remove_dir_all(path("turns")).unwrap();
    world.write("turns", "a file now\n");
    world.remove("becomes-folder");
    world.write("becomes-folder/inside", "there\n");
    world.remove("becomes-link");
    symlink("a.txt", path("becomes-link")).unwrap();
    std::fs::set_permissions(path("tool.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    world.write("no end", "still no line end");
    let noise: Vec<u8> =
        (0..9_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(path("bytes.raw"), noise).unwrap();
    // Not tracked: text, bytes, an old encoding, nothing, odd names, words that look like a header.
    world.write("new.txt", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n");
    std::fs::write(path("new.raw"), [0u8, 159, 146, 150, 0]).unwrap();
    std::fs::write(path("latin.txt"), b"caf\xe9\r\nol\xe9\r\n").unwrap();
    world.write("empty", "");
    world.write("name with \"quotes\" and ümlaut.txt", "odd\n");
    symlink("nowhere", path("dangling")).unwrap();
    git(world.project.root(), &["add", "new.txt", "a.txt"]);
    world.write("a.txt", "one\r\n2\r\nthree\r\nfive\r\n");
}

#[test]
fn git_checkout_and_git_apply_alone_bring_the_tree_back() {
    for hash in ["sha1", "sha256"] {
        let world = repository(hash);
        let ran = world.project.outside().join("ran");
        let evil = format!("touch {}; cat", ran.display());
        for key in ["filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv"] {
            git(world.project.root(), &["config", key, &evil]);
        }
        edit(&world);
        let objects = || git(world.project.root(), &["count-objects", "-v"]);
        let id = world.save("dirty");
        // Git's own commands above ran it.
        let _ = std::fs::remove_file(&ran);
        let before = (objects(), tree_of(world.project.root()));
        let (_, patches) = code_state(&world, &id);
        assert!(!ran.exists(), "a program of the user's ran");
        assert_eq!(before, (objects(), tree_of(world.project.root())));
        assert!(patches.iter().any(|patch| patch.contains("GIT binary patch")));
        assert!(patches.iter().any(|patch| patch.contains("@@ -1,3 +1,4 @@")));
        assert_brings_back(&world, &id, "clone");
    }
}

#[test]
fn ignored_files_that_a_checkpoint_holds_are_in_its_patches() {
    let world = repository("sha1");
    world.write(".gitignore", "*.log\n.env\n");
    world.write("rappel.toml", "[files]\ninclude = [\".env\"]\nexclude = [\"docs\"]\n");
    world.write(".env", "PORT=1\n");
    let id = world.save("with .env");
    let patches = assert_brings_back(&world, &id, "clone");
    assert!(patches.iter().any(|patch| patch.contains("+PORT=1")), "{patches:?}");
    // A file that the rules leave out is in no patch, and is not deleted by one.
    world.write("docs/notes.md", "# Changed\n");
    git(world.project.root(), &["add", "docs/notes.md"]);
    let id = world.save("with changed notes");
    let dirty = world.json(&["show", &id])["git"]["dirty_files"].to_string();
    let (_, patches) = code_state(&world, &id);
    assert!(dirty.contains("docs/notes.md"), "{dirty}");
    assert!(!patches.concat().contains("notes.md"), "{patches:?}");
}

#[test]
fn more_files_than_a_manifest_lists_are_all_in_the_patches() {
    let world = repository("sha1");
    for number in 0..1_200 {
        world.write(&format!("many/{number}"), &format!("{number}\n"));
    }
    world.write("zzz", "the last\n");
    let id = world.save("many");
    assert_eq!(assert_brings_back(&world, &id, "clone").len(), 1_201);
}

#[test]
fn a_commit_that_is_gone_is_said_and_the_other_steps_stay() {
    let world = repository("sha1");
    let id = world.save("clean");
    assert_eq!(code_state(&world, &id).1, Vec::<String>::new());
    std::fs::remove_dir_all(world.project.path(".git")).unwrap();
    let point = world.json(&["recover", "--steps", &id]);
    let steps = point["recovery_instructions"].as_array().unwrap();
    assert_eq!(steps[0]["patches"], Value::Array(Vec::new()));
    let said = steps[1]["instruction"].as_str().unwrap();
    assert!(said.contains("no patches") && said.contains("the repository is gone"), "{said}");
    assert_eq!(steps[2]["step"], "replay_command");
    let text = world.face(&["recover", "--steps", &id]);
    assert!(text.contains("rappel restore chk_1 --confirm"), "{text}");
}

#[test]
fn nested_repositories_are_left_out_and_named() {
    let world = repository("sha1");
    world.write("vendor/lib/code.c", "int x;\n");
    let nested = world.project.path("vendor/lib");
    git(&nested, &["init", "-q"]);
    git(&nested, &["add", "."]);
    git(&nested, &["commit", "-q", "-m", "lib"]);
    world.write("vendor/lib/code.c", "int y;\n");
    world.write("a.txt", "changed\n");
    let id = world.save("with a library");
    let (_, patches) = code_state(&world, &id);
    assert_eq!(patches.len(), 1, "{patches:?}");
    assert!(!patches.concat().contains("vendor"), "{patches:?}");
    let steps = world.json(&["recover", "--steps", &id])["recovery_instructions"].to_string();
    assert!(steps.contains("leave out the repositories in vendor/lib"), "{steps}");
}

#[test]
fn line_ends_that_git_converts_come_back_as_they_were() {
    let world = repository("sha1");
    git(world.project.root(), &["config", "core.autocrlf", "true"]);
    let text = "one\r\n2\r\nthree\r\n";
    world.write("a.txt", text);
    world.write("new.txt", text);
    let id = world.save("with other line ends");
    let (commit, patches) = code_state(&world, &id);
    let from = world.project.root().to_str().unwrap();
    let words = ["clone", "-q", "--no-local", "-c", "core.autocrlf=true", from, "clone"];
    git(world.project.outside(), &words);
    let folder = world.project.outside().join("clone");
    git(&folder, &["checkout", "-q", &commit]);
    for patch in &patches {
        apply(&folder, patch);
    }
    for name in ["a.txt", "new.txt"] {
        assert_eq!(std::fs::read_to_string(folder.join(name)).unwrap(), text, "{name}");
    }
}
