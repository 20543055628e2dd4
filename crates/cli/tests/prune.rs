//! `prune` as a user meets it: the plan with its reasons, the question, and the way back.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use support::World;

impl World {
    fn saved(&self, text: &str) {
        self.write("a.txt", text);
        let trigger = ["save", "--trigger", "scheduled"];
        assert!(self.run(&trigger).status.success());
    }

    fn prune(&self, arguments: &[&str]) -> (i32, serde_json::Value) {
        let all = [&["prune", "--json"][..], arguments].concat();
        let output = self.run(&all);
        let code = output.status.code().unwrap();
        (code, serde_json::from_slice(&output.stdout).unwrap_or_default())
    }
}

#[test]
fn a_dry_run_names_reasons_and_deletes_nothing() {
    let world = World::new();
    // A preset counts the day's own checkpoints too.
    world.write("rappel.toml", "[retention]\npreset = \"loki\"\n");
    for number in 0..53 {
        world.saved(&number.to_string());
    }
    let (code, plan) = world.prune(&["--dry-run"]);
    assert_eq!((code, &plan["total"], &plan["kept"]), (0, &53.into(), &50.into()));
    assert_eq!(plan["deleted"], 3);
    assert_eq!(plan["decisions"][0]["reason"], "too-many");
    let text = world.run(&["prune", "--dry-run"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("3 checkpoints go"), "{text}");
    assert!(text.contains("To apply: rappel prune --confirm"), "{text}");

    // Without a terminal it asks nobody.
    assert_eq!(world.prune(&[]).0, 4);
    let (code, done) = world.prune(&["--confirm"]);
    assert_eq!((code, &done["kept"], &done["deleted"]), (0, &50.into(), &3.into()));
    let first = done["decisions"][0]["id"].as_str().unwrap().to_owned();
    assert!(!world.run(&["show", &first]).status.success());
    assert!(world.run(&["undelete", &first]).status.success());
    assert!(world.run(&["show", &first]).status.success());
    assert!(world.run(&["cleanup", "--dry-run"]).status.success());
    assert!(world.run(&["checkpoint", "prune", "--dry-run"]).status.success());
}

#[test]
fn young_and_manual_checkpoints_stay_whatever_the_numbers_say() {
    let world = World::new();
    for number in 0..4 {
        world.saved(&number.to_string());
    }
    world.write("a.txt", "by hand");
    world.save("by hand");
    let (code, plan) = world.prune(&["--keep-last", "1", "--confirm"]);
    assert_eq!((code, &plan["deleted"]), (0, &0.into()));
    let (_, plan) = world.prune(&["--keep-last", "1", "--include-manual", "--dry-run"]);
    assert_eq!(plan["deleted"], 0);
    let text = String::from_utf8(world.run(&["prune"]).stdout).unwrap();
    assert!(text.starts_with("Nothing to delete; 5 stay"), "{text}");
}

#[test]
fn a_mistake_in_the_rules_is_told_once() {
    let world = World::new();
    world.save("before all");
    world.write("rappel.toml", "[retention\n");
    let output = world.run(&["prune", "--dry-run"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("nothing is pruned").count(), 1, "{said}");
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn a_value_that_was_given_to_a_checkpoint_can_be_taken_away() {
    let world = World::new();
    world.save("before all");
    let value = || world.json(&["show", "latest"])["metadata"]["step"].take();
    assert!(world.run(&["tag", "latest", "--meta", "step=3"]).status.success());
    assert_eq!(value(), 3);
    assert!(world.run(&["tag", "latest", "--meta", "step="]).status.success());
    assert_eq!(value(), serde_json::Value::Null);
    let again = world.run(&["tag", "latest", "--meta", "step="]);
    assert_eq!(again.status.code(), Some(3), "{again:?}");
}

#[test]
fn a_text_where_a_rule_belongs_is_told_as_a_rule() {
    let world = World::new();
    world.save("before all");
    world.write("rappel.toml", "[retention]\nsessions = \"1s\"\n");
    let output = world.run(&["prune", "--dry-run"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("a rule like { keep = \"1s\" }"), "{said}");
    assert!(!said.contains("max"), "{said}");
}
