//! Homes with real content for the dashboard to show.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::http::Server;
use super::support::World;
use super::support::agent::Agent;

/// The longest that a home takes for one step.
const LIMIT: Duration = Duration::from_secs(60);
/// How many checkpoints the long home has at least.
pub const CHECKPOINTS: usize = 300;
/// The session that reasons.
pub const LOGIN: &str = "fix-login";
/// The run that crashes.
pub const NIGHT: &str = "night";

const PROMPTS: [&str; 10] = [
    "The login fails after every restart. Find out why, and mend it.",
    "Write a test that restarts the server between two requests.",
    "Keep the signing key in the database instead of in memory.",
    "Rename the module, the old name says nothing.",
    "The importer is slow for large files. Measure first.",
    "Read rows in batches of 500.",
    "Document the new setting in README.md.",
    "Remove the flag that nobody uses.",
    "Make the error say which file could not be read.",
    "Look at the review, and answer each comment.",
];

/// The home that the pictures show, with the server that shows it.
pub struct Demo {
    /// Its files go with it.
    _agent: Agent,
    pub server: Server,
}

/// Has events recorded, one JSON object each.
pub fn record(world: &World, session: &str, events: &[Value]) {
    let mut command = world.command(&["record", "--stdin", "--session", session]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = child.stdin.take().unwrap();
    for event in events {
        writeln!(lines, "{event}").unwrap();
    }
    drop(lines);
    let output = child.wait_with_output().unwrap();
    let answers = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !answers.contains("\"error\""), "{answers}");
}

/// What an agent finds out about a login, in parts with work in between.
pub fn reasoning() -> [Vec<Value>; 5] {
    [
        vec![
            json!({"kind": "prompt", "text": PROMPTS[0]}),
            json!({"kind": "progress", "step": 1, "text": "reproduce it"}),
            json!({"kind": "tokens", "input": 4200, "output": 310, "cache_read": 18_000}),
            json!({"kind": "thought", "text": "A restart logs everyone out. What does not survive it?"}),
            json!({"kind": "tool", "tool": "Bash", "input": {"command": "cargo test login"},
                "error": "test login_survives_a_restart ... FAILED\nassertion failed: 401 == 200"}),
            json!({"kind": "hypothesis", "id": "h1", "confidence": 0.4,
                "text": "The key that signs cookies is made anew at each start"}),
            json!({"kind": "hypothesis", "id": "h2", "confidence": 0.5,
                "text": "The clock of the container is wrong"}),
            json!({"kind": "gap", "id": "g1", "text": "Where is the key made?"}),
        ],
        vec![
            json!({"kind": "belief", "id": "b1", "confidence": 0.95, "text": "Every cookie is signed"}),
            json!({"kind": "belief", "id": "b2", "confidence": 0.7, "text": "The key lives in memory only"}),
            json!({"kind": "belief", "id": "b3", "confidence": 0.8, "text": "A restart makes a new key"}),
            json!({"kind": "belief", "id": "b4", "confidence": 0.65, "text": "Old cookies stay valid"}),
            json!({"kind": "belief", "id": "b2", "depends_on": "b1", "as": "supports"}),
            json!({"kind": "belief", "id": "b3", "depends_on": "b2", "as": "requires"}),
            json!({"kind": "belief", "id": "b4", "depends_on": "b3", "as": "contradicts"}),
            json!({"kind": "evidence", "for": "h2", "refutes": true, "weight": 0.9,
                "text": "date says the same inside and outside"}),
            json!({"kind": "hypothesis", "id": "h2", "confidence": 0.1, "status": "rejected",
                "reason": "the clocks agree"}),
            json!({"kind": "progress", "step": 2, "text": "look for the key"}),
        ],
        vec![
            json!({"kind": "tokens", "input": 6100, "output": 820, "cache_read": 24_000}),
            json!({"kind": "command", "command": "grep -rn 'SigningKey::generate' src", "exit_code": 0,
                "stdout": "src/session.rs:14: let key = SigningKey::generate();"}),
            json!({"kind": "gap", "id": "g1", "filled": "src/session.rs, in start()"}),
            json!({"kind": "gap", "text": "Who else reads the key?"}),
            json!({"kind": "evidence", "for": "h1", "supports": true, "weight": 0.8,
                "text": "start() makes a new key each time"}),
            json!({"kind": "hypothesis", "id": "h1", "confidence": 0.75, "status": "testing"}),
            json!({"kind": "thought", "confidence": 0.8,
                "text": "If the key were kept in the database, old cookies would stay valid."}),
        ],
        vec![
            json!({"kind": "prompt", "text": PROMPTS[1]}),
            json!({"kind": "progress", "step": 3, "text": "write the test"}),
            json!({"kind": "tool", "tool": "Edit", "input": {"file_path": "tests/login.rs"}, "output": "ok"}),
            json!({"kind": "verification", "failed": true, "for": "h1", "text": "cargo test login",
                "output": "1 passed; 1 failed"}),
            json!({"kind": "note", "text": "The staging server has the same fault."}),
        ],
        vec![
            json!({"kind": "prompt", "text": PROMPTS[2]}),
            json!({"kind": "progress", "step": 4, "text": "keep the key"}),
            json!({"kind": "tool", "tool": "Edit", "input": {"file_path": "src/session.rs"}, "output": "ok"}),
            json!({"kind": "tokens", "input": 3900, "output": 1150, "cache_read": 31_000}),
            json!({"kind": "verification", "passed": true, "for": "h1", "text": "cargo test login",
                "output": "2 passed; 0 failed"}),
            json!({"kind": "hypothesis", "id": "h1", "confidence": 0.97, "status": "confirmed"}),
            json!({"kind": "note", "text": "Rotate the key once a year."}),
        ],
    ]
}

