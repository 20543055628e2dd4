//! Nothing that a `rappel.toml` names runs, and nothing outside the workspace is read, before the
//! user has allowed exactly that.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rappel_testing::Project;
use rusqlite::Connection;
use rustix::fs::inotify;
use serde_json::Value;
use support::World;
use support::terminal::OnTerminal;

/// What shows that something ran.
struct Canary {
    world: World,
    /// Told when a file outside the workspace is opened.
    watch: OwnedFd,
    /// How often every command was run.
    passes: Cell<u32>,
}

impl Canary {
    fn new() -> Self {
        let world = World::of(Project::new().file("a.txt", "one\n").file("src/b.txt", "b\n"));
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        Self { world, watch: inotify::init(flags).unwrap(), passes: Cell::default() }
    }

    /// The file that everything hostile makes.
    fn canary(&self) -> PathBuf {
        self.world.project.outside().join("canary")
    }

    /// A SQLite file outside the workspace, watched.
    fn outside(&self, name: &str) -> PathBuf {
        let path = self.world.project.outside().join(name);
        let rows = "CREATE TABLE t (x); INSERT INTO t VALUES (1)";
        Connection::open(&path).unwrap().execute_batch(rows).unwrap();
        inotify::add_watch(&self.watch, &path, inotify::WatchFlags::OPEN).unwrap();
        path
    }

    /// Fails if something ran, or read what it must not.
    fn assert_silent(&self, what: &str) {
        assert!(!self.canary().exists(), "{what} ran a program of rappel.toml");
        assert!(!self.was_opened(), "{what} opened a file outside the workspace");
    }

    /// Whether a file outside the workspace was opened since the last question.
    fn was_opened(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut seen = inotify::Reader::new(&self.watch, &mut buffer);
        std::iter::from_fn(|| seen.next().ok().map(drop)).count() > 0
    }

    /// Runs every command that there is; `plant` puts what is hostile in its place before each.
    fn run_every_command(&self, plant: impl Fn()) {
        let help = String::from_utf8(self.world.run(&["help", "--all"]).stdout).unwrap();
        let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
        let names: Vec<&str> = lines.map(|line| line.split([' ', ',']).next().unwrap()).collect();
        assert!(names.len() > 30, "{names:?}");
        let there = self.world.project.outside().join("there");
        let session = format!("s{}", self.passes.replace(self.passes.get() + 1));
        for name in names {
            let mut calls = CALLS.iter().filter(|(of, _)| *of == name).peekable();
            assert!(calls.peek().is_some(), "how is `rappel {name}` called? Add it to CALLS");
            for (_, words) in calls {
                let _ = std::fs::remove_dir_all(&there);
                let words = words.replace("THERE", there.to_str().unwrap());
                let words = words.replace("SESSION", &session);
                let line: Vec<&str> = std::iter::once(name).chain(words.split(' ')).collect();
                let line: Vec<&str> = line.into_iter().filter(|word| !word.is_empty()).collect();
                plant();
                let output = self.world.run(&line);
                self.assert_silent(&line.join(" "));
                // One that is called in a way that makes no sense shows nothing.
                if name != "init" {
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert_ne!(output.status.code(), Some(2), "{line:?}: {said}");
                }
            }
        }
    }
}

