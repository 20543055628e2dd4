//! Carrying an intent out, in either direction: stage, swap, verify, remove what was displaced, sync.
//!
//! New content is durable before the first swap. The swaps and removals themselves are synced once,
//! after the last: until then the intent stands, and both contents of every path are in checkpoints,
//! so whichever of them a power loss takes back, in whatever order, recovery finds a path old or new
//! and has what it needs.
//!
//! [`apply`](super::apply) drives a fresh intent forward, assuming that everything is as the
//! safety checkpoint holds it and checking that after the fact; [`recover`](super::recover) first
//! looks at every path and carries on from whatever is there. Both leave alone what they do not
//! recognise, put back what turns out to have changed, and never remove content that is not
//! exactly what a checkpoint holds.

mod settle;

use std::collections::BTreeSet;

use rappel_store::Error as StoreError;
use rappel_store::beneath::{Kind, Meta};
use rappel_store::{operation, threads};
use rappel_types::{Node, RelPath};

use super::error::{Error, Result};
use super::intent::{Header, OpenIntent, Phase};
use super::matching::{Seen, look};
use super::outcome::{Outcome, Written};
use super::stage::{joined, stage, sync_folders};
use super::steps::{Step, Way, steps_of};
use super::{Job, Record};

/// What is to be done about a step.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    /// It is where it should be, or only its mode is to be set.
    Nothing,
    /// The new content goes in: from the slot, or from the name it was put aside under.
    Place { from: RelPath, staged: bool },
    /// The old content goes.
    Remove,
    /// Somebody changed it: it stays as it is.
    Leave(&'static str),
}

/// An intent under way.
pub struct Drive<'a> {
    job: Job<'a>,
    header: Header,
    way: Way,
    /// Whether paths are taken to be as the intent has them, until the swap shows otherwise.
    fresh: bool,
    steps: Vec<Step>,
    needs: Vec<Need>,
    /// What the file system said of each path before its new content was compared, where that
    /// vouches for it.
    proven: Vec<Option<Meta>>,
    /// Whether each path was as it should be before anything was done to it; only of a recovery.
    stood: Vec<bool>,
    outcome: Outcome,
}

const EDITED: &str = "it was changed since; it is left as it is";

impl<'a> Drive<'a> {
    /// The actions of an intent, below the folder of the job. A fresh one has just been written
    /// down; with any other, what to do about each path follows from what stands there.
    pub fn new(job: Job<'a>, header: Header, way: Way, fresh: bool) -> Result<Self> {
        let steps = steps_of(&header, way)?;
        let needs = if fresh { steps.iter().map(assumed).collect() } else { Vec::new() };
        let (proven, stood) = (vec![None; steps.len()], vec![false; steps.len()]);
        let outcome = Outcome::default();
        Ok(Self { job, header, way, fresh, steps, needs, proven, stood, outcome })
    }

    /// Leaves out all paths but these. Their slots keep the names that they have among all of them.
    pub fn limit_to(&mut self, paths: &BTreeSet<RelPath>) {
        self.steps.retain(|step| paths.contains(&step.path));
        self.needs = match self.fresh {
            true => self.steps.iter().map(assumed).collect(),
            false => Vec::new(),
        };
        self.proven = vec![None; self.steps.len()];
        self.stood = vec![false; self.steps.len()];
    }

