//! `rappel mcp`, as an agent's program talks to it: JSON-RPC on stdin and stdout.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use support::World;
use support::agent::{Agent, SESSION};

/// A client, and the server that it started.
struct Client {
    server: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: u64,
    /// What the client answers when it is asked for its folders.
    roots: Vec<String>,
    /// Where it keeps such questions, if it does not answer them at once.
    unanswered: Option<Vec<Value>>,
}

impl Client {
    /// Starts a server in the world's project, and shakes hands.
    fn new(world: &World) -> Self {
        Self::with(world, &[], Vec::new())
    }

    fn with(world: &World, environment: &[(&str, &str)], roots: Vec<String>) -> Self {
        let mut client = Self::unready(world, environment, roots);
        let answer = client.initialize("2025-11-25");
        assert_eq!(answer["protocolVersion"], "2025-11-25");
        assert_eq!(answer["serverInfo"]["name"], "rappel");
        client
    }

    fn unready(world: &World, environment: &[(&str, &str)], roots: Vec<String>) -> Self {
        let mut command = world.command(&["mcp"]);
        command.stdin(Stdio::piped()).envs(environment.iter().copied());
        let mut server = command.spawn().unwrap();
        let (to, from) = (server.stdin.take(), BufReader::new(server.stdout.take().unwrap()));
        Self { server, to, from, next: 0, roots, unanswered: None }
    }

    fn initialize(&mut self, version: &str) -> Value {
        let capabilities = match self.roots.is_empty() {
            true => json!({}),
            false => json!({"roots": {"listChanged": true}}),
        };
        let answer = self.ask(
            "initialize",
            json!({"protocolVersion": version, "capabilities": capabilities,
                "clientInfo": {"name": "tester", "version": "1"}}),
        );
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer["result"].clone()
    }

    fn send(&mut self, message: &Value) {
        let to = self.to.as_mut().unwrap();
        writeln!(to, "{message}").unwrap();
        to.flush().unwrap();
    }

