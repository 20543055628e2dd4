//! Merges that come from upstream are marked with a checkpoint of their own, through the real git.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::path::{Path, PathBuf};

use rappel_testing::Project;
use rappel_testing::git::{git, text};
use serde_json::Value;
use support::World;

/// A workspace that is a clone, and another clone in which somebody else works.
struct Scene {
    world: World,
    theirs: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let project = Project::new();
        let (outside, root) = (project.outside().to_owned(), project.root().to_owned());
        let theirs = outside.join("theirs");
        git(&outside, &["init", "-q", "--bare", "upstream.git"]);
        git(&outside, &["clone", "-q", "upstream.git", "theirs"]);
        commit(&theirs, "a", "The first commit");
        git(&theirs, &["push", "-q", "origin", "HEAD:main"]);
        git(&outside, &["--git-dir=upstream.git", "symbolic-ref", "HEAD", "refs/heads/main"]);
        std::fs::remove_dir(&root).unwrap();
        git(&outside, &["clone", "-q", "upstream.git", root.to_str().unwrap()]);
        let scene = Self { world: World::of(project), theirs };
        scene.world.save("cloned");
        scene
    }

    fn root(&self) -> &Path {
        self.world.project.root()
    }

    /// Somebody else works on a branch, in so many commits, and leaves it there.
    fn their_branch(&self, commits: &[&str]) {
        git(&self.theirs, &["checkout", "-q", "-B", "feature", "origin/main"]);
        for (n, subject) in commits.iter().enumerate() {
            commit(&self.theirs, &format!("{subject}{n}"), subject);
        }
        git(&self.theirs, &["checkout", "-q", "-B", "main", "origin/main"]);
    }

    fn their_push(&self) {
        git(&self.theirs, &["push", "-q", "origin", "main"]);
    }

    fn pull(&self, how: &[&str]) {
        git(self.root(), &[&["pull", "-q"], how].concat());
    }

    /// The checkpoints that mark merges, newest first.
    fn marks(&self) -> Vec<Value> {
        let list = self.world.json(&["list", "100", "--all"]);
        let all = list["checkpoints"].as_array().unwrap();
        all.iter().filter(|one| one["trigger"] == "pr-merged").cloned().collect()
    }

    /// Saves; a merge that it finds is a note.
    fn save(&self, message: &str) -> Value {
        let output = self.world.run(&["save", message, "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Saves, and gives the words of the one new mark, which is over the same trees.
    fn marked(&self) -> String {
        let before = self.marks().len();
        let saved = self.save("after");
        let marks = self.marks();
        assert_eq!(marks.len(), before + 1);
        let mark = &marks[0];
        assert_eq!(mark["files"]["tree"], saved["files"]["tree"]);
        assert_eq!(mark["git"], saved["git"]);
        assert_eq!(saved["parent"], mark["id"]);
        assert_eq!(saved["trigger"], "manual");
        assert_eq!(self.world.json(&["show", "latest"])["id"], saved["id"]);
        self.save("again");
        assert_eq!(self.marks().len(), marks.len(), "a merge is marked once");
        mark["description"].as_str().unwrap().to_owned()
    }

    fn not_marked(&self) {
        let before = self.marks();
        self.save("after");
        assert_eq!(self.marks(), before);
    }
}

fn commit(folder: &Path, name: &str, subject: &str) {
    std::fs::write(folder.join(name), subject).unwrap();
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-q", "-m", subject]);
}

#[test]
fn a_fast_forward_of_upstreams_merge_is_marked_by_its_subject() {
    let scene = Scene::new();
    scene.their_branch(&["Add a thing", "Mend it"]);
    let subject = "Merge pull request #7 from them/feature";
    git(&scene.theirs, &["merge", "-q", "--no-ff", "-m", subject, "feature"]);
    scene.their_push();
    scene.pull(&["--ff-only"]);
    assert_eq!(scene.marked(), subject);
}

#[test]
fn a_squashed_and_a_rebased_request_are_marked() {
    let scene = Scene::new();
    scene.their_branch(&["One", "Two"]);
    git(&scene.theirs, &["merge", "-q", "--squash", "feature"]);
    git(&scene.theirs, &["commit", "-q", "-m", "Add a thing (#8)"]);
    scene.their_push();
    scene.pull(&["--ff-only"]);
    assert_eq!(scene.marked(), "Add a thing (#8)");

    scene.their_branch(&["Three", "Four"]);
    git(&scene.theirs, &["rebase", "-q", "feature"]);
    scene.their_push();
    scene.pull(&["--ff-only"]);
    assert_eq!(scene.marked(), "Four");
}

#[test]
fn a_pull_that_merges_or_rebases_own_commits_is_marked_by_what_came() {
    for how in [&["--no-rebase", "--no-edit"][..], &["--rebase"]] {
        let scene = Scene::new();
        commit(scene.root(), "own", "My own work");
        scene.not_marked();
        commit(&scene.theirs, "b", "Their work");
        git(&scene.theirs, &["push", "-q", "origin", "HEAD:main"]);
        scene.pull(how);
        assert_eq!(scene.marked(), "Their work", "{how:?}");
    }
}

#[test]
fn what_was_fetched_earlier_and_saved_is_a_merge_when_the_branch_moves() {
    let scene = Scene::new();
    commit(&scene.theirs, "b", "Their work");
    git(&scene.theirs, &["push", "-q", "origin", "HEAD:main"]);
    git(scene.root(), &["fetch", "-q"]);
    scene.not_marked();
    git(scene.root(), &["merge", "-q", "origin/main"]);
    assert_eq!(scene.marked(), "Their work");
}

#[test]
fn own_commits_are_no_merge_whether_or_not_they_are_pushed() {
    let scene = Scene::new();
    commit(scene.root(), "own", "My own work");
    scene.not_marked();
    commit(scene.root(), "more", "More of it");
    git(scene.root(), &["push", "-q", "origin", "main"]);
    scene.not_marked();
    git(scene.root(), &["checkout", "-q", "-b", "topic"]);
    commit(scene.root(), "topic", "On a branch");
    scene.not_marked();
    git(scene.root(), &["checkout", "-q", "main"]);
    git(scene.root(), &["merge", "-q", "--no-ff", "--no-edit", "topic"]);
    git(scene.root(), &["push", "-q", "origin", "main"]);
    scene.not_marked();
    git(scene.root(), &["reset", "-q", "--hard", "HEAD~1"]);
    scene.not_marked();
}

#[test]
fn the_main_branch_is_the_one_that_is_configured() {
    let scene = Scene::new();
    git(scene.root(), &["remote", "set-head", "origin", "--delete"]);
    git(&scene.theirs, &["checkout", "-q", "-b", "trunk"]);
    git(&scene.theirs, &["push", "-q", "origin", "trunk"]);
    git(scene.root(), &["fetch", "-q"]);
    git(scene.root(), &["checkout", "-q", "trunk"]);
    scene.save("on trunk");
    commit(&scene.theirs, "b", "On trunk");
    git(&scene.theirs, &["push", "-q", "origin", "trunk"]);
    scene.pull(&["--ff-only"]);
    scene.not_marked();
    git(scene.root(), &["config", "rappel.mainBranch", "trunk"]);
    commit(&scene.theirs, "c", "On trunk again");
    git(&scene.theirs, &["push", "-q", "origin", "trunk"]);
    scene.pull(&["--ff-only"]);
    assert_eq!(scene.marked(), "On trunk again");
}

#[test]
fn undo_steps_over_the_mark_and_a_restore_marks_nothing_again() {
    let scene = Scene::new();
    let before = text(scene.root(), &["rev-parse", "HEAD"]);
    commit(&scene.theirs, "b", "Their work");
    git(&scene.theirs, &["push", "-q", "origin", "HEAD:main"]);
    scene.pull(&["--ff-only"]);
    let merged = text(scene.root(), &["rev-parse", "HEAD"]);
    scene.marked();
    let marks = scene.marks().len();
    // There is one state before this one, and it is not the mark's.
    assert!(scene.world.run(&["undo", "-y"]).status.success());
    assert_eq!(text(scene.root(), &["rev-parse", "main"]), before);
    scene.save("back");
    assert!(scene.world.run(&["redo", "-y"]).status.success());
    assert_eq!(text(scene.root(), &["rev-parse", "main"]), merged);
    scene.save("forward");
    assert_eq!(scene.marks().len(), marks);
    // Nor does a reset and the same pull again.
    git(scene.root(), &["reset", "-q", "--hard", &before]);
    scene.save("reset");
    scene.pull(&["--ff-only"]);
    scene.not_marked();
    assert_eq!(scene.marks().len(), marks);
}
