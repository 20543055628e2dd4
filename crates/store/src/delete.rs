//! Deleting and bringing back checkpoints, by records: a tombstone kills what was born before it,
//! and a manifest that is appended again was born after.

use rappel_types::CheckpointId;

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
        self.with_reserve(|| {
            let mut lock = self.lock()?;
            let tail = self.catch_up(&lock)?;
            let mut spool = Spool::default();
            for row in rows {
                let found = self.with_index(|index| index.checkpoint(&row.id))?;
                let Some((row, false)) = found else { continue };
                let tombstone = Tombstone {
                    version: DOCUMENT_VERSION,
                    checkpoint: row.id.clone(),
                    workspace: row.workspace,
                    sequence: row.sequence,
                    at: self.clock.now(),
                    now,
                };
                let json = serde_json::to_string(&tombstone)
                    .map_err(|error| Error::Damaged(format!("tombstone: {error}")))?;
                let key = row.id.to_string();
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
            let tail = self.catch_up(&lock)?;
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
        Ok(closure.follow(self, &mut |id| self.stands(id)))
    }
}