    /// The next message of the server; what it asks of us is answered on the way.
    fn receive(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the server hung up");
            let message: Value = serde_json::from_str(&line).unwrap();
            match (&mut self.unanswered, message["method"] == "roots/list") {
                (_, false) => return message,
                (Some(unanswered), true) => unanswered.push(message["id"].clone()),
                (None, true) => self.name_roots(&message["id"]),
            }
        }
    }

    fn name_roots(&mut self, question: &Value) {
        let roots: Vec<Value> = self.roots.iter().map(|uri| json!({"uri": uri})).collect();
        let result = json!({"roots": roots});
        self.send(&json!({"jsonrpc": "2.0", "id": question, "result": result}));
    }

    #[allow(clippy::needless_pass_by_value, reason = "calls read better with json!(…)")]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Calls a tool; the answer is held against the schema that the server gave for it.
    #[allow(clippy::needless_pass_by_value, reason = "calls read better with json!(…)")]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = answer["result"].clone();
        assert!(result.is_object(), "{answer}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.chars().count() <= 8_000, "{tool}");
        if result["isError"] != true {
            let tools = self.ask("tools/list", json!({}))["result"]["tools"].clone();
            let tools = tools.as_array().unwrap();
            let found = tools.iter().find(|one| one["name"] == tool).unwrap();
            let schema = &found["outputSchema"];
            let validator = jsonschema::validator_for(schema).unwrap();
            let problems: Vec<String> = validator
                .iter_errors(&result["structuredContent"])
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert_eq!(problems, [""; 0], "{tool}");
        }
        result
    }

    /// The same, for a call that has to succeed: its structured answer and its text.
    fn does(&mut self, tool: &str, arguments: Value) -> (Value, String) {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result:#}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        (result["structuredContent"].clone(), text)
    }

    /// Hangs up; the server ends by itself.
    fn hang_up(mut self) {
        drop(self.to.take());
        assert!(self.server.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn an_agent_saves_breaks_plans_confirms_and_takes_it_back() {
    let world = World::new();
    let mut client = Client::new(&world);
    let (saved, text) = client.does("save", json!({"message": "it works", "tags": ["green"]}));
    assert!(text.contains("it works"), "{text}");
    let id = saved["id"].as_str().unwrap();
    world.write("a.txt", "broken\n");
    world.remove("src/main.rs");
    let (diff, text) = client.does("diff", json!({}));
    assert_eq!(diff["files"]["modified"], json!(["a.txt"]));
    assert!(text.contains("-three") && text.contains("+broken"), "{text}");
    let (plan, text) = client.does("restore", json!({"checkpoint": "latest"}));
    assert_eq!(plan["dry_run"], true);
    assert_eq!(world.read("a.txt"), "broken\n", "a plan changes nothing");
    let hash = plan["plan"].as_str().unwrap();
    assert!(text.contains(hash), "{text}");
    let (done, text) = client.does("restore", json!({"checkpoint": id, "plan": hash}));
    assert_eq!(done["dry_run"], false);
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(world.read("src/main.rs"), "fn main() {}\n");
    assert_eq!(done["read_again"], json!(["a.txt", "src/main.rs"]));
    assert!(text.contains("read these again") && text.contains("  a.txt"), "{text}");
    let (undone, _) = client.does("undo", json!({}));
    assert_eq!(undone["dry_run"], false);
    assert_eq!(world.read("a.txt"), "broken\n");
    client.hang_up();
}

/// What was seen is what is done.
#[test]
fn a_plan_that_is_no_longer_true_is_refused() {
    let world = World::new();
    let mut client = Client::new(&world);
    client.does("save", json!({}));
    world.write("a.txt", "broken\n");
    let (plan, _) = client.does("restore", json!({"checkpoint": "latest"}));
    world.write("b.txt", "came in between\n");
    let arguments = json!({"checkpoint": "latest", "plan": plan["plan"]});
    let refused = client.call("restore", arguments);
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["error"]["kind"], "conflict");
    assert_eq!(world.read("a.txt"), "broken\n");
    assert_eq!(world.read("b.txt"), "came in between\n");
    let refused = client.call("restore", json!({"checkpoint": "latest", "plan": "yes"}));
    assert_eq!(refused["isError"], true);
    assert_eq!(world.read("a.txt"), "broken\n");
}

#[test]
fn every_tool_says_what_it_does_to_the_world() {
    let world = World::new();
    let mut client = Client::new(&world);
    let tools = client.ask("tools/list", json!({}))["result"]["tools"].clone();
    let tools = tools.as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "save", "list", "show", "diff", "restore", "undo", "at", "recall", "find", "report",
            "record", "export"
        ]
    );
    for tool in tools {
        let (name, notes) = (&tool["name"], &tool["annotations"]);
        let changes = ["restore", "undo"].contains(&name.as_str().unwrap());
        let adds = ["save", "record", "export"].contains(&name.as_str().unwrap());
        assert_eq!(notes["readOnlyHint"], !changes && !adds, "{name}");
        assert_eq!(notes["destructiveHint"], changes, "{name}");
        assert!(tool["description"].as_str().unwrap().len() > 100, "{name}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        assert!(jsonschema::meta::is_valid(&tool["inputSchema"]), "{name}");
        for (field, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{name}: {field}");
        }
    }
}

