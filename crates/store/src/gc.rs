//! Collecting garbage: mark what lives, retire packs, copy what lives out of them, unlink them
//! after a grace.
//!
//! Marking and copying are done without the append lock, from the packs themselves. Under the lock
//! only what was committed meanwhile is marked on top, and one short commit says which packs no
//! longer count. Whatever could not be read is taken for something that may need everything as old
//! as it is.

mod copy;
mod mark;
mod plan;
pub(crate) mod sweep;

use std::collections::HashSet;
use std::time::Duration;

use rappel_types::CheckpointId;

use crate::append::{Change, Space};
use crate::error::{Error, Result};
use crate::lock::{Lock, Turn};
use crate::log::{self, Named, Tail};
use crate::pack::PackId;
use crate::scan::{Depth, Scan};
use crate::store::Store;
use crate::writer::Spool;
use copy::Copies;
use mark::{Marks, Rules};
use plan::Plan;

/// How long what was deleted can be brought back, and retired packs stay.
pub const GRACE: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a group of packs is tried again that others kept busy.
const ATTEMPTS: usize = 3;

/// How far gc is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The packs are being read.
    Reading,
    /// So many packs of so many have been dealt with.
    Packs {
        /// Dealt with.
        done: usize,
        /// Of.
        total: usize,
    },
}

/// What gc is to do.
pub struct GcOptions<'a> {
    /// Unlink retired packs at once, if nobody else reads.
    pub now: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Free what was deleted, whenever that was and whoever may want to go back to it.
    pub deleted: bool,
    /// How long deleted checkpoints and retired packs stay.
    pub grace: Duration,
    /// Checkpoints that must stay, deleted or not: those of unfinished restores.
    pub roots: Vec<CheckpointId>,
    /// Checkpoints to leave out of the count, as if they were deleted for good. Only a dry run
    /// takes them.
    pub without: Vec<CheckpointId>,
    /// Sessions to leave out of the count likewise.
    pub without_sessions: Vec<String>,
    /// Told how far it is; an error, [`Error::Cancelled`] say, stops it.
    pub progress: Option<&'a dyn Fn(Progress) -> Result<()>>,
}

impl Default for GcOptions<'_> {
    fn default() -> Self {
        let (now, dry_run, deleted) = (false, false, false);
        Self {
            now,
            dry_run,
            deleted,
            grace: GRACE,
            roots: Vec::new(),
            without: Vec::new(),
            without_sessions: Vec::new(),
            progress: None,
        }
    }
}

/// What gc has done, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
pub struct GcReport {
    /// Objects that something needs.
    pub live_objects: u64,
    /// Objects that nothing needs.
    pub dead_objects: u64,
    /// Packs that no longer count, because nothing lives in them or what lives was copied.
    pub packs_retired: u64,
    /// Those of them of which something was copied.
    pub packs_copied: u64,
    /// What was written to do so.
    pub copied_bytes: u64,
    /// Files removed: retired packs, and what dead writers left.
    pub packs_removed: u64,
    /// What their removal gave back, less what was written. In a dry run: what it would give.
    pub freed_bytes: u64,
    /// Retired and waiting for the grace to pass.
    pub waiting_bytes: u64,
    /// Whether files stayed only because others are reading.
    pub others_reading: bool,
    /// Packs that were kept whole because something damaged may need them.
    pub packs_kept_for_damage: u64,
    /// Those of the retired packs that a repair found without a log: all that was left of
    /// checkpoints that are lost.
    pub packs_of_lost_checkpoints: u64,
    /// What they took.
    pub lost_checkpoints_bytes: u64,
}

impl Store {
    /// Frees what nothing needs any more. [`Error::Busy`] if another gc is running.
    pub fn gc(&self, options: &GcOptions<'_>) -> Result<GcReport> {
        self.require_writable()?;
        let Some(_turn) = Turn::take(&self.home.gc())? else {
            return Err(Error::Busy { holder: "another gc is running".into(), waited_ms: 0 });
        };
        if options.dry_run {
            return self.dry_run(options);
        }
        // A full disk gets what is due first, then the reserve.
        let mut report = GcReport::default();
        self.with_reserve(|| {
            let mut collector = Collector::begin(self, options)?;
            collector.sweep(options, &mut report)?;
            collector.collect(options, &mut report)?;
            collector.sweep(options, &mut report)
        })?;
        report.freed_bytes = report.freed_bytes.saturating_sub(report.copied_bytes);
        self.tend_reserve()?;
        self.with_index(|index| {
            index.set_note("gc_at", self.clock.now().as_millis())?;
            index.forget_note(sweep::NEXT)
        })?;
        Ok(report)
    }

