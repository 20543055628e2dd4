//! The history of one file, or of a database in one: which checkpoint has it changed, and which session and tool call did that.

use rappel_types::{RelPath, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::FoundEvent;
use crate::error::Result;
use crate::list::ListFilter;
use crate::rappel::Rappel;

/// Events that can change a file.
const DOING: [&str; 4] = ["tool", "tool-started", "command", "code"];

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
    /// What agents did that names the file and is in no earlier checkpoint of these. Not guaranteed: that it was this
    /// that changed the file.
    pub events: Vec<FoundEvent>,
}

impl Rappel {
    /// Who changed a file, and when: at most so many times, the newest.
    pub fn log(&self, path: &RelPath, limit: Option<usize>) -> Result<FileLog> {
        let own = ListFilter { own: true, ..ListFilter::default() };
        let filter = ListFilter { path: Some(path.clone()), all: true, ..own.clone() };
        let listing = self.list(&filter)?;
        let ancestry = self.ancestry()?;
        let changed =
            |id: &str| listing.checkpoints.iter().any(|one| one.manifest.id.as_str() == id);
        let rows: Vec<_> =
            ancestry.rows().iter().filter(|row| changed(row.id.as_str())).cloned().collect();
        let said = ListFilter { text: Some(path.to_string()), ..own };
        let events = self.find_events(&said, &rows)?;
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
            let did = events.iter().filter(|event| {
                event.checkpoint.as_deref() == Some(row.id.as_str())
                    && DOING.contains(&event.kind.as_str())
            });
            log.changes.push(FileChange {
                checkpoint: row.id.to_string(),
                sequence: row.sequence,
                created_at: Timestamp::from_millis(row.created_at),
                trigger: row.trigger.clone(),
                description: checkpoint.manifest.description,
                session_id: checkpoint.manifest.session_id,
                change,
                events: did.cloned().collect(),
            });
        }
        Ok(log)
    }
}