/// Without hooks and without a session that the environment names, one begins with the first record
/// and ends with the server.
#[test]
fn what_is_recorded_can_be_recalled_by_the_next_conversation() {
    let world = World::new();
    let mut client = Client::new(&world);
    let (recorded, text) = client.does(
        "record",
        json!({"kind": "hypothesis", "text": "the cache is stale", "confidence": 0.6}),
    );
    let hypothesis = recorded["id"].as_str().unwrap();
    assert!(text.contains(hypothesis), "{text}");
    client.does(
        "record",
        json!({"kind": "evidence", "text": "cold runs pass", "for": hypothesis, "supports": true}),
    );
    client.does(
        "record",
        json!({"kind": "hypothesis", "id": hypothesis, "status": "rejected", "reason": "it is new"}),
    );
    client.does("record", json!({"kind": "note", "text": "look at the index"}));
    client.does("record", json!({"kind": "gap", "text": "who writes it?"}));
    client.does("save", json!({"message": "with knowledge"}));
    let (brief, text) = client.does("recall", json!({}));
    assert_eq!(brief["ruled_out"][0]["text"], "the cache is stale");
    assert!(text.contains("the cache is stale") && text.contains("who writes it?"), "{text}");
    let (at, _) = client.does("at", json!({"when": "now"}));
    assert_eq!(at["state"]["notes"][0]["text"], "look at the index");
    let (found, _) = client.does("find", json!({"text": "STALE"}));
    assert!(found["events_total"].as_u64().unwrap() > 0);
    client.does("report", json!({}));
    client.does("show", json!({"files": true, "state": true}));
    let session = recorded["session"].as_str().unwrap().to_owned();
    client.hang_up();
    let sessions = world.json(&["session", "list"])["sessions"].clone();
    assert_eq!(sessions[0]["id"], session.as_str());
    assert_eq!(sessions[0]["status"], "completed");
    assert_eq!(sessions[0]["provider"], "tester");
    let mut client = Client::new(&world);
    let prompt = client.ask("prompts/get", json!({"name": "recover"}));
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("the cache is stale") && text.len() < 8_000, "{text}");
}

/// An agent that names no session: its hooks noted its process, which started the server.
#[test]
fn calls_belong_to_the_session_of_the_agent_that_started_the_server() {
    let agent = Agent::new();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let mut client = Client::new(&agent.world);
    client.does("save", json!({"message": "before"}));
    let arguments = json!({"kind": "hypothesis", "text": "the cache is stale"});
    let (recorded, _) = client.does("record", arguments);
    assert_eq!(recorded["session"], format!("claude:{SESSION}"));

    // What the agent recorded is why it goes back: it stays.
    agent.world.write("src/main.rs", "fn main() { broken }\n");
    let (plan, _) = client.does("restore", json!({"checkpoint": "latest"}));
    let again = json!({"checkpoint": plan["checkpoint"], "plan": plan["plan"]});
    let (done, text) = client.does("restore", again);
    assert_eq!(done["answer"], text, "some clients show their model nothing else");
    assert!(text.contains("with everything that you recorded"), "{text}");
    let (_, brief) = client.does("recall", json!({}));
    assert!(brief.contains("the cache is stale"), "{brief}");
}

/// A restore never ends the session that asks for it.
#[test]
fn a_restore_leaves_the_callers_session_running() {
    let world = World::new();
    let own = world.json(&["session", "start", "--task", "mend it"])["id"].clone();
    let own = own.as_str().unwrap();
    let mut client = Client::with(&world, &[("RAPPEL_SESSION", own)], Vec::new());
    client.does("save", json!({}));
    world.write("a.txt", "broken\n");
    let (recorded, _) = client.does("record", json!({"kind": "note", "text": "hm"}));
    assert_eq!(recorded["session"], own);
    let (plan, _) = client.does("restore", json!({"checkpoint": "latest"}));
    client.does("restore", json!({"checkpoint": "latest", "plan": plan["plan"]}));
    assert_eq!(world.json(&["session", "show", own])["session"]["status"], "running");
    client.does("record", json!({"kind": "note", "text": "still here"}));
    client.hang_up();
    assert_eq!(world.json(&["session", "show", own])["session"]["status"], "running");
}

#[test]
fn a_client_that_is_late_with_its_folders_has_them_at_its_next_call() {
    let (started_in, works_in) = (World::new(), World::new());
    let uri = format!("file://{}", works_in.project.root().display());
    let mut client = Client::with(&started_in, &[], vec![uri]);
    client.unanswered = Some(Vec::new());
    let save = json!({"name": "save", "arguments": {"message": "here"}});
    // Nothing is done in a folder that the client may not mean.
    let late = client.ask("tools/call", save.clone());
    assert!(late["error"]["message"].as_str().unwrap().contains("call again"), "{late}");
    let question = client.unanswered.as_mut().unwrap().remove(0);
    client.name_roots(&question);
    let saved = client.ask("tools/call", save)["result"].clone();
    assert_ne!(saved["isError"], true, "{saved}");
    let root = works_in.project.root().canonicalize().unwrap();
    assert_eq!(saved["structuredContent"]["workspace"]["root"], root.to_str().unwrap());
}

