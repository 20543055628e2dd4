//! Whatever the order in which an agent's hooks are heard, and whatever the transcript tells before
//! or after them, the journals come to the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use rappel::ambient::ManualClock;
use rappel::hook::{Event, Moment};
use rappel::types::Timestamp;
use rappel::types::agents::SessionId;
use rappel::{OpenOptions, Rappel, SaveOptions, Surroundings};
use rappel_hooks::{VENDORS, Vendor, claude};
use rappel_testing::Project;
use serde_json::{Value, json};

const SESSION: &str = "00000000-0000-4000-8000-000000000001";

/// A project whose agent is heard, with the agent's transcripts in a user's home.
struct World {
    project: Project,
    home: tempfile::TempDir,
    user: tempfile::TempDir,
    clock: ManualClock,
}

impl World {
    fn new() -> Self {
        Self {
            project: Project::new().file("a", "a"),
            home: tempfile::tempdir().unwrap(),
            user: tempfile::tempdir().unwrap(),
            clock: ManualClock::new("2026-11-16T19:57:00Z".parse().unwrap()),
        }
    }

    fn open(&self) -> Rappel {
        let mut options = OpenOptions::new(self.project.root(), self.home.path());
        options.clock = Arc::new(self.clock.clone());
        options.agents = Some(Surroundings::of(self.user.path()));
        Rappel::open(options).unwrap()
    }

    fn hear(&self, event: &Event) {
        self.clock.advance(10);
        self.open().hear_event(event, Arc::new(|| false)).unwrap();
    }

    /// Writes the first lines of the recorded transcript, and has a save read them.
    fn read_transcript(&self, lines: usize) {
        let root = self.project.root().canonicalize().unwrap();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = root.to_str().unwrap().chars().map(plain).collect();
        let folder = self.user.path().join(".claude/projects").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let text: String =
            transcript(&root).iter().take(lines).map(|it| format!("{it}\n")).collect();
        std::fs::write(folder.join(format!("{SESSION}.jsonl")), text).unwrap();
        self.clock.advance(10);
        self.open().save(&SaveOptions::default()).unwrap();
    }

    /// What the journals come to: the prompts, calls and commands of each run of the session.
    fn journals(&self) -> Journals {
        let rappel = self.open();
        let mut told = BTreeMap::new();
        for view in rappel.sessions().unwrap() {
            let state = state(&rappel, &view.id);
            let mut items = BTreeSet::new();
            for prompt in state["prompts"].as_array().unwrap() {
                assert!(items.insert(format!("prompt {}", prompt["text"])), "twice: {prompt}");
            }
            for call in state["tool_state"]["calls"].as_array().unwrap() {
                let words = format!("call {} {} {}", call["id"], call["tool"], call["success"]);
                assert!(items.insert(words), "twice: {call}");
            }
            for command in state["command_history"].as_array().unwrap() {
                let words = format!("command {} {}", command["command"], command["exit_code"]);
                assert!(items.insert(words), "twice: {command}");
            }
            items.insert(format!("{:?}, after {:?}", view.status, view.parent));
            told.insert(view.id.to_string(), items);
        }
        told
    }
}

fn state(rappel: &Rappel, session: &SessionId) -> Value {
    let at = rappel.state_now(session, u64::MAX).unwrap();
    rappel::state_json(&at.state)
}

fn fixture(path: &str, root: &Path) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    let text = std::fs::read_to_string(folder.join(path)).unwrap();
    let text = text.replace("/home/dev/project", root.to_str().unwrap());
    text.lines().map(str::to_owned).collect()
}

