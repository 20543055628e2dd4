//! How well things are: `status`, `doctor`, `stats`.

use rappel::{AgentStats, Check, ExecutionStats, GcReport, Health, Retention, Stats, Status};
use rappel_types::size::format_size;
use rappel_types::{Timestamp, time};

use super::{Fields, count, thousands};
use crate::output::{Paint, clean};

/// How many days `stats` shows.
const DAYS: usize = 14;
/// How many sessions and tools it shows.
const SESSIONS: usize = 10;
/// How many sessions `status` names.
const NAMED: usize = 5;

/// The answer of `status`.
pub fn status(status: &Status, now: Timestamp, paint: Paint) -> String {
    let mut text = health(status.state, paint);
    if let Some(since) = status.since {
        text.push_str(&format!(" since {}", time::age(now, since)));
    }
    text.push('\n');
    for reason in &status.reasons {
        text.push_str(&format!("  {}\n", clean(reason)));
    }
    text.push('\n');
    let mut fields = Fields::new(paint);
    if let (Some(latest), Some(at)) = (&status.latest, status.latest_at) {
        fields.add("Latest", format!("{} ({})", paint.id(latest), time::age(now, at)));
        fields.add_some("Based on", status.based_on.as_ref().map(|id| paint.id(id)));
        let mut unsaved = Vec::new();
        if status.unsaved > 0 {
            let paths = count(status.unsaved as u64, "path", "paths");
            unsaved.push(format!("{paths} changed since"));
        }
        unsaved.extend(status.unsaved_git.as_ref().map(super::git::in_short));
        let databases = |names: &[String]| {
            let word = if names.len() == 1 { "database" } else { "databases" };
            format!("{word} {}", clean(&names.join(", ")))
        };
        if !status.unsaved_databases.is_empty() {
            unsaved.push(format!("{} may have changed", databases(&status.unsaved_databases)));
        }
        let mut unsaved = match unsaved.is_empty() {
            true => "nothing".to_owned(),
            false => unsaved.join("; "),
        };
        if !status.databases_not_looked_at.is_empty() {
            let names = databases(&status.databases_not_looked_at);
            unsaved.push_str(&format!(" ({names} not looked at)"));
        }
        fields.add("Unsaved", unsaved);
    }
    fields.add("Checkpoints", checkpoints(status.checkpoints, status.state_checkpoints));
    let crashed = |id: &String| status.crashed_sessions.iter().any(|one| one.id.as_str() == *id);
    let (gone, live): (Vec<&String>, Vec<&String>) =
        status.sessions.iter().partition(|id| crashed(id));
    fields.add_some("Sessions", names(&live, paint));
    fields
        .add_some("Crashed", names(&gone, paint).map(|ids| format!("{ids} (the process is gone)")));
    for one in &status.integrations {
        let heard = one.last_event.map(|at| format!(", last event {}", time::age(now, at)));
        fields.add(
            "Integration",
            format!("{} {}{}", one.agent, clean(&one.to_string()), heard.unwrap_or_default()),
        );
    }
    let watch = status.watch.as_ref();
    let kept = watch.map(|one| format!("process {}, {}", one.pid, time::age(now, one.since)));
    fields.add_some("Clock", kept.map(|by| format!("rappel watch ({by})")));
    fields.add_some("Retention", status.retention.as_ref().and_then(|one| retention(one, now)));
    fields.add("Workspace", clean(&status.root));
    let sizes =
        format!("{}, {} free", format_size(status.home_bytes), format_size(status.free_bytes));
    fields.add("Home", format!("{} ({sizes})", clean(&status.home)));
    text + &fields.lines()
}

/// What goes next, and what went.
fn retention(state: &Retention, now: Timestamp) -> Option<String> {
    let mut words = Vec::new();
    if let Some(next) = &state.next {
        let number = count(next.count as u64, "checkpoint goes", "checkpoints go");
        words.push(match next.at <= now {
            true => format!("{number} within the hour"),
            false => format!("{number} {}", time::age(now, next.at)),
        });
    }
    if state.deleted > 0 {
        words.push(format!("{} deleted so far", thousands(state.deleted)));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// How many there are, and how many of those `list` only counts.
fn checkpoints(all: usize, of_state: usize) -> String {
    match of_state as u64 {
        0 => thousands(all as u64),
        of_state => {
            format!("{}, {} of them state-only", thousands(all as u64), thousands(of_state))
        }
    }
}

/// The first of some sessions.
fn names(ids: &[&String], paint: Paint) -> Option<String> {
    let named: Vec<String> = ids.iter().take(NAMED).map(|id| paint.id(id)).collect();
    let more = match ids.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!ids.is_empty()).then(|| named.join(", ") + &more)
}

/// The state in a word.
pub fn health(state: Health, paint: Paint) -> String {
    match state {
        Health::Protected => paint.good("Protected"),
        Health::Degraded => paint.warning("Degraded"),
        Health::Unprotected => paint.error("Unprotected"),
    }
}

/// The answer of `doctor`.
pub fn checks(checks: &[Check], paint: Paint) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let mark = if check.ok { paint.good("ok  ") } else { paint.bad("bad ") };
        text.push_str(&format!("  {mark}  {:width$}  {}\n", check.name, clean(&check.found)));
        if let (false, Some(hint)) = (check.ok, &check.hint) {
            text.push_str(&format!("        {:width$}  {} {hint}\n", "", paint.hint("hint:")));
        }
    }
    text
}