/// Each command as it does most.
const CALLS: &[(&str, &str)] = &[
    // No address of this machine: it ends at once.
    ("serve", "--host 203.0.113.1 --port 0"),
    ("mcp", ""),
    ("save", "hello"),
    ("save", "--trigger session-end"),
    ("run", "-- true"),
    ("list", ""),
    ("diff", "1"),
    ("diff", "1 2"),
    ("restore", "1 --dry-run"),
    ("restore", "1 --to THERE"),
    ("restore", "1 --confirm"),
    ("restore", "latest --confirm --only databases"),
    ("undo", "--confirm"),
    ("redo", "--confirm"),
    ("undo", "--confirm --overwrite"),
    ("status", ""),
    ("session", "start --session SESSION"),
    ("session", "list"),
    ("session", "pause SESSION"),
    ("session", "end SESSION"),
    ("record", "note hello --session SESSION"),
    ("recall", "--session SESSION"),
    ("report", "SESSION"),
    ("at", "now"),
    ("replay", "1 --step 1"),
    ("find", "--text hello"),
    ("timeline", ""),
    ("log", "a.txt"),
    ("bisect", "1 2 -- true"),
    ("bisect", "--abort"),
    ("export", "1 -o THERE"),
    ("export", "1..2 --redact -o THERE"),
    ("show", "latest"),
    ("cat", "1:a.txt"),
    ("checkpoint", "create"),
    ("checkpoint", "rollback 1"),
    ("init", ""),
    ("tag", "1 tag"),
    ("describe", "1 words"),
    ("pin", "1"),
    ("unpin", "1"),
    ("delete", "2 --confirm"),
    ("undelete", "2"),
    ("prune", "--keep-last 1 --confirm"),
    ("gc", "--now"),
    ("guard", "-- true"),
    ("guard", "--shell bash"),
    ("verify", ""),
    ("stats", ""),
    ("doctor", ""),
    ("recover", ""),
    ("recover", "--finish"),
    ("recover", "--rollback"),
    ("recover", "--steps"),
    ("adopt", "../nowhere"),
    ("import", "../nowhere"),
    ("trust", ""),
    ("trust", "--list"),
    ("integrate", "claude --shared"),
    ("integrate", "claude --shared --remove"),
    ("integrate", "--remove --all"),
    ("hook", "claude"),
    ("watch", "--once"),
    ("upkeep", "--clock"),
    ("completions", "bash"),
    ("help", "trust"),
];