    fn dry_run(&self, options: &GcOptions<'_>) -> Result<GcReport> {
        let mut collector = Collector::begin(self, options)?;
        let plan = collector.plan();
        let mut report = GcReport::default();
        plan.describe(&mut report);
        report.packs_retired =
            (plan.dead.len() + plan.groups.iter().map(Vec::len).sum::<usize>()) as u64;
        report.packs_copied = plan.groups.iter().map(Vec::len).sum::<usize>() as u64;
        report.freed_bytes = plan.retiring_bytes.saturating_sub(plan.copied_bytes);
        collector.count_adopted(plan.dead.iter().chain(plan.groups.iter().flatten()), &mut report);
        report.waiting_bytes = collector.retired_packs().map(|retired| retired.length).sum();
        Ok(report)
    }
}

impl Plan {
    fn describe(&self, report: &mut GcReport) {
        report.live_objects = self.live_objects;
        report.dead_objects = self.dead_objects;
        report.packs_kept_for_damage = self.kept_for_damage;
    }
}

struct Collector<'s> {
    store: &'s Store,
    rules: Rules,
    eager: bool,
    scan: Scan<'s>,
    marks: Marks,
    newest: Option<u64>,
    generation: u64,
}

impl<'s> Collector<'s> {
    fn begin(store: &'s Store, options: &GcOptions<'_>) -> Result<Self> {
        if let Some(progress) = options.progress {
            progress(Progress::Reading)?;
        }
        let tail = store.catch_up(&mut store.lock()?)?;
        let rules = Rules {
            now: store.clock.now(),
            grace: options.grace,
            deleted: options.deleted,
            roots: options.roots.iter().cloned().collect(),
            without: match options.dry_run {
                true => options.without.iter().cloned().collect(),
                false => HashSet::new(),
            },
            without_sessions: match options.dry_run {
                true => options.without_sessions.iter().cloned().collect(),
                false => HashSet::new(),
            },
        };
        let scan = Scan::read(store, &tail, Depth::Tables)?;
        store.reconcile(&scan)?;
        let mut marks = Marks::default();
        marks.mark(&scan, &rules);
        let (newest, generation) = (tail.pack, tail.generation);
        Ok(Self { store, rules, eager: options.now, scan, marks, newest, generation })
    }

    fn plan(&mut self) -> Plan {
        let target = self.store.limits.pack_target;
        plan::plan(&self.scan, &mut self.marks, self.newest, self.eager, target)
    }

