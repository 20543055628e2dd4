//! What agents learnt between two checkpoints, or knew at the first and not at the second.

use std::fmt::Write;

use rappel::AgentsCompared;
use rappel::types::agents::{AgentsDiff, Change, ChangeKind, Gap};
use serde_json::Value;

use super::agents::{
    Row, Say, call, evidence, joined, note, one_line, question, thought, verification,
};
use super::thousands;
use crate::output::{Paint, clean};

/// How many lines of each kind are shown.
const SHOWN: usize = 10;

/// Session by session, but for those in which nothing was learnt or lost; in brief, no more than how much it was.
pub fn sessions(agents: &AgentsCompared, brief: bool, paint: Paint) -> String {
    let mut text = String::new();
    for session in agents.sessions.iter().filter(|session| !session.diff.is_empty()) {
        let event = |position: Option<rappel::types::agents::SessionPosition>| {
            position.map_or(0, |position| position.event)
        };
        let (from, to) = (event(session.from), event(session.to));
        let (id, learnt) = (paint.id(session.session.as_str()), &session.summary);
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
    let changes = |of: &[Change]| of.iter().map(|one| change(one, paint)).collect();
    add("Hypotheses", changes(&diff.hypothesis_changes));
    add("Beliefs", changes(&diff.belief_changes));
    add("Evidence", both(&diff.evidence_added, &diff.evidence_removed, evidence, paint));
    let (checked, unchecked) = (&diff.verifications_added, &diff.verifications_removed);
    add("Verifications", both(checked, unchecked, verification, paint));
    // One that was filled as well is told once.
    let opened: Vec<&Gap> = diff.gaps_opened.iter().filter(|gap| !gap.filled).collect();
    let gone: Vec<&Gap> = diff.gaps_removed.iter().collect();
    add("Gaps", both(&opened, &gone, |gap, say| question(gap, say), paint));
    add("Filled gaps", both(&diff.gaps_filled, &diff.gaps_reopened, question, paint));
    add("Notes", both(&diff.notes_added, &diff.notes_removed, note, paint));
    add("Thoughts", both(&diff.thoughts_added, &diff.thoughts_removed, thought, paint));
    add("Tool calls", both(&diff.tool_calls_added, &diff.tool_calls_removed, call, paint));
    let (done, undone) = (&diff.tool_calls_finished, &diff.tool_calls_unfinished);
    add("Finished", both(done, undone, call, paint));
    add("Context", changes(&diff.context_changes));
    text
}

/// What was added, and what is gone.
fn both<T>(added: &[T], gone: &[T], row: impl Fn(&T, Say) -> Row, paint: Paint) -> Vec<String> {
    let line = |one: &T| joined(row(one, one_line));
    let added = added.iter().map(|one| format!("{} {}", paint.good("+"), line(one)));
    let gone = gone.iter().map(|one| format!("{} {}", paint.bad("-"), line(one)));
    added.chain(gone).collect()
}

fn change(one: &Change, paint: Paint) -> String {
    let id = clean(&one.id);
    let status = one.status.map(|status| format!("{status}  "));
    let sure = one.confidence.map(|sure| format!("{:.2}  ", sure.get()));
    let standing = format!("{}{}", status.unwrap_or_default(), sure.unwrap_or_default());
    match one.change {
        ChangeKind::Added => format!("{} {id}  {standing}{}", paint.good("+"), said(&one.new)),
        ChangeKind::Removed => format!("{} {id}  {standing}{}", paint.bad("-"), said(&one.old)),
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
