//! Checkpoints of another tool, and short words for what tests do with them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rappel::formats::portable::{File, Files, Session};
use rappel::formats::{Form, Portable};
use rappel::types::agents::{SessionState, SessionStatus};
use rappel::types::{RelPath, Timestamp, Trigger};
use rappel::{Arrivals, Checkpoint, Imported, ListFilter, Rappel};

use crate::support::{World, reference};

pub fn at(minute: i64) -> Timestamp {
    let start: Timestamp = "2026-10-01T08:00:00Z".parse().unwrap();
    Timestamp::from_millis(start.as_millis() + minute * 60_000)
}

/// A checkpoint that holds nothing but its words.
pub fn words(id: &str, minute: i64) -> Portable {
    let mut portable = Portable::new(id, at(minute), Trigger::Manual);
    portable.description = Some(format!("words of {id}"));
    portable
}

/// A checkpoint with all of these files.
pub fn with_files(id: &str, minute: i64, files: &[(&str, &str)]) -> Portable {
    let mut portable = words(id, minute);
    portable.files = Some(Files {
        root: "/elsewhere/app".into(),
        whole: true,
        state_dirs: Vec::new(),
        entries: files.iter().map(|(path, text)| (rel(path), file(text))).collect(),
    });
    portable
}

pub fn file(text: &str) -> File {
    let content = Arc::new(text.as_bytes().to_vec());
    File { is_link: false, mode: 0o644, modified: None, content }
}

pub fn rel(path: &str) -> RelPath {
    RelPath::new(path).unwrap()
}

/// A session that had these thoughts.
pub fn session(id: &str, thoughts: &[&str]) -> Session {
    let mut state = SessionState::new("theirs".parse().unwrap());
    for (number, text) in thoughts.iter().enumerate() {
        let line = serde_json::json!({
            "id": format!("t{number}"), "type": "reasoning", "content": text,
            "confidence": null, "parent": null, "created_at": at(number as i64),
        });
        state.thought_chain.push(serde_json::from_value(line).unwrap());
    }
    Session {
        id: id.into(),
        conversation_id: None,
        assistant_session_id: None,
        provider: Some("theirs".into()),
        task: Some("a task".into()),
        status: SessionStatus::Running,
        started_at: Some(at(0)),
        state,
    }
}

pub fn arrivals(form: Form, place: &str, checkpoints: Vec<Portable>) -> Arrivals {
    Arrivals { form, place: Path::new(place).to_owned(), checkpoints }
}

pub fn import(world: &World, form: Form, place: &str, checkpoints: Vec<Portable>) -> Imported {
    world.open().import_checkpoints(&arrivals(form, place, checkpoints)).unwrap()
}

pub fn show(rappel: &Rappel, text: &str) -> Checkpoint {
    rappel.show(&reference(text)).unwrap()
}

/// The ids that a list shows, newest first.
pub fn listed(rappel: &Rappel) -> Vec<String> {
    ids(rappel, &ListFilter { all: true, ..ListFilter::default() })
}

pub fn ids(rappel: &Rappel, filter: &ListFilter) -> Vec<String> {
    let listing = rappel.list(filter).unwrap();
    listing.checkpoints.iter().map(|one| one.manifest.id.to_string()).collect()
}

/// Every file of a checkpoint with its text.
pub fn files_of(rappel: &Rappel, text: &str) -> BTreeMap<String, String> {
    let entries = rappel.files_of(&reference(text)).unwrap();
    let files = entries.into_iter().filter_map(|entry| {
        let mut out = Vec::new();
        rappel.cat(&reference(text), &entry.path, &mut out).ok()?;
        Some((entry.path.to_string(), String::from_utf8(out).unwrap()))
    });
    files.collect()
}
