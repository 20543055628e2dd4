//! A database of PostgreSQL as the engine takes it.

use std::sync::atomic::Ordering;

use rappel_store::sink::{Sink, Source};
use rappel_types::database::{DatabasePart, DatabasePlan};

use super::super::{Database, Fate, Fingerprint, How, Restoring, Result, Watch};
use super::fate::IDENTITY;
use super::session::Session;
use super::{Database as Postgres, Options, Pace};

impl Database for Postgres {
    fn fingerprint(&self) -> Result<Option<Fingerprint>> {
        match self.fingerprint() {
            Ok(fingerprint) => Ok(Some(fingerprint)),
            // Somebody has a sequence to himself: nothing can be told without a dump.
            Err(super::super::Error::Busy(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(
        &self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<DatabasePart> {
        watched(watch, |pace| super::capture::dump(self, sink, prior, pace))
    }

    fn check(&self, source: &dyn Source, target: &DatabasePart) -> Result<()> {
        self.check(source, target, true)
    }

    fn restoring(&self, how: &How<'_>) -> Result<Box<dyn Restoring>> {
        self.restoring(Options {
            lock_timeout: how.patience,
            terminate_connections: how.terminate_connections,
            names: how.names,
        })
    }

    fn create(&self, target: &DatabasePart) -> Result<Vec<String>> {
        self.create(target)
    }

    fn fate(&self, plan: &DatabasePlan) -> Result<Fate> {
        match &plan.ticket {
            Some(ticket) => self.fate(ticket),
            None => Ok(Fate::Unknown),
        }
    }

    fn is_local(&self) -> bool {
        self.is_local()
    }

    fn identity(&self) -> Option<String> {
        Session::open(&self.programs).ok()?.value(IDENTITY).ok()
    }
}

/// Reads at the pace of whoever watches.
pub(super) fn watched<T>(
    watch: &Watch<'_>,
    read: impl FnOnce(&Pace<'_>) -> Result<T>,
) -> Result<T> {
    let before = watch.bytes.load(Ordering::Relaxed);
    let progress = |bytes: u64| watch.bytes.store(before + bytes, Ordering::Relaxed);
    let result = read(&Pace { progress: Some(&progress), cancel: Some(watch.cancel) });
    watch.read(0)?;
    result
}