fn payloads(root: &Path) -> Vec<Value> {
    let lines = fixture("cli/tests/fixtures/hooks/claude-tour.jsonl", root);
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The transcript of the same session. The ids of its prompts were made unrecognisable one by one
/// when it was recorded, so they are set to those that the hooks were given.
fn transcript(root: &Path) -> Vec<String> {
    let file = "capture/tests/fixtures/transcripts/recorded/claude-2.1.325/tour-1.jsonl";
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for payload in payloads(root) {
        if let (Some(text), Some(id)) = (payload["prompt"].as_str(), payload["prompt_id"].as_str())
        {
            ids.insert(text.to_owned(), id.to_owned());
        }
    }
    let mut lines = fixture(file, root);
    for line in &mut lines {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if let Some(id) = value["message"]["content"].as_str().and_then(|text| ids.get(text)) {
            value["promptId"] = id.as_str().into();
            *line = value.to_string();
        }
    }
    lines
}

/// The recorded events, run by run, each at the time at which the transcript tells it.
fn runs(root: &Path) -> Vec<Vec<Event>> {
    let mut times: BTreeMap<String, Timestamp> = BTreeMap::new();
    for line in transcript(root) {
        let value: Value = serde_json::from_str(&line).unwrap();
        let Some(at) = value["timestamp"].as_str().and_then(|at| at.parse().ok()) else { continue };
        let content = &value["message"]["content"];
        if let Some(text) = content.as_str() {
            times.insert(text.to_owned(), at);
        }
        for block in content.as_array().into_iter().flatten() {
            if let Some(id) = block["id"].as_str() {
                times.insert(format!("PreToolUse {id}"), at);
            }
            if let Some(id) = block["tool_use_id"].as_str() {
                times.insert(format!("PostToolUse {id}"), at);
            }
        }
    }
    let mut runs: Vec<Vec<Event>> = Vec::new();
    let mut now: Timestamp = "2026-11-16T19:56:08Z".parse().unwrap();
    for payload in payloads(root) {
        let name = payload["hook_event_name"].as_str().unwrap();
        let call = format!(
            "{} {}",
            name.trim_end_matches("Failure"),
            payload["tool_use_id"].as_str().unwrap_or_default()
        );
        let told = times.get(&call).or_else(|| times.get(payload["prompt"].as_str()?));
        now = told.copied().unwrap_or_else(|| later(now)).max(later(now));
        let event = (claude::VENDOR.event)(payload.to_string().as_bytes(), None).unwrap();
        if name == "SessionStart" {
            runs.push(Vec::new());
        }
        runs.last_mut().unwrap().push(Event { at: Some(now), ..event });
    }
    runs
}

fn later(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis() + 1)
}

/// One thing that happens to Rappel.
#[derive(Debug, Clone)]
enum Step {
    Hear(Box<Event>),
    Read(usize),
}

/// How many lines of the transcript there are when a run has ended.
fn lines_by(run: &[Event], root: &Path) -> usize {
    let ended = run.iter().filter_map(|event| event.at).max();
    let at = |line: &String| -> Option<Timestamp> {
        let value: Value = serde_json::from_str(line).ok()?;
        value["timestamp"].as_str()?.parse().ok()
    };
    transcript(root).iter().take_while(|line| at(line).is_none_or(|at| Some(at) <= ended)).count()
}

/// The events of each run in any order, some of them twice, and between them reads of a transcript
/// that is as long as it may be by then. Its beginning is the first thing that is heard of a run.
fn any_order(runs: Vec<Vec<Event>>, root: &Path) -> impl Strategy<Value = Vec<Step>> + use<> {
    let runs: Vec<_> = runs
        .into_iter()
        .map(|run| {
            let lines = lines_by(&run, root);
            let again = proptest::sample::subsequence(run.clone(), 0..=3);
            let reads = proptest::collection::vec(0..=lines, 0..=2);
            let (start, rest) = run.split_first().unwrap();
            let (start, rest) = (Step::Hear(Box::new(start.clone())), rest.to_vec());
            (again, reads)
                .prop_flat_map(move |(again, reads)| {
                    let events = rest.iter().chain(&again).cloned();
                    let heard = events.map(|event| Step::Hear(Box::new(event)));
                    let all: Vec<Step> = heard.chain(reads.into_iter().map(Step::Read)).collect();
                    Just(all).prop_shuffle()
                })
                .prop_map(move |all| [vec![start.clone()], all].concat())
        })
        .collect();
    runs.prop_map(|runs| runs.concat())
}

type Journals = BTreeMap<String, BTreeSet<String>>;

