//! A database of SQLite together with the ways by which it is reached, as the engine takes it.

use rappel_store::Cancel;
use rappel_store::sink::{Sink, Source};
use rappel_types::database::{DatabasePart, DatabasePlan};

use super::{Database as Sqlite, Way};
use crate::databases::{Database, Fate, Fingerprint, How, Restoring, Result, Watch};
use crate::files::Identity;

/// A database and its ways.
#[derive(Debug, Clone)]
pub struct Reachable {
    /// The database.
    pub database: Sqlite,
    /// How a restore gets there.
    pub way: Way,
}

impl Database for Reachable {
    fn clear(&self) -> Result<()> {
        self.way.clear()
    }

    fn fingerprint(&self) -> Result<Option<Fingerprint>> {
        self.database.fingerprint()
    }

    fn read(
        &self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<DatabasePart> {
        self.database.read(sink, prior, watch.cancel)
    }

    fn check(&self, _: &dyn Source, _: &DatabasePart) -> Result<()> {
        Ok(())
    }

    fn restoring(&self, how: &How<'_>) -> Result<Box<dyn Restoring>> {
        let database = Sqlite { patience: how.patience, ..self.database.clone() };
        Ok(database.restoring(self.way.clone()))
    }

    fn create(&self, _: &DatabasePart) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn fate(&self, plan: &DatabasePlan) -> Result<Fate> {
        let never = Cancel::default();
        self.database.fate(plan.from.as_ref(), &plan.to, &never)
    }

    fn identity(&self) -> Option<String> {
        let Identity { device, inode } = Identity::of(&self.database.path).ok()?;
        Some(format!("{device}/{inode}"))
    }
}
