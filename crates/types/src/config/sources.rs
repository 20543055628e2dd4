//! What is captured besides files and git: databases, commands, knowledge, variables.

use std::fmt;
use std::time::Duration;

use crate::{RelPath, Trigger};

/// How long a command of `[[command]]` may take when the configuration does not say.
pub const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// One `[[database]]`.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseConfig {
    /// What it is called everywhere.
    pub name: String,
    /// Where it is.
    pub url: DatabaseUrl,
    /// What `pg_dump` and `psql` are run through.
    pub tools: Gated<Vec<String>>,
}

/// A part of `rappel.toml` that runs programs. Only the engine's gate (`trust`) takes the value out,
/// once the user has allowed it; `clippy.toml` forbids that everywhere else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gated<T>(T);

impl<T> Gated<T> {
    /// Puts a value behind the gate.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for the gate alone.
    pub fn for_the_gate(&self) -> &T {
        &self.0
    }
}

/// The address of a database. It may hold a password, so that it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// The value of this variable, which is looked up when it is needed.
    Variable(String),
    /// `postgres://…`.
    Postgres(String),
    /// A file of SQLite, relative to the workspace or absolute.
    Sqlite(String),
}

/// What follows the scheme of an address of PostgreSQL: `postgres://…` or `postgresql://…`, also with the name of a driver
/// (`postgresql+asyncpg://…`) or an extension, and as Java has it.
pub fn after_postgres_scheme(address: &str) -> Option<&str> {
    let address = address.trim();
    let (scheme, rest) = address.strip_prefix("jdbc:").unwrap_or(address).split_once("://")?;
    let kind = scheme.split_once('+').map_or(scheme, |(kind, _driver)| kind);
    ["postgres", "postgresql", "postgis"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
        .then_some(rest)
}

/// What follows the scheme of the address of a SQLite file: `sqlite:…` or `file:…`, also with the name of a driver
/// (`sqlite+aiosqlite:…`).
pub fn after_sqlite_scheme(address: &str) -> Option<&str> {
    let (scheme, path) = address.split_once(':')?;
    let kind = scheme.split_once('+').map_or(scheme, |(kind, _driver)| kind);
    (kind == "sqlite" || scheme == "file").then_some(path)
}

impl DatabaseUrl {
    /// Reads an address; an error says what is wrong and nothing of the address itself.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("env:") {
            let named =
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            return match named {
                true => Ok(Self::Variable(name.to_owned())),
                false => Err("`env:` is followed by the name of a variable".into()),
            };
        }
        if after_postgres_scheme(text).is_some() {
            return Ok(Self::Postgres(text.to_owned()));
        }
        if let Some(path) = after_sqlite_scheme(text) {
            // `sqlite:///abs` and `sqlite://rel` are written too; a question mark ends the path.
            let path = path.strip_prefix("//").unwrap_or(path);
            let path = path.split('?').next().unwrap_or_default();
            return match path {
                "" | ":memory:" => Err("it names no file".into()),
                path => Ok(Self::Sqlite(path.to_owned())),
            };
        }
        let scheme = text.split_once(':').map(|(scheme, _)| scheme);
        let scheme = scheme.filter(|scheme| scheme.bytes().all(|b| b.is_ascii_alphanumeric()));
        Err(match scheme {
            Some(scheme) => format!(
                "{scheme:?} is no kind of database that can be captured directly; a `[[command]]` can dump and load it"
            ),
            None => "it is not an address: `postgres://…`, `sqlite:path` or `env:NAME`".into(),
        })
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::Postgres(_) => f.write_str("postgres://…"),
            Self::Sqlite(path) => write!(f, "sqlite:{path}"),
        }
    }
}

impl fmt::Debug for DatabaseConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.name, self.url)
    }
}

/// One `[[command]]`: something that can dump and load itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandConfig {
    /// What it is called everywhere.
    pub name: String,
    /// What it runs.
    pub lines: Gated<CommandLines>,
    /// How long either line may take.
    pub timeout: Duration,
}

/// The two command lines of a `[[command]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLines {
    /// The program and its arguments whose output is captured.
    pub capture: Vec<String>,
    /// The program and its arguments that take it back.
    pub restore: Vec<String>,
}

/// `[knowledge]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnowledgeConfig {
    /// Folders and files of the workspace, captured whole whatever git ignores.
    pub paths: Vec<RelPath>,
}

/// `[variables]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VariablesConfig {
    /// Environment variables to keep, by name.
    pub capture: Vec<String>,
}

/// `[capture]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureConfig {
    /// The triggers that read a changed database again, whatever it costs.
    pub databases: Vec<Trigger>,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        Self {
            databases: vec![
                Trigger::Manual,
                Trigger::PreOperation,
                Trigger::PreRestore,
                Trigger::SessionStart,
                Trigger::SessionEnd,
                Trigger::PrMerged,
                Trigger::EndOfDay,
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let parse = |text: &str| DatabaseUrl::parse(text);
        assert_eq!(parse("env:DATABASE_URL"), Ok(DatabaseUrl::Variable("DATABASE_URL".into())));
        assert!(matches!(parse("postgresql://me:secret@h/db"), Ok(DatabaseUrl::Postgres(_))));
        for (text, path) in [
            ("sqlite:data/app.db", "data/app.db"),
            ("sqlite:///var/app.db", "/var/app.db"),
            ("sqlite://dev.db?mode=rwc", "dev.db"),
            ("file:./dev.db", "./dev.db"),
        ] {
            assert_eq!(parse(text), Ok(DatabaseUrl::Sqlite(path.into())), "{text}");
        }
        for bad in ["", "env:", "env:A B", "sqlite:", "sqlite::memory:", "app.db"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert!(parse("mysql://me:secret@h/db").unwrap_err().contains("[[command]]"));
    }

    #[test]
    fn an_address_is_never_shown() {
        let url = DatabaseUrl::parse("postgres://me:secret@h/db").unwrap();
        let config = DatabaseConfig { name: "app".into(), url, tools: Gated::default() };
        assert!(!format!("{config:?}").contains("secret"));
        let error = DatabaseUrl::parse("mysql://me:secret@h/db").unwrap_err();
        assert!(!error.contains("secret"));
    }
}
