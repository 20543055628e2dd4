//! What Rappel says is what it did and what is there: references as they were written, counts that
//! fit the lists below them, hooks that are gone, rules that were not understood.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use support::World;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs it; it has to end with this code. Both streams.
fn told(world: &World, code: i32, arguments: &[&str]) -> (String, String) {
    let output = world.run(arguments);
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{errors}");
    (out, errors)
}

#[test]
fn a_reference_is_repeated_as_it_was_written() {
    let world = World::new();
    world.save("first");
    for written in ["latest^", "latest~2", "latest^~", "1^^", "lates~2", "aiwg:003"] {
        let (_, said) = told(&world, 3, &["show", written]);
        assert!(said.contains(&format!("no checkpoint {written:?}")), "{said}");
    }
}

#[test]
fn only_what_is_alike_is_suggested() {
    let world = World::new();
    let (_, said) = told(&world, 3, &["show", "lates"]);
    assert!(said.contains("hint: rappel save makes the first checkpoint"), "{said}");
    let id = world.save("first");
    for slip in ["lates", "latets", "Latest"] {
        let (_, said) = told(&world, 3, &["restore", slip]);
        assert!(said.contains("did you mean latest?"), "{slip}: {said}");
    }
    let other = if id[20..].starts_with('x') { 'y' } else { 'x' };
    let (_, said) = told(&world, 3, &["show", &format!("{}{other}", &id[..20])]);
    assert!(said.contains(&format!("did you mean {id}?")), "{said}");
    for other in ["xyzzy", "some words of nobody", "chk_19990101"] {
        let (_, said) = told(&world, 3, &["show", other]);
        assert!(!said.contains("did you mean"), "{other}: {said}");
        assert!(said.contains("hint: rappel list shows which there are"), "{other}: {said}");
    }
}

#[test]
fn as_many_paths_are_listed_as_are_counted() {
    let world = World::new();
    world.save("first");
    world.write("deep/er/one.txt", "1\n");
    world.write("deep/er/two.txt", "2\n");
    world.save("second");
    // By the rules of the first checkpoint these would not have been taken, so they stay.
    world.write(".rappelignore", "deep/er/two.txt\n");
    let listed = |text: &str, mark: &str| {
        text.lines().filter(|line| line.starts_with(&format!("  {mark} "))).count()
    };
    let (plan, _) = told(&world, 0, &["restore", "1", "--dry-run"]);
    let counts = world.json(&["restore", "1", "--dry-run"])["summary"]["files"].clone();
    for (mark, key) in [("+", "create"), ("~", "overwrite"), ("-", "delete"), ("=", "skip")] {
        assert_eq!(listed(&plan, mark), counts[key].as_u64().unwrap() as usize, "{key}: {plan}");
    }
    let (done, _) = told(&world, 0, &["restore", "1", "--confirm"]);
    let left = done.lines().find_map(|line| line.trim().strip_prefix("Left "));
    let left: usize =
        left.map_or(0, |left| left.trim().split(' ').next().unwrap().parse().unwrap());
    assert_eq!(listed(&done, "="), left, "{done}");
    // And back again: what comes back is new, folders are not counted beside what is in them.
    let (plan, _) = told(&world, 0, &["undo", "--dry-run"]);
    let counts = world.json(&["undo", "--dry-run"])["summary"]["files"].clone();
    assert!(counts["create"].as_u64().unwrap() > 0, "{plan}");
    assert_eq!(listed(&plan, "+"), counts["create"].as_u64().unwrap() as usize, "{plan}");
}

#[test]
fn changes_are_counted_from_a_checkpoint_that_is_named_if_it_is_not_the_one_before() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "other\n");
    world.save("second");
    told(&world, 0, &["restore", "1", "--confirm"]);
    world.save("third");
    let (list, _) = told(&world, 0, &["list"]);
    // It goes on from the first; in the list it stands after the second, from which it differs.
    assert!(list.contains("· unchanged since #1"), "{list}");
    assert_eq!(list.matches("since #").count(), 1, "{list}");
}

#[test]
fn undo_says_nothing_of_what_the_restore_did_not_touch() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "other\n");
    told(&world, 0, &["restore", "latest", "--confirm"]);
    world.write("src/main.rs", "fn main() { edited_since() }\n");
    let (done, _) = told(&world, 0, &["undo"]);
    assert!(done.contains("Everything that it changed is as it was before."), "{done}");
    assert!(!done.contains("workspace is as it was"), "{done}");
    assert_eq!(world.read("a.txt"), "other\n");
    assert_eq!(world.read("src/main.rs"), "fn main() { edited_since() }\n");
}

