//! What a restore says before and after, what it counts, and that it leaves nothing behind where it
//! has nothing to do.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::process::Output;

use serde_json::Value;
use support::World;

impl World {
    fn code(&self, arguments: &[&str]) -> i32 {
        self.run(arguments).status.code().unwrap()
    }

    /// How many checkpoints there are, safety checkpoints included.
    fn checkpoints(&self) -> u64 {
        self.json(&["list", "--all"])["total"].as_u64().unwrap()
    }
}

/// All that was said.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// The one document of a call that may fail.
fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_restore_with_nothing_to_do_leaves_nothing_behind() {
    let world = World::new();
    world.write("a.txt", "before");
    let before = world.save("before");
    world.write("a.txt", "one");
    let one = world.save("one");
    assert_eq!(world.code(&["restore", &before, "-y"]), 0);
    assert_eq!(world.checkpoints(), 3);

    let output = world.run(&["restore", &before, "-y"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("Restored") && text.contains("Nothing to change"), "{text}");
    let report = world.json(&["restore", &before, "-y"]);
    assert_eq!(report["safety_checkpoint"], Value::Null);
    assert_eq!(report["recovery_complete"], true);
    assert_eq!(world.checkpoints(), 3, "no safety checkpoint");
    // The restore before it is still what undo takes back, without a question.
    assert_eq!(world.code(&["undo"]), 0);
    assert_eq!(world.read("a.txt"), "one");
    let _ = one;
}

#[test]
fn a_restore_that_its_plan_refuses_leaves_nothing_behind() {
    let world = World::new();
    world.write("thing", "a file");
    let first = world.save("first");
    world.remove("thing");
    world.write(".rappelignore", "thing/kept\n");
    world.write("thing/kept", "nobody saves this");
    let total = world.checkpoints();
    let dry = world.run(&["restore", &first, "--dry-run"]);
    assert_eq!(dry.status.code(), Some(7), "{}", said(&dry));
    let output = world.run(&["restore", &first, "--confirm"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(text.contains("nothing was changed") && text.contains("hint: "), "{text}");
    assert!(!text.contains("Restored") && !text.contains("saved as"), "{text}");
    assert_eq!(world.checkpoints(), total, "no safety checkpoint");
    assert_eq!(world.read("thing/kept"), "nobody saves this");

    let changed = world.run(&["restore", &first, "--confirm", "--plan", "0000"]);
    assert_eq!(changed.status.code(), Some(7));
    assert_eq!(world.checkpoints(), total);
}

#[test]
fn a_restore_that_fails_later_names_its_safety_checkpoint() {
    let world = World::new();
    let state = world.project.outside().join("state");
    std::fs::write(&state, "one").unwrap();
    let shown = state.display();
    let toml = format!(
        "[[command]]\nname = \"redis\"\ncapture = [\"cat\", \"{shown}\"]\nrestore = [\"false\"]\n"
    );
    world.write("rappel.toml", &toml);
    world.trust();
    let first = world.save("first");
    std::fs::write(&state, "two").unwrap();
    let total = world.checkpoints();
    let output = world.run(&["restore", &first, "-y"]);
    let text = said(&output);
    assert_ne!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("Restored"), "{text}");
    let all = world.json(&["list", "--all", "--trigger", "pre-restore"]);
    let safety = all["checkpoints"][0]["id"].as_str().unwrap();
    assert!(text.contains(&format!("saved as {safety}")), "{text}");
    assert_eq!(world.checkpoints(), total + 1);
}

#[test]
fn a_dry_run_of_undo_ends_as_the_undo_would() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "two");
    assert_eq!(world.code(&["restore", &first, "-y"]), 0);
    world.write("a.txt", "edited since");
    let total = world.checkpoints();
    let dry = world.run(&["undo", "--dry-run", "--json"]);
    assert_eq!(dry.status.code(), Some(7), "{}", said(&dry));
    assert_eq!(document(&dry)["conflicts"][0]["path"], "a.txt");
    let text = said(&world.run(&["undo", "--dry-run"]));
    assert!(text.contains("would be left as it is") && text.contains("a.txt"), "{text}");
    let run = world.run(&["undo", "--json"]);
    assert_eq!(run.status.code(), Some(7));
    assert_eq!(document(&run)["conflicts"], document(&dry)["conflicts"]);
    assert_eq!(world.checkpoints(), total, "it had nothing else to do");
    assert_eq!(world.read("a.txt"), "edited since");

    // By hand it is as it was before the restore: there is nothing left to undo of it.
    world.write("a.txt", "two");
    assert_eq!(world.code(&["undo", "--overwrite"]), 0);
    assert_eq!(world.checkpoints(), total);
    assert_eq!(world.code(&["redo"]), 1, "that was nothing to redo");
    assert_eq!(world.code(&["undo"]), 4, "the next one goes further back");
}

#[test]
fn the_report_of_a_restore_has_the_checkpoints_own_words() {
    let world = World::new();
    let first = world.json(&["save", "Before adding Stripe"]);
    world.write("a.txt", "changed");
    let report = world.json(&["restore", first["id"].as_str().unwrap(), "-y"]);
    assert_eq!(report["restored_to"], first["id"]);
    assert_eq!(report["timestamp"], first["created_at"]);
    assert_eq!(report["message"], "Before adding Stripe");
    assert_eq!(report["text"], "0 created, 1 overwritten, 0 deleted");
    assert!(report["finished_at"].as_str().unwrap() >= first["created_at"].as_str().unwrap());
}
