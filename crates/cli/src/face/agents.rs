//! Sessions, and what they knew.

use std::fmt::Write;

use rappel::types::agents::{
    Evidence, Gap, Hypothesis, HypothesisStatus, Long, Note, SessionState, Thought, ToolCall,
    Verification,
};
use rappel::types::time::age;
use rappel::{SessionView, StateAt};
use rappel_types::Timestamp;
use rappel_types::size::format_size;
use serde_json::Value;

use super::{count, shorten};
use crate::output::{Paint, clean};

/// How many of the newest items of each list are shown.
pub const SHOWN: u64 = 10;
/// The longest line of a text.
const LINE: usize = 160;

/// A list of sessions.
pub fn sessions(sessions: &[SessionView], now: Timestamp, paint: Paint) -> String {
    if sessions.is_empty() {
        return "No sessions yet. `rappel session start` begins one.\n".into();
    }
    let row = |view: &SessionView| {
        [
            view.id.to_string(),
            standing(view),
            clean(view.provider.as_deref().unwrap_or("agent")),
            count(view.events, "event", "events"),
        ]
    };
    let rows: Vec<[String; 4]> = sessions.iter().map(row).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let [id, status, provider, events] = [0, 1, 2, 3].map(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for (view, row) in sessions.iter().zip(&rows) {
        let begun = view.started_at.map(|at| age(now, at)).unwrap_or_default();
        let name = paint.id(&format!("{:id$}", row[0]));
        let from = view.lineage.as_ref().map(|one| format!("  (imported from {})", one.format));
        let from = from.unwrap_or_default();
        _ = writeln!(
            text,
            "{name}  {:status$}  {:provider$}  {:>events$}  {begun}{from}",
            row[1], row[2], row[3]
        );
        if let Some(task) = &view.task {
            _ = writeln!(text, "    {}", one_line(task));
        }
    }
    text
}

/// How a session stands, in words.
fn standing(view: &SessionView) -> String {
    match view.process_gone {
        true => format!("{} (its process is gone)", view.status),
        false => view.status.to_string(),
    }
}

/// One session.
pub fn session(view: &SessionView, modified: &[String], now: Timestamp, paint: Paint) -> String {
    let mut text = String::new();
    let provider = view.provider.as_deref().unwrap_or("agent");
    _ = writeln!(
        text,
        "Session {} ({}, {})",
        paint.id(view.id.as_str()),
        clean(provider),
        standing(view)
    );
    let peak = view.exit.as_ref().and_then(|exit| exit.peak_rss);
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            _ = writeln!(text, "  {name:13}{}", clean(&value));
        }
    };
    line("started", view.started_at.map(|at| age(now, at)));
    line("ended", view.ended_at.map(|at| age(now, at)));
    line("because", view.end_reason.clone());
    line("conversation", view.conversation_id.clone());
    line("agent's id", view.assistant_session_id.clone());
    line("parent", view.parent.as_ref().map(ToString::to_string));
    line("process", view.process.map(|process| process.pid.to_string()));
    line("modified", (!modified.is_empty()).then(|| super::run::modified(modified)));
    line("peak memory", peak.map(format_size));
    line("events", Some(view.events.to_string()));
    line("fork", (view.fork > 0).then(|| view.fork.to_string()));
    for output in view.exit.iter().flat_map(|exit| &exit.output) {
        _ = writeln!(text, "  | {}", clean(output));
    }
    text.push('\n');
    text
}

/// What the sessions of a checkpoint knew.
pub fn states(states: &[StateAt], now: Timestamp, paint: Paint) -> String {
    if states.is_empty() {
        return "It holds no session.\n".into();
    }
    let texts: Vec<String> = states.iter().map(|found| state(found, now, paint)).collect();
    texts.join("\n")
}

/// What a session knew: of each list the newest, of each text the first line.
pub fn state(found: &StateAt, now: Timestamp, paint: Paint) -> String {
    state_as(found, now, Page::new(paint))
}

/// What a session knew, everything in whole.
pub fn state_in_full(found: &StateAt, now: Timestamp, paint: Paint) -> String {
    state_as(found, now, Page { most: usize::MAX, say: all_lines, ..Page::new(paint) })
}

fn state_as(found: &StateAt, now: Timestamp, page: Page) -> String {
    let paint = page.paint;
    let told = |at: Timestamp| format!("{at} ({})", age(now, at));
    if !found.has_begun() {
        let began = found.begins.map(|at| format!(": it began {}", told(at))).unwrap_or_default();
        return format!("{} had not begun then{began}\n", paint.id(found.session.as_str()));
    }
    let mut when = found.at.map(told).unwrap_or_default();
    if found.ahead {
        when.push_str("\nThat time is yet to come: this is the state now.");
    }
    page.state(found, &when)
}