#[test]
fn a_checkpoint_with_files_is_not_state_only() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "other\n");
    told(&world, 0, &["save", "--trigger", "tool-executed"]);
    let (list, _) = told(&world, 0, &["list"]);
    assert!(list.starts_with("Checkpoints (2 total)\n"), "{list}");
    assert_eq!(world.json(&["status"])["state_checkpoints"], 0);
}

#[test]
fn prune_refuses_rules_that_it_does_not_understand() {
    let world = World::new();
    for number in 0..3 {
        world.write("a.txt", &number.to_string());
        world.save("one");
    }
    for (rules, named) in [
        ("[retention]\ndefault = { keep = \"soon\" }\n", "retention.default.keep"),
        ("[retention]\ndefalt = { keep = \"7d\" }\n", "retention.defalt"),
        ("[retentoin]\npreset = \"loki\"\n", "retentoin"),
        ("not toml", "rappel.toml"),
    ] {
        world.write("rappel.toml", rules);
        for arguments in [&["prune", "--dry-run"][..], &["prune", "--confirm"]] {
            let (_, said) = told(&world, 2, arguments);
            assert!(said.contains(named) && said.contains("nothing is pruned"), "{said}");
        }
        // What stays is said on the command line: no rule of the file is needed.
        told(&world, 0, &["prune", "--keep-last", "1", "--dry-run"]);
    }
    // A file that is broken is refused by a save that a person asks for, and only by that.
    world.write("rappel.toml", "[retention]\ndefault = { keep = \"soon\" }\n");
    let (_, said) = told(&world, 2, &["save", "by hand"]);
    assert!(said.contains("rappel.toml:2: retention.default.keep"), "{said}");
    told(&world, 0, &["save", "--trigger", "scheduled"]);
    let status = world.json_at_any_exit(&["status"]);
    assert_eq!(status["state"], "degraded");
}

#[test]
fn only_an_operation_is_called_one() {
    let world = World::new();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(world.project.root()).args(["-c", "user.name=t"]);
        command.args(["-c", "user.email=t@t", "-c", "init.defaultBranch=main"]).args(arguments);
        command.output().unwrap().status.success()
    };
    assert!(git(&["init", "-q"]) && git(&["add", "."]) && git(&["commit", "-qm", "one"]));
    assert!(git(&["checkout", "-qb", "other"]));
    world.write("a.txt", "other\n");
    assert!(git(&["commit", "-qam", "other"]));
    assert!(git(&["checkout", "-q", "main"]));
    world.write("a.txt", "two\n");
    assert!(git(&["commit", "-qam", "two"]));
    world.save("two commits");
    // All that this leaves behind is ORIG_HEAD, which is no operation.
    assert!(git(&["reset", "-q", "--soft", "HEAD"]));
    let (plan, _) = told(&world, 0, &["restore", "latest", "--dry-run"]);
    assert!(plan.contains("files of git restored"), "{plan}");
    assert!(!plan.contains("operation restored"), "{plan}");
    told(&world, 0, &["restore", "latest", "--confirm"]);
    assert!(!git(&["merge", "-q", "other"]), "there is a conflict");
    world.save("in a merge");
    assert!(git(&["merge", "--abort"]));
    let (plan, _) = told(&world, 0, &["restore", "latest", "--dry-run"]);
    assert!(plan.contains("operation restored"), "{plan}");
}

/// A project with Claude Code's hooks, by a copy of the program that is not below `target/`.
struct Integrated {
    world: World,
    program: PathBuf,
}

impl Integrated {
    fn new() -> Self {
        let world = World::new();
        world.save("before");
        Self::of(world)
    }

    fn of(world: World) -> Self {
        let folder = world.project.outside().join("bin");
        fs::create_dir(&folder).unwrap();
        let program = folder.join("rappel");
        let ours = env!("CARGO_BIN_EXE_rappel");
        fs::hard_link(ours, &program).or_else(|_| fs::copy(ours, &program).map(drop)).unwrap();
        let scene = Self { world, program };
        assert!(scene.run(&["integrate", "claude"]).status.success());
        scene
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let like = self.world.command(arguments);
        let mut command = Command::new(&self.program);
        command.args(like.get_args()).current_dir(self.world.project.root()).env_clear();
        for (name, value) in like.get_envs() {
            command.env(name, value.unwrap());
        }
        command.output().unwrap()
    }