/// The answer of `stats`.
pub fn stats(stats: &Stats, paint: Paint) -> String {
    let mut fields = Fields::new(paint);
    fields.add("Checkpoints", checkpoints(stats.checkpoints, stats.state_checkpoints));
    let databases = match stats.database_bytes {
        0 => String::new(),
        bytes => format!(", {} of it databases", format_size(bytes)),
    };
    fields.add("Logical size", format!("{}{databases}", format_size(stats.logical_bytes)));
    let ratio = match stats.ratio >= 1.05 {
        true => format!(" ({:.1} times less)", stats.ratio),
        false => String::new(),
    };
    fields.add("On disk", format!("{}{ratio}", format_size(stats.stored_bytes)));
    let mut text = format!("{}\n{}", paint.strong("Space"), fields.lines());
    if !stats.workspaces.is_empty() {
        text.push_str(&format!("\n{}\n", paint.strong("Workspaces")));
        for workspace in &stats.workspaces {
            text.push_str(&format!(
                "  {}\n    {} · hold {} · added {}\n",
                clean(&workspace.root),
                count(workspace.checkpoints as u64, "checkpoint", "checkpoints"),
                format_size(workspace.logical_bytes),
                format_size(workspace.new_bytes),
            ));
        }
    }
    if !stats.days.is_empty() {
        text.push_str(&format!("\n{}\n", paint.strong("Days")));
        for (day, share) in stats.days.iter().rev().take(DAYS) {
            text.push_str(&format!(
                "  {day}  {} · added {}\n",
                count(share.checkpoints as u64, "checkpoint", "checkpoints"),
                format_size(share.new_bytes)
            ));
        }
    }
    text + &agents(&stats.agents, paint)
}

/// What agents did and cost; nothing if there were none.
fn agents(stats: &AgentStats, paint: Paint) -> String {
    let mut text = String::new();
    if stats.checkpoints_per_hour > 0.0 {
        let hours = format!("{:.1} per active hour", stats.checkpoints_per_hour);
        text.push_str(&format!("\n{}\n  {hours}\n", paint.strong("Checkpoints")));
    }
    if !stats.executions.is_empty() {
        text.push_str(&format!("\n{}\n", paint.strong("Sessions")));
        let row = |one: &ExecutionStats| {
            [
                clean(&one.session),
                clean(one.provider.as_deref().unwrap_or("agent")),
                one.status.clone(),
                count(one.tokens.total(), "token", "tokens"),
            ]
        };
        let rows: Vec<[String; 4]> = stats.executions.iter().take(SESSIONS).map(row).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let [id, provider, status, tokens] = [0, 1, 2, 3].map(|column| width(column).unwrap_or(0));
        for row in &rows {
            let name = paint.id(&format!("{:id$}", row[0]));
            text.push_str(&format!(
                "  {name}  {:provider$}  {:status$}  {:>tokens$}\n",
                row[1], row[2], row[3]
            ));
        }
        if stats.executions.len() > SESSIONS {
            let more = thousands((stats.executions.len() - SESSIONS) as u64);
            text.push_str(&format!("  … and {more} more\n"));
        }
        if let Some(average) = stats.tokens_per_execution {
            let average = thousands(average.round() as u64);
            text.push_str(&format!("  {average} tokens on average where they were counted\n"));
        }
    }
    if !stats.tools.is_empty() {
        text.push_str(&format!("\n{}\n", paint.strong("Tools")));
        let shown = &stats.tools[..stats.tools.len().min(SESSIONS)];
        let names = shown.iter().map(|tool| clean(&tool.tool).chars().count()).max().unwrap_or(0);
        let numbers = shown.iter().map(|tool| thousands(tool.calls).len()).max().unwrap_or(0);
        for tool in shown {
            let name = clean(&tool.tool);
            let calls = thousands(tool.calls);
            let word = if tool.calls == 1 { "call" } else { "calls" };
            let failed = match tool.failed {
                0 => String::new(),
                failed => format!(", {} failed", thousands(failed)),
            };
            text.push_str(&format!("  {name:names$}  {calls:>numbers$} {word}{failed}\n"));
        }
        if stats.tools.len() > SESSIONS {
            let more = thousands((stats.tools.len() - SESSIONS) as u64);
            text.push_str(&format!("  … and {more} more\n"));
        }
    }
    text
}

/// The answer of `gc`.
pub fn gc(report: &GcReport, dry_run: bool, paint: Paint) -> String {
    let verb = if dry_run { "Would free" } else { "Freed" };
    let mut fields = Fields::new(paint);
    fields.add(
        "Objects",
        format!(
            "{} needed, {} not",
            thousands(report.live_objects),
            thousands(report.dead_objects)
        ),
    );
    if report.waiting_bytes > 0 {
        let waiting = format_size(report.waiting_bytes);
        let why = match report.others_reading {
            true => "others are reading them",
            false => "until their day of grace is over",
        };
        fields.add("Waiting", format!("{waiting}, {why}"));
    }
    if report.packs_of_lost_checkpoints > 0 {
        fields.add("Lost", lost_packs(report));
    }
    if report.packs_kept_for_damage > 0 {
        let kept = count(report.packs_kept_for_damage, "pack", "packs");
        fields.add("Kept", format!("{kept} that damaged checkpoints may need"));
    }
    format!("{verb} {}\n{}", format_size(report.freed_bytes), fields.lines())
}

/// The packs of lost checkpoints that a gc frees.
pub fn lost_packs(report: &GcReport) -> String {
    let packs = count(report.packs_of_lost_checkpoints, "pack", "packs");
    let size = format_size(report.lost_checkpoints_bytes);
    format!("{packs} ({size}) without a log: all that was left of lost checkpoints")
}
