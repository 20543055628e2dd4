//! The databases of a restore under way: all are loaded before the first file moves, and committed
//! one after the other once the files stand.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rappel_store::Cancel;
use rappel_store::operation::Phase;
use rappel_store::sink::Source;
use rappel_types::ObjectId;
use rappel_types::database::{DatabasePart, DatabasePlan};

use super::{Error, Restoring};
use crate::restore::{self, Job, OpenIntent};

/// A database that is held for a restore.
pub struct Held {
    /// What is to be done; also in the intent, at the same place.
    pub plan: DatabasePlan,
    /// What it will hold.
    pub target: DatabasePart,
    /// The database itself.
    pub restoring: Box<dyn Restoring>,
}

/// The databases of a restore. Those that a former attempt committed are not among them.
#[derive(Default)]
pub struct DatabaseDrive {
    held: Mutex<Vec<(usize, Held)>>,
    /// Whether something was committed, or may have been: from there on there is no way back.
    committed: AtomicBool,
}

impl DatabaseDrive {
    /// Databases with their places in the intent. They are committed in that order.
    pub fn new(held: Vec<(usize, Held)>, committed: bool) -> Self {
        Self { held: Mutex::new(held), committed: AtomicBool::new(committed) }
    }

    /// What the intent has to say of them.
    pub fn plans(&self) -> Vec<DatabasePlan> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().map(|(_, held)| held.plan.clone()).collect()
    }

    /// Loads all of them, where nobody sees it yet, unless the user wants to stop.
    pub fn stage(&self, job: &Job<'_>) -> restore::Result<()> {
        let source = Stoppable { source: job.source, cancel: job.cancel };
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.is_empty() {
            job.progress.begin(Phase::LoadingDatabases, Some(all.len() as u64));
        }
        for (_, held) in all.iter_mut() {
            source.check()?;
            held.restoring.stage(&source, &held.target).map_err(|error| match source.check() {
                // Whatever it says, that is why.
                Err(cancelled) => named(held, cancelled.into()),
                Ok(()) => named(held, error),
            })?;
            job.progress.add(Phase::LoadingDatabases, 1, 0);
        }
        Ok(())
    }

    /// Commits all of them. That each was begun is durable before it is, so that after a crash
    /// nobody takes back what may stand. The user can stop this before the first, and not later.
    pub fn commit(&self, intent: &mut OpenIntent, job: &Job<'_>) -> restore::Result<()> {
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.is_empty() {
            // Of a restore that has committed one before, the others can only follow.
            if !self.is_committed() {
                job.cancel.close()?;
            }
            job.progress.begin(Phase::CommittingDatabases, Some(all.len() as u64));
        }
        for (place, held) in all.iter_mut() {
            intent.begin_database(*place)?;
            match held.restoring.commit() {
                Ok(()) => self.committed.store(true, Ordering::Relaxed),
                Err(error) => {
                    if matches!(error, Error::Unknown(_)) {
                        self.committed.store(true, Ordering::Relaxed);
                    }
                    return Err(named(held, error));
                }
            }
            intent.end_database(*place);
            job.progress.add(Phase::CommittingDatabases, 1, 0);
        }
        Ok(())
    }

    /// Whether the files must not be taken back any more.
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// Lets go of all of them; what is not committed is as it was.
    pub fn release(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A source that gives nothing any more once the user wants to stop.
struct Stoppable<'a> {
    source: &'a dyn Source,
    cancel: &'a Cancel,
}

impl Stoppable<'_> {
    fn check(&self) -> rappel_store::Result<()> {
        self.cancel.check()
    }
}

impl Source for Stoppable<'_> {
    fn get(&self, id: &ObjectId) -> rappel_store::Result<Arc<[u8]>> {
        self.check()?;
        self.source.get(id)
    }
}

fn named(held: &Held, error: Error) -> restore::Error {
    restore::Error::Database { name: held.plan.name.clone(), error }
}