/// A database of SQLite with two tables; `rows` users.
pub fn database(world: &World, rows: usize) {
    std::fs::create_dir_all(world.project.path("data")).unwrap();
    let connection = Connection::open(world.project.path("data/app.db")).unwrap();
    let tables = "CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT);
         CREATE TABLE IF NOT EXISTS keys (id INTEGER PRIMARY KEY, made TEXT);
         DELETE FROM users;";
    connection.execute_batch(tables).unwrap();
    for row in 0..rows {
        let name = format!("user {row}");
        connection.execute("INSERT INTO users (name) VALUES (?1)", [name]).unwrap();
    }
}

/// Starts a run of a script, which has to print a line, and gives it once the line is there.
pub fn begin(world: &World, session: &str, script: &str) -> Child {
    world.write("import-all", &format!("#!/bin/sh\n{script}\n"));
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(world.project.path("import-all"), mode).unwrap();
    let words = ["run", "--session", session, "--interval", "100ms", "--", "./import-all"];
    let mut run = world.command(&words).stdin(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "the run does not begin");
    run
}

/// A run that is killed while a tool call runs. Its command ends too.
pub fn crashed_run(world: &World) {
    let mut run = begin(world, NIGHT, "echo begun; echo one > import.log; read line");
    record(
        world,
        NIGHT,
        &[
            json!({"kind": "prompt", "text": "Import all files of last year over night."}),
            json!({"kind": "progress", "step": 1, "text": "read the index"}),
            json!({"kind": "tokens", "input": 5000, "output": 400}),
            json!({"kind": "tool", "tool": "Bash", "input": {"command": "make check"}, "output": "ok"}),
            json!({"kind": "prompt", "text": "Go on with the files that have no date."}),
            json!({"kind": "tool", "tool": "Bash", "input": {"command": "make check"},
                "error": "make: *** [check] Error 2"}),
            json!({"kind": "progress", "step": 2, "text": "import"}),
            json!({"kind": "tokens", "input": 9000, "output": 700}),
            json!({"kind": "tool", "tool": "Bash", "started": true,
                "input": {"command": "./import --all 2025"}}),
        ],
    );
    // Some checkpoints of the interval, each with the memory of that moment.
    let begun = Instant::now();
    let mut written = 0;
    let made = || {
        let found = world.json(&["list", "100", "--all", "--session", NIGHT]);
        found["checkpoints"].as_array().unwrap().len()
    };
    while made() < 4 {
        assert!(begun.elapsed() < LIMIT, "the run makes no checkpoints");
        written += 1;
        world.write("import.log", &"another file\n".repeat(written));
    }
    let input = run.stdin.take();
    run.kill().unwrap();
    run.wait().unwrap();
    drop(input);
    let begun = Instant::now();
    while world.json(&["recover"])["sessions"][0]["still_running"] != Value::Null {
        assert!(begun.elapsed() < LIMIT, "the command does not end");
    }
}

