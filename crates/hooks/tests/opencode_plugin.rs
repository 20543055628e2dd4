//! The plugin's promises, with the script run by `node`: it never throws but to keep a prompt from
//! the model, it waits for a bounded time, and what Rappel answers gets to its place.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rappel_hooks::caller::{Caller, Program};
use rappel_hooks::opencode::plugin;
use rappel_hooks::scope::Scope;
use serde_json::{Value, json};

/// A folder with the plugin, and a program in Rappel's place.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// `program` is what the shell script in Rappel's place does; `$1` is a file to note payloads in.
    fn new(program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rappel");
        let told = folder.path().join("told");
        let script = format!("#!/bin/sh\nTOLD={}\n{program}\n", told.display());
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let place = Self { folder };
        place.write(&path.display().to_string());
        place
    }

    fn write(&self, program: &str) {
        let caller = Caller::new(Program::At(program.into()), None).unwrap();
        let text = plugin::text(&caller, Scope::Local);
        // Waiting is shorter here, so that the test is.
        let text =
            text.replace("125000", "1500").replace("= 7000", "= 1500").replace("= 3000", "= 300");
        std::fs::write(self.folder.path().join("rappel.mjs"), text).unwrap();
    }

    /// Plays hooks one after the other, as opencode calls them. `mode` is how it was started.
    fn play(&self, mode: &str, steps: &Value) -> Option<Vec<Value>> {
        self.play_with(mode, &std::env::temp_dir(), steps)
    }

    /// The same, with that folder for files that soon go again.
    fn play_with(&self, mode: &str, temporary: &Path, steps: &Value) -> Option<Vec<Value>> {
        let drive =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/opencode/drive.mjs");
        let mut node = Command::new("node");
        node.arg(drive)
            .arg(self.folder.path().join("rappel.mjs"))
            .arg(self.folder.path())
            .arg(mode)
            .env("TMPDIR", temporary);
        node.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut child) = node.spawn() else {
            rappel_testing::cannot_run("there is no node");
            return None;
        };
        child.stdin.take().unwrap().write_all(steps.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let text = String::from_utf8(output.stdout).unwrap();
        Some(text.lines().map(|line| serde_json::from_str(line).unwrap_or(json!(line))).collect())
    }

    fn told(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("told")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

const NOTE: &str = "cat >> $TOLD; echo >> $TOLD";

fn bash(session: &str) -> [Value; 2] {
    let input = json!({"tool": "bash", "sessionID": session, "callID": "c1"});
    let after =
        json!({"tool": "bash", "sessionID": session, "callID": "c1", "args": {"command": "ls"}});
    [
        json!(["tool.execute.before", input, {"args": {"command": "ls"}}]),
        json!(["tool.execute.after", after, {"output": "done", "metadata": {"exit": 0}}]),
    ]
}

fn message(text: &str) -> Value {
    let part = json!({"id": "prt_1ee8636d7001vjnlqbyCBvjy7x", "type": "text", "text": text});
    json!(["chat.message", {"sessionID": "ses_main"},
        {"message": {"id": "msg_1", "sessionID": "ses_main"}, "parts": [part]}])
}

fn all_hooks() -> Value {
    let [before, after] = bash("ses_main");
    json!([
        ["event", {"event": {"type": "session.created", "properties": {"info": {"id": "ses_main"}}}}],
        message("hello"), before, after,
        ["experimental.session.compacting", {"sessionID": "ses_main"}, {"context": []}],
        ["event", {"event": {"type": "session.compacted", "properties": {"sessionID": "ses_main"}}}],
        ["experimental.chat.system.transform", {"sessionID": "ses_main"}, {"system": ["be good"]}],
        ["command.execute.before", {"command": "rappel/undo", "sessionID": "ses_main", "arguments": ""}, {"parts": []}],
        ["shell.env", {"sessionID": "ses_main", "cwd": "/"}, {"env": {}}],
        ["event", {"event": {"type": "session.idle", "properties": {"sessionID": "ses_main"}}}],
        ["event", {"event": {"type": "session.deleted", "properties": {"info": {"id": "ses_main"}}}}],
        ["event", {"event": {"type": "whatever"}}],
        ["event", {}],
        ["chat.message", null, null],
        ["tool.execute.before", {}, null],
        ["dispose"]
    ])
}

#[test]
fn a_program_that_is_missing_or_fails_is_passed_over() {
    let place = Place::new("exit 1");
    for program in
        ["/nowhere/rappel", "/dev/null", place.folder.path().join("rappel").to_str().unwrap()]
    {
        place.write(program);
        let Some(lines) = place.play("tui", &all_hooks()) else { return };
        assert_eq!(lines.len(), 16, "{lines:#?}");
        assert!(lines.iter().all(|line| line["thrown"].is_null()), "{program}: {lines:#?}");
    }
    // Told, and once, is what cannot be started.
    place.write("/nowhere/rappel");
    let toasts = |lines: &[Value]| -> Vec<Value> {
        let asked = lines.iter().filter_map(|line| line["asked"].as_array()).flatten();
        asked.filter(|it| it[0] == "tui.showToast").map(|it| it[1]["body"].clone()).collect()
    };
    let told = toasts(&place.play("tui", &all_hooks()).unwrap());
    let [toast] = &told[..] else { panic!("{told:#?}") };
    let message = toast["message"].as_str().unwrap();
    assert!(message.contains("not at /nowhere/rappel"), "{message}");
    assert!(message.contains("`rappel integrate opencode`") && message.contains("rappel.mjs"));
    assert_eq!(toast["variant"], "warning");
    assert_eq!(toasts(&place.play("run", &all_hooks()).unwrap()), [] as [Value; 0]);
    place.write("/dev/null");
    let told = toasts(&place.play("tui", &all_hooks()).unwrap());
    let [toast] = &told[..] else { panic!("{told:#?}") };
    let message = toast["message"].as_str().unwrap();
    assert!(message.contains("cannot be started") && message.contains("EACCES"), "{message}");
    place.write(place.folder.path().join("rappel").to_str().unwrap());
    assert_eq!(toasts(&place.play("tui", &all_hooks()).unwrap()), [] as [Value; 0]);
    for words in ["echo no JSON at all", "echo '[1]'", "echo null", "head -c 3000000 /dev/zero"] {
        let place = Place::new(&format!("cat > /dev/null; {words}"));
        let lines = place.play("tui", &all_hooks()).unwrap();
        assert!(lines.iter().all(|line| line["thrown"].is_null()), "{words}: {lines:#?}");
    }
}

#[test]
fn a_program_that_does_not_end_is_not_waited_for() {
    // It ends with the test's folder.
    let place = Place::new("cat > /dev/null; while [ -d \"${TOLD%/*}\" ]; do sleep 0.1; done");
    let [before, after] = bash("ses_main");
    // Without a limit this would not come back.
    let Some(lines) = place.play("tui", &json!([before, after])) else { return };
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["thrown"].is_null()), "{lines:#?}");
}

