//! `undo`: by parents, in parts, and after saves that changed nothing.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use support::World;

impl World {
    /// Saves `a.txt` with this content.
    fn saved(&self, text: &str) -> String {
        self.write("a.txt", text);
        self.save(text)
    }

    /// Runs it and gives the exit code.
    fn code(&self, arguments: &[&str]) -> i32 {
        self.run(arguments).status.code().unwrap()
    }

    fn git(&self, arguments: &[&str]) -> String {
        rappel_testing::git::git(self.project.root(), arguments)
    }
}

#[test]
fn undo_goes_to_the_parent_and_not_to_a_sibling() {
    let world = World::new();
    for text in ["one", "two", "three"] {
        world.saved(text);
    }
    for expected in ["two", "one"] {
        assert_eq!(world.code(&["undo", "-y"]), 0);
        assert_eq!(world.read("a.txt"), expected);
    }
    world.saved("four");
    assert_eq!(world.code(&["undo", "-y"]), 0);
    assert_eq!(world.read("a.txt"), "one", "the fork's parent");
    assert_eq!(world.code(&["undo", "-y"]), 1, "there is nothing before it");
    assert_eq!(world.code(&["redo", "-y"]), 0);
    assert_eq!(world.read("a.txt"), "four");
}

#[test]
fn a_checkpoint_of_the_same_state_does_not_hide_the_restore() {
    let world = World::new();
    world.git(&["init", "-q"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "first"]);
    let one = world.saved("one");
    world.git(&["commit", "-q", "-a", "-m", "second"]);
    world.saved("two");
    let head = world.git(&["rev-parse", "HEAD"]);
    assert_eq!(world.code(&["restore", &one, "-y"]), 0);
    assert_ne!(world.git(&["rev-parse", "HEAD"]), head);
    world.save("the same once more");
    world.save("and again");
    // Without a question.
    assert_eq!(world.code(&["undo"]), 0);
    assert_eq!((world.read("a.txt"), world.git(&["rev-parse", "HEAD"])), ("two".into(), head));

    assert_eq!(world.code(&["restore", &one, "-y"]), 0);
    world.saved("something else");
    assert_eq!(world.code(&["undo"]), 4, "it is no longer the last thing that happened");
    assert_eq!(world.code(&["undo", "-y"]), 0);
    assert_eq!(world.read("a.txt"), "one");
}

