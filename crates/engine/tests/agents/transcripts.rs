//! Transcripts of agents: their bytes are in checkpoints and come back, and what they tell is in the journals.
#![allow(clippy::needless_pass_by_value, reason = "lines are written on the spot")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rappel::types::agents::{Body, NewEvent, SessionId, SessionState, SessionStatus, payload};
use rappel::{
    ListFilter, OpenOptions, Rappel, RecoverOptions, RestoreOptions, RestoreReport, SaveOptions,
    SessionStart, Surroundings,
};
use rappel_store::disk::Op;
use rappel_store::record::Kind;
use rappel_testing::records::records;
use rappel_testing::{Fault, FaultDisk, Loss, Project};
use serde_json::{Value, json};

use crate::support::{World, reference};

const SESSION: &str = "7f3c1d52-0a4e-4b7e-9a55-3f2d8c1b0e01";

/// A project, and a user's home with transcripts of it.
struct Agents {
    world: World,
    user: tempfile::TempDir,
}

impl Agents {
    fn new() -> Self {
        let world = World::new(Project::new().file("a", "a"));
        Self { world, user: tempfile::tempdir().unwrap() }
    }

    fn options(&self) -> OpenOptions {
        let agents = Some(Surroundings::of(self.user.path()));
        OpenOptions { agents, ..self.world.options() }
    }

    fn open(&self) -> Rappel {
        Rappel::open(self.options()).unwrap()
    }

    fn save(&self) -> rappel::Checkpoint {
        let saved = self.open().save(&SaveOptions::default()).unwrap();
        assert!(saved.notes.is_empty(), "{:?}", saved.notes);
        saved.checkpoint
    }

    /// The clock shows a minute after the last line of the conversation.
    fn still_at_work(&self) {
        self.world.clock.advance(-9 * 60 * 1000);
    }

    /// Saves a minute later, and returns the id.
    fn save_later(&self) -> String {
        self.world.clock.advance(61_000);
        self.save().manifest.id.to_string()
    }

    fn restore(&self, id: &str) -> RestoreReport {
        self.world.clock.advance(1000);
        self.open().restore(&reference(id), &RestoreOptions::default()).unwrap()
    }

    fn undo(&self) -> RestoreReport {
        let rappel = self.open();
        let step = rappel.next_undo().unwrap();
        rappel.step(&step, false, &RestoreOptions::default()).unwrap()
    }

    fn folder(&self) -> PathBuf {
        let root = self.world.project.root().canonicalize().unwrap();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = root.to_str().unwrap().chars().map(plain).collect();
        self.user.path().join(".claude/projects").join(name)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn write(&self, name: &str, lines: &[Value]) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text(lines)).unwrap();
        path
    }

    /// A line of a session that worked here; `at` is seconds after half past two.
    fn line(&self, number: u32, at: u32, kind: &str, message: Value) -> Value {
        let root = self.world.project.root().canonicalize().unwrap();
        let parent = (number > 0).then(|| format!("u{}", number - 1));
        json!({
            "parentUuid": parent, "uuid": format!("u{number}"), "isSidechain": false,
            "cwd": root.to_str().unwrap(), "sessionId": SESSION, "type": kind,
            "timestamp": format!("2026-11-15T14:{:02}:{:02}.000Z", 20 + at / 60, at % 60),
            "message": message,
        })
    }

    fn prompt(&self, number: u32, at: u32, said: &str) -> Value {
        self.line(number, at, "user", json!({"role": "user", "content": said}))
    }

    fn answer(&self, number: u32, at: u32, content: Value) -> Value {
        let usage = json!({"input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": 5});
        let id = format!("msg_{number}");
        let message = json!({"id": id, "model": "m", "content": [content], "usage": usage});
        self.line(number, at, "assistant", message)
    }

    fn result(&self, number: u32, at: u32, call: &str, said: &str) -> Value {
        let block = json!({"type": "tool_result", "tool_use_id": call, "content": said});
        self.line(number, at, "user", json!({"role": "user", "content": [block]}))
    }

    /// A prompt, a thought, a call and its result.
    fn conversation(&self) -> Vec<Value> {
        vec![
            self.prompt(0, 0, "Why does the basket lose items?"),
            self.answer(1, 1, json!({"type": "thinking", "thinking": "Maybe the cookie expires."})),
            self.answer(2, 2, call("toolu_1", "cargo test")),
            self.result(3, 3, "toolu_1", "2 passed"),
        ]
    }

    fn state(&self, session: &str) -> SessionState {
        self.open().state_now(&id(session), u64::MAX).unwrap().state
    }

    fn events(&self, session: &str) -> u64 {
        self.open().session(&id(session)).unwrap().events
    }
}