/// The long home: a recorded session of Claude Code, two sessions with hundreds of checkpoints, a
/// fork, a database, and a run that crashed.
pub fn build() -> Demo {
    let agent = Agent::new();
    agent.play("tour");
    agent.rest();
    let world = &agent.world;
    world.write("README.md", "# Shop\n\nA small shop.\n");
    world.write("src/login.rs", "pub fn login() -> bool {\n    false\n}\n");
    database(world, 3);
    agent.git(&["add", "."]);
    agent.git(&["commit", "-q", "-m", "Begin the shop"]);
    let start = |id: &str, provider: &str, task: &str| {
        let words = ["session", "start", "--session", id, "--provider", provider, "--task", task];
        world.json(&words);
    };
    start(LOGIN, "codex", "Make the login survive a restart");
    start("importer", "gemini", "Make the importer quick");
    let server = Server::start(world);
    let mut parts = reasoning().into_iter();
    let mut fork = None;
    for number in 0..CHECKPOINTS {
        if number % 60 == 5 {
            record(world, LOGIN, &parts.next().unwrap());
        }
        let session = if number / 30 % 2 == 0 { LOGIN } else { "importer" };
        let part = number % 7;
        let body = "    let batch = rows.next_batch(500)?;\n".repeat(number % 5 + 1);
        let text = format!("// Revision {number}.\nfn part_{part}() {{\n{body}}}\n");
        world.write(&format!("src/part_{part}.rs"), &text);
        if number % 50 == 20 {
            database(world, number / 10);
        }
        let body = match number {
            _ if number % 10 == 0 => {
                let prompt = PROMPTS[number / 10 % PROMPTS.len()];
                json!({"message": prompt, "trigger": "prompt", "session": session})
            }
            _ if number % 40 == 39 => json!({"message": "All tests pass", "tags": ["green"]}),
            _ => json!({"trigger": "code-modified", "session": session, "tags": ["auto"]}),
        };
        let made = server.post("/api/checkpoints", &body);
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        if number == CHECKPOINTS - 1 {
            fork = made.json()["id"].as_str().map(str::to_owned);
        }
    }
    // One way, and another from the same point.
    for text in ["Read in batches of 2,000", "Batches of 2,000 need too much memory"] {
        world.write("src/batch.rs", &format!("// {text}.\n"));
        world.save(text);
    }
    let back = world.run(&["restore", &fork.unwrap(), "--confirm", "--skip", "agents"]);
    assert!(back.status.success(), "{back:?}");
    for text in ["Read with one query instead", "The query is quicker"] {
        world.write("src/query.rs", &format!("// {text}.\n"));
        world.save(text);
    }
    world.json(&["tag", "latest", "release"]);
    world.json(&["session", "end", "importer"]);
    crashed_run(world);
    // Unsaved work.
    world.write("src/login.rs", "pub fn login() -> bool {\n    true\n}\n");
    Demo { _agent: agent, server }
}
