//! Upkeep: deleting, collecting garbage, verifying.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use rappel_store::content;
use rappel_store::gc::{GcOptions, GcReport};
use rappel_store::held;
use rappel_store::index::CheckpointRow;
use rappel_store::sink::{Nothing, Role, Scratch, Sink, Source, id_of};
use rappel_store::verify::{RepairReport, Scope, VerifyReport};
use rappel_types::Advice;
use rappel_types::reference::Base;
use rappel_types::{CheckpointId, Content, Manifest, Node, ObjectId, Reference, RelPath};

use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::rappel::Rappel;

/// A sink that keeps nothing but the one object it waits for.
struct Catcher {
    wanted: ObjectId,
    caught: Mutex<HashMap<ObjectId, Vec<u8>>>,
}

impl Source for Catcher {
    fn get(&self, id: &ObjectId) -> rappel_store::Result<Arc<[u8]>> {
        Err(rappel_store::Error::Missing(*id))
    }
}

impl Sink for Catcher {
    fn put(&self, _: Role, bytes: &[u8], _: Option<&ObjectId>) -> rappel_store::Result<ObjectId> {
        let id = id_of(bytes);
        if id == self.wanted {
            let mut caught = self.caught.lock().unwrap_or_else(PoisonError::into_inner);
            caught.insert(id, bytes.to_vec());
        }
        Ok(id)
    }
}

/// What upkeep is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpkeepDue {
    /// Retention is to be applied.
    pub retention: bool,
    /// There is something to free.
    pub gc: bool,
}

impl Rappel {
    /// Deletes checkpoints. What others need stays; the space comes back after a day, or with the
    /// next gc if `now`. An unfinished restore's checkpoints cannot be deleted. One that damage has
    /// taken is not told of any more.
    pub fn delete(&self, references: &[Reference], now: bool) -> Result<Vec<CheckpointId>> {
        let mut rows: Vec<CheckpointRow> = Vec::new();
        let mut lost: Vec<CheckpointId> = Vec::new();
        for reference in references {
            match self.resolve(reference, false) {
                Ok(row) if rows.iter().any(|known| known.id == row.id) => {}
                Ok(row) => rows.push(row),
                Err(Error::Lost { checkpoint }) => lost.push(checkpoint),
                Err(error) => return Err(error),
            }
        }
        for row in &rows {
            // One that cannot be read can be deleted, whatever its labels say.
            if self.view(row).is_ok_and(|checkpoint| checkpoint.pinned) {
                return Err(Error::Pinned { checkpoint: row.id.clone() });
            }
        }
        let needed = self.checkpoints_of_open_restores()?;
        if let Some(row) = rows.iter().find(|row| needed.contains(&row.id)) {
            return Err(Error::Usage {
                message: format!("{} is needed by an unfinished restore", row.id),
                advice: vec![Advice::ShowUnfinished],
            });
        }
        self.store.delete(&rows, now)?;
        self.store.delete_lost(&lost)?;
        Ok(rows.into_iter().map(|row| row.id).chain(lost).collect())
    }

    /// Brings back a deleted checkpoint, as long as gc has not taken it: by its id, the beginning
    /// of it, or its number.
    pub fn undelete(&self, text: &str) -> Result<Checkpoint> {
        let id = self.to_undelete(text)?;
        self.store.undelete(&id)?;
        let row = self.store.checkpoint(&id)?.ok_or(Error::Deleted { checkpoint: id })?;
        self.view(&row)
    }