/// The same, with the moment in words.
pub fn state_when(found: &StateAt, when: &str, paint: Paint) -> String {
    Page::new(paint).state(found, when)
}

/// How a text is told: [`one_line`] or [`all_lines`].
pub type Say = fn(&str) -> String;
/// The id of something, which may be empty, and what is told of it.
pub type Row = (String, String);

/// A page that is being written.
struct Page {
    out: String,
    paint: Paint,
    /// How many of the newest items of each long list are told.
    most: usize,
    say: Say,
}

impl Page {
    fn new(paint: Paint) -> Self {
        Self { out: String::new(), paint, most: SHOWN as usize, say: one_line }
    }

    fn state(mut self, found: &StateAt, when: &str) -> String {
        let StateAt { state, session, position, .. } = found;
        let (paint, say) = (self.paint, self.say);
        let when = if when.is_empty() { String::new() } else { format!(", {when}") };
        self.line(&format!("{} at event {}{when}", paint.id(session.as_str()), position.event));
        if let Some((id, sequence)) = &found.checkpoint {
            self.line(&format!("Last checkpoint then: {} (#{sequence})", paint.id(id.as_str())));
        }
        if let Some(task) = &state.task {
            self.line(&format!("Task: {}", say(task)));
        }
        if let Some(prompt) = state.prompts.iter().next_back() {
            self.line(&format!("Asked last: {}", say(&prompt.text)));
        }
        let progress = &state.progress;
        if progress.step_number > 0 || progress.text.is_some() {
            let text = progress.text.as_deref().map(|text| format!(": {}", say(text)));
            let text = text.unwrap_or_default();
            self.line(&format!("Progress: step {}{text}", progress.step_number));
        }
        if let Some(restored) = &state.restored_to {
            self.line(&format!("Set back to: {restored}"));
        }
        let status = |wanted: &[HypothesisStatus]| {
            let mut found: Vec<&Hypothesis> =
                state.hypotheses.iter().filter(|one| wanted.contains(&one.status)).collect();
            found.sort_by(|a, b| b.confidence.get().total_cmp(&a.confidence.get()));
            found.into_iter().map(|one| hypothesis(one, say)).collect::<Vec<_>>()
        };
        self.section("Confirmed hypotheses", &status(&[HypothesisStatus::Confirmed]), 0);
        let open = status(&[HypothesisStatus::Open, HypothesisStatus::Testing]);
        self.section("Open hypotheses", &open, 0);
        self.section("Ruled out", &status(&[HypothesisStatus::Rejected]), 0);
        let mut beliefs: Vec<_> = state.beliefs.iter().collect();
        beliefs.sort_by(|a, b| b.confidence.get().total_cmp(&a.confidence.get()));
        let beliefs: Vec<Row> = beliefs
            .iter()
            .map(|one| row(&one.id, sure(one.confidence.get(), &say(&one.text))))
            .collect();
        self.section("Beliefs", &beliefs, 0);
        let clash =
            |one: &rappel::types::agents::Contradiction| row("", clean(&one.what.to_string()));
        let clashes: Vec<Row> = state.contradictions.iter().map(clash).collect();
        self.section("Contradictions", &clashes, 0);
        let gaps = |filled: bool| {
            let gaps = state.gaps.iter().filter(move |gap| gap.filled == filled);
            gaps.map(|gap| question(gap, say)).collect::<Vec<_>>()
        };
        self.section("Open gaps", &gaps(false), 0);
        self.section("Filled gaps", &gaps(true), 0);
        self.newest("Verifications", &state.verification_results, verification);
        self.newest("Evidence", &state.evidence, evidence);
        self.section("Approaches", &branches(state), 0);
        self.newest("Thoughts", &state.thought_chain, thought);
        let running: Vec<Row> = state.tool_state.running.iter().map(|one| call(one, say)).collect();
        self.section("Running", &running, 0);
        self.newest("Tool calls", &state.tool_state.done, call);
        self.newest("Commands", &state.command_history, |one, say| {
            let code = one.exit_code.map(|code| format!(" → {code}")).unwrap_or_default();
            row(&one.id, format!("{}{code}", say(&one.command)))
        });
        self.newest("Notes", &state.notes, note);
        for (name, values) in
            [("Context", &state.context.variables), ("Context state", &state.context.state)]
        {
            let told = |(key, value): (&String, &Value)| {
                row("", format!("{}={}", clean(key), say(&value.to_string())))
            };
            let values: Vec<Row> = values.iter().map(told).collect();
            self.section(name, &values, 0);
        }
        self.section("So far", &[row("", numbers(state))], 0);
        self.out
    }

    fn line(&mut self, text: &str) {
        _ = writeln!(self.out, "{text}");
    }