/// What the journals come to in the order in which it happened, the transcript at its end.
fn expected() -> &'static Journals {
    static EXPECTED: LazyLock<Journals> = LazyLock::new(|| {
        let world = World::new();
        for event in runs(&world.project.root().canonicalize().unwrap()).concat() {
            world.hear(&event);
        }
        world.read_transcript(usize::MAX);
        world.journals()
    });
    &EXPECTED
}

#[test]
fn in_order_each_run_is_a_session_with_what_happened_in_it() {
    let told = expected();
    let runs: Vec<&str> = told.keys().map(String::as_str).collect();
    let main = format!("claude:{SESSION}");
    let mut names =
        vec![main.clone(), format!("{main}.2"), format!("{main}.3"), format!("{main}.4")];
    names.push("claude:a0000000000000001".into());
    assert_eq!(runs, names);
    assert_eq!(told[&main].iter().filter(|item| item.starts_with("call")).count(), 2);
    assert_eq!(told[&names[1]].iter().filter(|item| item.starts_with("call")).count(), 5);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(16)
    })]

    #[test]
    fn any_order_comes_to_the_same(
        (root, steps) in Just(()).prop_flat_map(|()| {
            let root = PathBuf::from("/home/dev/project");
            let steps = any_order(runs(&root), &root);
            (Just(root), steps)
        }),
    ) {
        let world = World::new();
        let here = world.project.root().canonicalize().unwrap();
        for step in &steps {
            match step {
                Step::Hear(event) => {
                    let text = serde_json::to_string(event).unwrap();
                    let text = text.replace(root.to_str().unwrap(), here.to_str().unwrap());
                    world.hear(&serde_json::from_str(&text).unwrap());
                }
                Step::Read(lines) => world.read_transcript(*lines),
            }
        }
        world.read_transcript(usize::MAX);
        prop_assert_eq!(&world.journals(), expected());
    }
}

/// What each agent's hooks tell of the same small piece of work, at the times at which it happened.
/// Some give their calls no ids.
fn small_work(vendor: &Vendor) -> Vec<Event> {
    let call = |event: &str, id: &str, command: &str| match vendor.name {
        "opencode" => json!({"event": event, "input": {"tool": "bash", "callID": id,
            "args": {"command": command}}, "output": {"output": "", "metadata": {"exit": 0}}}),
        "gemini" => json!({"hook_event_name": event, "tool_name": "run_shell_command",
            "tool_input": {"command": command},
            "tool_response": {"llmContent": "Output: (empty)"}}),
        "codex" => json!({"hook_event_name": event, "tool_name": "Bash", "tool_use_id": id,
            "tool_input": {"command": command}, "tool_response": "Exit code: 0\nOutput:\n"}),
        _ => json!({"hook_event_name": event, "tool_name": "Bash", "tool_use_id": id,
            "tool_input": {"command": command}, "tool_response": {"stdout": ""}}),
    };
    let [start, prompt, before, after] = match vendor.name {
        "opencode" => {
            ["event.session.created", "chat.message", "tool.execute.before", "tool.execute.after"]
        }
        "gemini" => ["SessionStart", "BeforeAgent", "BeforeTool", "AfterTool"],
        _ => ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"],
    };
    let part = json!({"type": "text", "text": "look"});
    let payloads = [
        json!({"event": start, "hook_event_name": start, "source": "startup"}),
        json!({"event": prompt, "hook_event_name": prompt, "prompt": "look",
            "output": {"message": {"id": "m1"}, "parts": [part]}}),
        call(before, "a", "ls"),
        call(after, "a", "ls"),
        call(before, "b", "pwd"),
        call(after, "b", "pwd"),
        call(before, "c", "date"),
        call(after, "c", "date"),
    ];
    let first: Timestamp = "2026-11-16T19:56:10Z".parse().unwrap();
    let event = |(place, mut payload): (usize, Value)| {
        payload["session"] = SESSION.into();
        payload["session_id"] = SESSION.into();
        let event = (vendor.event)(payload.to_string().as_bytes(), None).unwrap();
        let at = Timestamp::from_millis(first.as_millis() + place as i64 * 100);
        Event { at: Some(at), ..event }
    };
    payloads.into_iter().enumerate().map(event).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(6)
    })]

    #[test]
    fn hooks_of_every_agent_come_to_the_same_in_any_order(
        order in Just((1..8).collect::<Vec<usize>>()).prop_shuffle(),
        again in 2..8_usize,
    ) {
        for vendor in VENDORS {
            let work = small_work(vendor);
            let in_order = World::new();
            for event in &work {
                in_order.hear(event);
            }
            let expected = in_order.journals();
            let calls = expected.values().flatten().filter(|item| item.starts_with("call"));
            prop_assert_eq!(calls.count(), 3, "{}: {:?}", vendor.name, &expected);
            let world = World::new();
            world.hear(&work[0]);
            // Gemini CLI waits for each hook. A prompt that came after the calls that it began
            // would close them, and their ends would be other calls.
            let is_bound = vendor.name == "gemini";
            if is_bound {
                world.hear(&work[1]);
            }
            let rest = order.iter().filter(|place| !is_bound || **place != 1);
            rest.for_each(|place| world.hear(&work[*place]));
            // Where calls have no ids, one that is told again is another one.
            if vendor.name != "gemini" {
                world.hear(&work[again]);
            }
            prop_assert_eq!(world.journals(), expected, "{}", vendor.name);
        }
    }
}

