//! What a restore says before and after, what it counts, and that it leaves nothing behind where it
//! has nothing to do.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::process::Output;

use serde_json::{Value, json};
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
    assert_eq!(report["text"], "0 new, 1 changed, 0 deleted");
    assert!(report["finished_at"].as_str().unwrap() >= first["created_at"].as_str().unwrap());
}

#[test]
fn what_is_there_and_left_out_by_now_was_not_deleted() {
    let world = World::new();
    world.write("big.bin", &"x".repeat(3000));
    world.write("build/out.o", "object");
    world.write("note.txt", "a note");
    let first = world.save("first");
    world.write("rappel.toml", "[files]\nmax_file_size = \"2KiB\"\nexclude = [\"note.txt\"]\n");
    world.write(".rappelignore", "build/\n");
    let diff = world.json(&["diff", &first]);
    assert_eq!(diff["files"]["deleted"], serde_json::json!([]), "{diff}");
    let named = |answer: &Value| -> Vec<String> {
        let paths = answer["left_out"].as_array().unwrap().iter();
        paths.map(|one| one["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(named(&diff), ["big.bin", "build", "note.txt"]);
    let text = said(&world.run(&["diff", &first, "--stat"]));
    assert!(text.contains("note.txt is there and is left out"), "{text}");
    assert!(!text.contains("deleted"), "{text}");
    // All count the same: two rule files are new, nothing is deleted.
    assert_eq!(world.json(&["status"])["unsaved"], 2);
    let second = world.json(&["save", "second"]);
    let counts = |files: &Value| ["added", "modified", "deleted"].map(|key| files[key].clone());
    assert_eq!(counts(&second["files"]), [2, 0, 0]);
    // What really goes is deleted.
    world.remove("note.txt");
    let diff = world.json(&["diff", &first]);
    assert_eq!(diff["files"]["deleted"], serde_json::json!(["note.txt"]));
}

#[test]
fn a_new_file_that_is_too_large_is_news() {
    let world = World::new();
    world.write("rappel.toml", "[files]\nmax_file_size = \"1KiB\"\n");
    let first = world.save("first");
    world.write("big.bin", &"x".repeat(3000));
    let second = world.json(&["save"]);
    assert_eq!(
        (&second["created"], &second["files"]["skipped"][0]["path"]),
        (&Value::Bool(true), &Value::from("big.bin"),)
    );
    assert_ne!(second["id"], first);
    assert_eq!(world.json(&["save"])["created"], false, "once");
}

#[test]
fn folders_are_counted_the_same_everywhere() {
    let world = World::new();
    let first = world.save("first");
    std::fs::create_dir_all(world.project.path("empty/deeper")).unwrap();
    world.write("full/a", "a");
    // The innermost empty folder and the file tell the story.
    assert_eq!(world.json(&["status"])["unsaved"], 2);
    let diff = world.json(&["diff", &first]);
    assert_eq!(diff["files"]["added"], serde_json::json!(["empty/deeper", "full/a"]));
    assert_eq!(world.json(&["save", "second"])["files"]["added"], 2);
    let plan = world.json(&["restore", &first, "--dry-run"]);
    assert_eq!(plan["summary"]["files"]["delete"], 2);
    let done = world.json(&["restore", &first, "-y"]);
    assert_eq!(done["summary"]["files"]["delete"], 2);
    assert_eq!(done["text"], "0 new, 0 changed, 2 deleted");
}

#[test]
fn after_a_restore_in_part_counts_are_against_the_parent() {
    let world = World::new();
    world.write("b.txt", "one");
    let first = world.save("first");
    world.write("a.txt", "two");
    world.write("b.txt", "two");
    world.save("second");
    assert_eq!(world.code(&["restore", &first, "--path", "a.txt", "-y"]), 0);
    assert_eq!(world.json(&["status"])["unsaved"], 1);
    let third = world.json(&["save", "third"]);
    assert_eq!(third["parent"], first.as_str());
    assert_eq!(third["files"]["modified"], 1, "b.txt is not as the parent has it");
}

#[test]
fn a_path_that_nobody_knows_is_not_found() {
    let world = World::new();
    let first = world.save("first");
    world.write("new.txt", "new");
    assert_eq!(world.code(&["diff", &first, "--path", "nosuch"]), 3);
    assert_eq!(world.code(&["diff", &first, &first, "--path", "nosuch"]), 3);
    for known in ["a.txt", "src", "new.txt"] {
        assert_eq!(world.code(&["diff", &first, "--path", known]), 0, "{known}");
    }
    let to = world.project.outside().join("to");
    let to = to.to_str().unwrap();
    assert_eq!(world.code(&["restore", &first, "--to", to, "--path", "nosuch"]), 3);
    assert!(!std::path::Path::new(to).exists());
    assert_eq!(world.code(&["restore", &first, "--to", to, "--path", "src"]), 0);
}

#[test]
fn a_finished_restore_names_what_it_left_alone() {
    let world = World::new();
    world.write(".rappelignore", "cache/\n");
    let first = world.save("first");
    world.write(".rappelignore", "");
    world.write("cache/x", "kept: the checkpoint's own rules would not have taken it");
    world.write("a.txt", "changed");
    let dry = world.json(&["restore", &first, "--dry-run"]);
    let report = world.json(&["restore", &first, "-y"]);
    assert_eq!(report["summary"]["files"], dry["summary"]["files"]);
    assert!(report["summary"]["files"]["skip"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(world.code(&["undo"]), 0);
    let text = said(&world.run(&["restore", &first, "-y"]));
    assert!(text.contains("Left as they were") && text.contains("cache"), "{text}");
}

#[test]
fn redo_asks_where_something_was_saved_since() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "two");
    assert_eq!(world.code(&["restore", &first, "-y"]), 0);
    assert_eq!(world.code(&["undo"]), 0);
    world.save("the same as undo left");
    assert_eq!(world.code(&["redo", "--dry-run"]), 0);
    world.write("src/main.rs", "new work");
    world.save("new work");
    assert_eq!(world.code(&["redo"]), 4, "it asks");
    assert_eq!(world.code(&["redo", "-y"]), 0);
    assert_eq!(world.read("src/main.rs"), "new work", "what the restore did not touch stays");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn where_nothing_is_further_back_a_hint_leads_on() {
    let world = World::new();
    world.save("first");
    let text = said(&world.run(&["undo", "-y"]));
    assert!(text.contains("nothing further back") && text.contains("hint: rappel list"), "{text}");
}

#[test]
fn recall_offers_no_restore_of_what_holds_no_files() {
    let world = World::new();
    let run = |arguments: &[&str]| {
        let output = world.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    run(&["session", "start", "--session", "s"]);
    let guess = run(&["record", "hypothesis", "it is the proxy"]);
    run(&["record", "hypothesis", "--id", &guess, "--status", "testing"]);
    let brief = run(&["recall"]);
    assert!(brief.contains("Last checkpoint") && !brief.contains("rappel restore"), "{brief}");
    assert_eq!(world.json(&["recall"])["last_checkpoint"]["restore"], Value::Null);
    let saved = world.json(&["save", "with files", "--session", "s"]);
    let offer = format!("rappel restore {}", saved["id"].as_str().unwrap());
    assert!(run(&["recall"]).contains(&offer));
}

#[test]
fn a_dry_run_names_the_session_whose_transcript_went_on() {
    let world = World::new();
    let root = world.project.root().to_str().unwrap().to_owned();
    let folder: String =
        root.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = world.project.outside().join("user/.claude/projects").join(folder).join("s1.jsonl");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // A session that was silent for a day is over.
    let now = world.json(&["save", "before"])["created_at"].clone();
    let line = |id: &str, parent: Value, text: &str| {
        let message = json!({"role": "user", "content": text});
        format!(
            "{}\n",
            json!({"type": "user", "uuid": id, "parentUuid": parent, "promptId": id, "sessionId": "s1",
                "cwd": root, "timestamp": now, "message": message})
        )
    };
    std::fs::write(&path, line("u1", Value::Null, "first")).unwrap();
    world.save("first");
    let plan = world.json(&["restore", "latest", "--dry-run"]);
    assert_eq!(plan["summary"]["agents"], Value::Null, "{plan}");
    let more = std::fs::read_to_string(&path).unwrap() + &line("u2", "u1".into(), "second");
    std::fs::write(&path, more).unwrap();
    let plan = world.json(&["restore", "latest", "--dry-run"]);
    assert_eq!(plan["summary"]["agents"], "1 session set back", "{plan}");
    // And so it is.
    let done = world.json(&["restore", "latest", "--confirm"]);
    assert_eq!(done["summary"]["agents"], "1 session set back", "{done}");
}

/// A SQLite file is a database for checkpoints and a file for git. Whatever it becomes, the dirty
/// files of a checkpoint are those that `git status` lists.
#[test]
fn dirty_files_are_those_of_git_where_a_sqlite_file_changes() {
    let world = World::new();
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e"])
            .args(arguments)
            .current_dir(world.project.root())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let row = |name: &str| {
        let database = rusqlite::Connection::open(world.project.path(name)).unwrap();
        database
            .execute_batch("create table if not exists t(x); insert into t values (1)")
            .unwrap();
    };
    row("app.db");
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "one"]);
    world.save("clean");
    let step = |what: &str, dirty: &[&str]| {
        let status = git(&["status", "--short"]);
        let listed: Vec<&str> = status.lines().map(|line| &line[3..]).collect();
        assert_eq!(listed, dirty, "{what}");
        let saved = world.json_at_any_exit(&["save", what]);
        assert_eq!(saved["git"]["dirty_files"], json!(dirty), "{what}");
        let again = world.json(&["diff", "latest"]);
        assert_eq!(again["summary"], "no difference in files", "{what}");
        assert_eq!(world.json(&["status"])["unsaved"], 0, "{what}");
    };
    row("app.db");
    step("a new row", &["app.db"]);
    row("new.db");
    step("a new database", &["app.db", "new.db"]);
    world.write("new.db", "no database any more\n");
    step("a database became a file", &["app.db", "new.db"]);
    world.write("app.db", "no database either\n");
    step("the tracked one too", &["app.db", "new.db"]);
    world.remove("new.db");
    row("new.db");
    step("and a database again", &["app.db", "new.db"]);
    world.remove("app.db");
    step("the tracked one is gone", &["app.db", "new.db"]);
    world.remove("new.db");
    step("and the new one", &["app.db"]);
}

#[test]
fn paths_that_are_to_stay_stay_and_everything_else_goes_back() {
    let world = World::new();
    world.write("keep/notes.md", "then");
    world.write("a.txt", "then");
    let then = world.save("then");
    for path in ["keep/notes.md", "keep/new.md", "a.txt", "b.txt"] {
        world.write(path, "now");
    }
    world.remove("src/main.rs");
    let keep = ["--except", "keep", "--except", "src/main.rs"];
    let plan = world.json(&[&["restore", &then, "--dry-run"], &keep[..]].concat());
    let kept = plan["actions"].as_array().unwrap().iter().filter(|one| one["action"] == "skip");
    let kept: Vec<&Value> = kept.map(|one| &one["path"]).collect();
    assert!(
        ["keep/notes.md", "keep/new.md", "src/main.rs"]
            .iter()
            .all(|one| kept.contains(&&json!(one)))
    );
    let confirm = plan["confirm_with"].as_str().unwrap();
    assert!(confirm.contains("--except keep --except src/main.rs"), "{confirm}");
    assert_eq!(world.code(&[&["restore", &then, "-y"], &keep[..]].concat()), 0);
    assert_eq!(world.read("keep/notes.md") + &world.read("keep/new.md"), "nownow");
    assert_eq!(world.read("a.txt"), "then");
    assert!(!world.project.path("b.txt").exists() && !world.project.path("src/main.rs").exists());
    // It is a restore like any other: the next checkpoint goes on from there, and undo takes it back.
    assert_eq!(world.json(&["save", "next"])["parent"], then.as_str());
    assert_eq!(world.code(&["restore", &then, "--except", "nowhere"]), 3);
    assert_eq!(world.code(&["restore", &then, "--except", "a.txt", "--path", "b.txt"]), 2);
}
