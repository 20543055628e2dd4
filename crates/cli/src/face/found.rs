//! What `find` and `log` found: checkpoints, and what happened in them.

use std::fmt::Write;

use rappel::{FileLog, Found, FoundEvent};
use rappel_types::{Timestamp, time};

use super::checkpoint::{from, number};
use super::{change_word, count, thousands, title};
use crate::output::{Paint, clean};

/// How many events of each checkpoint are shown.
const SHOWN: usize = 5;

/// The checkpoints, each with its events.
pub fn found(found: &Found, now: Timestamp, paint: Paint) -> String {
    if found.total == 0 && found.events.is_empty() {
        return "No checkpoints match.\n".into();
    }
    let mut text = paint.strong(&count(found.total as u64, "checkpoint", "checkpoints"));
    if found.events_total > 0 {
        text.push_str(&format!(", {}", count(found.events_total as u64, "event", "events")));
    }
    text.push('\n');
    let unsaved: Vec<&FoundEvent> =
        found.events.iter().filter(|event| event.checkpoint.is_none()).collect();
    if !unsaved.is_empty() {
        _ = writeln!(text, "\n  {}", paint.faint("in no checkpoint yet"));
        events(&mut text, &unsaved, now, paint);
    }
    let newest = found.checkpoints.iter().map(|one| one.manifest.sequence).max();
    let width = newest.unwrap_or(0).to_string().len();
    for checkpoint in &found.checkpoints {
        let manifest = &checkpoint.manifest;
        let number = paint.faint(&format!("{:>width$}", number(checkpoint)));
        let title = title(checkpoint).map(|title| format!("  {title}")).unwrap_or_default();
        let (id, age) = (paint.id(manifest.id.as_str()), time::age(now, manifest.created_at));
        let from = checkpoint.lineage.as_ref().map(|lineage| format!(" · {}", from(lineage)));
        let facts = paint.faint(&format!("{age}{}", from.unwrap_or_default()));
        _ = writeln!(text, "\n  {number}  {id}{title}  {facts}");
        let held: Vec<&FoundEvent> = found
            .events
            .iter()
            .filter(|event| event.checkpoint.as_deref() == Some(manifest.id.as_str()))
            .collect();
        events(&mut text, &held, now, paint);
    }
    if found.total > found.checkpoints.len() + found.unreadable.len() {
        let more = thousands((found.total - found.checkpoints.len()) as u64);
        _ = writeln!(text, "\n{}", paint.faint(&format!("{more} more; give a number to see them")));
    }
    text
}

/// The history of a file, each change with what agents did about it.
pub fn log(log: &FileLog, now: Timestamp, paint: Paint) -> String {
    if log.total == 0 {
        return format!("No checkpoint changed {}.\n", log.path);
    }
    let times = count(log.total as u64, "checkpoint", "checkpoints");
    let mut text = format!("{}: changed in {times}\n", paint.strong(&log.path.to_string()));
    for change in &log.changes {
        let (id, number) = (paint.id(&change.checkpoint), change.sequence);
        let mut facts = vec![time::age(now, change.created_at), clean(&change.trigger)];
        facts.extend(change.session_id.as_deref().map(|id| format!("session {}", clean(id))));
        let facts = paint.faint(&facts.join(" · "));
        _ = writeln!(
            text,
            "\n  {:8}  {id} {}  {facts}",
            change_word(change.change),
            paint.faint(&format!("#{number}"))
        );
        let did: Vec<&FoundEvent> = change.events.iter().collect();
        events(&mut text, &did, now, paint);
    }
    if log.total > log.changes.len() + log.unreadable.len() {
        let more = thousands((log.total - log.changes.len()) as u64);
        _ = writeln!(text, "\n{}", paint.faint(&format!("{more} more; give a number to see them")));
    }
    text
}

fn events(text: &mut String, events: &[&FoundEvent], now: Timestamp, paint: Paint) {
    for event in events.iter().take(SHOWN) {
        let (session, number) = (clean(&event.session), event.event);
        let id = event.id.as_ref().map(|id| format!(" {}", clean(id))).unwrap_or_default();
        let head =
            format!("{session} #{number} {}{id}, {}", clean(&event.kind), time::age(now, event.at));
        let head = paint.faint(&head);
        _ = match event.excerpt.as_str() {
            "" => writeln!(text, "      {head}"),
            excerpt => writeln!(text, "      {head}: {}", clean(excerpt)),
        };
    }
    if events.len() > SHOWN {
        let more = thousands((events.len() - SHOWN) as u64);
        _ = writeln!(text, "      … {more} more (--json has them)");
    }
}
