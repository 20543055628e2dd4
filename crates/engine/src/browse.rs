//! Looking at checkpoints: listing, showing, reading files out of them.

use std::io::Write;

use rappel_store::index::CheckpointRow;
use rappel_store::{content, tree};
use rappel_types::{Entry, Node, Reference, RelPath, Timestamp, Trigger};
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// Which checkpoints to list.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// At most so many; `None` is all.
    pub limit: Option<usize>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only for this reason.
    pub trigger: Option<Trigger>,
    /// Only from then on.
    pub since: Option<Timestamp>,
    /// Only up to then.
    pub until: Option<Timestamp>,
    /// Only of this session.
    pub session: Option<String>,
    /// Those of agent state alone too.
    pub all: bool,
    /// Of every workspace in the home.
    pub all_workspaces: bool,
    /// Those that were deleted and can still be brought back, instead.
    pub deleted: bool,
}

/// Checkpoints, newest first.
#[derive(Debug, Clone, Serialize)]
pub struct Listing {
    /// How many there are, whatever the limit.
    pub total: usize,
    /// The newest of them.
    pub checkpoints: Vec<Checkpoint>,
    /// What `latest` means.
    pub latest: Option<String>,
    /// Those that would be among them and cannot be read: damaged, or made by a later version.
    pub unreadable: Vec<String>,
}

impl Rappel {
    /// Lists checkpoints, newest first.
    pub fn list(&self, filter: &ListFilter) -> Result<Listing> {
        let mut rows = match (filter.deleted, filter.all_workspaces) {
            (true, _) => self.deleted_rows()?,
            (false, true) => self.store.look_up(|index| index.checkpoints(None))?,
            (false, false) => self.rows()?,
        };
        let reference = Reference { base: rappel_types::reference::Base::Latest, back: 0 };
        let latest = match (filter.deleted, filter.all_workspaces) {
            (false, false) => self.resolve_base(&reference, &rows, true).ok(),
            _ if rows.is_empty() => None,
            _ => self.resolve(&reference, true).ok(),
        };
        let latest = latest.map(|row| row.id.to_string());
        rows.sort_by_key(|row| std::cmp::Reverse((row.created_at, row.birth)));
        if !filter.all_workspaces {
            // In one workspace the order is the sequence, even if the clock stepped back.
            rows.sort_by_key(|row| std::cmp::Reverse(row.sequence));
        }
        rows.retain(|row| {
            (filter.all || row.holds_files)
                && filter.trigger.is_none_or(|trigger| row.trigger == trigger.as_str())
                && filter.since.is_none_or(|since| row.created_at >= since.as_millis())
                && filter.until.is_none_or(|until| row.created_at <= until.as_millis())
        });
        let limit = filter.limit.unwrap_or(usize::MAX);
        let picky = filter.tag.is_some() || filter.session.is_some();
        let mut checkpoints = Vec::new();
        let mut unreadable = Vec::new();
        let mut total = 0;
        for row in &rows {
            if checkpoints.len() >= limit && !picky {
                break;
            }
            let checkpoint = match self.view(row) {
                Ok(checkpoint) => checkpoint,
                Err(error) if error.is_unreadable() => {
                    unreadable.push(row.id.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let tagged = |tag: &String| checkpoint.manifest.tags.contains(tag);
            let of_session =
                |session: &String| checkpoint.manifest.session_id.as_ref() == Some(session);
            if filter.tag.as_ref().is_none_or(tagged)
                && filter.session.as_ref().is_none_or(of_session)
            {
                total += 1;
                if checkpoints.len() < limit {
                    checkpoints.push(checkpoint);
                }
            }
        }
        let total = if picky { total } else { rows.len() };
        Ok(Listing { total, checkpoints, latest, unreadable })
    }

    /// One checkpoint with everything known about it.
    pub fn show(&self, reference: &Reference) -> Result<Checkpoint> {
        self.view(&self.resolve(reference, true)?)
    }

    /// Every path that a checkpoint holds, in order.
    pub fn files_of(&self, reference: &Reference) -> Result<Vec<Entry>> {
        let row = self.resolve(reference, true)?;
        match self.store.manifest(&row)?.files {
            Some(files) => Ok(tree::read(self.source(), &files.tree)?),
            None => Ok(Vec::new()),
        }
    }

    /// Writes one file as a checkpoint holds it to `out`; a link's target if it is one.
    pub fn cat(&self, reference: &Reference, path: &RelPath, out: &mut dyn Write) -> Result<()> {
        let row = self.resolve(reference, true)?;
        let missing = || Error::NoPath { checkpoint: row.id.to_string(), path: path.to_string() };
        match self.node_at(&row, path)?.ok_or_else(missing)? {
            Node::File { size, content, .. } => {
                Ok(content::write_to(self.source(), &content, size, out)?)
            }
            Node::Symlink { target } => {
                out.write_all(&target).map_err(Error::io("write", "the link's target"))
            }
            Node::Directory { .. } => Err(Error::Usage {
                message: format!("{path} is a folder"),
                hint: Some(format!("rappel show {} --files lists it", row.id)),
            }),
        }
    }

    pub(crate) fn node_at(&self, row: &CheckpointRow, path: &RelPath) -> Result<Option<Node>> {
        match self.store.manifest(row)?.files {
            Some(files) => Ok(tree::lookup(self.source(), &files.tree, path)?),
            None => Ok(None),
        }
    }
}