    fn newest<T>(&mut self, name: &str, list: &Long<T>, told: impl Fn(&T, Say) -> Row) {
        let rows: Vec<Row> =
            list.iter().rev().take(self.most).map(|one| told(one, self.say)).collect();
        let more = list.len() - rows.len() as u64;
        self.section(name, &rows, more);
    }

    /// Rows under a heading, what they tell below each other.
    fn section(&mut self, name: &str, rows: &[Row], more: u64) {
        if rows.is_empty() {
            return;
        }
        self.line(&format!("\n{}", self.paint.strong(name)));
        let width = rows.iter().map(|(id, _)| id.chars().count()).max().unwrap_or(0);
        for (id, told) in rows {
            let gap = if width == 0 { "" } else { "  " };
            self.line(format!("  {id:width$}{gap}{told}").trim_end());
        }
        if more > 0 {
            let more = super::thousands(more);
            self.line(&format!("  … {more} more (--json has them, --full all)"));
        }
    }
}

fn branches(state: &SessionState) -> Vec<Row> {
    let branch = |branch: &rappel::types::agents::Branch| {
        let here = if branch.name == state.current_branch { "  (here)" } else { "" };
        let merged =
            branch.merged_into.as_ref().map(|into| format!("  merged into {}", clean(into)));
        row("", format!("{}{}{here}", clean(&branch.name), merged.unwrap_or_default()))
    };
    state.branches.iter().map(branch).collect()
}

fn numbers(state: &SessionState) -> String {
    let metrics = &state.metrics;
    let progress = &state.progress;
    let numbers = [
        rappel_types::duration::format_duration(metrics.time_in_debugging),
        count(progress.total_thoughts, "thought", "thoughts"),
        count(progress.total_tool_calls, "tool call", "tool calls"),
        count(progress.failed_tool_calls, "failed call", "failed calls"),
        count(metrics.hypotheses_tested, "hypothesis tested", "hypotheses tested"),
        count(metrics.verifications_run, "verification", "verifications"),
        count(metrics.gaps_filled, "gap filled", "gaps filled"),
        count(metrics.checkpoints_created, "checkpoint", "checkpoints"),
        count(progress.tokens.total(), "token", "tokens"),
    ];
    numbers.join(", ")
}

fn row(id: &str, told: String) -> Row {
    (clean(id), told)
}

/// A row on a line of its own.
pub fn joined((id, told): Row) -> String {
    format!("{id}  {told}")
}

fn sure(sure: f64, text: &str) -> String {
    format!("{sure:.2}  {text}")
}

fn hypothesis(one: &Hypothesis, say: Say) -> Row {
    let reason = one.reason.as_ref().map(|reason| format!(" ({})", say(reason)));
    let text = format!("{}{}", say(&one.text), reason.unwrap_or_default());
    row(&one.id, sure(one.confidence.get(), &text))
}

pub fn evidence(one: &Evidence, say: Say) -> Row {
    let side = if one.supports { "for" } else { "against" };
    let of = clean(&one.hypothesis);
    row(&one.id, format!("{side} {of} ({}): {}", one.weight, say(&one.text)))
}

pub fn verification(one: &Verification, say: Say) -> Row {
    let outcome = if one.passed { "passed" } else { "failed" };
    row(&one.id, format!("{outcome}: {}", say(&one.text)))
}

pub fn question(gap: &Gap, say: Say) -> Row {
    let answer = gap.answer.as_ref().map(|answer| format!(" → {}", say(answer)));
    row(&gap.id, format!("{}{}", say(&gap.text), answer.unwrap_or_default()))
}

pub fn thought(one: &Thought, say: Say) -> Row {
    row(&one.id, say(&one.content))
}

pub fn note(one: &Note, say: Say) -> Row {
    row(&one.id, say(&one.text))
}

pub fn call(one: &ToolCall, say: Say) -> Row {
    let outcome = match (one.success, &one.error) {
        (Some(false), Some(error)) => format!(" failed: {}", say(error)),
        (Some(false), None) => " failed".into(),
        _ => String::new(),
    };
    let arguments = match &one.arguments {
        serde_json::Value::Null => String::new(),
        other => format!(" {}", say(&other.to_string())),
    };
    row(&one.id, format!("{}{arguments}{outcome}", clean(&one.tool)))
}

/// A text as it is, fit to be shown; the lines after the first stand in a little.
fn all_lines(text: &str) -> String {
    let lines: Vec<String> = text.trim().lines().map(clean).collect();
    lines.join("\n      ")
}

/// The first line of a text, fit to be shown.
pub fn one_line(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let more = if lines.next().is_some() { " …" } else { "" };
    format!("{}{more}", shorten(&clean(first), LINE))
}