fn call(id: &str, command: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}})
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn id(session: &str) -> SessionId {
    session.parse().unwrap()
}

fn own() -> String {
    format!("claude:{SESSION}")
}

fn file() -> String {
    format!("{SESSION}.jsonl")
}

#[test]
fn what_a_transcript_tells_is_in_the_journal_of_a_session_that_nobody_began() {
    let agents = Agents::new();
    agents.write(&file(), &agents.conversation());
    let saved = agents.save().manifest;
    let part = saved.agents.unwrap();
    assert!(part.transcripts.is_some());
    assert_eq!(part.sessions.len(), 1);
    assert_eq!((part.sessions[0].id.as_str(), part.active_count), (own().as_str(), 1));

    let state = agents.state(&own());
    assert!(state.from_transcript);
    assert_eq!(state.provider.as_deref(), Some("claude"));
    assert_eq!(state.assistant_session_id.as_deref(), Some(SESSION));
    assert_eq!(state.started_at, Some("2026-11-15T14:20:00Z".parse().unwrap()));
    assert_eq!(state.task.as_deref(), Some("Why does the basket lose items?"));
    assert_eq!(state.thought_chain.iter().next().unwrap().content, "Maybe the cookie expires.");
    let done = state.tool_state.done.iter().next().unwrap();
    assert_eq!((done.id.as_str(), done.tool.as_str()), ("toolu_1", "Bash"));
    assert_eq!((&done.result, done.success), (&json!("2 passed"), Some(true)));
    assert_eq!(done.started_at, "2026-11-15T14:20:02Z".parse().unwrap());
    assert_eq!(state.progress.tokens.output, 14);
    assert_eq!(state.ignored, 0);
    let all = ListFilter { all: true, ..ListFilter::default() };
    assert_eq!(agents.open().list(&all).unwrap().total, 1, "what is read makes no checkpoints");
}

#[test]
fn only_what_is_new_is_added() {
    let agents = Agents::new();
    let mut lines = agents.conversation();
    agents.write(&file(), &lines);
    let first = agents.save();
    let events = agents.events(&own());
    let again = agents.save();
    assert!(!again.created, "nothing changed");
    assert_eq!(again.manifest.id, first.manifest.id);
    agents.save_later();
    assert_eq!(agents.events(&own()), events);

    std::fs::remove_dir_all(agents.world.home.path().join("cache")).unwrap();
    agents.save_later();
    assert_eq!(agents.events(&own()), events, "what the journal has is known without the cache");

    lines.push(agents.answer(4, 4, json!({"type": "text", "text": "It does not."})));
    agents.write(&file(), &lines);
    let grown = agents.save();
    assert!(grown.created);
    assert_ne!(
        grown.manifest.agents.unwrap().transcripts,
        first.manifest.agents.unwrap().transcripts
    );
    let state = agents.state(&own());
    assert_eq!(state.thought_chain.len(), 2);
    let said = state.thought_chain.iter().next_back().unwrap().clone();
    assert_eq!((said.kind.as_str(), said.content.as_str()), ("text", "It does not."));
    assert_eq!(said.parent.as_deref(), Some("t-u1"));
    // The thought, its tokens, and how far the transcript was read.
    assert_eq!(agents.events(&own()), events + 3);
}

