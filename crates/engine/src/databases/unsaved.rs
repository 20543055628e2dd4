//! Which databases may hold what no checkpoint has: looked at, hardly ever read, and never stored.

use rappel_capture::databases::Error as DatabaseError;
use rappel_store::sink::Scratch;
use rappel_types::database::{DatabaseKind, DatabasePart};
use rappel_types::{Facet, FacetState, Manifest, RelPath};

use super::memo::{Memo, Remembered};
use super::sources::{Named, Source};
use super::{QUICK, Reading};
use crate::error::Result;
use crate::rappel::Rappel;

/// What is known of databases since a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct UnsavedDatabases {
    /// Those that may have changed, by name.
    pub changed: Vec<String>,
    /// Those that nobody can look at without reading all of them.
    pub not_looked_at: Vec<String>,
    /// Those that cannot be looked at, with the reason.
    pub failed: Vec<(String, String)>,
}

/// What databases are compared with.
struct Then<'a> {
    manifest: &'a Manifest,
    memo: Memo,
    reading: Reading<'a>,
}

impl Rappel {
    /// Looks at the databases of `rappel.toml` and at those that were `noticed` among the files.
    pub(crate) fn unsaved_databases(
        &self,
        manifest: &Manifest,
        noticed: &[RelPath],
    ) -> Result<UnsavedDatabases> {
        let reading = self.reading()?;
        let then = Then { manifest, memo: self.database_memo(&reading)?, reading };
        let mut found = UnsavedDatabases::default();
        let noticed = noticed.iter().map(|path| self.noticed_database(path));
        for source in self.configured_databases().into_iter().chain(noticed) {
            self.look_for_change(source, &then, &mut found)?;
        }
        let gone = manifest.databases.iter().filter(|part| self.is_gone(part));
        found.changed.extend(gone.map(|part| part.name.clone()));
        found.changed.sort();
        found.changed.dedup();
        Ok(found)
    }

    /// Whether a file that was noticed is not there any more.
    fn is_gone(&self, part: &DatabasePart) -> bool {
        let noticed = part.location.as_ref() == Some(&part.name);
        noticed
            && self.database_of(part).is_some_and(|source| {
                let look = source.map(|named| named.database.fingerprint());
                matches!(look, Ok(Err(DatabaseError::Absent(_))))
            })
    }

    fn look_for_change(
        &self,
        source: Source,
        then: &Then<'_>,
        found: &mut UnsavedDatabases,
    ) -> Result<()> {
        let named = match source {
            Ok(named) => named,
            // The status says so of all of them.
            Err((_, DatabaseError::Untrusted(_))) => return Ok(()),
            Err((name, error)) => {
                found.failed.push((name, error.to_string()));
                return Ok(());
            }
        };
        if named.kind == DatabaseKind::Command {
            found.not_looked_at.push(named.name);
            return Ok(());
        }
        match self.may_differ(&named, then) {
            Ok(false) => {}
            // Somebody is at work in it.
            Ok(true) | Err(DatabaseError::Busy(_)) => found.changed.push(named.name),
            Err(DatabaseError::Store(error)) => return Err(error.into()),
            Err(error) => found.failed.push((named.name, error.to_string())),
        }
        Ok(())
    }

    fn may_differ(
        &self,
        named: &Named,
        then: &Then<'_>,
    ) -> rappel_capture::databases::Result<bool> {
        let now = named.database.fingerprint()?;
        let known = then.memo.entries.get(&named.name);
        let Some(known) = known.filter(|known| known.part.kind == named.kind) else {
            return Ok(true);
        };
        let Some(held) = then.held(known) else { return Ok(true) };
        if held.stale || held.digest != known.part.digest {
            return Ok(true);
        }
        match (known.fingerprint.as_ref().or(known.restored.as_ref()), now) {
            (Some(before), Some(now)) => Ok(*before != now),
            _ if u128::from(known.took_ms) > QUICK.as_millis() => Ok(true),
            // It was written a moment before one of the looks, and what it holds is soon read.
            _ => {
                let scratch = Scratch::over(self.source());
                let now = named.database.read(&scratch, Some(held), &then.reading.watch)?;
                Ok(now.digest != held.digest)
            }
        }
    }
}

impl Then<'_> {
    /// What is saved of a database: by the checkpoint itself, or by one before it where that did not look at
    /// databases.
    fn held<'a>(&'a self, known: &'a Remembered) -> Option<&'a DatabasePart> {
        let held = self.manifest.databases.iter().find(|part| part.name == known.part.name);
        let not_asked = self.manifest.state_of(Facet::Databases) == FacetState::NotAsked;
        held.or_else(|| not_asked.then_some(&known.part))
    }
}