    /// Does all of it. `record` is called when everything stands, and what it does becomes durable
    /// beside it. After an error nothing is lost: the intent can be driven again, either way.
    pub fn run(mut self, intent: &mut OpenIntent, record: Record<'_>) -> Result<Outcome> {
        self.open_folders()?;
        if !self.fresh {
            self.survey()?;
        }
        self.stage_all()?;
        if self.fresh {
            self.job.check_root()?;
        }
        intent.note(match self.way {
            Way::Forward => Phase::Swapping,
            Way::Backward => Phase::RollingBack,
        });
        let (progress, moving) = (self.job.progress, self.moving());
        progress.begin(moving, Some(self.steps.len() as u64));
        for at in (0..self.steps.len()).rev() {
            self.remove(at)?;
        }
        let is_placed = |need: &Need| matches!(need, Need::Place { .. });
        let placed = self.needs.iter().filter(|need| is_placed(need)).count();
        progress.reach(moving, (self.steps.len() - placed) as u64);
        for at in 0..self.steps.len() {
            let is_placed = is_placed(&self.needs[at]);
            self.place(at)?;
            progress.add(moving, u64::from(is_placed), 0);
        }
        if self.fresh {
            self.job.check_root()?;
        }
        let writers = self.find_writers()?;
        self.verify(&writers)?;
        self.job.databases.commit(intent, &self.job)?;
        if self.way == Way::Forward {
            intent.note(Phase::Swapped);
        }
        self.purge(&writers)?;
        self.set_modes()?;
        self.report()?;
        progress.begin(operation::Phase::Recording, None);
        let folders = self.folders();
        std::thread::scope(|scope| {
            let syncing =
                threads::beside(scope, || sync_folders(self.job.root, &folders, self.steps.len()));
            let recorded = record(&self.outcome);
            joined(syncing).and(recorded.map_err(Error::from))
        })?;
        Ok(self.outcome)
    }

    /// What those who watch see while entries change places.
    fn moving(&self) -> operation::Phase {
        match self.way {
            Way::Forward => operation::Phase::Swapping,
            Way::Backward => operation::Phase::RollingBack,
        }
    }

    /// Opens up folders that could not be written into otherwise.
    fn open_folders(&self) -> Result<()> {
        for folder in &self.header.closed {
            let path = folder.path.as_ref();
            let meta = match path {
                Some(path) => self.stat(path)?,
                None => Some(self.job.root.stat_root()?),
            };
            if meta.is_some_and(|meta| meta.kind == Kind::Directory && meta.mode == folder.mode) {
                self.job.root.set_mode(path, folder.mode | 0o700)?;
            }
        }
        Ok(())
    }

    /// What stands at a path, taking what lies behind a link for absent.
    fn stat(&self, path: &RelPath) -> Result<Option<Meta>> {
        match self.job.root.stat(path) {
            Err(error) if super::probe::is_loop(&error) => Ok(None),
            other => Ok(other?),
        }
    }

    fn look(&self, path: &RelPath, step: &Step) -> Result<Seen> {
        look(self.job.root, self.job.source, path, step.from.as_ref(), step.to.as_ref())
    }

    /// Looks at every path and decides what it needs.
    fn survey(&mut self) -> Result<()> {
        for step in &self.steps {
            // A folder that already got its final mode may have to be worked in once more.
            if let Some(meta) = self.stat(&step.path)?
                && meta.kind == Kind::Directory
                && meta.mode & 0o700 != 0o700
                && (step.makes_folder() || matches!(step.from, Some(Node::Directory { .. })))
            {
                self.job.root.set_mode(Some(&step.path), meta.mode | 0o700)?;
            }
            if let Some(meta) = self.stat(&step.unfinished)? {
                match meta.kind {
                    Kind::Directory => self.job.root.remove_dir(&step.unfinished)?,
                    _ => self.job.root.unlink(&step.unfinished)?,
                }
            }
        }
        self.needs = self.steps.iter().map(|step| self.need(step)).collect::<Result<_>>()?;
        self.stood = (self.steps.iter().zip(&self.needs))
            .map(|(step, need)| Ok(*need == Need::Nothing && self.stands(step)?))
            .collect::<Result<_>>()?;
        for (step, need) in self.steps.iter().zip(&self.needs) {
            if let Need::Leave(reason) = need {
                self.outcome.conflict(&step.path, *reason);
            }
        }
        Ok(())
    }

    /// Whether a path that needs no other content has the mode that it should have.
    fn stands(&self, step: &Step) -> Result<bool> {
        let meta = self.stat(&step.path)?;
        Ok(match &step.to {
            Some(Node::File { mode, .. } | Node::Directory { mode }) => {
                meta.is_some_and(|meta| meta.mode == *mode)
            }
            Some(Node::Symlink { .. }) => meta.is_some(),
            None => meta.is_none(),
        })
    }