#[test]
fn secrets_are_kept_out_of_the_journal_and_stay_in_the_bytes() {
    let agents = Agents::new();
    let secret = "ghp_0123456789abcdefghijABCDEF0123456789";
    let lines = [
        agents.prompt(0, 0, &format!("use {secret}")),
        agents.answer(1, 1, call("toolu_1", &format!("curl -H 'Authorization: {secret}'"))),
        agents.result(2, 2, "toolu_1", &format!("token {secret}")),
    ];
    let path = agents.write(&file(), &lines);
    let saved = agents.save().manifest.id.to_string();
    let state = format!("{:?}", agents.state(&own()));
    assert!(!state.contains(secret), "{state}");
    assert!(state.contains("redacted"), "{state}");
    std::fs::remove_file(&path).unwrap();
    agents.restore(&saved);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text(&lines));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_gone_or_cut_comes_back_and_what_grew_is_left_alone() {
    let agents = Agents::new();
    let lines = agents.conversation();
    let gone = agents.write("gone.jsonl", &lines);
    let cut = agents.write("cut.jsonl", &lines);
    let grown = agents.write("grown.jsonl", &lines);
    let saved = agents.save().manifest.id.to_string();
    agents.world.write("a", "b");
    std::fs::remove_dir_all(agents.folder()).unwrap();
    agents.write("cut.jsonl", &lines[..2]);
    let more = [&lines[..], &[agents.prompt(4, 4, "and now?")]].concat();
    agents.write("grown.jsonl", &more);
    let new = agents.write("new.jsonl", &lines[..1]);

    let plan = agents.open().plan_restore(&reference(&saved), &RestoreOptions::default()).unwrap();
    let said = plan.sessions.join("\n");
    for (path, what) in [(&gone, "it was missing"), (&cut, "cut off"), (&grown, "only grew")] {
        let line = said.lines().find(|line| line.contains(path.to_str().unwrap()));
        assert!(line.is_some_and(|line| line.contains(what)), "{said}");
    }
    assert!(plan.summary.agents.unwrap().contains("2 transcripts put back"));

    let report = agents.restore(&saved);
    assert_eq!(report.conflicts, []);
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    assert_eq!((read(&gone), read(&cut)), (text(&lines), text(&lines)));
    assert_eq!(read(&grown), text(&more));
    assert_eq!(read(&new), text(&lines[..1]));
    assert_eq!(agents.world.read("a"), "a");

    let undone = agents.undo();
    assert_eq!(undone.conflicts, []);
    assert_eq!(read(&cut), text(&lines[..2]), "as it was before");
    assert_eq!(read(&grown), text(&more));
    assert!(gone.exists(), "nothing takes a transcript away");
    assert_eq!(agents.world.read("a"), "b");
    let names = std::fs::read_dir(agents.folder()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.starts_with('.')), "nothing is left behind");
    agents.world.verify();
}

#[test]
fn what_is_deleted_after_a_restore_comes_back_with_undo() {
    let agents = Agents::new();
    let lines = agents.conversation();
    let path = agents.write(&file(), &lines[..3]);
    let saved = agents.save().manifest.id.to_string();
    let other = [agents.prompt(0, 9, "something else")];
    agents.write(&file(), &other);
    assert_eq!(agents.restore(&saved).conflicts, []);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text(&lines[..3]));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(agents.undo().conflicts, []);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text(&other));
}

/// A transcript that is gone and one that is cut, and a restore that loses power at a step of putting them back: the
/// first is before anything of it is written.
fn interrupted(step: u64) -> (Agents, PathBuf, PathBuf) {
    let agents = Agents::new();
    let lines = agents.conversation();
    let gone = agents.write("gone.jsonl", &lines);
    let cut = agents.write("cut.jsonl", &lines);
    let saved = agents.save().manifest.id.to_string();
    agents.world.write("a", "b");
    std::fs::remove_file(&gone).unwrap();
    agents.write("cut.jsonl", &lines[..1]);
    let disk = FaultDisk::new();
    let inner = disk.clone();
    let user = agents.user.path().to_owned();
    disk.before(
        move |op| matches!(op, Op::Create(path) if path.starts_with(&user)),
        move || inner.set(Fault::Crash { at: 1 + step }),
    );
    let rappel = Rappel::open(OpenOptions { disk: disk.clone(), ..agents.options() }).unwrap();
    let done = rappel.restore(&reference(&saved), &RestoreOptions::default());
    drop(rappel);
    disk.lose(Loss::all()[0]);
    let unfinished = agents.open().unfinished().unwrap();
    assert_eq!(unfinished.restores.len(), 1, "step {step}: {done:?}");
    (agents, gone, cut)
}