#[test]
fn an_undo_in_part_leaves_the_rest() {
    let world = World::new();
    world.git(&["init", "-q"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "first"]);
    world.write("src/main.rs", "one");
    let one = world.saved("one");
    world.write("src/main.rs", "two");
    world.write("a.txt", "two");
    world.git(&["commit", "-q", "-a", "-m", "second"]);
    world.save("two");
    let head = world.git(&["rev-parse", "HEAD"]);
    let files = || (world.read("a.txt"), world.read("src/main.rs"));
    assert_eq!(world.code(&["restore", &one, "-y"]), 0);

    // There is nothing of the kind, so that this is no step.
    assert_eq!(world.code(&["undo", "--only", "databases"]), 0);
    assert_eq!(world.code(&["redo"]), 1);
    assert_eq!(world.code(&["undo", "--path", "a.txt"]), 0);
    assert_eq!(files(), ("two".into(), "one".into()));
    assert_eq!(world.code(&["undo", "--only", "files"]), 0);
    assert_eq!(files(), ("two".into(), "two".into()));
    assert_ne!(world.git(&["rev-parse", "HEAD"]), head);
    let output = world.run(&["undo"]);
    let said = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the rest of the restore"), "{said}");
    assert_eq!(world.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(world.code(&["undo"]), 4, "further back");
    // Forward again, part by part.
    for _ in 0..3 {
        assert_eq!(world.code(&["redo"]), 0);
    }
    assert_eq!(files(), ("one".into(), "one".into()));
    assert_ne!(world.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn overwrite_means_what_the_last_undo_kept() {
    let world = World::new();
    world.write("src/main.rs", "one");
    let one = world.saved("one");
    world.write("src/main.rs", "two");
    world.saved("two");
    assert_eq!(world.code(&["restore", &one, "-y"]), 0);
    world.write("a.txt", "edited since");
    assert_eq!(world.code(&["undo"]), 7);
    assert_eq!(
        (world.read("a.txt"), world.read("src/main.rs")),
        ("edited since".into(), "two".into())
    );
    assert_eq!(world.code(&["undo", "--overwrite"]), 0);
    assert_eq!((world.read("a.txt"), world.read("src/main.rs")), ("two".into(), "two".into()));
    assert_eq!(world.code(&["redo"]), 0);
    assert_eq!(world.read("a.txt"), "edited since");
}

#[test]
fn an_undo_that_finds_nothing_to_do_ends_its_step() {
    let world = World::new();
    let mut ids = Vec::new();
    for text in ["one", "two", "three"] {
        ids.push(world.saved(text));
    }
    assert_eq!(world.code(&["restore", &ids[1], "-y"]), 0);
    // Somebody has brought it back already.
    world.write("a.txt", "three");
    assert_eq!(world.code(&["undo", "-y", "--overwrite"]), 0);
    assert_eq!(world.read("a.txt"), "three");
    for expected in ["two", "one"] {
        assert_eq!(world.code(&["undo", "-y"]), 0);
        assert_eq!(world.read("a.txt"), expected);
    }
}

#[test]
fn an_undo_of_lost_objects_alone_ends_its_step() {
    let world = World::new();
    world.git(&["init", "-q"]);
    for text in ["one", "two", "three"] {
        world.write("a.txt", text);
        world.git(&["add", "."]);
        world.git(&["commit", "-q", "-m", text]);
        world.save(text);
    }
    world.git(&["repack", "-a", "-d", "-q"]);
    for entry in std::fs::read_dir(world.project.path(".git/objects/pack")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(world.code(&["restore", "3", "-y"]), 0);
    assert_eq!(world.code(&["undo", "-y"]), 0);
    for expected in ["two", "one"] {
        assert_eq!(world.code(&["undo", "-y"]), 0);
        assert_eq!(world.read("a.txt"), expected);
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{expected}");
    }
}

/// Nothing is to do for it, so nothing about it is in the way.
#[test]
fn a_path_that_already_is_what_undo_would_bring_is_not_edited_since() {
    let world = World::new();
    world.write("gone", "since");
    world.write("b.txt", "one");
    let one = world.saved("one");
    world.write("b.txt", "two");
    world.write("new", "new");
    std::fs::remove_file(world.project.path("gone")).unwrap();
    world.saved("two");
    assert_eq!(world.code(&["restore", &one, "-y"]), 0);
    // By hand: a file overwritten, one made again, one deleted again.
    world.write("a.txt", "two");
    world.write("new", "new");
    std::fs::remove_file(world.project.path("gone")).unwrap();
    let undone = world.run(&["undo"]);
    let said = world.shown(&undone);
    assert!(undone.status.success(), "{said}");
    assert!(!said.contains("edited since"), "{said}");
    let is_gone = || !world.project.path("gone").exists();
    assert_eq!((world.read("a.txt"), world.read("b.txt")), ("two".into(), "two".into()));
    assert!(world.read("new") == "new" && is_gone());

    // The same for redo, and an edit beside it is still kept.
    for (path, text) in [("a.txt", "one"), ("b.txt", "mine"), ("gone", "since")] {
        world.write(path, text);
    }
    std::fs::remove_file(world.project.path("new")).unwrap();
    let redone = world.json_at_any_exit(&["redo", "-y"]);
    let kept: Vec<&str> = redone["conflicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
    assert_eq!(kept, ["b.txt"], "{redone}");
    assert_eq!((world.read("a.txt"), world.read("b.txt")), ("one".into(), "mine".into()));
}
