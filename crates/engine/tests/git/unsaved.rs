//! What `status` and `diff` tell of repositories since the last checkpoint.

use rappel::types::{Facet, Reference};
use rappel::{DiffOptions, Health, RepositoryDiff, SaveOptions};
use rappel_testing::Project;

use crate::support::{World, reference};

fn world() -> World {
    let world = World::new(Project::new().file("code", "1"));
    world.git(&["init", "-q"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-qm", "one"]);
    world.git(&["branch", "old"]);
    world.save("first");
    world
}

/// What `status` and `diff latest` tell, which is the same.
fn told(world: &World) -> Option<RepositoryDiff> {
    let status = world.open().status().unwrap();
    assert_eq!((status.state, status.reasons), (Health::Protected, vec![]));
    let latest: Reference = reference("latest");
    let diff = world.open().diff(&latest, None, &DiffOptions::default()).unwrap();
    assert_eq!(status.unsaved_git, diff.git);
    diff.git.map(|git| git.root)
}

fn names(diff: &RepositoryDiff) -> Vec<String> {
    diff.refs.iter().map(|one| one.name.to_string()).collect()
}

#[test]
fn what_moved_in_git_is_unsaved_until_it_is_saved() {
    let world = world();
    assert_eq!(told(&world), None);
    let steps: [(&[&str], &[&str], bool); 7] = [
        (&["commit", "-q", "--allow-empty", "-m", "two"], &["refs/heads/main"], false),
        (&["branch", "new"], &["refs/heads/new"], false),
        (&["branch", "-D", "old"], &["refs/heads/old"], false),
        (&["notes", "add", "-m", "a note"], &["refs/notes/commits"], false),
        (&["tag", "v1"], &["refs/tags/v1"], false),
        (&["rm", "-q", "--cached", "code"], &[], true),
        (&["commit", "-q", "-m", "without"], &["refs/heads/main"], false),
    ];
    for (step, refs, index) in steps {
        world.git(step);
        let told_of = told(&world).unwrap();
        assert_eq!((names(&told_of), told_of.index), (strings(refs), index), "{step:?}");
        let first = world.save("again");
        assert_eq!(told(&world), None, "{step:?}");
        let between = world.open().compare(&reference(&format!("{first}~1")), &reference(&first));
        assert_eq!(between.unwrap().git.unwrap().root, told_of, "between checkpoints: {step:?}");
    }
}

#[test]
fn the_stash_counts_with_its_older_entries() {
    let world = world();
    for text in ["2", "3"] {
        world.write("code", text);
        world.git(&["stash", "-q"]);
        let told_of = told(&world).unwrap();
        assert_eq!((names(&told_of), told_of.index), (strings(&["refs/stash"]), false));
    }
    world.save("two of them");
    world.git(&["stash", "drop", "-q", "stash@{1}"]);
    assert_eq!(names(&told(&world).unwrap()), ["refs/stash"]);
}

#[test]
fn a_branch_that_was_switched_to_and_a_repository_that_is_new_count() {
    let world = world();
    world.git(&["switch", "-q", "old"]);
    let told_of = told(&world).unwrap();
    assert_eq!(told_of.branch.unwrap().to.as_deref(), Some("old"));
    assert_eq!((told_of.commit, told_of.refs.len()), (None, 0));
    world.git(&["switch", "-q", "main"]);
    assert_eq!(told(&world), None, "a look of git's at the files is no change");

    world.git(&["init", "-q", "nested"]);
    let git = world.open().status().unwrap().unsaved_git.unwrap();
    assert_eq!(git.nested.len(), 1);
    assert_eq!(git.nested[0].path.to_string(), "nested");
    world.remove(".git");
    let git = world.open().status().unwrap().unsaved_git.unwrap();
    assert!(names(&git.root).contains(&"refs/heads/main".to_owned()), "{git:?}");
}

#[test]
fn other_work_trees_count_with_their_files() {
    let world = world();
    let elsewhere = world.project.outside().join("elsewhere");
    world.git(&["worktree", "add", "-q", elsewhere.to_str().unwrap(), "old"]);
    assert_eq!(told(&world).unwrap().worktrees, ["elsewhere"]);
    world.save("with it");
    assert_eq!(told(&world), None);
    std::fs::write(elsewhere.join("code"), "changed there").unwrap();
    assert_eq!(told(&world).unwrap().worktrees, ["elsewhere"]);
}

#[test]
fn after_a_save_without_git_what_was_saved_before_counts() {
    let world = world();
    world.git(&["branch", "new"]);
    world.write("code", "2");
    world.clock.advance(61_000);
    let options = SaveOptions { skip: [Facet::Git].into(), ..SaveOptions::default() };
    world.open().save(&options).unwrap();
    let git = world.open().status().unwrap().unsaved_git.unwrap();
    assert_eq!(names(&git.root), ["refs/heads/new"]);
    world.git(&["branch", "-D", "new"]);
    assert_eq!(world.open().status().unwrap().unsaved_git, None);
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
