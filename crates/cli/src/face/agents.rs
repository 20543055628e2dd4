//! Sessions, and what they knew.

use std::fmt::Write;

use rappel::types::agents::{
    Evidence, Gap, Hypothesis, HypothesisStatus, Long, SessionState, Thought, ToolCall,
    Verification,
};
use rappel::types::time::age;
use rappel::{SessionView, StateAt};
use rappel_types::Timestamp;

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
        _ = writeln!(
            text,
            "{name}  {:status$}  {:provider$}  {:>events$}  {begun}",
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
pub fn session(view: &SessionView, now: Timestamp, paint: Paint) -> String {
    let mut text = String::new();
    let provider = view.provider.as_deref().unwrap_or("agent");
    _ = writeln!(
        text,
        "Session {} ({}, {})",
        paint.id(view.id.as_str()),
        clean(provider),
        standing(view)
    );
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
    line("events", Some(view.events.to_string()));
    line("fork", (view.fork > 0).then(|| view.fork.to_string()));
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

/// What a session knew.
pub fn state(found: &StateAt, now: Timestamp, paint: Paint) -> String {
    let told = |at: Timestamp| format!("{at} ({})", age(now, at));
    if !found.has_begun() {
        let began = found.begins.map(|at| format!(": it began {}", told(at))).unwrap_or_default();
        return format!("{} had not begun then{began}\n", paint.id(found.session.as_str()));
    }
    let mut when = found.at.map(told).unwrap_or_default();
    if found.ahead {
        when.push_str("\nThat time is yet to come: this is the state now.");
    }
    state_when(found, &when, paint)
}

/// The same, with the moment in words.
pub fn state_when(found: &StateAt, when: &str, paint: Paint) -> String {
    let StateAt { state, session, position, .. } = found;
    let mut out = String::new();
    let when = if when.is_empty() { String::new() } else { format!(", {when}") };
    _ = writeln!(out, "{} at event {}{when}", paint.id(session.as_str()), position.event);
    if let Some((id, sequence)) = &found.checkpoint {
        _ = writeln!(out, "Last checkpoint then: {} (#{sequence})", paint.id(id.as_str()));
    }
    if let Some(task) = &state.task {
        _ = writeln!(out, "Task: {}", one_line(task));
    }
    if let Some(prompt) = state.prompts.iter().next_back() {
        _ = writeln!(out, "Asked last: {}", one_line(&prompt.text));
    }
    let progress = &state.progress;
    if progress.step_number > 0 || progress.text.is_some() {
        let text = progress.text.as_deref().map(|text| format!(": {}", one_line(text)));
        _ = writeln!(out, "Progress: step {}{}", progress.step_number, text.unwrap_or_default());
    }
    if let Some(restored) = &state.restored_to {
        _ = writeln!(out, "Set back to: {restored}");
    }
    let status = |wanted: &[HypothesisStatus]| {
        let mut found: Vec<&Hypothesis> =
            state.hypotheses.iter().filter(|one| wanted.contains(&one.status)).collect();
        found.sort_by(|a, b| b.confidence.get().total_cmp(&a.confidence.get()));
        found.into_iter().map(hypothesis).collect::<Vec<_>>()
    };
    section(&mut out, paint, "Confirmed", &status(&[HypothesisStatus::Confirmed]), 0);
    let open = status(&[HypothesisStatus::Open, HypothesisStatus::Testing]);
    section(&mut out, paint, "Suspected", &open, 0);
    section(&mut out, paint, "Ruled out", &status(&[HypothesisStatus::Rejected]), 0);
    let mut beliefs: Vec<_> = state.beliefs.iter().collect();
    beliefs.sort_by(|a, b| b.confidence.get().total_cmp(&a.confidence.get()));
    let beliefs: Vec<String> =
        beliefs.iter().map(|one| item(&one.id, one.confidence.get(), &one.text)).collect();
    section(&mut out, paint, "Believed", &beliefs, 0);
    let clash = |one: &rappel::types::agents::Contradiction| {
        format!("{} and {} cannot both hold", clean(&one.what.first), clean(&one.what.second))
    };
    let clashes: Vec<String> = state.contradictions.iter().map(clash).collect();
    section(&mut out, paint, "Contradictions", &clashes, 0);
    let gaps = |filled: bool| {
        state.gaps.iter().filter(move |gap| gap.filled == filled).map(question).collect::<Vec<_>>()
    };
    section(&mut out, paint, "Open questions", &gaps(false), 0);
    section(&mut out, paint, "Answered", &gaps(true), 0);
    newest(&mut out, paint, "Verified", &state.verification_results, verification);
    newest(&mut out, paint, "Evidence", &state.evidence, evidence);
    branches(&mut out, paint, state);
    newest(&mut out, paint, "Thoughts", &state.thought_chain, thought);
    let running: Vec<String> = state.tool_state.running.iter().map(call).collect();
    section(&mut out, paint, "Running", &running, 0);
    newest(&mut out, paint, "Tool calls", &state.tool_state.done, call);
    newest(&mut out, paint, "Commands", &state.command_history, |one| {
        let code = one.exit_code.map(|code| format!(" → {code}")).unwrap_or_default();
        format!("{}{code}", one_line(&one.command))
    });
    newest(&mut out, paint, "Notes", &state.notes, |one| one_line(&one.text));
    let variables: Vec<String> = state
        .context
        .variables
        .iter()
        .map(|(key, value)| format!("{}={}", clean(key), one_line(&value.to_string())))
        .collect();
    section(&mut out, paint, "Context", &variables, 0);
    numbers(&mut out, paint, state);
    out
}

fn branches(out: &mut String, paint: Paint, state: &SessionState) {
    let lines: Vec<String> = state
        .branches
        .iter()
        .map(|branch| {
            let here = if branch.name == state.current_branch { "  (here)" } else { "" };
            let merged =
                branch.merged_into.as_ref().map(|into| format!("  merged into {}", clean(into)));
            format!("{}{}{here}", clean(&branch.name), merged.unwrap_or_default())
        })
        .collect();
    section(out, paint, "Ways tried", &lines, 0);
}

fn numbers(out: &mut String, paint: Paint, state: &SessionState) {
    let metrics = &state.metrics;
    let progress = &state.progress;
    let line = [
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
    section(out, paint, "So far", &[line.join(", ")], 0);
}

fn hypothesis(one: &Hypothesis) -> String {
    let reason = one.reason.as_ref().map(|reason| format!(" ({})", one_line(reason)));
    item(&one.id, one.confidence.get(), &one.text) + &reason.unwrap_or_default()
}

fn item(id: &str, sure: f64, text: &str) -> String {
    format!("{}  {sure:.2}  {}", clean(id), one_line(text))
}

pub fn evidence(one: &Evidence) -> String {
    let side = if one.supports { "for" } else { "against" };
    let (id, of) = (clean(&one.id), clean(&one.hypothesis));
    format!("{id}  {side} {of} ({}): {}", one.weight, one_line(&one.text))
}

pub fn verification(one: &Verification) -> String {
    let outcome = if one.passed { "passed" } else { "failed" };
    format!("{}  {outcome}: {}", clean(&one.id), one_line(&one.text))
}

pub fn question(gap: &Gap) -> String {
    let answer = gap.answer.as_ref().map(|answer| format!(" → {}", one_line(answer)));
    format!("{}  {}{}", clean(&gap.id), one_line(&gap.text), answer.unwrap_or_default())
}

pub fn thought(one: &Thought) -> String {
    format!("{}  {}", clean(&one.id), one_line(&one.content))
}

pub fn call(one: &ToolCall) -> String {
    let outcome = match (one.success, &one.error) {
        (Some(false), Some(error)) => format!(" failed: {}", one_line(error)),
        (Some(false), None) => " failed".into(),
        _ => String::new(),
    };
    let arguments = match &one.arguments {
        serde_json::Value::Null => String::new(),
        other => format!(" {}", shorten(&one_line(&other.to_string()), 80)),
    };
    format!("{}  {}{arguments}{outcome}", clean(&one.id), clean(&one.tool))
}

fn newest<T>(
    out: &mut String,
    paint: Paint,
    name: &str,
    list: &Long<T>,
    line: impl Fn(&T) -> String,
) {
    let shown = list.iter().len().min(SHOWN as usize);
    let lines: Vec<String> = list.iter().rev().take(shown).map(line).collect();
    section(out, paint, name, &lines, list.len() - shown as u64);
}

fn section(out: &mut String, paint: Paint, name: &str, lines: &[String], more: u64) {
    if lines.is_empty() {
        return;
    }
    _ = writeln!(out, "\n{}", paint.strong(name));
    for line in lines {
        _ = writeln!(out, "  {line}");
    }
    if more > 0 {
        _ = writeln!(out, "  … {} more (--json has them, --full all)", super::thousands(more));
    }
}

/// The first line of a text, fit to be shown.
pub fn one_line(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let more = if lines.next().is_some() { " …" } else { "" };
    format!("{}{more}", shorten(&clean(first), LINE))
}