    /// Counts those of the packs that go that a repair found without a log.
    fn count_adopted<'a>(&self, going: impl Iterator<Item = &'a PackId>, report: &mut GcReport) {
        let adopted = self.scan.adopted();
        for pack in going.filter(|pack| adopted.contains(pack)) {
            report.packs_of_lost_checkpoints += 1;
            report.lost_checkpoints_bytes += self.scan.packs.get(pack).map_or(0, |it| it.length);
        }
    }

    fn collect(&mut self, options: &GcOptions<'_>, report: &mut GcReport) -> Result<()> {
        let plan = self.plan();
        plan.describe(report);
        let total = plan.dead.len() + plan.groups.iter().map(Vec::len).sum::<usize>();
        let mut done = 0;
        let dead = (!plan.dead.is_empty()).then_some(plan.dead);
        for group in dead.into_iter().chain(plan.groups) {
            if let Some(progress) = options.progress {
                progress(Progress::Packs { done, total })?;
            }
            done += group.len();
            for _ in 0..ATTEMPTS {
                if self.retire(&group, report)? {
                    break;
                }
            }
            if options.now {
                self.sweep(options, report)?;
            }
        }
        Ok(())
    }

    /// Takes in what was committed since, and marks what that needs.
    fn renew(&mut self, tail: &Tail) -> Result<()> {
        self.scan.advance(tail)?;
        self.newest = tail.pack;
        self.generation = tail.generation;
        self.marks.mark(&self.scan, &self.rules);
        Ok(())
    }

    /// Copies what lives in `group` and retires it; false if others were quicker, so that it has to
    /// be done again.
    fn retire(&mut self, group: &[PackId], report: &mut GcReport) -> Result<bool> {
        let going: HashSet<PackId> = group.iter().copied().collect();
        if group.iter().any(|pack| !self.scan.packs.contains_key(pack))
            || group.iter().any(|pack| self.marks.keeps_whole(&self.scan, *pack))
        {
            return Ok(true);
        }
        let living = plan::living(&self.scan, &mut self.marks, &going);
        let needed: u64 = group.iter().map(|pack| living[pack].bytes).sum();
        self.store.check_space(needed, Space::Urgent)?;
        let copies = match copy::copy(self.store, &self.scan, group.iter().map(|p| &living[p])) {
            // What cannot be read through is not collected.
            Err(error) if error.is_damage() => return Ok(true),
            other => other?,
        };
        let mut lock = self.store.lock()?;
        let tail = self.store.catch_up(&mut lock)?;
        if tail.generation != self.generation {
            drop(lock);
            copies.discard(self.store)?;
            return Err(Error::Moved);
        }
        if tail.sequence != self.scan.sequence {
            self.renew(&tail)?;
            if !self.covers(&copies, &going) {
                drop(lock);
                copies.discard(self.store)?;
                self.store.forget_open_packs();
                return Ok(false);
            }
        }
        let written: u64 = copies.sealed.iter().map(|sealed| sealed.length).sum();
        let copied = !copies.sealed.is_empty();
        self.count_adopted(group.iter(), report);
        self.commit(lock, &tail, &going, copies)?;
        // Whatever became of the index: from here on it knows the commit, and may be swept by.
        let tail = self.store.catch_up(&mut self.store.lock()?)?;
        self.renew(&tail)?;
        report.packs_retired += group.len() as u64;
        report.packs_copied += if copied { group.len() as u64 } else { 0 };
        report.copied_bytes += written;
        Ok(true)
    }

    /// Whether everything that lives in the packs that go has been copied, by what is known now.
    fn covers(&mut self, copies: &Copies, going: &HashSet<PackId>) -> bool {
        let living = plan::living(&self.scan, &mut self.marks, going);
        let scan = &self.scan;
        going.iter().all(|pack| {
            let Some(living) = living.get(pack) else { return false };
            let whole = !self.marks.keeps_whole(scan, *pack);
            let objects = living
                .pieces
                .iter()
                .all(|number| copies.objects.contains(&scan.pieces[*number as usize].id));
            let manifests = living.manifests.iter().all(|number| {
                let record = &scan.manifests[*number];
                copies.records.contains(&(record.pack, record.offset))
            });
            let documents = living.documents.iter().all(|number| {
                let document = &scan.documents[*number];
                copies.records.contains(&(document.pack, document.offset))
            });
            whole && objects && manifests && documents
        })
    }

    fn commit(
        &self,
        mut lock: Lock,
        tail: &Tail,
        going: &HashSet<PackId>,
        copies: Copies,
    ) -> Result<()> {
        let stays = |number: u64| {
            let pack = PackId::Log(number);
            !going.contains(&pack) && !self.scan.retired.contains_key(&pack)
        };
        let named_in = &self.scan.named_in;
        let is_adrift =
            |pack: &PackId| !named_in.get(pack).is_some_and(|logs| logs.iter().copied().any(stays));
        let adopted: Vec<Named> = self
            .scan
            .packs
            .iter()
            .filter(|(pack, _)| !going.contains(pack) && is_adrift(pack))
            .filter_map(|(_, info)| info.named.clone())
            .collect();
        // Packs that were retired before stay listed as long as they exist or a commit names them,
        // because the commit that retired them may be in a pack that goes now. Without that, one
        // that is named and was unlinked would count as lost.
        let mut retired: Vec<PackId> = going.iter().copied().collect();
        retired.extend(self.retired_packs().map(|retired| retired.pack));
        retired.extend(self.scan.retired.keys().filter(|pack| named_in.contains_key(*pack)));
        retired.sort();
        retired.dedup();
        let packs = self.store.home.packs();
        let mut kept: Vec<u64> = log::numbers(&packs)?;
        kept.retain(|number| stays(*number));
        // One that is missing stays known to be, until a repair has seen it.
        let hurt = self.scan.unhealed().filter_map(|damage| match damage.pack {
            PackId::Log(number) => Some(number),
            PackId::Bulk(_) => None,
        });
        kept.extend(hurt.filter(|number| stays(*number)));
        kept.sort_unstable();
        kept.dedup();
        let change = Change { generation: self.generation + 1, retired, adopted, kept };
        // If the newest pack goes, the commit that says so begins another.
        let rotate = tail.pack.is_some_and(|number| going.contains(&PackId::Log(number)));
        let tail = Tail { open: tail.open && !rotate, ..tail.clone() };
        let spool = Spool::of(copies.sealed, copies.entries);
        let (entries, commit, position) =
            self.store.append(&mut lock, &tail, spool, change, Space::Urgent)?;
        drop(lock);
        let behind = tail.indexed_sequence();
        let _ =
            self.store.with_index(|index| index.apply_own(&entries, &commit, &position, behind));
        Ok(())
    }
}
