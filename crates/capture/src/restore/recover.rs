//! Finishing or rolling back a restore that was interrupted, from any point, as often as it takes.
//!
//! The caller takes a new safety checkpoint first. Each entry is judged by what really stands
//! there: the old content, the new content, or neither. What is neither was edited since; it is
//! left and listed, and the rest is carried on.

use super::Job;
use super::apply::close;
use super::drive::Drive;
use super::error::{Error, Result};
use super::intent::OpenIntent;
use super::outcome::Outcome;
use super::steps::Way;

/// Carries the restore on to its end.
pub fn finish(job: &Job<'_>, intent: OpenIntent) -> Result<Outcome> {
    drive(job, intent, Way::Forward)
}

/// Takes the restore back to where it began.
pub fn rollback(job: &Job<'_>, intent: OpenIntent) -> Result<Outcome> {
    drive(job, intent, Way::Backward)
}

fn drive(job: &Job<'_>, mut intent: OpenIntent, way: Way) -> Result<Outcome> {
    job.check_root()?;
    // The device's number may change with a reboot, the inode does not.
    if job.root.identity().inode != intent.header().inode {
        return Err(Error::Replaced { root: intent.header().root_path() });
    }
    let mut outcome = Drive::resumed(*job, &intent, way)?.run(&mut intent)?;
    close(intent, &mut outcome);
    Ok(outcome)
}
