//! Finishing or rolling back a restore that was interrupted, from any point, as often as it takes.
//!
//! The caller takes a new safety checkpoint first. Each entry is judged by what really stands
//! there: the old content, the new content, or neither. What is neither was edited since; it is
//! left and listed, and the rest is carried on.

use std::path::PathBuf;
use std::sync::Arc;

use rappel_store::beneath::{Kind, Root};
use rappel_store::content;
use rappel_store::disk::Disk;
use rappel_store::sink::Sink;
use rappel_types::Action;

use super::apply::{self, close};
use super::error::{Error, Result};
use super::intent::{Header, OpenIntent};
use super::outcome::Outcome;
use super::steps::{Way, steps_of};
use super::{Job, Record};
use crate::git::apply::path_of;

/// Carries the restore on to its end.
pub fn finish(job: &Job<'_>, intent: OpenIntent, record: Record<'_>) -> Result<Outcome> {
    drive(job, intent, Way::Forward, record)
}

/// Takes the restore back to where it began.
pub fn rollback(job: &Job<'_>, intent: OpenIntent, record: Record<'_>) -> Result<Outcome> {
    drive(job, intent, Way::Backward, record)
}

fn drive(job: &Job<'_>, mut intent: OpenIntent, way: Way, record: Record<'_>) -> Result<Outcome> {
    job.check_root()?;
    // The device's number may change with a reboot, the inode does not.
    if job.root.identity().inode != intent.header().inode {
        return Err(Error::Replaced { root: intent.header().root_path() });
    }
    let mut outcome = apply::drive(job, &mut intent, way, false, record)?;
    close(intent, &mut outcome);
    Ok(outcome)
}

/// Stores what the restore has put aside: no look at the files finds it under those names.
pub fn store_aside(header: &Header, disk: &Arc<dyn Disk>, sink: &dyn Sink) -> Result<()> {
    let mut places: Vec<(PathBuf, &[Action])> = vec![(header.root_path(), &header.actions)];
    for repository in &header.git.repositories {
        places.push((path_of(&repository.common_dir), &repository.files));
        let worktrees = repository.worktrees.iter();
        places.extend(worktrees.map(|one| (path_of(&one.path), &one.actions[..])));
    }
    for (folder, actions) in places {
        // Where there is no folder, nothing was put aside.
        let Ok(root) = Root::open(&folder, disk.clone()) else { continue };
        let header = Header { actions: actions.to_vec(), ..header.clone() };
        for step in steps_of(&header, Way::Forward)? {
            for name in [&step.slot, &step.aside] {
                if let Some(meta) = root.stat(name).ok().flatten()
                    && meta.kind == Kind::File
                {
                    content::store(sink, &mut root.open_file(name)?, meta.size, None)?;
                }
            }
        }
    }
    Ok(())
}
