//! Which databases a workspace has, and where they are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use rappel_capture::databases::command::{Command, INSIDE};
use rappel_capture::databases::{Database, Error as DatabaseError, lookup, postgres, sqlite};
use rappel_store::beneath::Root;
use rappel_store::{content, tree};
use rappel_types::config::{Config, DatabaseConfig, DatabaseUrl};
use rappel_types::database::{DatabaseKind, DatabasePart};
use rappel_types::path::{escape, unescape};
use rappel_types::{Manifest, Node, RelPath};

use super::plan::PATIENCE;
use crate::rappel::Rappel;

/// How many links in a row are followed.
const LINKS: usize = 8;
/// No `rappel.toml` is larger than this.
const CONFIG_MAX: u64 = 1 << 20;

/// A database with its name.
pub(crate) struct Named {
    pub name: String,
    pub kind: DatabaseKind,
    /// Where it is, without any secret.
    pub place: String,
    pub database: Box<dyn Database>,
}

/// A database, or why it cannot be had, with its name.
pub(crate) type Source = Result<Named, (String, DatabaseError)>;

impl Rappel {
    /// The databases and commands of `rappel.toml`. One whose address cannot be found is an error
    /// with its name.
    pub(crate) fn configured_databases(&self) -> Vec<Source> {
        let borrowed = self.borrowed.lock().unwrap_or_else(PoisonError::into_inner);
        self.databases_in(borrowed.as_ref().unwrap_or(&self.config))
    }

    /// The databases and commands that a configuration names. Two names for one are one too many.
    fn databases_in(&self, config: &Config) -> Vec<Source> {
        let databases = config.databases.iter().map(|one| self.database_at(one, config));
        let commands = self.commands_in(config).map(|(name, command)| match command {
            Ok(command) => {
                let (kind, place) = (DatabaseKind::Command, String::new());
                Ok(Named { name, kind, place, database: Box::new(command) })
            }
            Err(error) => Err((name, error)),
        });
        let mut all: Vec<Source> = databases.chain(commands).collect();
        for at in 1..all.len() {
            let (before, rest) = all.split_at_mut(at);
            let Ok(named) = &rest[0] else { continue };
            let same = |other: &Named| {
                named.kind == DatabaseKind::Sqlite
                    && (other.kind, &other.place) == (named.kind, &named.place)
            };
            if let Some(other) = before.iter().flatten().find(|other| same(other)) {
                let reason =
                    format!("it is the same as {}; name it once in rappel.toml", other.name);
                rest[0] = Err((named.name.clone(), DatabaseError::Unavailable(reason)));
            }
        }
        all
    }

    /// The commands that a configuration names, as far as they may be run.
    pub(crate) fn commands_in(
        &self,
        config: &Config,
    ) -> impl Iterator<Item = (String, Result<Command, DatabaseError>)> {
        let inside = (self.options.variables)(INSIDE).is_some();
        config.commands.iter().map(move |one| {
            let command = match inside {
                true => Err(DatabaseError::Unavailable(
                    "it is not run by a program that one of these commands runs".to_owned(),
                )),
                false => self.trusted_command(one, config),
            };
            (one.name.clone(), command)
        })
    }

