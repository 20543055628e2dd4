//! Finishing or rolling back a restore that was interrupted, from any point, as often as it takes.
//!
//! The caller takes a new safety checkpoint first. Each entry is judged by what really stands
//! there: the old content, the new content, or neither. What is neither was edited since; it is
//! left and listed, and the rest is carried on.

use super::apply::{self, close};
use super::error::{Error, Result};
use super::intent::OpenIntent;
use super::outcome::Outcome;
use super::steps::Way;
use super::{Job, Record};

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