    fn need(&self, step: &Step) -> Result<Need> {
        if step.is_mode_only() {
            return Ok(Need::Nothing);
        }
        let here = match self.look(&step.path, step)? {
            Seen::Other if self.is_behind_our_link(&step.path)? => Seen::Absent,
            seen => seen,
        };
        let slot = self.look(&step.slot, step)?;
        let aside = self.look(&step.aside, step)?;
        // What waits in a slot is either complete new content or what was displaced. On the way
        // back the latter is what belongs there, even if somebody wrote to it meanwhile.
        let usable = |seen| seen == Seen::To || (self.way == Way::Backward && seen == Seen::Other);
        let waiting = if usable(slot) {
            Some(&step.slot)
        } else if usable(aside) {
            Some(&step.aside)
        } else {
            None
        };
        let place = || match waiting {
            Some(name) => Need::Place { from: name.clone(), staged: true },
            None if slot == Seen::Absent => Need::Place { from: step.slot.clone(), staged: false },
            None => Need::Leave("its staging name is taken; it is left as it is"),
        };
        Ok(match (here, &step.from, &step.to) {
            (Seen::Other, ..) => Need::Leave(EDITED),
            (Seen::To, ..) | (Seen::Absent, _, None) => Need::Nothing,
            (Seen::Absent, None, Some(_)) | (Seen::From, _, Some(_)) => place(),
            (Seen::From, _, None) if slot == Seen::Absent => Need::Remove,
            (Seen::From, _, None) => Need::Leave("its staging name is taken; it is left as it is"),
            // Gone between two renames of ours, or removed by somebody else.
            (Seen::Absent, Some(_), Some(_)) if aside != Seen::Absent => place(),
            (Seen::Absent, Some(_), Some(_)) => Need::Leave("it was removed since; it stays away"),
        })
    }

    /// Whether a link stands above `path` that is one side of a step: then there is nothing at `path`
    /// yet, or any more. Any other link is somebody else's.
    fn is_behind_our_link(&self, path: &RelPath) -> Result<bool> {
        for folder in path.ancestors() {
            let Ok(at) = self.steps.binary_search_by(|step| step.path.cmp(&folder)) else {
                continue;
            };
            let is_link = |meta: Meta| meta.kind == Kind::Symlink;
            if self.stat(&folder)?.is_some_and(is_link) {
                return Ok(self.look(&folder, &self.steps[at])? != Seen::Other);
            }
        }
        Ok(false)
    }

    fn stage_all(&mut self) -> Result<()> {
        let needed: Vec<&Step> = self
            .steps
            .iter()
            .zip(&self.needs)
            .filter(|(step, need)| {
                step.is_staged() && matches!(need, Need::Place { staged: false, .. })
            })
            .map(|(step, _)| step)
            .collect();
        stage(&self.job, &needed, self.fresh, &mut self.outcome)
    }

    /// A conflict at a step: noted, and the rest goes on.
    fn leave(&mut self, at: usize, reason: &'static str) {
        self.outcome.conflict(&self.steps[at].path, reason);
        self.needs[at] = Need::Leave(reason);
    }

    /// An error at a step. One that says that the folders are no longer what they were is a
    /// conflict: a fresh restore is rolled back for it, a recovery leaves that entry and goes on.
    fn failed(&mut self, at: usize, error: StoreError) -> Result<()> {
        if !is_structural(&error) {
            return Err(error.into());
        }
        if self.fresh {
            return Err(Error::conflict(&self.steps[at].path, error.to_string()));
        }
        self.leave(at, "the folders above it were changed since; it is left as it is");
        Ok(())
    }

    /// Moves what shall go into its slot, the innermost first.
    fn remove(&mut self, at: usize) -> Result<()> {
        if self.needs[at] != Need::Remove {
            return Ok(());
        }
        if self.fresh {
            self.job.check_cancelled()?;
        }
        let step = self.steps[at].clone();
        if step.removes_folder() && !self.is_empty_folder(&step.path)? {
            self.leave(at, "it holds files that are not in any checkpoint; it is kept");
            return Ok(());
        }
        match self.job.root.rename_noreplace(&step.path, &step.slot) {
            Ok(()) => Ok(()),
            // Somebody was faster; there is nothing left to be lost.
            Err(_) if self.stat(&step.path)?.is_none() => Ok(()),
            Err(error) => self.failed(at, error),
        }
    }

