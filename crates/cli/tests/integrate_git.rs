//! `rappel integrate git`: hooks that save after git, never in its way.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rappel_testing::Project;
use rappel_testing::git::{self, git};
use serde_json::Value;
use support::World;

const HOOKS: [&str; 3] = ["post-merge", "post-commit", "post-rewrite"];

/// A repository, and a copy of the program that is not below `target/`.
struct Scene {
    world: World,
    program: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let world = World::of(Project::new().file("a", "one\n"));
        let folder = world.project.outside().join("my bin");
        fs::create_dir(&folder).unwrap();
        let program = folder.join("rappel");
        fs::hard_link(env!("CARGO_BIN_EXE_rappel"), &program)
            .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_rappel"), &program).map(drop))
            .unwrap();
        git(world.project.root(), &["init", "-q"]);
        let scene = Self { world, program };
        scene.git(&["add", "-A"]);
        scene.git(&["commit", "-q", "-m", "first"]);
        scene
    }

    fn root(&self) -> &Path {
        self.world.project.root()
    }

    fn hook(&self, name: &str) -> PathBuf {
        self.root().join(".git/hooks").join(name)
    }

    fn write_hook(&self, name: &str, text: &str, mode: u32) {
        fs::create_dir_all(self.root().join(".git/hooks")).unwrap();
        fs::write(self.hook(name), text).unwrap();
        fs::set_permissions(self.hook(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Git, whose hooks find the home.
    fn git(&self, arguments: &[&str]) -> Output {
        self.git_in(self.root(), arguments)
    }

    fn git_in(&self, folder: &Path, arguments: &[&str]) -> Output {
        let mut command = git::command(folder);
        command.env("HOME", self.world.project.outside().join("user"));
        command.env("RAPPEL_HOME", &self.world.home).env("TZ", rappel_testing::calm_zone());
        let output = command.args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {arguments:?}: {errors}");
        output
    }

    fn commit(&self, text: &str) {
        fs::write(self.root().join("a"), text).unwrap();
        self.git(&["commit", "-q", "-a", "-m", text]);
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let like = self.world.command(arguments);
        let mut command = Command::new(&self.program);
        command.args(like.get_args()).current_dir(self.root()).env_clear();
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn total(&self) -> u64 {
        self.json(&["list"])["total"].as_u64().unwrap()
    }

    /// Waits until a checkpoint with these words is the newest one.
    fn wait_for(&self, words: &str) -> Value {
        let start = Instant::now();
        loop {
            let list = self.json(&["list"]);
            if list["checkpoints"][0]["description"] == words {
                return list["checkpoints"][0].clone();
            }
            assert!(start.elapsed() < Duration::from_secs(120), "no {words:?}: {list}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the newest checkpoint holds the commit that HEAD leads to.
    fn wait_for_head(&self) {
        let head = git::text(self.root(), &["rev-parse", "HEAD"]);
        let start = Instant::now();
        while self.json(&["list"])["checkpoints"][0]["git"]["commit"] != head.as_str() {
            assert!(start.elapsed() < Duration::from_secs(120), "nothing saved {head}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Every hook with its mode and bytes, links as links.
    fn hooks(&self) -> Vec<(String, u32, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(self.root().join(".git/hooks")) else { return Vec::new() };
        let mut all: Vec<_> = entries
            .map(|entry| {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                let bytes = match meta.file_type() {
                    kind if kind.is_symlink() => {
                        fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                    }
                    kind if kind.is_dir() => Vec::new(),
                    _ => fs::read(&path).unwrap(),
                };
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, meta.permissions().mode(), bytes)
            })
            .collect();
        all.sort();
        all
    }
}

#[test]
fn git_saves_after_commit_merge_and_rewrite() {
    let scene = Scene::new();
    let before = scene.hooks();
    let answer = scene.json(&["integrate", "git"]);
    assert_eq!(answer["written"].as_array().unwrap().len(), 3, "{answer}");
    assert_eq!(scene.json(&["integrate", "git"])["changed"], false);

    scene.commit("two\n");
    let saved = scene.wait_for("After a commit");
    assert_eq!(saved["trigger"], "code-modified");
    assert_eq!(saved["git"]["commit"], git::text(scene.root(), &["rev-parse", "HEAD"]));

    scene.git(&["checkout", "-q", "-b", "topic", "HEAD~1"]);
    fs::write(scene.root().join("b"), "b\n").unwrap();
    scene.git(&["add", "b"]);
    scene.git(&["commit", "-q", "-m", "b"]);
    scene.wait_for_head();
    scene.git(&["merge", "-q", "--no-edit", "main"]);
    scene.wait_for("After a merge");
    // An amended commit is a commit and a rewrite; the first of the two saves it.
    scene.git(&["commit", "-q", "--amend", "-m", "reworded"]);
    scene.wait_for_head();

    let status = scene.run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let one = &status["integrations"][0];
    assert_eq!((&one["agent"], &one["state"]), (&"git".into(), &"working".into()), "{status}");

    let answer = scene.json(&["integrate", "git", "--remove"]);
    assert_eq!(answer["removed"].as_array().unwrap().len(), 3, "{answer}");
    assert_eq!(scene.hooks(), before);
}

#[test]
fn hooks_that_are_there_go_on_and_come_back_byte_for_byte() {
    let scene = Scene::new();
    let seen = scene.world.project.outside().join("seen");
    let note = |who: &str| format!("echo {who} \"$@\" >> '{}'\n", seen.display());
    scene.write_hook("post-commit", &format!("#!/bin/sh\nset -eu\n{}", note("script")), 0o750);
    // Another language: a program that is no shell script.
    let awk = format!(
        "#!/usr/bin/awk -f\nBEGIN {{ print \"awk\" >> \"{}\" }}\n{{ print >> \"{0}\" }}\n",
        seen.display()
    );
    scene.write_hook("post-rewrite", &awk, 0o755);
    // A link into the repository, as some teams have them.
    fs::write(scene.root().join("merged.sh"), format!("#!/bin/sh\n{}", note("linked"))).unwrap();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(scene.root().join("merged.sh"), mode).unwrap();
    symlink("../../merged.sh", scene.hook("post-merge")).unwrap();
    let (before, script) = (scene.hooks(), fs::read(scene.root().join("merged.sh")).unwrap());

    scene.json(&["integrate", "git"]);
    scene.json(&["integrate", "git"]);
    assert_eq!(fs::read(scene.root().join("merged.sh")).unwrap(), script, "the user's file");
    scene.commit("two\n");
    scene.git(&["checkout", "-q", "-b", "topic", "HEAD~1"]);
    scene.git(&["merge", "-q", "main"]);
    scene.git(&["commit", "-q", "--amend", "-m", "reworded"]);
    let said = fs::read_to_string(&seen).unwrap();
    assert!(said.contains("script\n"), "{said}");
    assert!(said.contains("linked 0\n"), "{said}");
    assert!(said.contains("awk\n"), "{said}");
    scene.wait_for_head();

    scene.json(&["integrate", "git", "--remove"]);
    assert_eq!(scene.hooks(), before);
    assert_eq!(scene.json(&["integrate", "git", "--remove"])["changed"], false);
}

#[test]
fn a_hook_of_two_languages_and_one_that_nobody_may_write_to_go_on() {
    let scene = Scene::new();
    let seen = scene.world.project.outside().join("seen");
    let python = format!(
        "#!/bin/sh\n''''exec python3 \"$0\" \"$@\" # '''\nopen({:?}, 'a').write('python\\n')\n",
        seen.display().to_string()
    );
    scene.write_hook("post-commit", &python, 0o755);
    let script = format!("#!/bin/sh\necho fixed >> '{}'\n", seen.display());
    scene.write_hook("post-rewrite", &script, 0o555);
    let before = scene.hooks();
    scene.json(&["integrate", "git"]);
    assert_eq!(scene.json(&["integrate", "git"])["changed"], false);
    scene.commit("two\n");
    scene.git(&["commit", "-q", "--amend", "-m", "reworded"]);
    let said = fs::read_to_string(&seen).unwrap();
    assert_eq!(said, "python\npython\nfixed\n");
    scene.wait_for_head();
    scene.json(&["integrate", "git", "--remove"]);
    assert_eq!(scene.hooks(), before);
}

#[test]
fn a_folder_of_hooks_that_nobody_may_write_to_is_told_before_anything_is_written() {
    let scene = Scene::new();
    scene.write_hook("post-merge", "#!/bin/sh\n", 0o755);
    let folder = scene.root().join(".git/hooks");
    let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    let before = scene.hooks();
    mode(0o555);
    let output = scene.run(&["integrate", "git"]);
    mode(0o755);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("hooks is read-only"), "{said}");
    assert!(said.contains("hint: make it writable; nothing was written"), "{said}");
    assert_eq!(scene.hooks(), before);
}

#[test]
fn what_a_killed_integrate_left_goes_with_the_next_one() {
    let scene = Scene::new();
    let python = "#!/usr/bin/env python3\n";
    scene.write_hook("post-merge", python, 0o755);
    let before = scene.hooks();
    let litter = scene.root().join(".git/hooks/.post-merge.0123456789abcdef.tmp");
    let link = scene.root().join(".git/hooks/.post-commit.0123456789abcdef.tmp");
    for arguments in [&["integrate", "git"][..], &["integrate", "git", "--remove"]] {
        fs::write(&litter, "half").unwrap();
        symlink("nowhere", &link).unwrap();
        scene.json(arguments);
        assert!(!litter.exists() && !link.is_symlink(), "{arguments:?}");
    }
    assert_eq!(scene.hooks(), before);
}

#[test]
fn where_another_program_keeps_the_hooks_nothing_is_written() {
    let scene = Scene::new();
    scene.git(&["config", "core.hooksPath", ".husky/_"]);
    let before = scene.hooks();
    let answer = scene.json(&["integrate", "git"]);
    assert_eq!(answer["changed"], false);
    for hook in HOOKS {
        let line = answer["lines"][hook].as_str().unwrap();
        assert!(line.contains(&format!("hook git {hook}")), "{line}");
    }
    assert_eq!(scene.hooks(), before);
    assert!(!scene.root().join(".husky").exists());
    // The line does what it says.
    let husky = scene.root().join(".husky/_");
    fs::create_dir_all(&husky).unwrap();
    let line = answer["lines"]["post-commit"].as_str().unwrap();
    fs::write(husky.join("post-commit"), format!("#!/bin/sh\nset -e\n{line}\n")).unwrap();
    fs::set_permissions(husky.join("post-commit"), fs::Permissions::from_mode(0o755)).unwrap();
    scene.commit("two\n");
    scene.wait_for("After a commit");
    // The user added the line, so the user takes it out; a hook of husky's lies around its folder.
    fs::write(scene.root().join(".husky/post-merge"), format!("{line}\n")).unwrap();
    let answer = scene.json(&["integrate", "git", "--remove"]);
    let notes = answer["notes"].to_string();
    assert!(notes.contains(".husky/_/post-commit"), "{notes}");
    assert!(notes.contains(".husky/post-merge"), "{notes}");
}

#[test]
fn a_hook_never_fails_git() {
    let scene = Scene::new();
    scene.write_hook("post-commit", "#!/bin/sh\nset -eu\n", 0o755);
    scene.json(&["integrate", "git"]);
    // A home that cannot be used.
    scene.json(&["save"]);
    let (home, away) = (&scene.world.home, scene.world.project.outside().join("away"));
    fs::rename(home, &away).unwrap();
    fs::write(home, "no folder").unwrap();
    scene.commit("two\n");
    fs::remove_file(home).unwrap();
    fs::rename(&away, home).unwrap();
    // A program that is gone.
    let elsewhere = scene.program.with_file_name("gone");
    fs::rename(&scene.program, &elsewhere).unwrap();
    let output = scene.git(&["commit", "-q", "--allow-empty", "-m", "empty"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    fs::rename(&elsewhere, &scene.program).unwrap();
    scene.commit("three\n");
    scene.wait_for("After a commit");
    // A user's hook that fails, fails as before.
    scene.write_hook("post-commit", "#!/bin/sh\nexit 3\n", 0o755);
    scene.json(&["integrate", "git"]);
    let failing = Command::new(scene.hook("post-commit")).current_dir(scene.root()).status();
    assert_eq!(failing.unwrap().code(), Some(3));
}

#[test]
fn all_work_trees_share_the_hooks_and_each_saves_its_own() {
    let scene = Scene::new();
    scene.json(&["integrate", "git"]);
    let linked = scene.world.project.outside().join("linked");
    scene.git(&["worktree", "add", "-q", "-b", "topic", linked.to_str().unwrap()]);
    let before = scene.total();
    fs::write(linked.join("a"), "in the linked one\n").unwrap();
    scene.git_in(&linked, &["commit", "-q", "-a", "-m", "linked"]);
    let start = Instant::now();
    let total = || {
        let output = scene.run(&["-C", linked.to_str().unwrap(), "list", "--json"]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        list["total"].as_u64().unwrap_or(0)
    };
    while total() == 0 {
        assert!(start.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(scene.total(), before);
    // Removed from one work tree, they are gone for all.
    scene.run(&["-C", linked.to_str().unwrap(), "integrate", "git", "--remove"]);
    assert!(!scene.hook("post-commit").exists());
}

#[test]
fn remove_all_finds_every_repository() {
    let scene = Scene::new();
    let other = scene.world.project.outside().join("other");
    git(scene.world.project.outside(), &["init", "-q", "other"]);
    scene.json(&["integrate", "git"]);
    scene.json(&["-C", other.to_str().unwrap(), "integrate", "git"]);
    assert!(other.join(".git/hooks/post-merge").exists());
    assert!(scene.run(&["integrate", "--remove", "--all"]).status.success());
    for hook in HOOKS {
        assert!(!scene.hook(hook).exists());
        assert!(!other.join(".git/hooks").join(hook).exists());
    }
}

#[test]
fn a_hook_that_the_user_took_over_stays() {
    let scene = Scene::new();
    scene.json(&["integrate", "git"]);
    scene.write_hook("post-merge", "#!/usr/bin/awk -f\nBEGIN { exit 0 }\n", 0o755);
    let status = scene.run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["integrations"][0]["state"], "gone", "{status}");
    let mine = fs::read(scene.hook("post-merge")).unwrap();
    scene.json(&["integrate", "git", "--remove"]);
    assert_eq!(fs::read(scene.hook("post-merge")).unwrap(), mine);
    assert!(!scene.hook("post-commit").exists());
}

#[test]
fn outside_a_repository_and_for_other_scopes_it_is_refused() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.root().join(".git")).unwrap();
    let output = scene.run(&["integrate", "git"]);
    assert_eq!(output.status.code(), Some(1));
    let output = scene.run(&["integrate", "git", "--user"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_merge_is_saved_once_git_has_ended() {
    let scene = Scene::new();
    // Git calls its hooks while the merge still counts as under way.
    scene.write_hook("post-merge", "#!/bin/sh\nsleep 1\n", 0o755);
    assert!(scene.run(&["integrate", "git"]).status.success());
    scene.git(&["switch", "-q", "-c", "other"]);
    fs::write(scene.root().join("b"), "theirs\n").unwrap();
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-q", "-m", "theirs"]);
    scene.git(&["switch", "-q", "-"]);
    scene.commit("ours");
    scene.git(&["merge", "-q", "--no-edit", "other"]);
    let saved = scene.wait_for("After a merge");
    assert_eq!(saved["git"]["operation"], Value::Null, "{saved}");
}

#[test]
fn the_first_save_is_made_with_the_hooks() {
    let scene = Scene::new();
    assert!(scene.run(&["integrate", "git"]).status.success());
    assert_eq!(scene.total(), 1);
    assert!(scene.run(&["integrate", "git"]).status.success());
    assert_eq!(scene.total(), 1);
}
