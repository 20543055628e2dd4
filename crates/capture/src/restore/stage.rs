//! Writing new content beside its target, complete and durable before anything changes.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;

use rappel_store::beneath::{Kind, NewFile, Root};
use rappel_store::content;
use rappel_store::operation::Phase;
use rappel_store::sink::Source;
use rappel_store::threads::{self, Beside};
use rappel_types::{Action, Content, Node, ObjectId, RelPath};
use rayon::prelude::*;
use rustix::process::{Resource, getrlimit};

use super::Job;
use super::error::{Error, Result};
use super::outcome::Outcome;
use super::steps::Step;

/// Up to this many entries are synced one by one; beyond, the whole file system is.
pub const SYNC_EACH: usize = 64;
/// Syncs that are under way together share the file system's commits: the more, the fewer of those.
const SYNC_THREADS: usize = 16;
/// A process that may open fewer files than this keeps few open at once.
const FEW_FILES: u64 = 256;
/// How many those are.
const FEW: usize = 4;
/// Room for names, folders and the file system's own records.
const SPACE_SLACK: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// How much is read before it can be staged.
const AHEAD_MAX: u64 = 8 << 20;

/// Refuses before anything changes if the new content does not fit.
pub fn check_space<'n>(root: &Root, nodes: impl Iterator<Item = &'n Node>) -> Result<()> {
    let needed = nodes.fold(SPACE_SLACK, |sum, node| match node {
        Node::File { size, .. } => sum.saturating_add(size.div_ceil(BLOCK).saturating_mul(BLOCK)),
        _ => sum.saturating_add(BLOCK),
    });
    let free = root.free_space()?;
    if needed > free {
        let (path, missing) = (root.path().to_owned(), needed - free);
        return Err(rappel_store::Error::NoSpace { path, missing }.into());
    }
    Ok(())
}

/// What will be staged, as far as it is small and few: it is read while the intent becomes durable,
/// when there is nothing to do but wait.
#[derive(Default)]
pub struct Ahead(HashMap<ObjectId, Arc<[u8]>>);

impl Ahead {
    /// Reads what these actions bring. What cannot be read is left to whoever needs it.
    pub fn read(source: &dyn Source, actions: &[Action]) -> Self {
        let whole = actions.iter().filter_map(|action| match (&action.old, &action.new) {
            (Some(Node::File { content: old, .. }), Some(Node::File { content, .. }))
                if old == content =>
            {
                None
            }
            (_, Some(Node::File { content: Content::Whole(id), size, .. })) => Some((id, *size)),
            _ => None,
        });
        let mut room = AHEAD_MAX;
        let ids: Vec<&ObjectId> = whole
            .take_while(|(_, size)| {
                let fits = *size <= room;
                room = room.saturating_sub(*size);
                fits
            })
            .map(|(id, _)| id)
            .collect();
        let read = ids.into_par_iter().filter_map(|id| Some((*id, source.get(id).ok()?)));
        Self(read.collect())
    }

    /// A source that has these at hand.
    pub fn over<'a>(&'a self, below: &'a dyn Source) -> impl Source + 'a {
        AtHand { ahead: self, below }
    }
}

struct AtHand<'a> {
    ahead: &'a Ahead,
    below: &'a dyn Source,
}

impl Source for AtHand<'_> {
    fn get(&self, id: &ObjectId) -> rappel_store::Result<Arc<[u8]>> {
        self.ahead.0.get(id).map_or_else(|| self.below.get(id), |bytes| Ok(bytes.clone()))
    }
}

/// Stages the new content of all `steps`; afterwards each slot holds it.
pub fn stage(job: &Job<'_>, steps: &[&Step], stoppable: bool, outcome: &mut Outcome) -> Result<()> {
    let each = steps.len() <= SYNC_EACH;
    let together = open_at_once(SYNC_EACH);
    let mut files = Vec::new();
    if !steps.is_empty() {
        job.progress.begin(Phase::Staging, Some(steps.len() as u64));
    }
    for step in steps {
        if stoppable {
            job.check_cancelled()?;
        }
        let file = write_one(job, step, outcome)?;
        job.progress.add(Phase::Staging, 1, bytes_of(step.to.as_ref()));
        if let Some(file) = file
            && each
        {
            files.push(file);
            if files.len() == together {
                in_parallel(&files, |file| Ok(file.sync()?))?;
                files.clear();
            }
        }
    }
    if each {
        in_parallel(&files, |file| Ok(file.sync()?))?;
    } else {
        job.root.sync_all()?;
    }
    for step in steps {
        job.root.rename_noreplace(&step.unfinished, &step.slot)?;
    }
    Ok(())
}