    /// Where `rappel.toml` is gone, the one that a restore brings back says what the databases are.
    pub(crate) fn borrow_config(&self, target: &Manifest) {
        // What came from elsewhere does not say which databases there are here.
        if self.root.join("rappel.toml").exists() || target.is_foreign() {
            return;
        }
        let config = self.config_in(target);
        *self.borrowed.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// What the `rappel.toml` of a checkpoint says.
    fn config_in(&self, target: &Manifest) -> Option<Config> {
        let path = RelPath::new("rappel.toml").ok()?;
        let node = tree::lookup(self.source(), &target.files.as_ref()?.tree, &path).ok()??;
        let Node::File { size, content, .. } = node else { return None };
        let bytes = content::read(self.source(), &content, size, CONFIG_MAX).ok()?;
        Config::parse(&String::from_utf8(bytes).ok()?, "rappel.toml").ok()
    }

    /// A SQLite file that was noticed among the files.
    pub(crate) fn noticed_database(&self, path: &RelPath) -> Source {
        let below = Path::new(OsStr::from_bytes(path.as_bytes()));
        let name = path.to_string();
        self.sqlite_at(&name, below, None).map_err(|error| (name, error))
    }

    /// The database that a checkpoint holds, as it is configured or lies here today.
    pub(crate) fn database_of(&self, part: &DatabasePart) -> Option<Source> {
        let named = |source: &Source| match source {
            Ok(named) => named.name == part.name && named.kind == part.kind,
            Err((name, _)) => *name == part.name,
        };
        if let Some(location) = self.led_to(part) {
            let made = self.sqlite_at(&part.name, Path::new(location), None);
            return Some(made.map_err(|error| (part.name.clone(), error)));
        }
        if let Some(source) = self.configured_databases().into_iter().find(named) {
            return Some(source);
        }
        // One that was noticed has no entry; it lies where it lay, inside the workspace.
        let location = part.location.as_ref().filter(|location| **location == part.name)?;
        let path = location.parse::<RelPath>().ok()?;
        (part.kind == DatabaseKind::Sqlite).then(|| self.noticed_database(&path))
    }

    /// Where the address of a SQLite file that is gone led to, if that was not the plain meaning of the
    /// address (see `lies_at`): it is made again there.
    fn led_to<'p>(&self, part: &'p DatabasePart) -> Option<&'p str> {
        let location = part.location.as_deref().filter(|_| part.kind == DatabaseKind::Sqlite)?;
        let borrowed = self.borrowed.lock().unwrap_or_else(PoisonError::into_inner);
        let config = borrowed.as_ref().unwrap_or(&self.config);
        let config = config.databases.iter().find(|config| config.name == part.name)?;
        let DatabaseUrl::Sqlite(path) = self.resolved(&config.url).ok()? else { return None };
        let path = Path::new(path.strip_prefix("./").unwrap_or(&path));
        let below = path.strip_prefix("/").unwrap_or(path);
        let led = Path::new(location).strip_prefix("prisma") == Ok(below)
            || (path.is_absolute() && below == Path::new(location));
        (led && !self.lies_at(path).exists()).then_some(location)
    }

    /// The same, but the one that is at a given place: by today's configuration, or by that of the
    /// checkpoint that is gone to.
    pub(crate) fn database_at_place(
        &self,
        part: &DatabasePart,
        place: Option<&str>,
        checkpoint: &Manifest,
    ) -> Option<Source> {
        let Some(place) = place else { return self.database_of(part) };
        let today = self.database_of(part).into_iter().chain(self.configured_databases());
        let then = self.config_in(checkpoint).map(|config| self.databases_in(&config));
        let mut barred = None;
        for source in today.chain(then.into_iter().flatten()) {
            match source {
                Ok(named)
                    if (named.name.as_str(), named.kind, named.place.as_str())
                        == (part.name.as_str(), part.kind, place) =>
                {
                    return Some(Ok(named));
                }
                Err((name, error)) if name == part.name => barred = barred.or(Some((name, error))),
                _ => {}
            }
        }
        let found = barred.map(Err);
        found.or_else(|| {
            let bytes = unescape(place).filter(|_| part.kind == DatabaseKind::Sqlite)?;
            let path = Path::new(OsStr::from_bytes(&bytes));
            let named = self.sqlite_at(&part.name, path, None);
            Some(named.map_err(|error| (part.name.clone(), error)))
        })
    }

    /// The value of a variable: of the process, else in the project's `.env` files.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let found = lookup::variable(name, &*self.options.variables, &self.root);
        found.map(|(value, _)| value)
    }

    /// An address without a variable in its place.
    pub(crate) fn resolved(&self, url: &DatabaseUrl) -> Result<DatabaseUrl, String> {
        let DatabaseUrl::Variable(variable) = url else { return Ok(url.clone()) };
        let value = self.variable(variable).ok_or_else(|| {
            let places = lookup::FILES.join(", ");
            format!("{variable} is set neither in the environment nor in {places}")
        })?;
        DatabaseUrl::parse(&value).map_err(|error| format!("the value of {variable}: {error}"))
    }

    fn database_at(&self, config: &DatabaseConfig, of: &Config) -> Source {
        let name = &config.name;
        let unusable = |reason: String| (name.clone(), DatabaseError::Unavailable(reason));
        match self.resolved(&config.url).map_err(unusable)? {
            DatabaseUrl::Postgres(address) => {
                let address = postgres::Address::parse(&address)
                    .map_err(|error| unusable(format!("its address: {error}")))?;
                let place = address.to_string();
                let tools = self.trusted_tools(config, &address, of);
                let tools = tools.map_err(|error| (name.clone(), error))?;
                let database = postgres::Database::new(name, address, tools);
                // Whatever it waits for, the user can stop it.
                let database = Box::new(database.until(self.cancel().clone()));
                let kind = DatabaseKind::Postgres;
                Ok(Named { name: name.clone(), kind, place, database })
            }
            DatabaseUrl::Sqlite(path) => {
                let path = path.strip_prefix("./").unwrap_or(&path);
                let made = self.sqlite_at(name, Path::new(path), Some(of));
                made.map_err(|error| (name.clone(), error))
            }
            DatabaseUrl::Variable(_) => Err(unusable("one variable names another".into())),
        }
    }

    /// The SQLite file at `path`, relative to the workspace or absolute, which `of` names.
    fn sqlite_at(
        &self,
        name: &str,
        path: &Path,
        of: Option<&Config>,
    ) -> Result<Named, DatabaseError> {
        let reached = self.reach(name, self.lies_at(path), of)?;
        let (path, inside) = (reached.path(), reached.inside());
        let (folder, below) = match inside {
            Some(below) => (self.root.as_path(), below),
            None => {
                let below = path.file_name().map_or(Path::new(""), Path::new);
                (path.parent().unwrap_or(Path::new("/")), below)
            }
        };
        let unusable = |error: &dyn std::fmt::Display| {
            DatabaseError::Unavailable(format!("{}: {error}", path.display()))
        };
        let below = RelPath::new(below.as_os_str().as_bytes()).map_err(|error| unusable(&error))?;
        let root = Root::open(folder, self.options.disk.clone());
        let root = root.map_err(|error| unusable(&error))?;
        // Named after the database, so that what a crash leaves is found again.
        let key = &blake3::hash(path.as_os_str().as_bytes()).to_hex()[..16];
        let slot = format!(".rappel-{key}-0.sqlite");
        let slot = match below.parent() {
            Some(folder) => folder.join(slot.as_bytes()),
            None => RelPath::new(slot),
        };
        let place = escape(inside.unwrap_or(path).as_os_str().as_bytes());
        let database = sqlite::Database {
            name: name.to_owned(),
            location: Some(place.clone()),
            path: path.to_owned(),
            patience: PATIENCE,
        };
        let way = sqlite::Way {
            root: Arc::new(root),
            path: below,
            slot: slot.map_err(|error| unusable(&error))?,
            staging: self.store.home().cache().join(format!("{key}.pages")),
        };
        let database = Box::new(sqlite::Reachable { database, way });
        let (name, kind) = (name.to_owned(), DatabaseKind::Sqlite);
        Ok(Named { name, kind, place, database })
    }

    /// Where a SQLite file really lies, whatever links lead to it. Prisma names one relative to its own folder, and for
    /// some libraries three slashes begin a relative path.
    pub(crate) fn lies_at(&self, path: &Path) -> PathBuf {
        let here = self.root.join(path);
        let below = path.strip_prefix("/").unwrap_or(path);
        let others = [self.root.join("prisma").join(below), self.root.join(below)];
        let others = others.into_iter().skip(usize::from(path.is_absolute()));
        let mut there = std::iter::once(here.clone()).chain(others).filter(|path| path.exists());
        followed(there.next().unwrap_or(here))
    }

    /// The SQLite files inside the workspace that `rappel.toml` names.
    pub(crate) fn configured_sqlite(&self) -> Vec<RelPath> {
        let named = self.configured_databases().into_iter().flatten();
        let sqlite = named.filter(|named| named.kind == DatabaseKind::Sqlite);
        sqlite.filter_map(|named| named.place.parse().ok()).collect()
    }
}

/// Where a path leads, be the end of it there or not.
pub(crate) fn followed(mut path: PathBuf) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(&path) {
        return real;
    }
    for _ in 0..LINKS {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().map_or(target.clone(), |folder| folder.join(&target));
    }
    let folder = path.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}
