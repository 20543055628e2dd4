//! What people's fingers know from other tools: flags, references, paths, typos.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::fmt::Write as _;
use std::process::Output;

use support::World;

/// Three checkpoints, and edits since the last.
fn three() -> World {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "one\n2\nthree\n");
    world.save("second");
    world.write("docs/notes.md", "# More notes\n");
    world.save("third");
    world.write("src/main.rs", "fn main() { run() }\n");
    world.write("a.txt", "one\n2\n3\n");
    world
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The exit code and what was said about it.
fn refused(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

#[test]
fn a_message_may_follow_m() {
    let world = World::new();
    let saved = world.json(&["save", "-m", "Before adding Stripe"]);
    assert_eq!(saved["description"], "Before adding Stripe");
    let saved = world.json(&["save", "--message", "Title", "-m", "Body"]);
    assert_eq!(saved["description"], "Title\n\nBody");
    let (code, said) = refused(&world.run(&["save", "-m", "Before", "adding"]));
    assert_eq!(code, 2);
    assert!(said.contains("in quotes"), "{said}");
}

#[test]
fn a_limit_may_follow_n_in_every_list() {
    let world = three();
    for list in [&["list"][..], &["timeline"], &["log", "a.txt"], &["find", "--path", "a.txt"]] {
        let one = world.json(&[list, &["-n", "1"]].concat());
        let count = |key: &str| one[key].as_array().map(Vec::len);
        assert_eq!(count("checkpoints").or(count("changes")), Some(1), "{list:?}");
    }
    assert_eq!(refused(&world.run(&["list", "-n", "0"])).0, 2);
    assert_eq!(refused(&world.run(&["list", "3", "-n", "1"])).0, 2);
}

#[test]
fn yes_is_confirm() {
    let world = three();
    assert!(world.run(&["restore", "latest", "--yes"]).status.success());
    assert_eq!(world.read("a.txt"), "one\n2\nthree\n");
    assert!(world.run(&["undo", "--yes"]).status.success());
    assert_eq!(world.read("a.txt"), "one\n2\n3\n");
    assert!(world.run(&["redo", "--yes"]).status.success());
    assert!(world.run(&["delete", "1", "--yes"]).status.success());
    assert!(world.run(&["gc", "--now", "--yes"]).status.success());
}

#[test]
fn diff_and_show_mean_the_latest_unless_told() {
    let world = three();
    assert_eq!(world.json(&["show"])["description"], "third");
    let diff = world.json(&["diff"]);
    assert_eq!(diff["from"], world.json(&["show", "latest"])["id"]);
    assert_eq!(diff["files"]["modified"], serde_json::json!(["a.txt", "src/main.rs"]));
    let text = stdout(&world.run(&["diff", "--stat"]));
    assert!(text.contains("src/main.rs"), "{text}");
}

#[test]
fn restore_and_log_explain_themselves_without_an_argument() {
    let world = three();
    let (code, said) = refused(&world.run(&["restore"]));
    assert_eq!(code, 2);
    let latest = world.json(&["show"])["id"].as_str().unwrap().to_owned();
    assert!(said.contains("rappel restore latest") && said.contains(&latest), "{said}");
    assert!(said.contains("\"third\"") && said.contains("rappel list"), "{said}");
    let (code, said) = refused(&world.run(&["log"]));
    assert_eq!(code, 2);
    assert!(said.contains("rappel log src/main.rs"), "{said}");
    assert_eq!(World::new().run(&["restore"]).status.code(), Some(2));
}

#[test]
fn a_caret_is_the_parent() {
    let world = three();
    for (reference, message) in [
        ("latest^", "second"),
        ("latest^^", "first"),
        ("latest^~1", "first"),
        ("3^", "second"),
        ("@{now}^", "second"),
    ] {
        assert_eq!(world.json(&["show", reference])["description"], message, "{reference}");
    }
    assert_eq!(refused(&world.run(&["show", "latest^2"])).0, 2);
}

#[test]
fn two_dots_are_both_ends_of_a_diff() {
    let world = three();
    let of = |arguments: &[&str]| world.json(arguments)["files"].clone();
    assert_eq!(of(&["diff", "1..2"]), of(&["diff", "1", "2"]));
    assert_eq!(of(&["diff", "latest^..latest"])["modified"], serde_json::json!(["docs/notes.md"]));
    assert_eq!(of(&["diff", "2.."]), of(&["diff", "2"]));
    assert_eq!(of(&["diff", "..1"]), of(&["diff", "latest", "1"]));
    assert_eq!(refused(&world.run(&["diff", "1..2", "3"])).0, 2);
    // Only the id of an imported checkpoint could look like this.
    assert_eq!(refused(&world.run(&["diff", "1...2"])).0, 3);
}

#[test]
fn paths_are_plain_arguments_after_two_dashes() {
    let world = three();
    // What follows the dashes is a path, flags included.
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = world.run(&[&["--json"], arguments].concat());
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    let modified = |arguments: &[&str]| json(arguments)["files"]["modified"].clone();
    assert_eq!(modified(&["diff", "--", "src"]), serde_json::json!(["src/main.rs"]));
    assert_eq!(modified(&["diff", "1", "--", "docs", "a.txt"]).as_array().unwrap().len(), 2);
    let listed = json(&["list", "--", "docs"]);
    assert_eq!(listed["checkpoints"].as_array().unwrap().len(), 2);
    assert_eq!(json(&["find", "--", "docs"])["total"], 2);
    assert_eq!(json(&["log", "--", "a.txt"])["total"], 2);
    assert!(world.run(&["restore", "latest", "--yes", "--", "a.txt"]).status.success());
    assert_eq!(world.read("a.txt"), "one\n2\nthree\n");
    assert_eq!(world.read("src/main.rs"), "fn main() { run() }\n");
    // What has to be confirmed is confirmed with the same paths.
    let (code, said) = refused(&world.run(&["restore", "1", "--", "src", "a.txt"]));
    assert_eq!(code, 4);
    assert!(said.contains("--confirm --path src --path a.txt"), "{said}");
}

#[test]
fn a_path_without_the_dashes_is_told_where_it_belongs() {
    let world = three();
    for (arguments, hint) in [
        (&["diff", "src/main.rs"][..], "rappel diff -- src/main.rs"),
        (&["diff", "latest", "docs/notes.md"], "rappel diff -- docs/notes.md"),
        (&["diff", "src"], "rappel diff -- src"),
        (&["restore", "latest", "a.txt"], "rappel restore latest -- a.txt"),
        (&["restore", "src"], "rappel restore latest -- src"),
    ] {
        let (code, said) = refused(&world.run(arguments));
        assert!((code == 2 || code == 3) && said.contains(hint), "{arguments:?}: {said}");
    }
}

#[test]
fn name_only_prints_paths_and_nothing_else() {
    let world = three();
    world.write("new.txt", "new\n");
    world.remove("docs/notes.md");
    let names = stdout(&world.run(&["diff", "--name-only"]));
    assert_eq!(names, "a.txt\ndocs/notes.md\nnew.txt\nsrc/main.rs\n");
    assert_eq!(stdout(&world.run(&["diff", "1..2", "--name-only"])), "a.txt\n");
}

#[test]
fn tags_are_taken_away_again() {
    let world = three();
    world.json(&["tag", "1", "green,release"]);
    let tagged = world.json(&["tag", "1", "reviewed", "--remove", "green"]);
    assert_eq!(tagged["tags"], serde_json::json!(["release", "reviewed"]));
    let (code, said) = refused(&world.run(&["tag", "1", "--remove", "relese"]));
    assert_eq!(code, 3);
    assert!(said.contains("did you mean release?"), "{said}");
    assert_eq!(world.json(&["show", "1"])["tags"].as_array().unwrap().len(), 2);
    let described = world.json(&["tag", "1", "--meta", "step=3"]);
    assert_eq!(described["metadata"]["step"], 3);
    assert_eq!(refused(&world.run(&["tag", "1"])).0, 2);
}

#[test]
fn a_renamed_file_is_shown_as_one() {
    let world = World::new();
    let lines = (0..40).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "line {line}");
        text
    });
    world.write("src/old.rs", &lines);
    world.write("same.txt", "the same\n");
    world.write("gone.txt", "nothing like it\n");
    world.save("before");
    world.remove("src/old.rs");
    world.write("lib/new.rs", &lines.replace("line 7\n", "line seven\n"));
    world.remove("same.txt");
    world.write("docs/same.txt", "the same\n");
    world.remove("gone.txt");
    world.write("other.txt", "altogether different\n");
    for arguments in [&["diff"][..], &["diff", "1..2"]] {
        let files = &world.json(arguments)["files"];
        assert_eq!(
            files["renamed"],
            serde_json::json!([
                {"from": "same.txt", "to": "docs/same.txt", "similarity": 100},
                {"from": "src/old.rs", "to": "lib/new.rs", "similarity": 96},
            ])
        );
        // Programs that know nothing of renames miss nothing.
        assert_eq!(files["added"], serde_json::json!(["docs/same.txt", "lib/new.rs", "other.txt"]));
        assert_eq!(files["deleted"], serde_json::json!(["gone.txt", "same.txt", "src/old.rs"]));
        let stat = stdout(&world.run(&[arguments, &["--stat"]].concat()));
        assert!(stat.contains("3 new, 3 deleted (2 renamed)"), "{stat}");
        assert!(stat.contains("renamed  same.txt => docs/same.txt\n"), "{stat}");
        assert!(stat.contains("renamed  src/old.rs => lib/new.rs   +1 -1\n"), "{stat}");
        assert_eq!(stat.matches("same.txt").count(), 2, "{stat}");
        let text = stdout(&world.run(arguments));
        assert!(text.contains("src/old.rs renamed to lib/new.rs\n"), "{text}");
        assert!(text.contains("--- a/src/old.rs\n+++ b/lib/new.rs\n"), "{text}");
        assert!(text.contains("-line 7\n+line seven\n"), "{text}");
        assert!(!text.contains("line 30"), "{text}");
        let names = stdout(&world.run(&[arguments, &["--name-only"]].concat()));
        assert_eq!(names, "docs/same.txt\ngone.txt\nlib/new.rs\nother.txt\n");
        world.save("after");
    }
}