#[test]
fn a_prompt_without_an_id_is_matched_to_one_hook_event_by_its_text() {
    let prompt = |at: &str| {
        let payload = serde_json::json!({
            "hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": "go on",
        });
        let event = (claude::VENDOR.event)(payload.to_string().as_bytes(), None).unwrap();
        assert!(matches!(event.moment, Moment::Prompt { id: None, .. }));
        Event { at: Some(at.parse().unwrap()), ..event }
    };
    let count = |world: &World| {
        let rappel = world.open();
        let id: SessionId = format!("claude:{SESSION}").parse().unwrap();
        state(&rappel, &id)["prompts"].as_array().unwrap().len()
    };
    // A line of a transcript that says the same, with or without an id of its own.
    let tell = |world: &World, times: &[&str]| {
        let root = world.project.root().canonicalize().unwrap();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = root.to_str().unwrap().chars().map(plain).collect();
        let folder = world.user.path().join(".claude/projects").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let lines = times.iter().enumerate().map(|(place, at)| {
            let line = serde_json::json!({
                "type": "user", "uuid": format!("u{place}"), "sessionId": SESSION,
                "cwd": root.to_str().unwrap(), "timestamp": at, "isSidechain": false,
                "parentUuid": place.checked_sub(1).map(|before| format!("u{before}")),
                "message": {"role": "user", "content": "go on"},
            });
            format!("{line}\n")
        });
        std::fs::write(folder.join(format!("{SESSION}.jsonl")), lines.collect::<String>()).unwrap();
        world.clock.advance(10);
        world.open().save(&SaveOptions::default()).unwrap();
    };
    let (first, second) = ("2026-11-16T19:56:10Z", "2026-11-16T19:56:40Z");
    let (told, again) = ("2026-11-16T19:56:11Z", "2026-11-16T19:56:41Z");
    // The hooks first, then the transcript; each line is one of them.
    let world = World::new();
    world.hear(&prompt(first));
    world.hear(&prompt(second));
    assert_eq!(count(&world), 2, "two hook events are never one prompt");
    tell(&world, &[told]);
    tell(&world, &[told, again]);
    assert_eq!(count(&world), 2);
    // A hook was lost: its prompt is told by the transcript alone.
    let third = "2026-11-16T19:56:50Z";
    tell(&world, &[told, again, third]);
    assert_eq!(count(&world), 3);
    // The transcript first: the hook that comes late is the one prompt, the next one is another.
    let world = World::new();
    world.hear(&prompt(first));
    tell(&world, &[told, again]);
    assert_eq!(count(&world), 2);
    world.hear(&prompt(second));
    assert_eq!(count(&world), 2);
    world.hear(&prompt("2026-11-16T19:56:45Z"));
    assert_eq!(count(&world), 3);
    // Further apart than two minutes they are two.
    let world = World::new();
    world.hear(&prompt(first));
    tell(&world, &["2026-11-16T19:58:30Z"]);
    assert_eq!(count(&world), 2);
}
