//! What the parsers make of transcripts that the real agents wrote, in sessions that followed a script:
//! so what really happened is known.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may")]

use std::path::Path;

use rappel_capture::agents::Provider;
use rappel_capture::agents::transcripts::{Found, Item, Reader};
use rappel_types::RelPath;

struct Story {
    found: Vec<Found>,
    skipped: u64,
}

fn read(name: &str) -> Story {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/transcripts/recorded")
        .join(name);
    let provider = match name.split('-').next().unwrap() {
        "claude" => Provider::Claude,
        "codex" => Provider::Codex,
        _ => Provider::Gemini,
    };
    let path = RelPath::new("tmp/project/chats/session-1.jsonl").unwrap();
    let batch = Reader::new(provider, &path).feed(&std::fs::read(file).unwrap());
    Story { found: batch.found, skipped: batch.skipped }
}

impl Story {
    fn prompts(&self) -> Vec<&str> {
        let prompts = self.found.iter().filter_map(|found| match &found.item {
            Item::Prompt { text, .. } => Some(text.as_str()),
            _ => None,
        });
        prompts.collect()
    }

    /// The calls that failed, by tool, and why.
    fn failures(&self) -> Vec<(&str, &str)> {
        let failures = self.found.iter().filter_map(|found| match &found.item {
            Item::ToolFinished { id, error: Some(error), .. } => {
                Some((self.tool(id), error.as_str()))
            }
            _ => None,
        });
        failures.collect()
    }

    fn tool(&self, call: &str) -> &str {
        let tools = self.found.iter().find_map(|found| match &found.item {
            Item::ToolStarted { id, tool, .. } if id == call => Some(tool.as_str()),
            _ => None,
        });
        tools.unwrap()
    }

    /// How often each call that began came to an end.
    fn ends(&self) -> Vec<usize> {
        let ends = |call: &str| {
            let ends = self
                .found
                .iter()
                .filter(|found| matches!(&found.item, Item::ToolFinished { id, .. } if id == call));
            ends.count()
        };
        let calls = self.found.iter().filter_map(|found| match &found.item {
            Item::ToolStarted { id, .. } => Some(ends(id)),
            _ => None,
        });
        calls.collect()
    }

    fn changed(&self) -> Vec<&str> {
        let paths = self.found.iter().flat_map(|found| match &found.item {
            Item::FilesChanged { paths, .. } => paths.as_slice(),
            _ => &[],
        });
        paths.map(String::as_str).collect()
    }

    fn compactions(&self) -> usize {
        let is = |found: &&Found| matches!(found.item, Item::Compaction { .. });
        self.found.iter().filter(is).count()
    }
}

const TOUR: [&str; 4] = [
    "[step:edit] Make the greeting.",
    "[step:destroy] Clean the tree up.",
    "[step:delegate] Let somebody else write the note.",
    "[step:background] Start the long job.",
];
const TERMINAL: [&str; 3] = [
    "[step:first] Make the greeting.",
    "[step:second] Change it.",
    "[step:slow] Do something slow.",
];

#[test]
fn prompts_are_what_the_script_typed() {
    for agent in ["claude-2.1.325", "codex-0.166.0", "gemini-0.61.0"] {
        assert_eq!(read(&format!("{agent}/tour-1.jsonl")).prompts(), TOUR, "{agent}");
        assert_eq!(read(&format!("{agent}/terminal-1.jsonl")).prompts(), TERMINAL, "{agent}");
        let cleared = read(&format!("{agent}/terminal-2.jsonl"));
        assert_eq!(cleared.prompts(), ["[step:third] Say goodbye."], "{agent}");
    }
}

#[test]
fn every_line_is_understood_and_every_call_ends_once() {
    let mut files = 0;
    for agent in ["claude-2.1.325", "codex-0.166.0", "gemini-0.61.0"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/transcripts/recorded")
            .join(agent);
        for file in std::fs::read_dir(folder).unwrap() {
            let name = format!("{agent}/{}", file.unwrap().file_name().to_str().unwrap());
            let story = read(&name);
            assert_eq!(story.skipped, 0, "{name}");
            assert!(story.ends().iter().all(|ends| *ends == 1), "{name}: {:?}", story.ends());
            files += 1;
        }
    }
    assert_eq!(files, 16);
}

#[test]
fn failures_are_those_of_the_script() {
    let failed = |name: &str| {
        let story = read(name);
        story.failures().iter().map(|(tool, why)| format!("{tool}: {why}")).collect::<Vec<_>>()
    };
    let no_such_file = "cat: no-such-file: No such file or directory";
    assert_eq!(
        failed("claude-2.1.325/tour-1.jsonl"),
        [format!("Bash: Exit code 1\n{no_such_file}")]
    );
    assert_eq!(failed("codex-0.166.0/tour-1.jsonl"), ["exec_command: exit code 1"]);
    assert_eq!(failed("gemini-0.61.0/tour-1.jsonl"), ["run_shell_command: exit code 1"]);
    assert_eq!(failed("codex-0.166.0/terminal-1.jsonl"), ["exec_command: aborted by user"]);
    let cancelled = failed("gemini-0.61.0/terminal-1.jsonl");
    assert_eq!(cancelled.len(), 1, "{cancelled:?}");
    assert_eq!(failed("codex-0.166.0/long-1.jsonl"), [""; 0]);
}

#[test]
fn a_patch_names_the_files_that_it_changed() {
    let greeting = "/home/dev/project/greeting.txt";
    assert_eq!(read("codex-0.166.0/tour-1.jsonl").changed(), [greeting, greeting]);
    assert_eq!(read("codex-0.166.0/tour-2.jsonl").changed(), ["/home/dev/project/note.txt"]);
}

#[test]
fn a_compaction_is_told_once_and_a_resumed_session_is_none() {
    for (name, times) in [
        ("claude-2.1.325/compact-1.jsonl", 1),
        ("claude-2.1.325/terminal-1.jsonl", 1),
        ("codex-0.166.0/compact-1.jsonl", 1),
        ("codex-0.166.0/terminal-1.jsonl", 1),
        ("gemini-0.61.0/terminal-1.jsonl", 1),
        ("gemini-0.61.0/tour-1.jsonl", 0),
    ] {
        assert_eq!(read(name).compactions(), times, "{name}");
    }
}
