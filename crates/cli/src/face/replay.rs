//! A replay as text: its steps, one of them, and what was there at it.

mod view;

use jiff::tz::TimeZone;
use rappel::types::agents::replay::Step;
use rappel::{AgentAt, FilesAt, Replay};
use rappel_types::Timestamp;

use super::checkpoint::local;
use super::count;
use crate::output::{Paint, clean};

pub use view::{Panel, Reaction, View};

/// What a replay is of, and that it changes nothing.
pub fn heading(replay: &Replay, zone: &TimeZone, paint: Paint) -> String {
    let id = paint.id(replay.checkpoint.manifest.id.as_str());
    let session = match &replay.session {
        Some(session) => format!(", session {}", paint.id(session.as_str())),
        None => String::new(),
    };
    let steps = count(replay.steps.len() as u64, "step", "steps");
    let begun = replay.steps.first().map(|first| format!(" from {} on", local(first.at, zone)));
    let begun = begun.unwrap_or_default();
    format!("Replay of {id}{session}: {steps}{begun}. Read-only: nothing is changed.\n")
}

/// The steps, one on each line.
pub fn list(steps: &[Step], paint: Paint) -> String {
    let width = steps.len().to_string().len();
    let line = |step: &Step| {
        let number = paint.faint(&format!("{:>width$}  {}", step.number, since(steps, step.at)));
        format!("{number}  {}\n", clean(&step.title))
    };
    steps.iter().map(line).collect()
}

/// One step in full.
pub fn step(step: &Step, steps: &[Step], zone: &TimeZone, paint: Paint) -> String {
    let place = paint.strong(&format!("Step {} of {}", step.number, steps.len()));
    let when = format!("{} ({})", since(steps, step.at), local(step.at, zone));
    let mut text = format!("{place}, {when}\n{}\n", clean(&step.title));
    if !step.detail.is_empty() {
        text.push('\n');
        text.push_str(&lines(&step.detail));
    }
    text
}

/// The agents at a step.
pub fn agents(agents: &[AgentAt]) -> String {
    if agents.is_empty() {
        return "No agent was at work.\n".into();
    }
    let mut text = String::new();
    for agent in agents {
        let provider = agent.provider.as_deref().map(|one| format!(" ({})", clean(one)));
        let (provider, status) = (provider.unwrap_or_default(), agent.status);
        text.push_str(&format!("{}{provider}: {status}, event {}\n", agent.id, agent.event));
        if let Some(task) = &agent.task {
            text.push_str(&format!("  {}\n", super::shorten(&clean(task), 200)));
        }
        for tool in &agent.running {
            text.push_str(&format!("  running: {}\n", clean(tool)));
        }
    }
    text
}

/// The files at a step.
pub fn files(files: Option<&FilesAt>) -> String {
    let Some(files) = files else { return "No checkpoint holds files of then.\n".into() };
    let mut text = format!("As {} holds them:\n", files.checkpoint);
    for entry in &files.entries {
        text.push_str(&super::checkpoint::entry(entry));
        text.push('\n');
    }
    text
}

/// How long after the first step something was: `+00:03:12`.
pub fn since(steps: &[Step], at: Timestamp) -> String {
    let begun = steps.first().map_or(at, |first| first.at);
    let seconds = at.millis_since(begun).max(0) / 1000;
    format!("+{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Text from elsewhere, line by line.
pub fn lines(text: &str) -> String {
    text.lines().map(|line| clean(&line.replace('\t', "    ")) + "\n").collect()
}
