//! What databases hold now, to be compared with what a checkpoint holds.

use rappel_capture::databases::Error as DatabaseError;
use rappel_store::sink::Scratch;
use rappel_types::database::DatabasePart;
use rappel_types::{Manifest, RelPath};

use super::{could_not_hold, known_unchanged};
use crate::error::Result;
use crate::rappel::Rappel;

/// What databases hold now.
#[derive(Default)]
pub(crate) struct PresentDatabases {
    pub parts: Vec<DatabasePart>,
    /// A sentence for each that cannot be compared.
    pub unknown: Vec<String>,
}

impl PresentDatabases {
    fn fail(&mut self, name: &str, error: &DatabaseError) {
        self.unknown.push(format!("database {name} cannot be compared: {error}"));
    }
}

impl Rappel {
    /// What the databases of a checkpoint hold now. One that cannot be read is as it was, since
    /// nobody knows better, and is named.
    pub(crate) fn present_databases(
        &self,
        then: &[DatabasePart],
        scratch: &Scratch<'_>,
    ) -> Result<PresentDatabases> {
        let reading = self.reading()?;
        let memo = self.database_memo(&reading)?;
        let mut now = PresentDatabases::default();
        for part in then {
            let Some(source) = self.database_of(part) else { continue };
            let read = source.map_err(|(_, error)| error).and_then(|named| {
                match known_unchanged(&named, &memo) {
                    Some(known) => Ok(known),
                    None => named.database.read(scratch, Some(part), &reading.watch),
                }
            });
            match read {
                Ok(read) => now.parts.push(read),
                Err(DatabaseError::Absent(_)) => {}
                Err(error) => {
                    now.fail(&part.name, &error);
                    now.parts.push(part.clone());
                }
            }
        }
        Ok(now)
    }

    /// What the databases hold that there are now, named or `noticed` among the files, and that a checkpoint does
    /// not hold.
    pub(crate) fn new_databases(
        &self,
        then: &Manifest,
        noticed: &[RelPath],
        scratch: &Scratch<'_>,
    ) -> Result<PresentDatabases> {
        let reading = self.reading()?;
        let mut now = PresentDatabases::default();
        let noticed = noticed.iter().map(|path| self.noticed_database(path));
        for source in self.configured_databases().into_iter().chain(noticed) {
            let name = source.as_ref().map_or_else(|(name, _)| name, |named| &named.name).clone();
            if then.databases.iter().any(|part| part.name == name) {
                continue;
            }
            if could_not_hold(then, &name) {
                now.unknown.push(not_captured(then, &name));
                continue;
            }
            let read = source
                .map_err(|(_, error)| error)
                .and_then(|named| named.database.read(scratch, None, &reading.watch));
            match read {
                Ok(part) => now.parts.push(part),
                Err(DatabaseError::Absent(_)) => {}
                Err(error) => now.fail(&name, &error),
            }
        }
        Ok(now)
    }
}

/// What is said of a database that a checkpoint should hold and does not.
pub(crate) fn not_captured(manifest: &Manifest, name: &str) -> String {
    format!("{} could not capture database {name}; it is not compared", manifest.id)
}