#[test]
fn events_are_told_with_their_session() {
    let place = Place::new(NOTE);
    let [before, after] = bash("ses_child");
    let read = json!({"tool": "read", "sessionID": "ses_main", "callID": "c0"});
    let steps = json!([
        ["event", {"event": {"type": "session.created", "properties": {"info": {"id": "ses_main"}}}}],
        message("hello"),
        ["tool.execute.before", read, {"args": {}}],
        ["tool.execute.after", read, {"output": "x"}],
        before, after,
        ["event", {"event": {"type": "session.idle", "properties": {"sessionID": "ses_child"}}}],
        ["event", {"event": {"type": "session.idle", "properties": {"sessionID": "ses_main"}}}],
        ["dispose"]
    ]);
    if place.play("tui", &steps).is_none() {
        return;
    }
    let told = place.told();
    let short: Vec<String> = told
        .iter()
        .map(|it| {
            let subagent = it["subagent"].as_str().unwrap_or("-");
            format!(
                "{} {} {subagent}",
                it["event"].as_str().unwrap(),
                it["session"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        short,
        [
            "event.session.created ses_main -",
            "chat.message ses_main -",
            "tool.execute.before ses_main ses_child",
            "tool.execute.after ses_main ses_child",
            "event.session.idle ses_main ses_child",
            "event.session.idle ses_main -",
            "rappel.disposed ses_main -",
        ]
    );
    assert_eq!(told[2]["agent"], "general");
    assert_eq!(told[2]["output"]["args"]["command"], "ls");
    // Every payload is one that Rappel understands.
    for payload in &told {
        (plugin_event(payload)).unwrap();
    }
}

#[test]
fn a_prompt_that_is_typed_while_opencode_works_begins_when_it_is_turned_to() {
    let place = Place::new(NOTE);
    let event = |kind: &str, properties: Value| json!(["event", {"event": {"type": kind, "properties": properties}}]);
    let busy = json!({"sessionID": "ses_main", "status": {"type": "busy"}});
    let turned =
        json!({"info": {"role": "assistant", "sessionID": "ses_main", "parentID": "msg_1"}});
    let [before, after] = bash("ses_main");
    let [later, _] = bash("ses_main");
    let steps = json!([
        event("session.status", busy.clone()),
        message("and then this"),
        before,
        after,
        event("message.updated", turned),
        later,
        // One that nobody turns to is told when the work ends; one for Rappel at once.
        message("and that"),
        message("rappel list"),
        event("session.idle", json!({"sessionID": "ses_main"})),
    ]);
    if place.play("tui", &steps).is_none() {
        return;
    }
    let told = place.told();
    let short: Vec<String> = told
        .iter()
        .filter(|it| it["event"] != "rappel.resumed")
        .map(|it| {
            let text = it["output"]["parts"][0]["text"].as_str().unwrap_or_default();
            format!("{} {text}", it["event"].as_str().unwrap()).trim_end().to_owned()
        })
        .collect();
    assert_eq!(
        short,
        [
            "tool.execute.before",
            "tool.execute.after",
            "chat.message and then this",
            "tool.execute.before",
            "chat.message rappel list",
            "chat.message and that",
            "event.session.idle",
        ]
    );
}

#[test]
fn a_temporary_folder_that_cannot_be_used_stops_no_event() {
    let long = message(&"long ".repeat(100_000));
    let [before, after] = bash("ses_main");
    let steps = json!([long, before, after]);
    let told = |temporary: &Path| -> Option<Vec<Value>> {
        let place = Place::new(NOTE);
        place.play_with("tui", temporary, &steps)?;
        let told = place.told();
        Some(told.iter().map(|one| json!([one["event"], one["output"]])).collect())
    };
    let usable = tempfile::tempdir().unwrap();
    let Some(expected) = told(usable.path()) else { return };
    assert_eq!(expected.len(), 4, "{expected:#?}");
    assert_eq!(std::fs::read_dir(usable.path()).unwrap().count(), 0);
    assert_eq!(told(Path::new("/nowhere/at/all")).unwrap(), expected);
}

#[test]
fn a_run_is_known_behind_the_flags_of_opencode() {
    let place = Place::new(NOTE);
    let runs = |mode: &str| -> Option<bool> {
        let _ = std::fs::remove_file(place.folder.path().join("told"));
        place.play(mode, &json!([message("\"rappel list\"")]))?;
        Some(place.told().iter().all(|one| one["run"] == true))
    };
    if runs("run").is_none() {
        return;
    }
    for words in [
        "--log-level DEBUG run x",
        "--print-logs --log-level=DEBUG run x",
        "-m a/b --pure run x",
        "--session ses_1 -c run x",
    ] {
        assert_eq!(runs(words), Some(true), "{words}");
    }
    for words in ["project run", "--prompt run", "--continue project run", "--log-level run"] {
        assert_eq!(runs(words), Some(false), "{words}");
    }
}

#[test]
fn what_the_user_should_know_is_shown_at_every_event_that_brings_it() {
    let place = Place::new("cat > /dev/null; echo '{\"notice\": \"NEWS\"}'");
    let failed = json!({"part": {"type": "tool", "tool": "bash", "callID": "c1",
        "sessionID": "ses_main", "state": {"status": "error", "error": "x", "input": {}}}});
    let [before, _] = bash("ses_main");
    let steps = json!([
        ["event", {"event": {"type": "session.created", "properties": {"info": {"id": "ses_main"}}}}],
        message("hello"),
        ["command.execute.before", {"command": "rappel/undo", "sessionID": "ses_main", "arguments": ""}, {"parts": []}],
        before,
        ["event", {"event": {"type": "message.part.updated", "properties": failed}}],
        ["experimental.session.compacting", {"sessionID": "ses_main"}, {"context": []}],
        ["event", {"event": {"type": "session.compacted", "properties": {"sessionID": "ses_main"}}}],
        ["experimental.chat.system.transform", {"sessionID": "ses_main"}, {"system": []}],
        ["event", {"event": {"type": "session.idle", "properties": {"sessionID": "ses_main"}}}],
    ]);
    let Some(lines) = place.play("tui", &steps) else { return };
    let shown = |line: &Value| {
        let asked = line["asked"].as_array().unwrap().iter();
        asked.filter(|it| it[1]["body"]["message"] == "NEWS").count()
    };
    let shown: Vec<usize> = lines.iter().map(shown).collect();
    // A compaction is not waited for: its notice comes before the model's next turn.
    assert_eq!(shown, [1, 1, 1, 1, 1, 1, 0, 1, 1], "{lines:#?}");
}

fn plugin_event(payload: &Value) -> Result<rappel::hook::Event, rappel_hooks::PayloadError> {
    (rappel_hooks::opencode::VENDOR.event)(payload.to_string().as_bytes(), None)
}

#[test]
fn what_the_model_should_know_gets_to_it() {
    let place = Place::new("cat > /dev/null; echo '{\"context\": \"TRUTH\"}'");
    let [before, after] = bash("ses_main");
    let steps = json!([
        message("hello"), before, after,
        ["event", {"event": {"type": "session.compacted", "properties": {"sessionID": "ses_main"}}}],
        ["experimental.chat.system.transform", {"sessionID": "ses_main"}, {"system": ["be good"]}],
        ["experimental.chat.system.transform", {"sessionID": "ses_other"}, {"system": ["be good"]}],
        ["shell.env", {"sessionID": "ses_main", "cwd": "/"}, {"env": {}}],
    ]);
    let Some(lines) = place.play("tui", &steps) else { return };
    let parts = lines[0]["output"]["parts"].as_array().unwrap();
    // The session was not begun here, so two events told something.
    assert_eq!(parts[0]["text"], "TRUTH\n\nTRUTH");
    assert_eq!((&parts[0]["synthetic"], &parts[0]["messageID"]), (&json!(true), &json!("msg_1")));
    assert_eq!(parts[1]["text"], "hello");
    let (first, second) = (parts[0]["id"].as_str().unwrap(), parts[1]["id"].as_str().unwrap());
    assert!(second > first && second.len() == first.len(), "{second}");
    assert_eq!(lines[2]["output"]["output"], "done\n\nTRUTH\n\nTRUTH");
    assert_eq!(lines[4]["output"]["system"], json!(["be good", "TRUTH"]));
    assert_eq!(lines[5]["output"]["system"], json!(["be good"]));
    assert_eq!(lines[6]["output"]["env"][plugin::SESSION], "ses_main");
}

#[test]
fn an_answered_prompt_is_shown_and_kept_from_the_model() {
    let place = Place::new(r#"cat > /dev/null; printf '%s' '{"reply": "two\nlines"}'"#);
    let command = json!(["command.execute.before", {"command": "rappel/list", "sessionID": "ses_main", "arguments": "5"}, {}]);
    let other = json!(["command.execute.before", {"command": "review", "sessionID": "ses_main", "arguments": ""}, {}]);
    let steps = json!([message("rappel list"), command, other]);
    let Some(lines) = place.play("tui", &steps) else { return };
    for line in &lines[..2] {
        assert!(line["thrown"].as_str().unwrap().contains("Rappel answered"), "{line:#}");
        let asked = line["asked"].as_array().unwrap();
        let shown = asked.iter().find(|it| it[0] == "session.prompt").unwrap();
        let part = json!({"type": "text", "text": "two\nlines", "ignored": true});
        assert_eq!(shown[1]["body"], json!({"noReply": true, "parts": [part]}));
        assert!(asked.iter().any(|it| it[0] == "tui.showToast"));
    }
    assert!(lines[2]["thrown"].is_null());
    // What it shows comes back as a message of its own, and is not answered again.
    let own = json!(["chat.message", {"sessionID": "ses_main"}, {"message": {"id": "m"},
        "parts": [{"type": "text", "text": "two", "ignored": true}]}]);
    assert!(place.play("tui", &json!([own])).unwrap()[0]["thrown"].is_null());
    // `opencode run` prints the answer and ends.
    let printed = place.play("run", &json!([message("rappel list"), other])).unwrap();
    assert_eq!(printed, [json!("two"), json!("lines")]);
}