#[test]
fn renames_go_to_the_same_name_first_and_empty_files_are_no_evidence() {
    let world = World::new();
    world.write("a/one.txt", "twin\n");
    world.write("a/two.txt", "twin\n");
    world.write("a/empty", "");
    world.save("before");
    for name in ["one.txt", "two.txt", "empty"] {
        world.remove(&format!("a/{name}"));
    }
    world.write("b/two.txt", "twin\n");
    world.write("b/zero.txt", "twin\n");
    world.write("b/empty", "");
    let renamed = &world.json(&["diff"])["files"]["renamed"];
    let pairs: Vec<_> = renamed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["from"].as_str().unwrap(), one["to"].as_str().unwrap()))
        .collect();
    assert_eq!(pairs, [("a/two.txt", "b/two.txt"), ("a/one.txt", "b/zero.txt")]);
}

#[test]
fn with_many_files_only_equal_content_is_looked_for() {
    let world = World::new();
    let text = |number: usize| format!("{number}\nthe\nsame\nlines\nin\nall\nof\nthem\n");
    for number in 0..202 {
        world.write(&format!("old/{number}.txt"), &text(number));
    }
    world.save("before");
    for number in 0..202 {
        world.remove(&format!("old/{number}.txt"));
        world.write(&format!("new/{number}.txt"), &text(number + 1_000));
    }
    assert_eq!(world.json(&["diff"])["files"]["renamed"], serde_json::json!([]));
    world.write("new/7.txt", &text(7));
    let renamed = &world.json(&["diff"])["files"]["renamed"];
    assert_eq!(renamed.as_array().unwrap().len(), 1, "{renamed}");
    assert_eq!(renamed[0]["from"], "old/7.txt");
    // With fewer, lines are compared.
    for number in 150..202 {
        world.remove(&format!("new/{number}.txt"));
    }
    world.json(&["save", "fewer"]);
    let fewer = world.json(&["diff", "1..2", "--path", "old/1.txt", "--path", "new/1.txt"]);
    assert_eq!(fewer["files"]["renamed"][0]["to"], "new/1.txt");
}