fn script(world: &World, path: &str, text: &str) {
    world.write(path, text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(world.project.path(path), mode).unwrap();
}

/// A `[[command]]` whose scripts lie in the workspace and whose state lies outside.
fn with_scripts(world: &World) -> PathBuf {
    let state = world.project.outside().join("state");
    std::fs::write(&state, "one").unwrap();
    script(world, "scripts/dump.sh", &format!("#!/bin/sh\ncat '{}'\n", state.display()));
    script(world, "scripts/load.sh", &format!("#!/bin/sh\ncat > '{}'\n", state.display()));
    world.write(
        "rappel.toml",
        "[[command]]\nname = \"state\"\ncapture = [\"./scripts/dump.sh\"]\nrestore = [\"sh\", \"scripts/load.sh\"]\n",
    );
    state
}

fn answer(world: &World, arguments: &[&str]) -> (i32, Value) {
    let output = world.run(&[arguments, &["--json"]].concat());
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

#[test]
fn a_strangers_rappel_toml_runs_and_reads_nothing_on_any_command() {
    let canary = Canary::new();
    let world = &canary.world;
    world.save("first");
    world.write("a.txt", "two\n");
    world.save("second");
    let run = format!("touch '{}'; echo x", canary.canary().display());
    let absolute = canary.outside("absolute.db");
    canary.outside("dots.db");
    let named = canary.outside("named.db");
    let mut links = vec![("link.db".to_owned(), canary.outside("linked.db"))];
    // More links in a row than a naive reader follows.
    links.push(("chain-0.db".to_owned(), canary.outside("chained.db")));
    for n in 1..12 {
        links.push((format!("chain-{n}.db"), format!("chain-{}.db", n - 1).into()));
    }
    let command = |name: &str, line: &[&str]| {
        format!("[[command]]\nname = {name:?}\ncapture = {line:?}\nrestore = {line:?}\n")
    };
    let database =
        |name: &str, url: &str| format!("[[database]]\nname = {name:?}\nurl = {url:?}\n");
    let tools = format!("tools = {:?}\n", ["sh", "-c", &run, "sh"]);
    let text = [
        command("shell", &["sh", "-c", &run]),
        command("script", &["./dump.sh"]),
        database("server", "postgres://localhost/app") + &tools,
        database("absolute", &format!("sqlite:{}", absolute.display())),
        database("dots", "sqlite:../dots.db"),
        database("link", "sqlite:link.db"),
        database("chain", "sqlite:chain-11.db"),
        database("env", "env:STRANGE_URL"),
    ]
    .concat();
    let plant = || {
        world.write("a.txt", "three\n");
        world.write(".env", &format!("STRANGE_URL=sqlite:{}\n", named.display()));
        script(world, "dump.sh", &format!("#!/bin/sh\n{run}\n"));
        for (from, to) in &links {
            let from = world.project.path(from);
            let _ = std::fs::remove_file(&from);
            std::os::unix::fs::symlink(to, &from).unwrap();
        }
        world.write("rappel.toml", &text);
    };
    canary.run_every_command(plant);
    // Nor where a restore finds no rappel.toml and looks into the checkpoint's.
    canary.run_every_command(|| {
        plant();
        world.run(&["save", "with a rappel.toml"]);
        world.remove("rappel.toml");
    });

    // All of it would have been seen.
    plant();
    world.trust();
    world.run(&["save", "allowed"]);
    assert!(canary.canary().exists() && canary.was_opened());
}

#[test]
fn what_is_not_allowed_is_a_partial_reason_and_status_and_doctor_say_so() {
    let canary = Canary::new();
    let world = &canary.world;
    with_scripts(world);
    let (code, saved) = answer(world, &["save"]);
    assert_eq!((code, &saved["partial"]), (0, &true.into()), "{saved}");
    assert_eq!(saved["facets"]["databases"], "failed");
    let reason = saved["partial_reasons"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("state: ") && reason.contains("you have not allowed"), "{reason}");
    assert_eq!(saved["partial_reasons"][0]["database"], "state");
    assert_eq!(saved["advice"][0]["kind"], "trust", "{saved}");
    assert_eq!(answer(world, &["save", "--require-complete"]).0, 1);
    let (code, status) = answer(world, &["status"]);
    assert_eq!((code, &status["state"]), (1, &"degraded".into()));
    assert!(status["reasons"].to_string().contains("you have not allowed"), "{status}");
    assert!(status["hints"].to_string().contains("rappel trust"), "{status}");
    let (_, doctor) = answer(world, &["doctor"]);
    let checks = doctor["checks"].as_array().unwrap();
    let bad = checks.iter().find(|one| one["hint"] == "rappel trust shows it and asks");
    assert!(bad.is_some_and(|one| one["ok"] == false), "{doctor}");

    world.trust();
    assert_eq!(answer(world, &["save"]).1["partial"], false);
    assert_eq!(answer(world, &["status"]).1["state"], "protected");
}

#[test]
fn a_script_that_was_changed_after_it_was_trusted_runs_no_more() {
    let canary = Canary::new();
    let world = &canary.world;
    let state = with_scripts(world);
    world.trust();
    let first = world.save("first");
    std::fs::write(&state, "two").unwrap();
    world.write("a.txt", "two\n");
    world.save("second");

    let dump = world.read("scripts/dump.sh");
    script(world, "scripts/dump.sh", &format!("{dump}touch '{}'\n", canary.canary().display()));
    let (code, plan) = answer(world, &["restore", &first, "--confirm"]);
    assert_eq!((code, plan), (7, Value::Null), "a restore that needs it is a conflict");
    assert_eq!(
        (world.read("a.txt").as_str(), std::fs::read_to_string(&state).unwrap().as_str()),
        ("two\n", "two")
    );
    canary.assert_silent("restore --confirm");
    let (text, hostile) = (world.read("rappel.toml"), world.read("scripts/dump.sh"));
    let plant = || {
        world.write("a.txt", "three\n");
        world.write("rappel.toml", &text);
        script(world, "scripts/dump.sh", &hostile);
    };
    canary.run_every_command(plant);
    canary.run_every_command(|| {
        plant();
        world.remove("rappel.toml");
    });

    // What was allowed stays allowed when a restore brings it back.
    world.json(&["restore", &first, "--confirm", "--skip", "databases"]);
    assert_eq!(world.read("scripts/dump.sh"), dump);
    assert_eq!(world.json(&["save", "again"])["partial"], false);
    world.json(&["restore", &first, "--confirm"]);
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "one");
    canary.assert_silent("what was allowed");
}

#[test]
fn a_script_that_a_pattern_finds_counts_as_if_it_were_named() {
    let canary = Canary::new();
    let world = &canary.world;
    let all = "for one in scripts/*.sh; do sh $one; done";
    world.write(
        "rappel.toml",
        &format!("[[command]]\nname = \"state\"\ncapture = [\"sh\", \"-c\", {all:?}]\nrestore = [\"true\"]\n"),
    );
    world.write("scripts/one.sh", "echo one\n");
    world.trust();
    let saved = world.json(&["save", "one script"]);
    assert_eq!(saved["partial"], false, "{saved}");
    // Another script, and another content: both are new.
    let hostile = format!("touch '{}'\n", canary.canary().display());
    for (path, kept) in [("scripts/two.sh", None), ("scripts/one.sh", Some("echo one\n"))] {
        world.write(path, &hostile);
        let shown = answer(world, &["trust"]).1;
        assert_eq!(shown["state"], "new", "{shown}");
        assert!(shown["entries"][0]["files"].to_string().contains(path), "{shown}");
        let (_, saved) = answer(world, &["save", path]);
        assert_eq!(saved["partial"], true, "{saved}");
        canary.assert_silent(path);
        match kept {
            Some(text) => world.write(path, text),
            None => world.remove(path),
        }
    }
    assert_eq!(world.json(&["save", "as it was"])["partial"], false);
}

#[test]
fn two_versions_of_one_thing_are_told_apart() {
    let world = World::new();
    with_scripts(&world);
    let shown = |arguments: &[&str]| String::from_utf8(world.run(arguments).stdout).unwrap();
    let mut versions = Vec::new();
    for text in ["echo 1\n", "echo 2\n"] {
        script(&world, "scripts/dump.sh", text);
        let said = shown(&["trust", "--yes"]);
        let entry = world.json(&["trust"])["entries"][0]["hash"].as_str().unwrap()[..12].to_owned();
        assert!(said.contains(&format!("state  {entry}  (allowed)")), "{said}");
        versions.push(entry);
    }
    assert_ne!(versions[0], versions[1]);
    let listed = shown(&["trust", "--list"]);
    assert!(versions.iter().all(|version| listed.contains(version)), "{listed}");
}

#[test]
fn a_program_of_the_workspace_without_its_folder_is_told_how_to_be_named() {
    let world = World::new();
    script(&world, "dump.sh", "echo 1\n");
    world.write(
        "rappel.toml",
        "[[command]]\nname = \"state\"\ncapture = [\"dump.sh\"]\nrestore = [\"true\"]\n",
    );
    world.trust();
    let (_, saved) = answer(&world, &["save", "x"]);
    assert!(saved.to_string().contains("write \\\"./dump.sh\\\""), "{saved}");
}

#[test]
fn an_allowed_text_is_no_other_text_and_no_other_workspaces() {
    let canary = Canary::new();
    let world = &canary.world;
    with_scripts(world);
    world.trust();
    let text = world.read("rappel.toml");
    for other in [
        text.replace("\"sh\", ", "\"sh\", \"-x\", "),
        text.replace("./scripts", "scripts"),
        text.replace("name = \"state\"", "name = \"other\""),
    ] {
        world.write("rappel.toml", &other);
        assert_eq!(answer(world, &["trust"]).1["state"], "new", "{other}");
        assert_eq!(answer(world, &["save"]).1["partial"], true, "{other}");
    }
    // A comment or a timeout changes nothing of what runs.
    world.write("rappel.toml", &format!("# mine\n{text}timeout = \"5s\"\n"));
    assert_eq!(answer(world, &["trust"]).1["state"], "allowed");

    let copy = world.project.outside().join("copy");
    let copied =
        std::process::Command::new("cp").arg("-r").arg(world.project.root()).arg(&copy).status();
    assert!(copied.unwrap().success());
    let there = copy.to_str().unwrap();
    assert_eq!(answer(world, &["trust", "-C", there]).1["state"], "new");
    assert_eq!(answer(world, &["save", "-C", there]).1["partial"], true);
}

#[test]
fn trust_shows_everything_and_allows_it_for_good() {
    let world = World::new();
    with_scripts(&world);
    let long: String = (1..=60).fold("#!/bin/sh\n".into(), |text, n| text + &format!("echo {n}\n"));
    script(&world, "scripts/dump.sh", &long);
    assert_face!(world, "trust_unconfirmed", "trust");
    assert_json_face!(world, "trust_unconfirmed_json", "trust");
    assert_face!(world, "trust_list_empty", "trust", "--list");
    let hash = answer(&world, &["trust"]).1["hash"].clone();
    assert_face!(world, "trust_yes", "trust", "--yes");
    assert_face!(world, "trust_allowed", "trust", "-q");
    assert_face!(world, "trust_list", "trust", "--list");
    assert_eq!(answer(&world, &["trust"]).1["hash"], hash);

    // In a file that only the user can read.
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = world.home.join("trust");
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|one| one.unwrap().path()).collect();
    assert!(files.iter().any(|path| path.extension().is_some_and(|end| end == "json")));
    assert!(files.iter().all(|path| mode(path) == 0o600), "{files:?}");

    assert_face!(world, "trust_revoke", "trust", "--revoke");
    assert_eq!(answer(&world, &["trust"]).1["state"], "new");
    world.write("rappel.toml", "environment = \"development\"\n");
    assert_face!(world, "trust_nothing", "trust");
}