#[test]
fn a_crash_before_transcripts_are_put_back_leaves_something_to_finish() {
    for step in 0..8 {
        let (agents, gone, cut) = interrupted(step);
        let lines = agents.conversation();
        let recovered = agents.open().recover(&RecoverOptions::finish()).unwrap();
        assert_eq!(recovered.conflicts, [], "step {step}");
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&gone), read(&cut)), (text(&lines), text(&lines)), "step {step}");
        assert_eq!(std::fs::read_dir(agents.folder()).unwrap().count(), 2, "step {step}");
        assert_eq!(agents.world.read("a"), "a");
        assert_eq!(agents.undo().conflicts, [], "step {step}");
        assert_eq!(read(&cut), text(&lines[..1]), "step {step}");
        assert_eq!(agents.world.read("a"), "b");
    }
}

#[test]
fn a_crash_while_transcripts_are_put_back_can_be_taken_back() {
    for step in 0..8 {
        let (agents, _, cut) = interrupted(step);
        let recovered = agents.open().recover(&RecoverOptions::rollback()).unwrap();
        assert_eq!(recovered.conflicts, [], "step {step}");
        let now = std::fs::read_to_string(&cut).unwrap();
        assert_eq!(now, text(&agents.conversation()[..1]), "step {step}");
        assert_eq!(agents.world.read("a"), "b", "step {step}");
        let names = std::fs::read_dir(agents.folder()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(!names.into_iter().any(|name| name.starts_with('.')), "step {step}");
    }
}

#[test]
fn what_is_written_while_it_is_replaced_is_kept() {
    let agents = Agents::new();
    let lines = agents.conversation();
    let path = agents.write(&file(), &lines);
    let saved = agents.save().manifest.id.to_string();
    agents.write(&file(), &[agents.prompt(0, 9, "another")]);
    let disk = FaultDisk::new();
    let (user, live) = (agents.user.path().to_owned(), path.clone());
    disk.before(
        move |op| matches!(op, Op::Exchange { b, .. } if b.starts_with(&user)),
        move || std::fs::write(&live, "written meanwhile\n").unwrap(),
    );
    let rappel = Rappel::open(OpenOptions { disk, ..agents.options() }).unwrap();
    let report = rappel.restore(&reference(&saved), &RestoreOptions::default()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text(&lines));
    let [conflict] = &report.conflicts[..] else { panic!("{report:?}") };
    let kept = conflict.reason.rsplit_once(" at ").unwrap().1;
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "written meanwhile\n");
}

#[test]
fn a_link_in_an_agents_home_is_never_followed_or_replaced() {
    let agents = Agents::new();
    let path = agents.write(&file(), &agents.conversation());
    let saved = agents.save().manifest.id.to_string();
    let outside = agents.user.path().join("outside");
    std::fs::write(&outside, "not yours").unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&outside, &path).unwrap();
    agents.world.write("a", "b");
    let report = agents.restore(&saved);
    assert!(report.warnings.iter().any(|said| said.contains("a link or folder")), "{report:?}");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "not yours");
    assert!(path.is_symlink());
}

#[test]
fn without_transcripts_there_is_nothing() {
    let agents = Agents::new();
    for options in [agents.world.options(), agents.options()] {
        let rappel = Rappel::open(options).unwrap();
        let saved = rappel.save(&SaveOptions::default()).unwrap().checkpoint;
        assert_eq!(saved.manifest.agents, None);
        assert_eq!(rappel.sessions().unwrap().len(), 0);
    }
    agents.write(&file(), &agents.conversation());
    let rappel = Rappel::open(agents.world.options()).unwrap();
    let saved = rappel.save(&SaveOptions::default()).unwrap().checkpoint;
    assert_eq!(saved.manifest.agents, None, "nobody said where they are");
}

