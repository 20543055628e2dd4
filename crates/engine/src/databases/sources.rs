//! Which databases a workspace has, and where they are.

use std::path::PathBuf;

use rappel_capture::databases::command::Command;
use rappel_capture::databases::postgres::{self, lookup};
use rappel_capture::databases::{Database, Error as DatabaseError};
use rappel_types::RelPath;
use rappel_types::config::{DatabaseConfig, DatabaseUrl};
use rappel_types::database::{DatabaseKind, DatabasePart};

use crate::rappel::Rappel;

/// A database with its name.
pub(crate) struct Named {
    pub name: String,
    pub kind: DatabaseKind,
    pub database: Box<dyn Database>,
}

type Source = Result<Named, (String, DatabaseError)>;

impl Rappel {
    /// The databases and commands of `rappel.toml`. One whose address cannot be found is an error
    /// with its name.
    pub(crate) fn configured_databases(&self) -> Vec<Source> {
        let databases = self.config.databases.iter().map(|config| self.database_at(config));
        let commands = self.config.commands.iter().map(|config| {
            let database = Box::new(Command::new(config.clone(), self.root.clone()));
            Ok(Named { name: config.name.clone(), kind: DatabaseKind::Command, database })
        });
        databases.chain(commands).collect()
    }

    /// A SQLite file that was noticed among the files.
    pub(crate) fn noticed_database(&self, path: &RelPath) -> Named {
        self.sqlite_at(path.to_string(), &path.to_string())
    }

    /// The database that a checkpoint holds, as it is configured or lies here today.
    pub(crate) fn database_of(&self, part: &DatabasePart) -> Option<Source> {
        let named = |source: &Source| match source {
            Ok(named) => named.name == part.name && named.kind == part.kind,
            Err((name, _)) => *name == part.name,
        };
        if let Some(source) = self.configured_databases().into_iter().find(named) {
            return Some(source);
        }
        // One that was noticed has no entry; it lies where it lay, inside the workspace.
        let location = part.location.as_ref().filter(|location| **location == part.name)?;
        let path = location.parse::<RelPath>().ok()?;
        (part.kind == DatabaseKind::Sqlite).then(|| Ok(self.noticed_database(&path)))
    }

    /// The value of a variable: of the process, else in the project's `.env` files.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let found = lookup::variable(name, &*self.options.variables, &self.root);
        found.map(|(value, _)| value)
    }

    fn database_at(&self, config: &DatabaseConfig) -> Source {
        let name = &config.name;
        let unusable = |reason: String| (name.clone(), DatabaseError::Unavailable(reason));
        let url = match &config.url {
            DatabaseUrl::Variable(variable) => {
                let value = self.variable(variable).ok_or_else(|| {
                    let places = lookup::FILES.join(", ");
                    unusable(format!(
                        "{variable} is set neither in the environment nor in {places}"
                    ))
                })?;
                let url = DatabaseUrl::parse(&value);
                url.map_err(|error| unusable(format!("the value of {variable}: {error}")))?
            }
            url => url.clone(),
        };
        match url {
            DatabaseUrl::Postgres(address) => {
                let address = postgres::Address::parse(&address)
                    .map_err(|error| unusable(format!("its address: {error}")))?;
                let _ = postgres::Database::new(name, address, config.tools.clone());
                Err(unusable("not built".into()))
            }
            DatabaseUrl::Sqlite(path) => Ok(self.sqlite_at(name.clone(), &path)),
            DatabaseUrl::Variable(_) => Err(unusable("one variable names another".into())),
        }
    }

    fn sqlite_at(&self, name: String, _: &str) -> Named {
        let _: PathBuf = self.root.clone();
        todo!("{name}")
    }
}