#[test]
fn a_hash_in_the_environment_allows_one_text() {
    let world = World::new();
    with_scripts(&world);
    let (code, shown) = answer(&world, &["trust"]);
    assert_eq!(code, 4);
    let hash = shown["hash"].as_str().unwrap();
    let printed = String::from_utf8(world.run(&["trust"]).stdout).unwrap();
    assert!(printed.contains(hash), "{printed}");
    let partial = |hash: &str| {
        let output = world.command(&["save", "--json"]).env("RAPPEL_TRUST", hash).output().unwrap();
        let saved: Value = serde_json::from_slice(&output.stdout).unwrap();
        (saved["partial"].as_bool().unwrap(), saved["partial_reasons"].to_string())
    };
    assert!(!partial(hash).0);
    let (is_partial, reason) = partial(&"0".repeat(64));
    assert!(is_partial && reason.contains(hash), "{reason}");
    script(&world, "scripts/dump.sh", "#!/bin/sh\necho other\n");
    assert!(partial(hash).0);
    assert_eq!(answer(&world, &["save"]).1["partial"], true, "it was not remembered");
}

#[test]
fn on_a_terminal_save_asks_once_and_the_no_is_remembered() {
    let world = World::new();
    let state = with_scripts(&world);
    let shown = world.on_terminal(&["save", "first"], &[("[y/N] ", "n\n")]);
    assert!(shown.text.contains("./scripts/dump.sh"), "{}", shown.text);
    assert!(shown.text.contains(&format!("cat '{}'", state.display())), "{}", shown.text);
    assert!(shown.text.contains("Refused."), "{}", shown.text);
    assert_eq!((shown.code, world.json(&["show", "1"])["partial"].clone()), (0, true.into()));
    let again = world.on_terminal(&["save", "second"], &[]);
    assert!(!again.text.contains("[y/N]"), "{}", again.text);
    assert!(again.text.contains("you have refused that"), "{}", again.text);

    let shown = world.on_terminal(&["trust"], &[("[y/N] ", "y\n")]);
    assert_eq!((shown.code, shown.text.contains("Allowed.")), (0, true), "{}", shown.text);
    let shown = world.on_terminal(&["save", "third"], &[]);
    assert!(!shown.text.contains("partial"), "{}", shown.text);
    assert_eq!(world.json(&["show", "latest"])["partial"], false);

    // Another script is another question, and a yes lets the same save go on.
    script(&world, "scripts/dump.sh", "#!/bin/sh\necho other\n");
    world.on_terminal(&["save", "fourth"], &[("[y/N] ", "y\n")]);
    assert_eq!(world.json(&["show", "latest"])["partial"], false);
    // Who leaves databases out is not asked.
    script(&world, "scripts/dump.sh", "#!/bin/sh\necho third\n");
    let shown = world.on_terminal(&["save", "fifth", "--skip", "databases"], &[]);
    assert!(!shown.text.contains("[y/N]"), "{}", shown.text);
}