    fn out(&self, arguments: &[&str]) -> String {
        text(&self.run(arguments).stdout)
    }

    fn settings(&self) -> PathBuf {
        self.world.project.path(".claude/settings.local.json")
    }
}

#[test]
fn a_restore_to_before_integrate_says_that_hooks_go() {
    let scene = Integrated::new();
    let plan = scene.out(&["restore", "1", "--dry-run"]);
    let says = |said: &str| said.contains("takes Rappel's hooks out of");
    assert!(says(&plan) && plan.contains("rappel integrate claude"), "{plan}");
    let done = scene.run(&["restore", "1", "--confirm"]);
    assert!(done.status.success() && says(&text(&done.stderr)), "{}", text(&done.stderr));
    assert!(!scene.settings().exists());
    // The undo brings them back, and says nothing of hooks.
    let undone = scene.run(&["undo"]);
    assert!(undone.status.success() && !says(&text(&undone.stderr)));
    assert!(scene.settings().exists());
    // A redo takes them again.
    assert!(says(&scene.out(&["redo", "--dry-run"])));
    // A restore that leaves the settings alone warns of nothing.
    scene.world.write("a.txt", "other\n");
    assert!(!says(&scene.out(&["restore", "1", "--dry-run", "--path", "a.txt"])));
}

#[test]
fn a_settings_file_that_goes_back_to_before_loses_its_hooks_too() {
    let world = World::new();
    world.write(".claude/settings.local.json", "{\"model\": \"opus\"}\n");
    world.save("with settings of the user's");
    let scene = Integrated::of(world);
    let plan = scene.out(&["restore", "1", "--dry-run"]);
    assert!(plan.contains("takes Rappel's hooks out of"), "{plan}");
    // Where the checkpoint has them too, nothing is lost.
    scene.run(&["save", "with hooks"]);
    fs::write(scene.settings(), text(&fs::read(scene.settings()).unwrap()).replace("opus", "x"))
        .unwrap();
    let plan = scene.out(&["restore", "latest", "--dry-run"]);
    assert!(plan.contains("settings.local.json") && !plan.contains("takes Rappel's"), "{plan}");
}

#[test]
fn files_that_other_hooks_still_use_are_not_said_to_be_taken_out() {
    let scene = Integrated::new();
    assert!(scene.run(&["integrate", "claude", "--shared"]).status.success());
    let said = scene.out(&["integrate", "claude", "--shared", "--remove"]);
    assert!(!said.contains("Took Rappel's entries out of"), "{said}");
    assert_eq!(said.matches("other hooks still use it").count(), 2, "{said}");
    assert!(said.contains("Removed ") && said.lines().count() == 3, "{said}");
}

#[test]
fn the_short_status_says_that_hooks_are_gone() {
    let scene = Integrated::new();
    assert!(!scene.out(&["status", "--short"]).contains("hooks"));
    fs::remove_file(scene.settings()).unwrap();
    let line = scene.out(&["status", "--short"]);
    assert!(line.starts_with("saved ") && line.contains("hooks of claude gone"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn doctor_sees_that_commands_or_the_skill_are_missing() {
    let scene = Integrated::new();
    let integration = |said: String| -> serde_json::Value {
        let all: serde_json::Value = serde_json::from_str(&said).unwrap();
        let mut checks = all["checks"].as_array().unwrap().iter();
        checks.find(|check| check["name"] == "integration").unwrap().clone()
    };
    assert_eq!(integration(scene.out(&["doctor", "--json"]))["ok"], true);
    for file in ["commands/rappel/undo.md", "skills/rappel/SKILL.md"] {
        fs::remove_file(scene.world.project.path(format!(".claude/{file}"))).unwrap();
        let check = integration(scene.out(&["doctor", "--json"]));
        assert_eq!(check["ok"], false, "{file}: {check}");
        assert!(check["found"].as_str().unwrap().contains("missing"), "{check}");
        assert_eq!(check["hint"], "rappel integrate claude");
        // Saves go on, so the workspace is as protected as before.
        let status: serde_json::Value =
            serde_json::from_str(&scene.out(&["status", "--json"])).unwrap();
        assert_eq!(status["integrations"][0]["state"], "incomplete");
        assert!(!status["reasons"].to_string().contains("integration"), "{status}");
        assert!(scene.run(&["integrate", "claude"]).status.success());
        assert_eq!(integration(scene.out(&["doctor", "--json"]))["ok"], true);
    }
}