#[test]
fn cat_takes_a_path_from_the_present_folder() {
    let world = World::new();
    world.write("rappel.toml", "");
    world.save("first");
    world.write("src/main.rs", "changed\n");
    let within = |folder: &str, place: &str| {
        let mut command = world.command(&["cat", place]);
        command.current_dir(world.project.path(folder)).output().unwrap()
    };
    assert_eq!(stdout(&within("src", "latest:./main.rs")), "fn main() {}\n");
    assert_eq!(stdout(&within("src", "latest:../a.txt")), "one\ntwo\nthree\n");
    assert_eq!(stdout(&within("src", "latest:src/main.rs")), "fn main() {}\n");
    assert_eq!(refused(&within("src", "latest:../../a.txt")).0, 2);
    assert_eq!(refused(&within("src", "latest:./a.txt")).0, 3);
    assert_eq!(refused(&within(".", "latest:./")).0, 2);
}

#[test]
fn cat_gives_a_database_of_sqlite_as_a_file() {
    let world = World::new();
    let path = world.project.path("data/app.db");
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let live = rusqlite::Connection::open(&path).unwrap();
    live.execute_batch(
        "PRAGMA journal_mode = wal; CREATE TABLE t (v); INSERT INTO t VALUES ('then');",
    )
    .unwrap();
    world.save("with a row");
    live.execute_batch("DELETE FROM t").unwrap();
    let output = world.run(&["cat", "latest:data/app.db"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let copy = world.project.outside().join("copy.db");
    std::fs::write(&copy, &output.stdout).unwrap();
    let copy = rusqlite::Connection::open(&copy).unwrap();
    let value: String = copy.query_row("SELECT v FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(value, "then");
    let json = world.json(&["cat", "latest:data/app.db"]);
    assert_eq!(json["bytes"], output.stdout.len());
}

#[test]
fn typos_get_the_nearest_command() {
    let world = World::new();
    for (arguments, meant) in [
        (&["sav"][..], "did you mean `rappel save`?"),
        (&["lsit"], "did you mean `rappel list`?"),
        (&["stauts"], "did you mean `rappel status`?"),
        (&["help", "retsore"], "did you mean `rappel restore`?"),
        (&["session", "strat"], "did you mean `rappel session start`?"),
        (&["help", "session", "strat"], "did you mean `rappel session start`?"),
        (&["record", "hypotesis", "x"], "did you mean `rappel record hypothesis`?"),
        (&["checkpoint", "creat"], "did you mean `rappel checkpoint create`?"),
        (&["cp", "creat"], "did you mean `rappel checkpoint create`?"),
    ] {
        let (code, said) = refused(&world.run(arguments));
        assert!(code == 2 && said.contains(meant), "{arguments:?}: {said}");
    }
    let (code, said) = refused(&world.run(&["xyzzy"]));
    assert!(code == 2 && said.contains("hint: rappel help\n"), "{said}");
}

#[test]
fn typos_get_the_nearest_tag() {
    let world = three();
    world.json(&["tag", "1", "release"]);
    let (code, said) = refused(&world.run(&["restore", "relaese"]));
    assert_eq!(code, 3);
    assert!(said.contains("did you mean the tag release?"), "{said}");
    for list in ["list", "find"] {
        let said = stdout(&world.run(&[list, "--tag", "relaese"]));
        assert!(said.contains("Did you mean --tag release?"), "{list}: {said}");
    }
    world.run(&["session", "start", "--session", "s1"]);
    world.json(&["tag", "latest", "known-good"]);
    let (code, said) = refused(&world.run(&["at", "--tag", "known-goods"]));
    assert_eq!(code, 3);
    assert!(said.contains("did you mean known-good?"), "{said}");
}

#[test]
fn a_message_for_a_reference_names_its_checkpoint() {
    let world = World::new();
    let id = world.save("Before adding Stripe");
    world.write("a.txt", "changed\n");
    world.save("later");
    for words in ["Before adding Stripe", "before adding stripe", "adding Stripe", "stripe"] {
        let (code, said) = refused(&world.run(&["restore", words]));
        assert_eq!(code, 3, "{words}: {said}");
        assert!(said.contains("that is a message") && said.contains(&id), "{words}: {said}");
    }
    let (code, said) = refused(&world.run(&["show", "no such words"]));
    assert_eq!(code, 3);
    assert!(said.contains("rappel list"), "{said}");
}

#[test]
fn a_dry_run_off_a_terminal_lists_everything() {
    let world = World::new();
    world.save("before");
    for number in 0..30 {
        world.write(&format!("new/{number:02}.txt"), "new\n");
    }
    let plan = stdout(&world.run(&["restore", "latest", "--dry-run"]));
    for number in 0..30 {
        assert!(plan.contains(&format!("- new/{number:02}.txt\n")), "{plan}");
    }
    assert!(!plan.contains("more"), "{plan}");
    let shown = world.on_terminal(&["restore", "latest", "--dry-run"], &[]);
    assert!(shown.text.contains("… and 20 more"), "{}", shown.text);
}

#[test]
fn the_words_are_explained_in_a_sentence_each() {
    let world = World::new();
    let text = stdout(&world.run(&["help", "concepts"]));
    for word in ["checkpoint", "facet", "workspace", "home", "reference"] {
        let line = text.lines().find(|line| line.starts_with(word));
        assert!(line.is_some_and(|line| line.len() > word.len() + 20), "{word}: {text}");
    }
    assert!(stdout(&world.run(&["help"])).contains("rappel help concepts"));
}

#[test]
fn a_git_at_work_is_told_apart_from_a_busy_store() {
    let world = World::new();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.current_dir(world.project.root()).env("GIT_CONFIG_GLOBAL", "/dev/null");
        assert!(command.args(arguments).status().unwrap().success());
    };
    git(&["init", "-q"]);
    world.save("before");
    world.write("a.txt", "changed\n");
    world.write(".git/index.lock", "");
    let (code, said) = refused(&world.run(&["restore", "latest", "--yes"]));
    assert_eq!(code, 5);
    assert!(said.contains("git's index is locked") && said.contains(".git/index.lock"), "{said}");
    assert!(!said.contains("store") && said.contains("delete that file"), "{said}");
    assert_eq!(world.read("a.txt"), "changed\n");
}

/// Runs it where a process may open only so many files.
fn with_open_files(world: &World, limit: u32, arguments: &[&str]) -> Output {
    let rappel = world.command(arguments);
    let mut shell = std::process::Command::new("sh");
    let script = format!("ulimit -n {limit}; exec \"$@\"");
    shell.args(["-c", &script, "sh"]).arg(rappel.get_program()).args(arguments);
    shell.env_clear().envs(rappel.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(world.project.root()).stdin(std::process::Stdio::null()).output().unwrap()
}

#[test]
fn sixty_folders_need_few_open_files() {
    let world = World::new();
    let names: Vec<String> = (0..60).map(|number| format!("folder-{number}/file.txt")).collect();
    for name in &names {
        world.write(name, "before\n");
    }
    stdout(&with_open_files(&world, 64, &["save", "before"]));
    for name in &names {
        world.write(name, "after\n");
    }
    stdout(&with_open_files(&world, 64, &["restore", "latest", "--yes"]));
    assert!(names.iter().all(|name| world.read(name) == "before\n"));
    stdout(&with_open_files(&world, 32, &["undo"]));
    assert!(names.iter().all(|name| world.read(name) == "after\n"));
    // Where nothing helps, it says what would.
    let output = with_open_files(&world, 8, &["restore", "latest", "--yes"]);
    let (code, said) = refused(&output);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("Too many open files") && said.contains("ulimit -n"), "{said}");
    assert!(names.iter().all(|name| world.read(name) == "after\n"));
}

/// `latest` passes over safety checkpoints; steps back follow the parents that were recorded, and
/// after an undo a safety checkpoint is one.
#[test]
fn steps_back_follow_the_recorded_parents_across_safety_checkpoints() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "second");
    let second = world.save("second");
    world.write("a.txt", "unsaved");
    let restored = world.json(&["restore", &first, "--yes"]);
    let safety = restored["safety_checkpoint"].as_str().unwrap().to_owned();
    let id = |reference: &str| world.json(&["show", reference])["id"].clone();
    assert_eq!(id("latest"), second.as_str(), "not the safety checkpoint");
    assert_eq!(id("latest^"), first.as_str());

    // After a restore the work goes on from what was restored.
    world.write("a.txt", "third");
    let third = world.save("third");
    assert_eq!(world.json(&["show", &third])["parent"], first.as_str());
    assert_eq!(id("latest^"), first.as_str());
    assert_eq!(id(&format!("{safety}^")), second.as_str());

    // After an undo it goes on from the safety checkpoint, which holds what was there.
    assert_eq!(refused(&world.run(&["restore", &second, "--yes"])).0, 0);
    assert_eq!(refused(&world.run(&["undo"])).0, 0);
    world.write("a.txt", "fourth");
    let fourth = world.save("fourth");
    for (reference, of) in
        [("latest^", fourth.clone()), ("latest~2", id("latest^").as_str().unwrap().to_owned())]
    {
        assert_eq!(id(reference), world.json(&["show", &of])["parent"], "{reference}");
    }
    assert_eq!(world.json(&["show", "latest^"])["trigger"], "pre-restore");
}

#[test]
fn a_message_repeats_a_time_as_the_user_wrote_it() {
    let world = three();
    for written in ["10 years ago", "1h30m ago", "2019-01-02", "2019-01-02 14:30"] {
        let (code, said) = refused(&world.run(&["show", &format!("@{{{written}}}")]));
        let named = format!("no checkpoint \"@{{{written}}}\" in this workspace");
        assert_eq!((code, said.contains(&named)), (3, true), "{said}");
    }
}