#[test]
fn an_agents_shell_is_no_terminal_for_this() {
    let world = World::new();
    with_scripts(&world);
    for name in ["CLAUDECODE", "GEMINI_SESSION_ID", "CODEX_THREAD_ID", "OPENCODE_PID"] {
        for words in [&["save"][..], &["trust"]] {
            let mut command = world.command(words);
            command.env(name, "1");
            let shown = OnTerminal::start(command).watch(|_, _, _| {});
            assert!(!shown.text.contains("[y/N]"), "{name}: {}", shown.text);
            assert_eq!(shown.code, if words[0] == "save" { 0 } else { 4 }, "{}", shown.text);
        }
    }
    assert_eq!(answer(&world, &["trust"]).1["state"], "new");
}

#[test]
fn on_a_terminal_init_trusts_what_it_wrote() {
    let canary = Canary::new();
    let world = &canary.world;
    let outside = canary.outside("app.db");
    world.write(".env", &format!("DATABASE_URL=sqlite:{}\n", outside.display()));
    assert_eq!(world.run(&["init"]).status.code(), Some(0));
    assert_eq!(answer(world, &["trust"]).1["state"], "new", "nobody saw it");
    canary.assert_silent("init");

    world.remove("rappel.toml");
    let shown = world.on_terminal(&["init"], &[]);
    assert!(shown.text.contains(&format!("{}, outside", outside.display())), "{}", shown.text);
    assert_eq!(answer(world, &["trust"]).1["state"], "allowed");
    assert_eq!(world.json(&["save"])["databases"][0]["row_counts"]["t"], 1);
}

#[test]
fn a_file_of_decisions_that_cannot_be_understood_allows_nothing() {
    let world = World::new();
    with_scripts(&world);
    world.trust();
    let folder = world.home.join("trust");
    let files = std::fs::read_dir(&folder).unwrap().map(|one| one.unwrap().path());
    let file = files.into_iter().find(|path| path.extension().unwrap() == "json").unwrap();
    let whole = std::fs::read_to_string(&file).unwrap();
    for spoilt in ["", "{", &whole[..whole.len() / 2], "[]", "{\"version\": 1}"] {
        std::fs::write(&file, spoilt).unwrap();
        assert_eq!(answer(&world, &["save"]).1["partial"], true, "{spoilt:?}");
        world.trust();
        assert_eq!(answer(&world, &["save"]).1["partial"], false, "{spoilt:?}");
    }
    // A later version's is left as it is.
    let later = whole.replacen("\"version\": 1", "\"version\": 2", 1);
    assert_ne!(later, whole);
    std::fs::write(&file, &later).unwrap();
    assert_eq!(answer(&world, &["save"]).1["partial"], true);
    assert_eq!(world.run(&["trust", "--yes"]).status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), later);
}
