//! Unlinking: retired packs whose grace has passed, and what dead writers left behind.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use super::{Collector, GRACE, GcOptions, GcReport};
use crate::disk;
use crate::error::{Error, Result};
use crate::pack::{self, PackId, PackReader};
use crate::store::Store;
use crate::unnamed::is_forsaken;

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

impl Collector<'_> {
    /// The retired packs that still exist. Only synced commits say that a pack is retired: a view
    /// that is wrong must not cost a pack.
    pub(super) fn retired_packs(&self) -> impl Iterator<Item = Retired> {
        let packs = self.store.home.packs();
        self.scan.retired.iter().filter_map(move |(pack, at)| {
            let path = pack.path(&packs);
            let length = path.metadata().ok()?.len();
            Some(Retired { pack: *pack, length, at: *at, path })
        })
    }

    /// Unlinks what may be unlinked.
    pub(super) fn sweep(&mut self, options: &GcOptions<'_>, report: &mut GcReport) -> Result<()> {
        let store = self.store;
        let now = store.clock.now().as_millis();
        let all: Vec<Retired> = self.retired_packs().collect();
        let due = |retired: &Retired| now.saturating_sub(retired.at) >= millis(options.grace);
        let alone = match options.now && !all.iter().all(due) {
            true => store.claim.alone()?,
            false => None,
        };
        report.waiting_bytes = 0;
        let mut removed = 0;
        for retired in all {
            if due(&retired) || alone.is_some() {
                disk::unlink(&*store.disk, &retired.path)?;
                report.freed_bytes += retired.length;
                removed += 1;
            } else {
                report.waiting_bytes += retired.length;
            }
        }
        report.others_reading = options.now && report.waiting_bytes > 0;
        removed += self.remove_leftovers(options.grace, report)?;
        report.packs_removed += removed;
        if removed > 0 {
            disk::sync_dir(&*store.disk, &store.home.packs())?;
            store.forget_open_packs();
        }
        Ok(())
    }

    /// Unlinks bulk packs that no commit names, that no living writer works on, and that are older
    /// than the grace. None if the log is damaged: then the commit that named one may be lost.
    fn remove_leftovers(&mut self, grace: Duration, report: &mut GcReport) -> Result<u64> {
        if self.unnamed_packs(grace)?.is_empty() {
            return Ok(0);
        }
        // Only under the lock every commit is sure to have been read.
        let store = self.store;
        let mut lock = store.lock()?;
        let tail = store.catch_up(&mut lock)?;
        self.renew(&tail)?;
        if self.scan.log_was_hurt {
            return Ok(0);
        }
        let mut removed = 0;
        for pack in self.unnamed_packs(grace)? {
            let reader = PackReader::open(&store.home.packs(), pack)?;
            // From here on no writer can begin with it.
            if reader.is_abandoned() && !self.may_be_of_a_lost_log(&reader)? {
                report.freed_bytes += reader.length()?;
                disk::unlink(&*store.disk, &pack.path(&store.home.packs()))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Whether a pack may be all that is left of checkpoints whose log is lost.
    fn may_be_of_a_lost_log(&self, reader: &PackReader) -> Result<bool> {
        let whole = matches!(reader.footer(), Ok(Some(_)));
        let reached = self.store.reached()?;
        Ok(whole && is_forsaken(&self.scan, reached.as_ref(), reader.modified()?))
    }

    fn unnamed_packs(&self, grace: Duration) -> Result<Vec<PackId>> {
        let scan = &self.scan;
        self.store.old_bulk_packs(grace, &|pack| {
            scan.named_in.contains_key(pack) || scan.retired.contains_key(pack)
        })
    }
}

impl Store {
    /// Bulk packs older than the grace, without those that are named.
    fn old_bulk_packs(
        &self,
        grace: Duration,
        is_named: &dyn Fn(&PackId) -> bool,
    ) -> Result<Vec<PackId>> {
        let packs = self.home.packs();
        let now = self.clock.now().as_millis();
        let mut found = Vec::new();
        for pack in pack::list(&packs)? {
            if matches!(pack, PackId::Log(_)) || is_named(&pack) {
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

    /// Whether gc has something to do that it had not the last time. A hint from the index, which
    /// gc itself does not believe. Cheap enough for every save:
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
        let rows = self.with_index(|index| index.packs())?;
        let named: HashSet<PackId> = rows.into_iter().map(|row| row.pack).collect();
        Ok(!self.old_bulk_packs(GRACE, &|pack| named.contains(pack))?.is_empty())
    }

    /// When the next retired pack can be unlinked, or the next deleted checkpoint or session be
    /// collected.
    fn next_due(&self) -> Result<i64> {
        // What the last gc left although it could have taken it, it will leave again.
        let last = self.with_index(|index| index.note("gc_at"))?.unwrap_or(i64::MIN);
        let packs = self.home.packs();
        let rows = self.with_index(|index| index.packs())?.into_iter();
        let pack = rows
            .filter(|row| row.retired_at.is_some() && row.pack.path(&packs).exists())
            .filter_map(|row| Some(row.retired_at?.saturating_add(millis(GRACE))))
            .min();
        let checkpoint = self.with_index(|index| index.next_burial(last))?;
        let session = self.with_index(|index| index.next_parting(last))?;
        Ok(pack.into_iter().chain(checkpoint).chain(session).min().unwrap_or(i64::MAX))
    }
}
