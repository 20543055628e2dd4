//! What agents learnt between two checkpoints.

use std::fmt::Write;

use rappel::AgentsCompared;
use rappel::types::agents::{AgentsDiff, Change, ChangeKind};
use serde_json::Value;

use super::agents::{call, one_line};
use super::thousands;
use crate::output::{Paint, clean};

/// How many lines of each kind are shown.
const SHOWN: usize = 10;

/// Session by session; in brief, no more than how much it was.
pub fn sessions(agents: &AgentsCompared, brief: bool, paint: Paint) -> String {
    let mut text = String::new();
    for session in &agents.sessions {
        let event = |position: Option<rappel::types::agents::SessionPosition>| {
            position.map_or(0, |position| position.event)
        };
        let (from, to) = (event(session.from), event(session.to));
        let learnt = if session.summary.is_empty() { "nothing learnt" } else { &session.summary };
        let id = paint.id(session.session.as_str());
        _ = writeln!(text, "  session {id}, event {from} to {to}: {learnt}");
        if !brief {
            text.push_str(&learnt_lines(&session.diff, paint));
        }
    }
    text
}

fn learnt_lines(diff: &AgentsDiff, paint: Paint) -> String {
    let mut text = String::new();
    let mut add = |name: &str, lines: Vec<String>| {
        if lines.is_empty() {
            return;
        }
        _ = writeln!(text, "    {}", paint.strong(name));
        for line in lines.iter().take(SHOWN) {
            _ = writeln!(text, "      {line}");
        }
        if lines.len() > SHOWN {
            let more = thousands((lines.len() - SHOWN) as u64);
            _ = writeln!(text, "      … {more} more (--json has them)");
        }
    };
    add("Hypotheses", diff.hypothesis_changes.iter().map(|one| change(one, paint)).collect());
    add("Beliefs", diff.belief_changes.iter().map(|one| change(one, paint)).collect());
    let evidence = diff.evidence_added.iter().map(|one| {
        let side = if one.supports { "for" } else { "against" };
        let (id, of) = (clean(&one.id), clean(&one.hypothesis));
        format!("{id}  {side} {of} ({}): {}", one.weight, one_line(&one.text))
    });
    add("Evidence", evidence.collect());
    let verifications = diff.verifications_added.iter().map(|one| {
        let outcome = if one.passed { "passed" } else { "failed" };
        format!("{}  {outcome}: {}", clean(&one.id), one_line(&one.text))
    });
    add("Verified", verifications.collect());
    let opened = diff.gaps_opened.iter().filter(|gap| !gap.filled);
    add(
        "Questions",
        opened.map(|gap| format!("{}  {}", clean(&gap.id), one_line(&gap.text))).collect(),
    );
    let filled = diff.gaps_filled.iter().map(|gap| {
        let answer = gap.answer.as_deref().unwrap_or_default();
        format!("{}  {} → {}", clean(&gap.id), one_line(&gap.text), one_line(answer))
    });
    add("Answered", filled.collect());
    let notes = diff.notes_added.iter().map(|one| one_line(&one.text));
    add("Notes", notes.collect());
    let thoughts = diff.thoughts_added.iter();
    add(
        "Thoughts",
        thoughts.map(|one| format!("{}  {}", clean(&one.id), one_line(&one.content))).collect(),
    );
    add("Tool calls", diff.tool_calls_added.iter().map(call).collect());
    add("Context", diff.context_changes.iter().map(|one| change(one, paint)).collect());
    text
}

fn change(one: &Change, paint: Paint) -> String {
    let id = clean(&one.id);
    match one.change {
        ChangeKind::Added => format!("{} {id}  {}", paint.good("+"), said(&one.new)),
        ChangeKind::Removed => format!("{} {id}  {}", paint.bad("-"), said(&one.old)),
        ChangeKind::Updated | ChangeKind::StatusChanged | ChangeKind::ConfidenceChanged => {
            let field = if one.field == "value" { "" } else { &one.field };
            let field = if field.is_empty() { String::new() } else { format!("{field} ") };
            format!("{} {id}  {field}{} → {}", paint.warning("~"), said(&one.old), said(&one.new))
        }
    }
}

fn said(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text),
        other => one_line(&other.to_string()),
    }
}
