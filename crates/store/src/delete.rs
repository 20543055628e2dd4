//! Deleting and bringing back checkpoints, by records: a tombstone kills what was born before it,
//! and a manifest that is appended again was born after.

use rappel_types::{CheckpointId, WorkspaceId};

use crate::append::{Change, Space};
use crate::closure::{Closure, Reference, named_in};
use crate::codec::Effort;
use crate::document::{DOCUMENT_VERSION, Tombstone};
use crate::error::{Error, Result};
use crate::index::{Body, CheckpointRow};
use crate::outline::Outline;
use crate::record::{self, Kind, Packing};
use crate::sink::Source;
use crate::store::{Store, decode_manifest};
use crate::writer::{NewRecord, Spool};

impl Store {
    /// Deletes checkpoints, in one commit. Those that are deleted already are passed over; the
    /// others can be brought back until gc has taken what only they need: at once if `now`, else
    /// after the grace. Works on a full disk.
    pub fn delete(&self, rows: &[CheckpointRow], now: bool) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.bury(&mut || {
            let mut found = Vec::new();
            for row in rows {
                let row = self.with_index(|index| index.checkpoint(&row.id))?;
                let Some((row, false)) = row else { continue };
                found.push(self.tombstone(row.id, row.workspace, row.sequence, now)?);
            }
            Ok(found)
        })
    }

    /// Whether damage has taken all of a checkpoint, so that it is known to be lost and no more.
    pub fn is_lost(&self, id: &CheckpointId) -> Result<bool> {
        Ok(self.lost_checkpoint(id)?.is_some())
    }

    /// Lets go of checkpoints that are lost: nobody is told of them any more.
    pub fn delete_lost(&self, ids: &[CheckpointId]) -> Result<()> {
        // On a full disk even a look at the log may fail: it is taken into the index.
        if ids.is_empty() {
            return Ok(());
        }
        self.bury(&mut || {
            let mut found = Vec::new();
            for id in ids {
                let loss = self.lost_checkpoint(id)?;
                let known = loss.and_then(|loss| Some((loss.workspace?, loss.sequence?)));
                let Some((workspace, sequence)) = known else { continue };
                found.push(self.tombstone(id.clone(), workspace, sequence, true)?);
            }
            Ok(found)
        })
    }

    fn tombstone(
        &self,
        checkpoint: CheckpointId,
        workspace: WorkspaceId,
        sequence: u64,
        now: bool,
    ) -> Result<(String, String)> {
        let (version, at) = (DOCUMENT_VERSION, self.clock.now());
        let key = checkpoint.to_string();
        let tombstone = Tombstone { version, checkpoint, workspace, sequence, at, now };
        let json = serde_json::to_string(&tombstone)
            .map_err(|error| Error::Damaged(format!("tombstone: {error}")))?;
        Ok((key, json))
    }

    /// Appends the tombstones that `choose` finds due under the lock, in one commit: what each is
    /// about, and what it says.
    pub(crate) fn bury(
        &self,
        choose: &mut dyn FnMut() -> Result<Vec<(String, String)>>,
    ) -> Result<()> {
        self.with_reserve(|| {
            let mut lock = self.lock()?;
            let tail = self.catch_up(&mut lock)?;
            let mut spool = Spool::default();
            for (key, json) in choose()? {
                let new = NewRecord::Document { kind: Kind::Tombstone, key, json };
                let (kind, record, body) = self.encode_new(new)?;
                spool.add(self, kind, &record, body)?;
            }
            if spool.is_empty() {
                return Ok(());
            }
            let change = Change { generation: tail.generation, ..Change::default() };
            let (entries, commit, position) =
                self.append(&mut lock, &tail, spool, change, Space::Urgent)?;
            drop(lock);
            // Durable; the next process brings the index up to date if this cannot.
            let behind = tail.indexed_sequence();
            let _ = self.with_index(|index| index.apply_own(&entries, &commit, &position, behind));
            Ok(())
        })
    }

    /// Brings back a deleted checkpoint; false if no such checkpoint is known. If gc has taken
    /// something that it needs, that is [`Error::Collected`].
    pub fn undelete(&self, id: &CheckpointId) -> Result<bool> {
        // Gc may run between the look at what it needs and the lock; it cannot do so often.
        for _ in 0..5 {
            let (found, generation) = self.with_index(|index| {
                index.reload()?;
                let generation = index.position()?.map_or(0, |position| position.generation);
                Ok((index.checkpoint(id)?, generation))
            })?;
            let Some((row, deleted)) = found else { return Ok(false) };
            if !deleted {
                return Ok(true);
            }
            let json = self.get(&row.manifest).map_err(|_| Error::Collected(id.clone()))?;
            let manifest = decode_manifest(&json)?;
            if !self.is_whole(&json)? {
                return Err(Error::Collected(id.clone()));
            }
            let mut lock = self.lock()?;
            let tail = self.catch_up(&mut lock)?;
            if tail.generation != generation {
                continue;
            }
            let record = record::encode(Kind::Manifest, 0, &json, Packing::Zstd(Effort::Normal))?;
            let mut spool = Spool::default();
            spool.add(
                self,
                Kind::Manifest,
                &record,
                Body::Manifest(Box::new(Outline::of(&manifest))),
            )?;
            let change = Change { generation, ..Change::default() };
            let (entries, commit, position) =
                self.append(&mut lock, &tail, spool, change, Space::Ordinary)?;
            drop(lock);
            let behind = tail.indexed_sequence();
            let _ = self.with_index(|index| index.apply_own(&entries, &commit, &position, behind));
            return Ok(true);
        }
        Err(Error::Moved)
    }

    /// Whether everything that a manifest refers to is in the store. A deleted checkpoint's
    /// manifest can outlive what it refers to.
    fn is_whole(&self, json: &[u8]) -> Result<bool> {
        let manifest = decode_manifest(json)?;
        let mut closure = Closure::default();
        if let Some(files) = manifest.files {
            closure.add(Reference::Node(files.tree));
        }
        let bad = |error: serde_json::Error| Error::Damaged(format!("manifest: {error}"));
        let mut named = Vec::new();
        named_in(&serde_json::from_slice(json).map_err(bad)?, &mut named);
        for id in named {
            let known = self.with_index(|index| index.find(&id))?;
            if !known.is_empty() {
                closure.add(Reference::Unknown(id));
            }
        }
        let whole = closure.follow(self, &mut |id| self.stands(id));
        match closure.newer.pop() {
            Some((_, error)) => Err(error),
            None => Ok(whole),
        }
    }
}