#[test]
fn a_session_is_over_when_its_transcript_is_silent_for_a_day_and_may_go_on() {
    let agents = Agents::new();
    let mut lines = agents.conversation();
    agents.write(&file(), &lines);
    agents.save();
    assert_eq!(agents.state(&own()).status, SessionStatus::Running);
    agents.world.clock.advance(25 * 60 * 60 * 1000);
    agents.save();
    let view = agents.open().session(&id(&own())).unwrap();
    assert_eq!(view.status, SessionStatus::Completed);
    assert_eq!(view.ended_at, Some("2026-11-15T14:20:03Z".parse().unwrap()));
    let events = view.events;
    agents.save_later();
    assert_eq!(agents.events(&own()), events);

    lines.push(agents.line(4, 0, "user", json!({"role": "user", "content": "again"})));
    lines[4]["timestamp"] = "2026-11-16T15:30:00.000Z".into();
    agents.write(&file(), &lines);
    agents.save();
    let state = agents.state(&own());
    assert_eq!((state.status, state.ended_at), (SessionStatus::Running, None));
    assert_eq!(state.prompts.len(), 2);
    assert_eq!(state.ignored, 0);
}

#[test]
fn what_somebody_records_too_is_told_once() {
    let agents = Agents::new();
    let rappel = agents.open();
    let start = SessionStart {
        session: Some(id("mine")),
        provider: Some("claude-code".into()),
        assistant_session_id: Some(SESSION.into()),
        ..SessionStart::default()
    };
    rappel.start_session(start).unwrap();
    let started = payload::ToolStarted {
        tool: "Bash".into(),
        arguments: json!({"command": "cargo test"}),
        background: false,
    };
    let body = Body::ToolStarted(started);
    let call = NewEvent { at: None, id: Some("toolu_1".into()), body };
    rappel.record(&id("mine"), call).unwrap();
    rappel.end_session(&id("mine"), SessionStatus::Completed, None).unwrap();
    agents.write(&file(), &agents.conversation());
    rappel.save(&SaveOptions::default()).unwrap();
    assert_eq!(rappel.sessions().unwrap().len(), 1);
    let state = agents.state("mine");
    assert_eq!(state.status, SessionStatus::Completed, "it stays as it was ended");
    assert_eq!((state.tool_state.done.len(), state.tool_state.running.len()), (1, 0));
    assert_eq!((state.thought_chain.len(), state.prompts.len()), (1, 1));
    assert_eq!((state.progress.total_tool_calls, state.ignored), (1, 0));
}

#[test]
fn a_session_that_is_recorded_is_meant_rather_than_one_that_was_seen() {
    let agents = Agents::new();
    agents.write(&file(), &agents.conversation());
    agents.still_at_work();
    agents.save();
    let rappel = agents.open();
    assert_eq!(rappel.session_meant(None).unwrap().id, id(&own()));
    let mine = SessionStart { session: Some(id("mine")), ..SessionStart::default() };
    rappel.start_session(mine).unwrap();
    assert_eq!(rappel.session_meant(None).unwrap().id, id("mine"));
}

#[test]
fn a_subagent_is_a_session_below_its_own() {
    let agents = Agents::new();
    agents.write(&file(), &agents.conversation());
    let mut lines = [
        agents.prompt(0, 2, "Find it"),
        agents.answer(1, 3, json!({"type": "text", "text": "There."})),
    ];
    for line in &mut lines {
        line["isSidechain"] = true.into();
        line["agentId"] = "a1b2c3d".into();
    }
    agents.write(&format!("{SESSION}/subagents/agent-a1b2c3d.jsonl"), &lines);
    agents.save();
    let view = agents.open().session(&id("claude:a1b2c3d")).unwrap();
    assert_eq!(view.parent, Some(id(&own())));
    assert_eq!(agents.state("claude:a1b2c3d").thought_chain.len(), 1);
}

