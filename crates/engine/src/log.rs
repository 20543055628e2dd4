//! The history of one file, or of a database in one: which checkpoint has it changed, and which session and tool call did that.

use std::collections::{HashMap, HashSet};

use rappel_store::index::CheckpointRow;
use rappel_types::agents::{Body, Event, SessionPart, tools};
use rappel_types::{RelPath, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::{FoundEvent, hashed};
use crate::error::Result;
use crate::list::ListFilter;
use crate::rappel::Rappel;

/// So many things are told between two checkpoints, whether they name the file or not.
const FEW: usize = 5;
/// So many events before a checkpoint are looked at for calls that were running when it was made.
const RUNNING: u64 = 500;
/// Tools that change no file.
const READING: [&str; 5] = ["Read", "Grep", "Glob", "WebFetch", "WebSearch"];

/// The history of a file or folder, newest first.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct FileLog {
    /// Which.
    pub path: RelPath,
    /// How many checkpoints have it changed, whatever the limit.
    pub total: usize,
    /// The newest of them.
    pub changes: Vec<FileChange>,
    /// Checkpoints that cannot be read.
    pub unreadable: Vec<String>,
}

/// A checkpoint that has a file otherwise than the one that it follows.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct FileChange {
    /// The checkpoint.
    pub checkpoint: String,
    /// Its number.
    pub sequence: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// Why.
    pub trigger: String,
    /// The words that it was given.
    pub description: Option<String>,
    /// The session that asked for it.
    pub session_id: Option<String>,
    /// `added`, `modified` or `deleted`; of a folder, `modified` if something in it is.
    pub change: &'static str,
    /// What agents did between this checkpoint and the one that it follows. Where that is much, only
    /// what names the file. Not guaranteed: that it was this that changed the file.
    pub events: Vec<FoundEvent>,
}

impl Rappel {
    /// Who changed a file, and when: at most so many times, the newest.
    pub fn log(&self, path: &RelPath, limit: Option<usize>) -> Result<FileLog> {
        let own = ListFilter { own: true, ..ListFilter::default() };
        let filter = ListFilter { path: Some(path.clone()), all: true, ..own };
        let listing = self.list(&filter)?;
        let ancestry = self.ancestry()?;
        let changed =
            |id: &str| listing.checkpoints.iter().any(|one| one.manifest.id.as_str() == id);
        let rows: Vec<_> =
            ancestry.rows().iter().filter(|row| changed(row.id.as_str())).cloned().collect();
        let mut log = FileLog {
            path: path.clone(),
            total: listing.total,
            changes: Vec::new(),
            unreadable: listing.unreadable,
        };
        for row in rows.iter().rev().take(limit.unwrap_or(usize::MAX)) {
            let Some(checkpoint) = self.view_readable(row, &mut log.unreadable)? else { continue };
            let changes = self.changes_of(row, &ancestry)?;
            let exact = changes.iter().find(|change| change.path == *path);
            let of_file = match exact.map(|change| (&change.old, &change.new)) {
                Some((None, _)) => "added",
                Some((_, None)) => "deleted",
                _ => "modified",
            };
            let change = self.database_change(row, path, &ancestry)?.unwrap_or(of_file);
            let before = ancestry.parent(row, |row| row.holds_files);
            let mut events = self.done_between(before, row)?;
            if events.len() > FEW {
                // Too much for each to be suspected. What deletes a file need not name it.
                events.retain(|one| change != "deleted" && one.names(path).is_some());
            }
            events.sort_by_key(|one| std::cmp::Reverse((one.event.at, one.event.number)));
            log.changes.push(FileChange {
                checkpoint: row.id.to_string(),
                sequence: row.sequence,
                created_at: Timestamp::from_millis(row.created_at),
                trigger: row.trigger.clone(),
                description: checkpoint.manifest.description,
                session_id: checkpoint.manifest.session_id,
                change,
                events: events.into_iter().map(|one| one.told(row, path)).collect(),
            });
        }
        Ok(log)
    }

    /// What agents did after one checkpoint and before the next: calls that had begun by then and had
    /// not ended before.
    fn done_between(
        &self,
        before: Option<&CheckpointRow>,
        row: &CheckpointRow,
    ) -> Result<Vec<Done>> {
        let parts = |row: &CheckpointRow| -> Result<Vec<SessionPart>> {
            let manifest = self.store.manifest(row)?;
            Ok(manifest.agents.map(|agents| agents.sessions).unwrap_or_default())
        };
        let held_before = before.map(parts).transpose()?.unwrap_or_default();
        let saved_before = before.map(|row| Timestamp::from_millis(row.created_at));
        let mut found = Vec::new();
        for part in parts(row)? {
            let known = held_before.iter().find(|one| one.id == part.id);
            let known = known.map_or(0, |one| one.position.event);
            let from = known.saturating_sub(RUNNING);
            let events = self.events_to(&part.id, part.position, from)?;
            // The end of a call may be recorded after the checkpoint that was made at its end.
            let after = self.store.look_up(|index| {
                index.some_events(part.id.as_str(), part.position.event, RUNNING)
            })?;
            let mut ends = HashMap::new();
            let mut told_by_calls = HashSet::new();
            let later = after.iter().filter_map(|row| Event::parse(&row.json).ok());
            for event in events.iter().cloned().chain(later) {
                if let Body::ToolFinished(done) = event.body {
                    told_by_calls.insert(hashed("c", &[&done.of]));
                    told_by_calls.insert(hashed("code", &[&done.of]));
                    ends.entry(done.of).or_insert(event.at);
                }
            }
            for event in events {
                let id = event.id.clone().unwrap_or_default();
                let ended = match &event.body {
                    Body::ToolStarted(call) if !reads(&call.tool) => ends.get(&id).copied(),
                    Body::Tool(call) if !reads(&call.tool) => Some(event.at),
                    Body::Command(_) | Body::Code(_) if !told_by_calls.contains(&id) => {
                        Some(event.at)
                    }
                    _ => continue,
                };
                // What came after the one before it, or is still running.
                let was_over = ended.is_some_and(|ended| Some(ended) < saved_before);
                if !was_over {
                    found.push(Done { session: part.id.to_string(), event });
                }
            }
        }
        Ok(found)
    }
}

/// Something that an agent did.
struct Done {
    session: String,
    event: Event,
}

impl Done {
    /// What it says of a file.
    fn names(&self, path: &RelPath) -> Option<String> {
        self.event.body.excerpt(&path.to_string())
    }

    /// As it is told: what it says of the file, or how it begins.
    fn told(self, row: &CheckpointRow, path: &RelPath) -> FoundEvent {
        let excerpt = self.names(path).unwrap_or_else(|| self.event.body.opening());
        FoundEvent {
            session: self.session,
            event: self.event.number,
            kind: self.event.body.kind().to_owned(),
            id: self.event.id,
            at: self.event.at,
            excerpt,
            checkpoint: Some(row.id.to_string()),
            fork: self.event.fork,
        }
    }
}

fn reads(tool: &str) -> bool {
    READING
        .iter()
        .any(|name| tools::meant_by(name).iter().any(|one| one.eq_ignore_ascii_case(tool)))
}