#[test]
fn the_workspace_is_the_clients_first_root() {
    let world = World::new();
    let other = world.project.outside().join("other place");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("only-here.txt"), "x").unwrap();
    let uri = format!("file://{}", other.display()).replace(' ', "%20");
    let roots = vec!["https://example.org/x".to_owned(), uri];
    let mut client = Client::with(&world, &[], roots);
    client.does("save", json!({"message": "there"}));
    let (shown, text) = client.does("show", json!({"files": true}));
    assert_eq!(shown["workspace"]["name"], "other place");
    assert!(text.contains("only-here.txt"), "{text}");
    assert_eq!(world.json(&["list"])["total"], 0);
    // A folder that the user named counts more than what the client calls its roots.
    drop(client);
}

#[test]
fn mistakes_are_answered_and_the_server_goes_on() {
    let world = World::new();
    let mut client = Client::new(&world);
    let none = client.call("show", json!({"checkpoint": "latest"}));
    assert_eq!(none["isError"], true);
    let text = none["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("`save`"), "the advice names a tool: {text}");
    for (tool, arguments) in [
        ("show", json!({"checkpoint": 7})),
        ("show", json!({"invented": true})),
        ("restore", json!({})),
        ("restore", json!({"checkpoint": "latest", "paths": ["../outside"]})),
        ("restore", json!({"checkpoint": "latest", "paths": ["/etc/passwd"]})),
        ("list", json!({"limit": 0})),
        ("list", json!({"since": "whenever"})),
        ("find", json!({})),
        ("record", json!({"kind": "rumour"})),
        ("record", json!({"kind": "evidence", "text": "x", "for": "h1"})),
        ("export", json!({"format": "tar"})),
    ] {
        let refused = client.call(tool, arguments.clone());
        assert_eq!(refused["isError"], true, "{tool} {arguments}");
    }
    let unknown = client.ask("tools/call", json!({"name": "format_disk", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("format_disk"));
    let unknown = client.ask("prompts/get", json!({"name": "other"}));
    assert!(unknown["error"].is_object());
    client.does("save", json!({}));
}

/// Claude asks for `server/discover` first; an answer or an error is enough.
#[test]
fn a_client_may_discover_before_it_shakes_hands() {
    let world = World::new();
    let mut client = Client::unready(&world, &[], Vec::new());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.325"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let answer = client.ask("server/discover", json!({"_meta": meta}));
    assert!(answer["error"].is_object() || answer["result"].is_object());
    let answer = client.ask("server/discover", json!({}));
    assert!(answer["error"].is_object());
    assert_eq!(client.initialize("2025-06-18")["protocolVersion"], "2025-06-18");
    client.does("save", json!({}));
}

#[test]
fn long_answers_are_cut_and_name_the_rest() {
    let world = World::new();
    for number in 0..600 {
        world.write(&format!("many/file-with-a-long-name-{number}.txt"), "x\n");
    }
    let mut client = Client::new(&world);
    client.does("save", json!({}));
    let (shown, text) = client.does("show", json!({"files": true}));
    assert_eq!(shown["entries"].as_array().unwrap().len(), 200);
    assert!(shown["cut"]["/entries"].as_u64().unwrap() > 600);
    assert!(text.contains("The rest: `rappel show chk_"), "{text}");
}

#[test]
fn two_agents_at_once_are_as_safe_as_two_processes() {
    let world = World::new();
    let (mut one, mut other) = (Client::new(&world), Client::new(&world));
    for round in 0..5 {
        world.write("a.txt", &format!("{round}\n"));
        one.does("save", json!({"message": format!("one {round}")}));
        world.write("a.txt", &format!("{round} again\n"));
        other.does("save", json!({"message": format!("other {round}")}));
        assert_eq!(
            one.does("list", json!({})).0["total"],
            other.does("list", json!({})).0["total"]
        );
    }
    assert_eq!(world.json(&["list"])["total"], 10);
}
