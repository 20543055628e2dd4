//! What a session did, for the morning after: as text and as Markdown. Both have the same lines.

use rappel::types::agents::TokenCount;
use rappel::types::agents::report::FailedCall;
use rappel::{Changed, DatabaseDiff, FailingCheck, GitDiff, PromptReport, Report};
use rappel_types::duration::format_duration;
use rappel_types::size::format_size;
use rappel_types::{CheckpointId, Timestamp, time};

use super::{Fields, change_word, count, git, shorten, tally, thousands};
use crate::output::{Paint, clean};

/// So many paths of a prompt are named.
const PATHS: usize = 8;
/// So many failures, verifications and rejected hypotheses of a prompt are named, each.
const NAMED: usize = 10;
/// The longest prompt, command or error.
const LONGEST: usize = 160;

/// A label, and what there is to say.
type Lines = Vec<(&'static str, String)>;

/// As text.
pub fn text(report: &Report, now: Timestamp, paint: Paint) -> String {
    let fields = |lines: Lines, indent: &str| {
        let mut fields = Fields::new(paint);
        let mut before = "";
        for (label, value) in lines {
            fields.add(if label == before { "" } else { label }, value);
            before = label;
        }
        let lines = fields.lines();
        lines.lines().map(|line| format!("{indent}{line}\n")).collect::<String>()
    };
    let mut text =
        format!("{}\n{}", paint.strong(&heading("Session", report)), fields(head(report, now), ""));
    for (number, one) in told(report) {
        let title = paint.strong(&title(one));
        let when = paint.faint(&when(report, one));
        text.push_str(&format!("\n{number:>4} {title}  {when}\n"));
        text.push_str(&fields(lines(one), "   "));
        for below in &one.agents {
            text.push_str(&format!("       {}\n", paint.faint(&heading("Agent", below))));
            text.push_str(&fields(head(below, now), "       "));
        }
    }
    text
}

/// As Markdown.
pub fn markdown(report: &Report, now: Timestamp) -> String {
    let list = |lines: Lines, indent: &str| -> String {
        lines
            .into_iter()
            .map(|(label, value)| format!("{indent}- **{label}**: {}\n", escaped(&value)))
            .collect()
    };
    let mut text =
        format!("# {}\n\n{}", escaped(&heading("Session", report)), list(head(report, now), ""));
    for (number, one) in told(report) {
        let (title, when) = (escaped(&title(one)), when(report, one));
        let named = format!("{number} {title}");
        text.push_str(&format!("\n## {}\n\n", named.trim_start()));
        text.push_str(&list(vec![("When", when)], ""));
        text.push_str(&list(lines(one), ""));
        for below in &one.agents {
            text.push_str(&format!(
                "- {}\n{}",
                escaped(&heading("Agent", below)),
                list(head(below, now), "  ")
            ));
        }
    }
    text
}

fn heading(what: &str, report: &Report) -> String {
    let view = &report.session;
    let provider = view.provider.as_deref().map(|name| format!(" ({})", clean(name)));
    let task = view.task.as_deref().map(|task| format!(": {}", one_line(task)));
    format!("{what} {}{}{}", view.id, provider.unwrap_or_default(), task.unwrap_or_default())
}

fn head(report: &Report, now: Timestamp) -> Lines {
    let (view, totals) = (&report.session, &report.totals);
    let lasted = format_duration(report.duration_ms);
    let reason = view.end_reason.as_deref().map(|reason| format!(": {}", one_line(reason)));
    let reason = reason.unwrap_or_default();
    let mut lines = vec![match (report.outcome, view.ended_at) {
        ("crashed", _) => ("Crashed", format!("after {lasted}: its agent is gone")),
        ("paused", _) => ("Paused", format!("after {lasted}")),
        (outcome, Some(at)) => {
            ("Ended", format!("{outcome}, {}, after {lasted}{reason}", time::age(now, at)))
        }
        (_, None) => {
            // The journal ends with the last thing that happened, and the session goes on.
            let begun = view.started_at.and_then(|at| u64::try_from(now.millis_since(at)).ok());
            let lasted = begun.map_or(lasted, format_duration);
            ("Running", format!("for {lasted} so far"))
        }
    }];
    let mut did = vec![
        count(totals.prompts, "prompt", "prompts"),
        count(totals.tool_calls, "tool call", "tool calls"),
    ];
    did.extend((totals.failed > 0).then(|| format!("{} failed", thousands(totals.failed))));
    lines.push(("Did", did.join(", ")));
    let verified =
        [(totals.verifications_passed, "passed"), (totals.verifications_failed, "failed")];
    if verified.iter().any(|(number, _)| *number > 0) {
        lines.push(("Verified", tally(&verified, "")));
    }
    for check in report.failing.iter().take(NAMED) {
        lines.push(("Failing", failing(check, now)));
        let before = check.before.as_ref().map(|id| (id, "before it failed"));
        let back = check.good.as_ref().map(|id| (id, "when it passed")).or(before);
        lines.extend(back.map(|(id, when)| ("Go back", go_back(id, when))));
    }
    if totals.ruled_out > 0 {
        lines.push(("Ruled out", count(totals.ruled_out, "hypothesis", "hypotheses")));
    }
    lines.extend(report.changed.iter().flat_map(changed));
    lines.extend(tokens(totals.tokens));
    lines
        .extend(totals.peak_rss.map(|bytes| ("Memory", format!("{} at most", format_size(bytes)))));
    for call in &report.unfinished {
        lines.push(("Unfinished", failed_call(call)));
    }
    for session in &report.continued_by {
        lines.push(("Goes on in", session.to_string()));
    }
    for warning in &report.warnings {
        lines.push(("Cannot tell", clean(warning)));
    }
    lines
}

/// The prompts with their numbers. What came before the first has none, and is told if it is
/// something.
fn told(report: &Report) -> impl Iterator<Item = (String, &PromptReport)> {
    let mut number = 0;
    report.prompts.iter().filter_map(move |one| {
        if one.turn.prompt.is_some() {
            number += 1;
            return Some((format!("{number}."), one));
        }
        let something = !lines(one).is_empty() || !one.agents.is_empty();
        something.then(|| (String::new(), one))
    })
}

fn title(one: &PromptReport) -> String {
    match &one.turn.prompt {
        Some(prompt) => format!("\"{}\"", one_line(prompt)),
        None => "Before the first prompt".to_owned(),
    }
}

/// When it began, from the session's beginning on, and how long it took.
fn when(report: &Report, one: &PromptReport) -> String {
    let begun = match (report.session.started_at, one.turn.started_at) {
        (Some(from), Some(at)) => u64::try_from(at.millis_since(from)).unwrap_or(0),
        _ => 0,
    };
    format!("after {}, took {}", format_duration(begun), format_duration(one.turn.duration_ms))
}

fn lines(one: &PromptReport) -> Lines {
    let turn = &one.turn;
    let mut lines = Lines::new();
    lines.extend(one.changed.iter().flat_map(changed));
    if turn.tool_calls > 0 {
        lines.push(("Calls", thousands(turn.tool_calls)));
    }
    named(&mut lines, "Failed", turn.failed.iter().map(failed_call).collect());
    let checked = |passed: bool| {
        let meant = turn.verifications.iter().filter(move |one| one.passed == passed);
        meant.map(|one| one_line(&one.text)).collect()
    };
    named(&mut lines, "Passed", checked(true));
    named(&mut lines, "Not passed", checked(false));
    let ruled_out = turn.ruled_out.iter().map(|one| {
        let reason = one.reason.as_deref().map(|reason| format!(" ({})", one_line(reason)));
        format!("{}{}", one_line(&one.text), reason.unwrap_or_default())
    });
    named(&mut lines, "Ruled out", ruled_out.collect());
    let restored = turn.restored_to.iter().map(|id| format!("to {id}"));
    named(&mut lines, "Restored", restored.collect());
    if turn.compactions > 0 {
        lines.push(("Context", count(turn.compactions, "compaction", "compactions")));
    }
    lines.extend(tokens(turn.tokens));
    lines.extend(one.peak_rss.map(|bytes| ("Memory", format_size(bytes))));
    if one.changed.is_some() && one.turn.prompt.is_some() {
        let back = one.before.as_ref().map(|id| ("Go back", go_back(id, "before this prompt")));
        lines.extend(back);
    }
    lines
}

/// A check that fails now, and since when.
fn failing(check: &FailingCheck, now: Timestamp) -> String {
    let mut said = one_line(&check.latest.text);
    if let Some(code) = check.latest.exit_code {
        said.push_str(&format!(" (exit {code})"));
    }
    said.push_str(&format!(", first {}", time::age(now, check.since)));
    if let Some(prompt) = &check.since_prompt {
        said.push_str(&format!(" in \"{}\"", one_line(prompt)));
    }
    if let Some(passed) = check.passed_at {
        said.push_str(&format!("; last passed {}", time::age(now, passed)));
    }
    said
}

fn go_back(to: &CheckpointId, when: &str) -> String {
    format!("rappel restore {to} (to {when})")
}

fn named(lines: &mut Lines, label: &'static str, said: Vec<String>) {
    let more = said.len().saturating_sub(NAMED) as u64;
    lines.extend(said.into_iter().take(NAMED).map(|line| (label, line)));
    if more > 0 {
        lines.push((label, format!("… and {} more", thousands(more))));
    }
}

fn changed(changed: &Changed) -> Lines {
    let files = &changed.files;
    let mut lines = Lines::new();
    if !files.is_empty() {
        let counts = [
            (files.added.len() as u64, "new"),
            (files.modified.len() as u64, "changed"),
            (files.deleted.len() as u64, "deleted"),
        ];
        let all = files.added.iter().chain(&files.modified).chain(&files.deleted);
        let mut names: Vec<String> = all.take(PATHS).map(ToString::to_string).collect();
        if files.len() > PATHS {
            names.push("…".into());
        }
        let counted = match (changed.lines_added, changed.lines_removed) {
            (Some(added), Some(removed)) => {
                format!(" (+{} -{})", thousands(added), thousands(removed))
            }
            _ => String::new(),
        };
        lines.push(("Files", format!("{}{counted}: {}", tally(&counts, ""), names.join(", "))));
    }
    let moved = changed.git.as_ref().map(in_brief);
    named(&mut lines, "Git", moved.iter().flat_map(git::lines).collect());
    named(&mut lines, "Rows", changed.databases.iter().flat_map(rows).collect());
    lines
}

/// Where HEAD moved, its branch moved with it, and so did the index: that is said once.
fn in_brief(diff: &GitDiff) -> GitDiff {
    let mut diff = diff.clone();
    let nested = diff.nested.iter_mut().map(|nested| &mut nested.diff);
    for one in std::iter::once(&mut diff.root).chain(nested) {
        if let Some(commit) = &one.commit {
            one.refs.retain(|moved| (&moved.from, &moved.to) != (&commit.from, &commit.to));
            one.index = false;
        }
    }
    diff
}

fn rows(database: &DatabaseDiff) -> Vec<String> {
    let name = clean(&database.name);
    if database.tables.is_empty() {
        return vec![format!("{name}: {}", change_word(database.change))];
    }
    let number = |rows: Option<u64>| rows.map_or_else(|| "none".to_owned(), thousands);
    let tables = database.tables.iter().map(|table| {
        let (from, to) = (number(table.from), number(table.to));
        format!("{name}.{}: {from} to {to}", clean(&table.table))
    });
    tables.collect()
}

fn failed_call(call: &FailedCall) -> String {
    let mut said = one_line(&call.text);
    if let Some(tool) = &call.tool {
        said = format!("{}: {said}", clean(tool));
    }
    match (call.exit_code, &call.error) {
        (Some(code), _) => said.push_str(&format!(" (exit {code})")),
        (None, Some(error)) => said.push_str(&format!(" ({})", one_line(error))),
        (None, None) => {}
    }
    if call.interrupted {
        said.push_str(" (interrupted)");
    }
    said
}

fn tokens(tokens: TokenCount) -> Option<(&'static str, String)> {
    let TokenCount { input, output, cache_read, cache_write } = tokens;
    let parts =
        [(input, "in"), (output, "out"), (cache_read, "read from cache"), (cache_write, "cached")];
    (tokens.total() > 0)
        .then(|| ("Tokens", format!("{} ({})", thousands(tokens.total()), tally(&parts, "none"))))
}

fn one_line(text: &str) -> String {
    shorten(&clean(text.trim()), LONGEST)
}

/// Text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