#[test]
fn a_session_that_nobody_records_ends_with_its_last_line_or_its_parent() {
    let agents = Agents::new();
    agents.write(&file(), &agents.conversation());
    let mut lines = [agents.prompt(0, 2, "Find it")];
    for line in &mut lines {
        line["isSidechain"] = true.into();
        line["agentId"] = "a1b2c3d".into();
    }
    agents.write(&format!("{SESSION}/subagents/agent-a1b2c3d.jsonl"), &lines);
    agents.still_at_work();
    agents.save();
    let how = |session: &str| {
        let view = agents.open().session(&id(session)).unwrap();
        (view.status, view.ended_at.map(|at| at.to_string()))
    };
    assert_eq!(how(&own()), (SessionStatus::Running, None));
    assert_eq!(how("claude:a1b2c3d"), (SessionStatus::Running, None));

    // Its parent is ended by a person; a subagent does not outlive that.
    agents.open().end_session(&id(&own()), SessionStatus::Completed, None).unwrap();
    let (status, ended) = how("claude:a1b2c3d");
    assert_eq!(
        (status, ended.as_deref()),
        (SessionStatus::Completed, Some("2026-11-15T14:20:02.000Z"))
    );

    // Another one that nobody ends: it is over when its transcript does not grow.
    let other = "7f3c1d52-0a4e-4b7e-9a55-3f2d8c1b0e02";
    let mut lines = agents.conversation();
    for line in &mut lines {
        line["sessionId"] = other.into();
    }
    agents.write(&format!("{other}.jsonl"), &lines);
    agents.save_later();
    let other = format!("claude:{other}");
    assert_eq!(how(&other), (SessionStatus::Running, None));
    agents.world.clock.advance(10 * 60 * 1000);
    let (status, ended) = how(&other);
    assert_eq!(
        (status, ended.as_deref()),
        (SessionStatus::Completed, Some("2026-11-15T14:20:03.000Z"))
    );
    // It was never written down, so that it may go on.
    assert!(agents.state(&other).status.is_live());
}

#[test]
fn a_long_transcript_is_taken_in_many_runs_and_read_fast() {
    let agents = Agents::new();
    let mut lines = vec![agents.prompt(0, 0, "go on")];
    for number in 1..3000 {
        let said = format!("thought {number} {}", "x".repeat(400));
        lines.push(agents.answer(number, number / 10, json!({"type": "text", "text": said})));
    }
    agents.write(&file(), &lines);
    agents.save();
    let state = agents.state(&own());
    assert_eq!((state.thought_chain.len(), state.ignored), (2999, 0));
    assert_eq!(state.progress.tokens.output, 7 * 2999);
    assert!(
        state
            .thought_chain
            .iter()
            .enumerate()
            .all(|(at, thought)| { thought.content.starts_with(&format!("thought {} ", at + 1)) })
    );
    // States are stored on the way: what has to be folded is a small part of it.
    let short = agents.open().state_now(&id(&own()), 0).unwrap().state;
    assert!(short.thought_chain.iter().count() < 600, "{}", short.thought_chain.iter().count());
    agents.world.verify();
}

#[test]
fn a_session_that_was_set_back_goes_on_as_its_fork() {
    let agents = Agents::new();
    let mut lines = agents.conversation();
    agents.write(&file(), &lines);
    let saved = agents.save().manifest.id.to_string();
    lines.push(agents.answer(4, 4, json!({"type": "text", "text": "on the old way"})));
    agents.write(&file(), &lines);
    agents.restore(&saved);
    assert_eq!(agents.state(&own()).thought_chain.len(), 1);
    assert_eq!(agents.state(&own()).status, SessionStatus::Running);
    lines.push(agents.answer(5, 15 * 60, json!({"type": "text", "text": "on the new way"})));
    agents.write(&file(), &lines);
    agents.save_later();
    let state = agents.state(&own());
    assert_eq!((state.fork, state.status), (1, SessionStatus::Running));
    let said: Vec<&str> = state.thought_chain.iter().map(|one| one.content.as_str()).collect();
    assert_eq!(said, ["Maybe the cookie expires.", "on the new way"]);
}