    /// Whether a folder has nothing in it; one that is gone has not.
    fn is_empty_folder(&self, path: &RelPath) -> Result<bool> {
        match self.job.root.list(Some(path)) {
            Ok(names) => Ok(names.is_empty()),
            Err(error) if is_structural(&error) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts new content in its place, the outermost first.
    fn place(&mut self, at: usize) -> Result<()> {
        let Need::Place { from, .. } = self.needs[at].clone() else { return Ok(()) };
        if self.fresh {
            self.job.check_cancelled()?;
        }
        let step = self.steps[at].clone();
        let root = self.job.root;
        if step.removes_folder() && !self.is_empty_folder(&step.path)? {
            self.leave(at, "a folder with files that are not in any checkpoint stands there");
            return Ok(());
        }
        let here = self.stat(&step.path)?;
        let placed = match &here {
            None if !step.is_staged() && self.stat(&from)?.is_none() => {
                root.create_dir(&step.path, 0o700)
            }
            None => root.rename_noreplace(&from, &step.path),
            Some(meta) if step.from.is_none() => {
                if !(step.makes_folder() && meta.kind == Kind::Directory) {
                    self.leave(at, "something appeared there meanwhile; it is left as it is");
                }
                return Ok(());
            }
            Some(_) => {
                let aside = if from == step.aside { &step.slot } else { &step.aside };
                root.exchange(&from, &step.path, aside).map(|_| ())
            }
        };
        match placed {
            Ok(()) => Ok(()),
            Err(StoreError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::AlreadyExists =>
            {
                self.leave(at, "something appeared there meanwhile; it is left as it is");
                Ok(())
            }
            Err(error) => self.failed(at, error),
        }
    }

    /// The folders whose entries change.
    fn folders(&self) -> Vec<Option<RelPath>> {
        let mut folders = BTreeSet::new();
        for step in self.steps.iter().filter(|step| !step.is_mode_only()) {
            folders.insert(step.path.parent());
            folders.insert(step.slot.parent());
            if step.makes_folder() {
                folders.insert(Some(step.path.clone()));
            }
        }
        folders.into_iter().collect()
    }

    /// What stands everywhere now, after the last change.
    fn report(&mut self) -> Result<()> {
        for at in 0..self.steps.len() {
            let step = self.steps[at].clone();
            let meta = self.stat(&step.path)?;
            let left = matches!(self.needs[at], Need::Leave(_))
                || self.outcome.conflicts.iter().any(|conflict| conflict.path == step.path);
            // What the restore had not come to need not be taken back. What it had done before it
            // was interrupted is part of it once it is finished.
            let untouched = self.way == Way::Backward && self.stood[at];
            match (step.to, meta) {
                _ if left => self.outcome.counts.skip += 1,
                (Some(node), Some(meta)) => {
                    match step.from {
                        _ if untouched => {}
                        None => self.outcome.counts.create += 1,
                        Some(_) => self.outcome.counts.overwrite += 1,
                    }
                    let proven = self.proven[at] == Some(meta);
                    self.outcome.written.push(Written { path: step.path, meta, node, proven });
                }
                (None, None) => {
                    self.outcome.counts.delete += u64::from(!untouched);
                    self.outcome.deleted.push(step.path);
                }
                _ => self.outcome.counts.skip += 1,
            }
        }
        self.outcome.sort();
        Ok(())
    }
}

/// What a step needs if everything is as the safety checkpoint holds it.
fn assumed(step: &Step) -> Need {
    if step.is_placed() {
        Need::Place { from: step.slot.clone(), staged: false }
    } else if step.to.is_none() {
        Need::Remove
    } else {
        Need::Nothing
    }
}

/// Whether an error says that files and folders are not what they were, rather than that the disk
/// failed.
pub(crate) fn is_structural(error: &StoreError) -> bool {
    use rustix::io::Errno;
    const KNOWN: [Errno; 8] = [
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::LOOP,
        Errno::EXIST,
        Errno::NOTEMPTY,
        Errno::XDEV,
        Errno::BUSY,
    ];
    let StoreError::Io { source, .. } = error else { return false };
    source.raw_os_error().is_some_and(|code| KNOWN.iter().any(|known| known.raw_os_error() == code))
}
