//! Unlinking: retired packs whose grace has passed, and what dead writers left behind.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use super::{GRACE, GcOptions, GcReport};
use crate::disk;
use crate::document::Tombstone;
use crate::error::{Error, Result};
use crate::pack::{self, PackId, PackReader};
use crate::record::Kind;
use crate::store::Store;

/// The note that says when gc will next have something to do.
pub(crate) const NEXT: &str = "gc_next";

/// A retired pack that still exists.
pub(super) struct Retired {
    pub pack: PackId,
    pub length: u64,
    at: i64,
    path: PathBuf,
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Store {
    /// The retired packs that still exist.
    pub(super) fn retired_packs(&self) -> Result<Vec<Retired>> {
        let packs = self.home.packs();
        let rows = self.with_index(|index| index.packs())?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let path = row.pack.path(&packs);
                let length = path.metadata().ok()?.len();
                Some(Retired { pack: row.pack, length, at: row.retired_at?, path })
            })
            .collect())
    }

    /// Unlinks what may be unlinked. Retired packs are known to be so from synced commits: the
    /// index holds no others.
    pub(super) fn sweep(&self, options: &GcOptions<'_>, report: &mut GcReport) -> Result<()> {
        let now = self.clock.now().as_millis();
        let all = self.retired_packs()?;
        let due = |retired: &Retired| now.saturating_sub(retired.at) >= millis(options.grace);
        let alone = match options.now && !all.iter().all(due) {
            true => self.claim.alone()?,
            false => None,
        };
        report.waiting_bytes = 0;
        let mut removed = 0;
        for retired in all {
            if due(&retired) || alone.is_some() {
                disk::unlink(&*self.disk, &retired.path)?;
                report.freed_bytes += retired.length;
                removed += 1;
            } else {
                report.waiting_bytes += retired.length;
            }
        }
        report.others_reading = options.now && report.waiting_bytes > 0;
        for leftover in self.leftovers(options.grace)? {
            disk::unlink(&*self.disk, &leftover.id.path(&self.home.packs()))?;
            report.freed_bytes += leftover.length()?;
            removed += 1;
        }
        report.packs_removed += removed;
        if removed > 0 {
            disk::sync_dir(&*self.disk, &self.home.packs())?;
            self.forget_open_packs();
        }
        Ok(())
    }

    /// Bulk packs that no commit names, that no living writer works on, and that are older than the
    /// grace. None if the log is damaged: then the commit that named one may be lost.
    /// They are locked as long as what this returns lives, so that no writer begins with one.
    fn leftovers(&self, grace: Duration) -> Result<Vec<PackReader>> {
        let unnamed = self.unnamed_packs(grace)?;
        if unnamed.is_empty() {
            return Ok(Vec::new());
        }
        // Only under the lock the index is sure to know every commit.
        let lock = self.lock()?;
        self.catch_up(&lock)?;
        if self.log_is_hurt()? {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for pack in self.unnamed_packs(grace)? {
            let reader = PackReader::open(&self.home.packs(), pack)?;
            if reader.is_abandoned() {
                found.push(reader);
            }
        }
        Ok(found)
    }

    fn unnamed_packs(&self, grace: Duration) -> Result<Vec<PackId>> {
        let packs = self.home.packs();
        let now = self.clock.now().as_millis();
        let named: HashSet<PackId> =
            self.with_index(|index| index.packs())?.into_iter().map(|row| row.pack).collect();
        let mut found = Vec::new();
        for pack in pack::list(&packs)? {
            if matches!(pack, PackId::Log(_)) || named.contains(&pack) {
                continue;
            }
            match PackReader::open(&packs, pack).and_then(|reader| reader.modified()) {
                Ok(modified) if now.saturating_sub(modified) >= millis(grace) => found.push(pack),
                Ok(_) => {}
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Whether some commit of the log cannot be read.
    fn log_is_hurt(&self) -> Result<bool> {
        let acknowledged = self.with_index(|index| index.acknowledged())?;
        let known = crate::log::Known {
            home: self.home.id,
            acknowledged: acknowledged.as_ref(),
            ..crate::log::Known::default()
        };
        let walked = crate::log::walk(&self.home.packs(), known, &mut |_| Ok(()))?;
        Ok(!walked.damage.is_empty())
    }

    /// Whether gc has something to do that it had not the last time. Cheap enough for every save:
    /// when something will be due is remembered in the index until a delete or a gc changes it.
    pub fn gc_due(&self) -> Result<bool> {
        let now = self.clock.now().as_millis();
        let next = match self.with_index(|index| index.note(NEXT))? {
            Some(next) => next,
            None => {
                let next = self.next_due()?;
                self.with_index(|index| index.set_note(NEXT, next))?;
                next
            }
        };
        if next <= now {
            return Ok(true);
        }
        // Once an hour is often enough for what dead writers left.
        let looked = self.with_index(|index| index.note("leftovers_at"))?.unwrap_or(i64::MIN);
        if now.saturating_sub(looked) < millis(Duration::from_secs(3600)) {
            return Ok(false);
        }
        self.with_index(|index| index.set_note("leftovers_at", now))?;
        Ok(!self.unnamed_packs(GRACE)?.is_empty())
    }

    /// When the next retired pack can be unlinked, or the next deleted checkpoint be collected.
    fn next_due(&self) -> Result<i64> {
        let grace = millis(GRACE);
        let last = self.with_index(|index| index.note("gc_at"))?.unwrap_or(i64::MIN);
        let retired = self.retired_packs()?;
        let mut due: Vec<i64> =
            retired.iter().map(|retired| retired.at.saturating_add(grace)).collect();
        let deleted: HashSet<String> = self
            .with_index(|index| index.deleted())?
            .into_iter()
            .map(|row| row.id.to_string())
            .collect();
        let tombstones = self.with_index(|index| index.documents(Kind::Tombstone, None))?;
        for row in tombstones.iter().filter(|row| deleted.contains(&row.key)) {
            let Ok(tombstone) = serde_json::from_str::<Tombstone>(&row.json) else { continue };
            let at = tombstone.at.as_millis();
            let from = if tombstone.now { at } else { at.saturating_add(grace) };
            // What the last gc left although it could have taken it, it will leave again.
            if from > last {
                due.push(from);
            }
        }
        Ok(due.into_iter().min().unwrap_or(i64::MAX))
    }
}