/// The fixtures of the readers, of sessions that worked here.
fn fixture(name: &str, agents: &Agents) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture/tests/fixtures/transcripts");
    let text = std::fs::read_to_string(PathBuf::from(folder).join(name)).unwrap();
    let root = agents.world.project.root().canonicalize().unwrap();
    text.replace("/home/dev/shop", root.to_str().unwrap())
}

#[test]
fn rollouts_of_codex_and_sessions_of_gemini_are_journals_and_come_back_too() {
    let agents = Agents::new();
    let root = agents.world.project.root().canonicalize().unwrap();
    let put = |path: &str, text: &str| {
        let path = agents.user.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let rollout = put(
        ".codex/sessions/2026/10/05/rollout-2026-10-05T10-00-01-0199b2f0.jsonl",
        &fixture("codex-rollout.jsonl", &agents),
    );
    put(".gemini/tmp/shop/.project_root", root.to_str().unwrap());
    let chat =
        put(".gemini/tmp/shop/chats/session-1.jsonl", &fixture("gemini-session.jsonl", &agents));
    let then = agents.save_later();

    let codex = agents.state("codex:0199b2f0-1111-7222-8333-944455556666");
    assert_eq!(codex.provider.as_deref(), Some("codex"));
    assert_eq!(codex.task.as_deref(), Some("Why does the basket lose items?"));
    assert_eq!(codex.thought_chain.iter().next().unwrap().content, "Looking at the store");
    let done: Vec<_> =
        codex.tool_state.done.iter().map(|call| (call.tool.as_str(), call.success)).collect();
    let expected = [
        ("shell", Some(false)),
        ("apply_patch", Some(true)),
        ("local_shell", Some(true)),
        ("web_search", Some(true)),
    ];
    assert_eq!(done, expected);
    assert_eq!((codex.progress.tokens.output, codex.ignored), (100, 0));

    let gemini = agents.state("gemini:c0ffee00-1234-4567-89ab-0123456789ab");
    assert_eq!(gemini.task.as_deref(), Some("Why does the basket lose items? @basket.ts"));
    let tools: Vec<_> = gemini.tool_state.done.iter().map(|call| call.tool.as_str()).collect();
    assert_eq!(tools, ["read_file", "run_shell_command"]);
    assert_eq!((gemini.progress.tokens.output, gemini.ignored), (52, 0));
    // It began when its file says, and is long over.
    assert_eq!(gemini.started_at, Some("2026-10-05T11:00:00Z".parse().unwrap()));
    assert_eq!(gemini.status, SessionStatus::Completed);

    // Read again, they tell nothing new; deleted or cut, they come back.
    let events = agents.events("codex:0199b2f0-1111-7222-8333-944455556666");
    agents.save_later();
    assert_eq!(agents.events("codex:0199b2f0-1111-7222-8333-944455556666"), events);
    let before = (std::fs::read(&rollout).unwrap(), std::fs::read(&chat).unwrap());
    std::fs::remove_file(&rollout).unwrap();
    std::fs::write(&chat, "").unwrap();
    agents.restore(&then);
    assert_eq!((std::fs::read(&rollout).unwrap(), std::fs::read(&chat).unwrap()), before);
}

#[test]
fn a_call_that_only_its_transcript_tells_of_is_named_and_not_waited_for() {
    let agents = Agents::new();
    let mut lines = agents.conversation();
    lines.push(agents.answer(4, 4, call("toolu_2", "cargo run")));
    agents.write(&format!("{SESSION}.jsonl"), &lines);
    let wait = Some(std::time::Duration::from_secs(600));
    let saved = agents.open().save(&SaveOptions { wait, ..SaveOptions::default() }).unwrap();
    assert_eq!(saved.waited, std::time::Duration::ZERO);
    let named = &saved.checkpoint.manifest.mid_operation;
    assert!(named.len() == 1 && named[0].contains("toolu_2"), "{named:?}");
    let rappel = agents.open();
    let (count, bytes) = rappel.transcripts_in(&saved.checkpoint.manifest).unwrap();
    assert_eq!((count, bytes), (1, text(&lines).len() as u64));
    let task = rappel.sessions().unwrap()[0].task.clone();
    assert_eq!(task.as_deref(), Some("Why does the basket lose items?"), "what it was asked first");
}

#[test]
fn a_transcript_that_the_store_lost_is_stored_again_before_it_is_displaced() {
    let build = || {
        let agents = Agents::new();
        let path = agents.write(&file(), &agents.conversation()[..3]);
        let saved = agents.save().manifest.id.to_string();
        let before = records(agents.world.home.path()).len();
        let words: String = (0..2000_u64).map(|n| format!("{:x} ", n * n * n)).collect();
        agents.write(&file(), &[agents.prompt(0, 9, &words)]);
        // What is older than the clock's tick is believed from then on.
        std::thread::sleep(std::time::Duration::from_millis(30));
        agents.save_later();
        let own = records(agents.world.home.path()).split_off(before);
        let objects = |kind| matches!(kind, Kind::Block | Kind::Chunk);
        let own: Vec<_> = own.into_iter().filter(|record| objects(record.kind)).collect();
        (agents, path, saved, own)
    };
    for number in 0..build().3.len() {
        let (agents, path, saved, own) = build();
        let Some(record) = own.get(number) else { continue };
        let before = std::fs::read(&path).unwrap();
        record.damage();
        assert_eq!(agents.restore(&saved).conflicts, [], "{record:?}");
        assert_ne!(std::fs::read(&path).unwrap(), before);
        assert_eq!(agents.undo().conflicts, [], "{record:?}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{record:?}");
    }
}

#[test]
fn a_transcript_whose_session_was_let_go_is_not_read_again() {
    const DAY_MS: i64 = 24 * 3_600_000;
    let agents = Agents::new();
    let rules = "[retention]\nprompt = { keep = \"2d\" }\nsessions = { keep = \"4d\" }\n";
    agents.world.write("rappel.toml", rules);
    let mut lines = agents.conversation();
    agents.write(&file(), &lines);
    let save = |day: u64| {
        agents.world.write("a", day.to_string());
        let trigger = Some(rappel::types::Trigger::Prompt);
        let saved = agents.open().save(&SaveOptions { trigger, ..SaveOptions::default() });
        assert!(saved.unwrap().notes.is_empty());
        agents.world.clock.advance(DAY_MS);
    };
    (0..12).for_each(save);
    let rappel = agents.open();
    let plan = rappel.plan_prune(rappel.retention().unwrap(), true).unwrap();
    assert_eq!(plan.let_go, [id(&own())], "{:?}", (&plan.sessions, &plan.decisions));
    assert_eq!(rappel.prune(plan, true).unwrap().let_go, [id(&own())]);
    rappel.gc(true, false).unwrap();
    drop(rappel);
    let ids = || -> Vec<SessionId> {
        agents.open().sessions().unwrap().into_iter().map(|view| view.id).collect()
    };
    assert_eq!(ids(), []);
    save(12);
    assert_eq!(ids(), []);
    // Nor where nobody remembers that it was read.
    std::fs::remove_dir_all(agents.world.home.path().join("cache")).unwrap();
    save(13);
    assert_eq!(ids(), []);
    // The conversation is taken up again: what comes now is told, and nothing of what was let go.
    let mut later = agents.prompt(4, 4, "And now?");
    later["timestamp"] = json!("2026-11-29T13:00:00.000Z");
    lines.push(later);
    agents.write(&file(), &lines);
    save(14);
    assert_eq!(ids(), [id(&own())]);
    let state = agents.state(&own());
    assert_eq!(state.prompts.iter().map(|one| &*one.text).collect::<Vec<_>>(), ["And now?"]);
    assert_eq!(state.thought_chain.len(), 0);
    std::fs::remove_dir_all(agents.world.home.path().join("cache")).unwrap();
    save(15);
    assert_eq!(agents.state(&own()).prompts.len(), 1);
}
