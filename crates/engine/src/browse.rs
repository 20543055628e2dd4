//! Looking at one checkpoint: showing it, reading files out of it.

use std::io::Write;

use rappel_capture::databases::sqlite;
use rappel_store::index::CheckpointRow;
use rappel_store::{content, tree};
use rappel_types::Advice;
use rappel_types::agents::{Lineage, SessionId, SessionPosition};
use rappel_types::{CheckpointId, Entry, Node, Reference, RelPath};

use crate::ancestry::Ancestry;
use crate::checkpoint::Checkpoint;
use crate::databases::sqlite_at;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

impl Rappel {
    /// What a checkpoint changed in the files of the one that it follows; all of them if it is the first.
    pub(crate) fn changes_of(
        &self,
        row: &CheckpointRow,
        ancestry: &Ancestry,
    ) -> Result<Vec<tree::Change>> {
        let Some(files) = self.store.manifest(row)?.files else { return Ok(Vec::new()) };
        let before = match ancestry.parent(row, |row| row.holds_files) {
            Some(parent) => self.store.manifest(parent)?.files,
            None => None,
        };
        match before {
            Some(before) => Ok(tree::diff(self.source(), &before.tree, &files.tree)?),
            None => {
                let entries = tree::read(self.source(), &files.tree)?.into_iter();
                let added = |entry: Entry| tree::Change {
                    path: entry.path,
                    old: None,
                    new: Some(entry.node),
                };
                Ok(entries.map(added).collect())
            }
        }
    }

    /// One checkpoint with everything known about it.
    pub fn show(&self, reference: &Reference) -> Result<Checkpoint> {
        self.view(&self.resolve(reference, true)?)
    }

    /// The checkpoint that holds the most of a session, as its journal stands now: what a restore took
    /// back does not count.
    pub fn newest_holding(&self, session: &SessionId) -> Result<Option<CheckpointId>> {
        self.session(session)?;
        let id = session.as_str();
        let (hits, last, lineage) = self.store.look_up(|index| {
            Ok((index.held(id)?, index.last_event(id)?, Lineage::new(index.forks(id)?)))
        })?;
        let (now, last) = (lineage.current(), last.unwrap_or_default());
        let mut newest: Option<(u64, CheckpointRow)> = None;
        for hit in hits {
            let SessionPosition { fork, event } = hit.position;
            let Ok(id) = hit.checkpoint.parse() else { continue };
            let row = self.store.checkpoint(&id)?.map(|row| (event, row));
            let row = row.filter(|_| lineage.knows(now, last, fork, event));
            newest = newest.into_iter().chain(row).max_by_key(|(event, row)| (*event, row.birth));
        }
        Ok(newest.map(|(_, row)| row.id))
    }

    /// Every path that a checkpoint holds, in order.
    pub fn files_of(&self, reference: &Reference) -> Result<Vec<Entry>> {
        let row = self.resolve(reference, true)?;
        match self.store.manifest(&row)?.files {
            Some(files) => Ok(tree::read(self.source(), &files.tree)?),
            None => Ok(Vec::new()),
        }
    }

    /// Writes one file as a checkpoint holds it to `out`; a link's target if it is one, and a
    /// database of SQLite as one file, without a write-ahead log.
    pub fn cat(&self, reference: &Reference, path: &RelPath, out: &mut dyn Write) -> Result<()> {
        let row = self.resolve(reference, true)?;
        let missing = || Error::NoPath { checkpoint: row.id.to_string(), path: path.to_string() };
        let node = self.node_at(&row, path)?;
        if node.is_none()
            && let Some(database) = sqlite_at(&self.store.manifest(&row)?, path)
        {
            return sqlite::write_to(self.source(), database, out)
                .map_err(|error| Error::Database { name: database.name.clone(), error });
        }
        match node.ok_or_else(missing)? {
            Node::File { size, content, .. } => {
                Ok(content::write_to(self.source(), &content, size, out)?)
            }
            Node::Symlink { target } => {
                out.write_all(&target).map_err(Error::io("write", "the link's target"))
            }
            Node::Directory { .. } => Err(Error::Usage {
                message: format!("{path} is a folder"),
                advice: vec![Advice::ShowFiles { checkpoint: row.id.to_string() }],
            }),
        }
    }

    /// How long a file is that a checkpoint holds; `None` where only writing it tells (a link, a
    /// database).
    pub fn length_of(&self, reference: &Reference, path: &RelPath) -> Result<Option<u64>> {
        let row = self.resolve(reference, true)?;
        Ok(match self.node_at(&row, path)? {
            Some(Node::File { size, .. }) => Some(size),
            _ => None,
        })
    }

    pub(crate) fn node_at(&self, row: &CheckpointRow, path: &RelPath) -> Result<Option<Node>> {
        match self.store.manifest(row)?.files {
            Some(files) => Ok(tree::lookup(self.source(), &files.tree, path)?),
            None => Ok(None),
        }
    }
}