fn bytes_of(node: Option<&Node>) -> u64 {
    match node {
        Some(Node::File { size, .. }) => *size,
        _ => 0,
    }
}

/// How many files to have open at once, where `most` would be best.
fn open_at_once(most: usize) -> usize {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < FEW_FILES => FEW.min(most),
        _ => most,
    }
}

fn write_one(job: &Job<'_>, step: &Step, outcome: &mut Outcome) -> Result<Option<NewFile>> {
    let Job { root, source, .. } = *job;
    let old = root.stat(&step.path).ok().flatten();
    let (failed, file) = match &step.to {
        Some(Node::File { mode, size, content }) => {
            let mut file = root.create_file(&step.unfinished, 0o600)?;
            content::write_to(source, content, *size, &mut file).map_err(|error| match error {
                rappel_store::Error::Io { source, .. } => {
                    let path = root.display(Some(&step.path));
                    rappel_store::Error::Io { action: "write", path, source }
                }
                other => other,
            })?;
            let failed = match &old {
                Some(old) if old.kind == Kind::File => {
                    copy_from(root, step, old.links, &file, outcome)
                }
                _ => Vec::new(),
            };
            file.set_mode(*mode)?;
            (failed, Some(file))
        }
        Some(Node::Symlink { target }) => {
            root.symlink(target, &step.unfinished)?;
            match old {
                Some(_) => (root.copy_link_owner(&step.path, &step.unfinished), None),
                None => (Vec::new(), None),
            }
        }
        Some(Node::Directory { .. }) => {
            root.create_dir(&step.unfinished, 0o700)?;
            (Vec::new(), None)
        }
        None => (Vec::new(), None),
    };
    if !failed.is_empty() {
        let what = failed.join(", ");
        outcome.warnings.push(format!("{}: could not be kept: {what}", step.path));
    }
    Ok(file)
}

fn copy_from(
    root: &Root,
    step: &Step,
    links: u64,
    file: &NewFile,
    outcome: &mut Outcome,
) -> Vec<String> {
    if links > 1 {
        outcome.warnings.push(format!(
            "{} has {links} names (hard links); the others keep the old content",
            step.path
        ));
    }
    match root.open_file(&step.path) {
        Ok(old) => file.copy_attributes(&old),
        Err(error) => vec![format!("owner and attributes ({error})")],
    }
}

/// Makes folders' entries durable, one by one or all at once.
pub fn sync_folders(root: &Root, folders: &[Option<RelPath>], entries: usize) -> Result<()> {
    if entries > SYNC_EACH {
        return Ok(root.sync_all()?);
    }
    in_parallel(folders, |folder| match root.sync_dir(folder.as_ref()) {
        // A folder that is gone has nothing left to be made durable.
        Err(rappel_store::Error::Io { source, .. })
            if matches!(
                source.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) || source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) =>
        {
            Ok(())
        }
        // A folder that its own user may not open is made durable with everything else.
        Err(rappel_store::Error::Io { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Ok(root.sync_all()?)
        }
        other => Ok(other?),
    })
}

/// Does something to each of a few things at once; the first error is returned.
fn in_parallel<T: Sync>(things: &[T], act: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    if things.len() < 2 {
        return things.iter().try_for_each(act);
    }
    let share = things.len().div_ceil(open_at_once(SYNC_THREADS).min(things.len()));
    let share = NonZero::new(share).map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        let threads: Vec<_> = things
            .chunks(share)
            .map(|part| threads::beside(scope, || part.iter().try_for_each(&act)))
            .collect();
        threads.into_iter().map(joined).fold(Ok(()), Result::and)
    })
}

/// What a thread that syncs came to.
pub fn joined(thread: Beside<'_, Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|_| {
        let source = std::io::Error::other("a thread died");
        let path = "the restored files".into();
        Err(Error::Store(rappel_store::Error::Io { action: "sync", path, source }))
    })
}