    /// The same for several: none comes back if one of them cannot be meant.
    pub fn undelete_all(&self, texts: &[String]) -> Result<Vec<Checkpoint>> {
        // An id and a number may mean the same one.
        let mut ids: Vec<CheckpointId> = Vec::new();
        for text in texts {
            let id = self.to_undelete(text)?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids.iter().map(|id| self.undelete(id.as_str())).collect()
    }

    /// The deleted checkpoint that is meant.
    fn to_undelete(&self, text: &str) -> Result<CheckpointId> {
        let deleted = self.deleted_rows()?;
        let missing = || Error::NotDeleted {
            reference: text.to_owned(),
            deleted: deleted.iter().rev().take(3).map(|row| row.id.to_string()).collect(),
        };
        let known = text.parse().ok().filter(|id| {
            let found = self.store.look_up(|index| index.checkpoint(id));
            found.is_ok_and(|found| found.is_some())
        });
        let own = self.workspace_id();
        let is_number =
            |row: &CheckpointRow| row.sequence.to_string() == text && Some(row.workspace) == own;
        let of_origin = match text.parse::<Reference>().map(|reference| reference.base) {
            Ok(Base::Imported { format, id }) => self.deleted_with_origin(format, id.as_str())?,
            _ => Vec::new(),
        };
        let meant: Vec<_> = deleted
            .iter()
            .filter(|row| {
                row.id.as_str().starts_with(text) || is_number(row) || of_origin.contains(row)
            })
            .collect();
        match (known, &meant[..]) {
            (Some(id), _) => Ok(id),
            (None, [one]) => Ok(one.id.clone()),
            (None, []) => Err(missing()),
            (None, several) => {
                let several: Vec<_> = several.iter().map(|row| (*row).clone()).collect();
                Err(self.ambiguous(text.to_owned(), &several))
            }
        }
    }

    /// Frees what nothing needs any more; with `now` without waiting out the grace of packs. What was
    /// deleted less than a day ago can still be brought back.
    pub fn gc(&self, now: bool, dry_run: bool) -> Result<GcReport> {
        self.collect(now, false, dry_run)
    }

    /// Frees at once all that nothing needs any more and all that was deleted, whenever that was and
    /// in whichever workspace: nothing of it can be brought back.
    pub fn gc_deleted(&self, dry_run: bool) -> Result<GcReport> {
        self.collect(true, true, dry_run)
    }

    /// Frees the space of checkpoints that were deleted for good. Nothing if another process is at it:
    /// the next gc finds them too.
    pub fn free_deleted_for_good(&self) -> Result<Option<GcReport>> {
        match self.gc(true, false) {
            Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
            freed => freed.map(Some),
        }
    }

    /// The deleted checkpoints of all workspaces that can still be brought back.
    pub fn deleted_everywhere(&self) -> Result<Vec<Manifest>> {
        let rows = self.store.look_up(|index| index.deleted())?;
        let mut found = Vec::new();
        for row in rows {
            let Ok(Checkpoint { manifest, .. }) = self.view(&row) else { continue };
            if !self.deleted_for_good(&row)? {
                found.push(manifest);
            }
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }

    fn collect(&self, now: bool, deleted: bool, dry_run: bool) -> Result<GcReport> {
        let roots = self.checkpoints_of_open_restores()?;
        let watch = |step| self.at_gc(step);
        let progress = Some(&watch as _);
        let options = GcOptions { now, deleted, dry_run, roots, progress, ..GcOptions::default() };
        let report = self.store.gc(&options)?;
        if !dry_run {
            self.sweep_imports();
        }
        tracing::info!(
            now,
            deleted,
            dry_run,
            freed_bytes = report.freed_bytes,
            waiting_bytes = report.waiting_bytes,
            "collected garbage"
        );
        Ok(report)
    }

    /// What upkeep is due, cheaply.
    pub fn upkeep_due(&self) -> UpkeepDue {
        // Whoever asks for gc is the one who starts it: it is due once an hour.
        let gc = self.store.gc_due().unwrap_or(false);
        UpkeepDue { retention: self.prune_due(), gc }
    }

    /// Applies retention if that is due, and frees space if `gc`.
    pub fn tend(&self, gc: bool) -> Result<()> {
        let pruned = self.prune_if_due();
        if gc {
            self.gc(false, false)?;
        }
        pruned.map(drop)
    }

    /// Reads and checks everything, or one checkpoint. Finding damage is no error.
    pub fn verify(&self, reference: Option<&Reference>) -> Result<VerifyReport> {
        let scope = match reference {
            Some(reference) => Scope::Checkpoint(self.resolve(reference, false)?.id),
            None => Scope::All,
        };
        let mut report = self.store.verify(&scope, Some(&|step| self.at_verify(step)))?;
        if reference.is_none() {
            self.note_hurt(&report.hurt);
            let damaged = self.intents().list()?.damaged;
            let told = damaged.iter().map(|d| format!("{}: {}", d.path.display(), d.reason));
            report.damage.extend(told);
        }
        tracing::info!(
            packs = report.packs,
            objects = report.objects,
            checkpoints = report.checkpoints,
            damage = report.damage.len(),
            hurt = report.hurt.len(),
            "verified"
        );
        Ok(report)
    }

    /// Brings back what can be brought back: from other records, or from the workspace's files.
    /// Never removes anything.
    pub fn repair(&self) -> Result<RepairReport> {
        // What is damaged in a tree is made again with the tree of the present files.
        let trees = Scratch::over(&Nothing);
        let files: OnceCell<Vec<(RelPath, Content, u64)>> = OnceCell::new();
        let fetch = |id: &ObjectId| {
            let files = files.get_or_init(|| self.present_files(&trees).unwrap_or_default());
            let node = trees.get(id).ok().map(|bytes| bytes.to_vec());
            node.or_else(|| {
                let mut files = files.iter();
                files.find_map(|(path, content, size)| self.fetch_from(path, content, *size, id))
            })
        };
        let report = self.store.repair(&fetch, Some(&|step| self.at_verify(step)))?;
        self.note_hurt(&report.lost);
        tracing::info!(healed = report.healed.len(), lost = report.lost.len(), "repaired");
        Ok(report)
    }

    /// The workspace's files as they are now, with what they would be stored as.
    fn present_files(&self, trees: &Scratch<'_>) -> Result<Vec<(RelPath, Content, u64)>> {
        let now = self.scan(trees, None, &[])?;
        let files = now.scanned.changes.into_iter().filter_map(|(path, node)| match node? {
            Node::File { content, size, .. } => Some((path, content, size)),
            _ => None,
        });
        Ok(files.collect())
    }

    /// An object's bytes out of a file, if the file has it.
    fn fetch_from(
        &self,
        path: &RelPath,
        content: &Content,
        size: u64,
        wanted: &ObjectId,
    ) -> Option<Vec<u8>> {
        let may_hold = match content {
            Content::Whole(id) => id == wanted,
            Content::Chunked(_) => true,
        };
        if !may_hold {
            return None;
        }
        let full = self.root.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        let mut file = held::open(full).ok()?;
        let catcher = Catcher { wanted: *wanted, caught: Mutex::default() };
        content::store(&catcher, &mut file, size, None).ok()?;
        catcher.caught.into_inner().unwrap_or_else(PoisonError::into_inner).remove(wanted)
    }

    /// Checkpoints that an unfinished restore may still need, in any workspace. One whose plan cannot
    /// be read may need any that was deleted.
    pub(crate) fn checkpoints_of_open_restores(&self) -> Result<Vec<CheckpointId>> {
        let listing = self.intents().list()?;
        let deleted = match listing.damaged.is_empty() {
            true => Vec::new(),
            false => self.store.look_up(|index| index.deleted())?,
        };
        let open = listing.open.into_iter();
        let needed = open.flat_map(|intent| [intent.header.target, intent.header.safety]);
        Ok(needed.chain(deleted.into_iter().map(|row| row.id)).collect())
    }
}
