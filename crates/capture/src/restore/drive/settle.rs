//! After the swap: verify what is new and what was displaced, put back or keep what somebody
//! changed, and remove the rest.

use std::collections::{BTreeMap, HashSet};

use rappel_store::beneath::{Identity, Kind, Meta};
use rappel_store::held;
use rappel_store::operation::Phase;
use rappel_types::{Node, RelPath};

use super::super::error::Result;
use super::super::matching::{Modes, Seen, matches};
use super::super::stage::SYNC_EACH;
use super::super::steps::{Step, Way};
use super::super::writers::open_for_writing;
use super::{Drive, EDITED, Need, is_structural};
use crate::files::stamp::Trust;

impl Drive<'_> {
    /// Which displaced files some process still writes to.
    pub(super) fn find_writers(&self) -> Result<HashSet<Identity>> {
        let mut displaced = HashSet::new();
        for step in &self.steps {
            for name in [&step.slot, &step.aside] {
                if let Some(meta) = self.stat(name)?
                    && meta.kind == Kind::File
                {
                    displaced.insert(meta.identity);
                }
            }
        }
        Ok(open_for_writing(&displaced))
    }

    /// Whether what stands under one of a step's own names is exactly what a checkpoint holds.
    fn is_held(&self, name: &RelPath, meta: &Meta, step: &Step) -> Result<bool> {
        if meta.kind == Kind::Directory {
            return self.is_empty_folder(name);
        }
        // What a restore displaces must be just what the safety checkpoint has, bits included.
        let modes = match self.way {
            Way::Forward => Modes::Count,
            Way::Backward => Modes::DoNotCount,
        };
        let is = |node: &Option<Node>, modes| match node {
            Some(node) => matches(self.job.root, self.job.source, name, meta, node, modes),
            None => Ok(false),
        };
        Ok(is(&step.from, modes)? || is(&step.to, Modes::DoNotCount)?)
    }

    /// Reads everything again: the new by its hash, the displaced by the hash of what it should
    /// be. What somebody changed meanwhile goes back, or stays in its slot and is named.
    pub(super) fn verify(&mut self, writers: &HashSet<Identity>) -> Result<()> {
        let trust = held::open(self.job.root.path()).ok().and_then(|root| Trust::start(root).ok());
        let progress = self.job.progress;
        progress.begin(Phase::Verifying, Some(self.steps.len() as u64));
        for at in 0..self.steps.len() {
            if self.fresh {
                self.job.check_cancelled()?;
            }
            progress.add(Phase::Verifying, 1, 0);
            let step = self.steps[at].clone();
            for name in [&step.slot, &step.aside] {
                let Some(meta) = self.stat(name)? else { continue };
                if self.is_held(name, &meta, &step)? {
                    continue;
                }
                if writers.contains(&meta.identity) || !self.put_back(at, name)? {
                    self.keep(&step, name);
                } else {
                    self.leave(at, "it was changed while the restore ran; the change is kept");
                }
            }
            if let Some(to) = &step.to
                && matches!(self.needs[at], Need::Place { .. })
            {
                let meta = self.stat(&step.path)?;
                let as_planned = match &meta {
                    Some(meta) => matches(
                        self.job.root,
                        self.job.source,
                        &step.path,
                        meta,
                        to,
                        Modes::DoNotCount,
                    )?,
                    None => false,
                };
                if as_planned {
                    let old_enough = |meta: &Meta| trust.is_some_and(|t| t.believes(&meta.into()));
                    self.proven[at] = meta.filter(old_enough);
                } else {
                    self.outcome.conflict(&step.path, "it was changed right after it was restored");
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, step: &Step, name: &RelPath) {
        self.outcome.keep(&step.path, name, "another program wrote to it during the restore");
        self.outcome
            .conflict(&step.path, format!("it was changed while the restore ran; see {name}"));
    }

    /// Puts a displaced entry back where it stood; false if something else is there by now.
    fn put_back(&mut self, at: usize, name: &RelPath) -> Result<bool> {
        let step = self.steps[at].clone();
        let root = self.job.root;
        let here = self.look(&step.path, &step)?;
        let done = match here {
            Seen::Absent => {
                self.put_folders_back(&step.path)?;
                root.rename_noreplace(name, &step.path)
            }
            Seen::To if !step.makes_folder() => {
                let aside = if *name == step.aside { &step.slot } else { &step.aside };
                root.exchange(name, &step.path, aside).map(|_| ())
            }
            _ => return Ok(false),
        };
        match done {
            Ok(()) => Ok(true),
            Err(error) if is_structural(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts removed folders back that a path needs.
    fn put_folders_back(&mut self, path: &RelPath) -> Result<()> {
        for folder in path.ancestors() {
            let Ok(at) = self.steps.binary_search_by(|step| step.path.cmp(&folder)) else {
                continue;
            };
            if self.steps[at].to.is_some() || self.stat(&folder)?.is_some() {
                continue;
            }
            let slot = self.steps[at].slot.clone();
            match self.job.root.rename_noreplace(&slot, &folder) {
                Ok(()) => self.leave(at, "something in it was changed meanwhile; it is kept"),
                Err(error) if is_structural(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Removes what was displaced, after one more look at its content. What cannot be removed is
    /// kept and named; the restore itself is complete by now.
    pub(super) fn purge(&mut self, writers: &HashSet<Identity>) -> Result<()> {
        for at in (0..self.steps.len()).rev() {
            let step = self.steps[at].clone();
            for name in [&step.slot, &step.aside] {
                let Some(meta) = self.stat(name)? else { continue };
                if self.outcome.kept.iter().any(|kept| kept.at == *name) {
                    continue;
                }
                if writers.contains(&meta.identity) && !self.is_ours(at) {
                    let reason = "a process still has it open for writing";
                    self.outcome.keep(&step.path, name, reason);
                    let warning = format!("{}: {reason}; it is kept as {name}", step.path);
                    self.outcome.warnings.push(warning);
                    continue;
                }
                let held = self.is_held(name, &meta, &step)?;
                if !held {
                    if self.put_back(at, name)? {
                        self.leave(at, "it was changed while the restore ran; the change is kept");
                    } else {
                        self.keep(&step, name);
                        continue;
                    }
                }
                // After an exchange back, the name holds our own new content.
                let Some(meta) = self.stat(name)? else { continue };
                let gone = match meta.kind {
                    Kind::Directory => self.job.root.remove_dir(name),
                    _ if held || self.is_held(name, &meta, &step)? => self.job.root.unlink(name),
                    _ => {
                        self.keep(&step, name);
                        continue;
                    }
                };
                if let Err(error) = gone {
                    self.outcome.keep(&step.path, name, format!("{error}"));
                    self.outcome.warnings.push(format!("{error}; it can be removed by hand"));
                }
            }
        }
        Ok(())
    }

    /// Whether a step's slot holds what we staged and nothing of the user's.
    fn is_ours(&self, at: usize) -> bool {
        matches!(self.needs[at], Need::Leave(_))
    }

    /// Sets permission bits, the innermost first, since a closed folder lets nobody in.
    pub(super) fn set_modes(&mut self) -> Result<()> {
        let mut wanted: BTreeMap<Option<RelPath>, Option<usize>> =
            self.header.closed.iter().map(|folder| (folder.path.clone(), None)).collect();
        for (at, step) in self.steps.iter().enumerate() {
            if step.makes_folder() || step.is_mode_only() {
                wanted.insert(Some(step.path.clone()), Some(at));
            }
        }
        let closed: BTreeMap<Option<RelPath>, u32> =
            self.header.closed.iter().map(|folder| (folder.path.clone(), folder.mode)).collect();
        let mut changed = 0;
        for (path, at) in wanted.into_iter().rev() {
            let meta = match &path {
                Some(path) => self.stat(path)?,
                None => Some(self.job.root.stat_root()?),
            };
            let Some(meta) = meta else { continue };
            let before = closed.get(&path).copied();
            let mode = match at {
                None => before.filter(|mode| meta.mode == mode | 0o700),
                Some(at) => self.mode_for(at, &meta),
            };
            let Some(mode) = mode.filter(|mode| *mode != meta.mode) else { continue };
            changed += 1;
            let synced = self.steps.len() <= SYNC_EACH;
            self.job.root.set_mode_durably(path.as_ref(), mode, synced)?;
        }
        if changed > 0 && self.steps.len() > SYNC_EACH {
            self.job.root.sync_all()?;
        }
        Ok(())
    }

    /// The bits that a step wants to have set, given what stands there.
    fn mode_for(&mut self, at: usize, meta: &Meta) -> Option<u32> {
        let step = &self.steps[at];
        let bits = |node: &Option<Node>| match node {
            Some(Node::Directory { mode } | Node::File { mode, .. }) => Some(*mode),
            _ => None,
        };
        let (from, to) = (bits(&step.from), bits(&step.to)?);
        let fits = match meta.kind {
            Kind::Directory => step.makes_folder(),
            Kind::File => !step.makes_folder(),
            _ => false,
        };
        if !step.is_mode_only() {
            return (fits && !matches!(self.needs[at], Need::Leave(_))).then_some(to);
        }
        let opened = |mode: Option<u32>| {
            let folder = meta.kind == Kind::Directory;
            mode.is_some_and(|mode| meta.mode == mode || (folder && meta.mode == mode | 0o700))
        };
        if fits && (opened(from) || opened(Some(to))) {
            return Some(to);
        }
        self.leave(at, EDITED);
        None
    }
}
