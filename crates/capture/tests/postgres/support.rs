//! A server, its databases, and how a test reaches them.

use std::time::Duration;

use rappel_capture::databases::postgres::{Address, Database, Options, Pace, Tools};
use rappel_capture::databases::{Captured, Error, Guard, Names, Result, Watch};
use rappel_testing::{MemoryStore, Postgres};
use rappel_types::database::DatabasePart;

/// One of everything that the server knows.
pub const ZOO: &str = concat!(include_str!("newer.sql"), include_str!("zoo.sql"));

/// The roles that it names.
pub const ROLES: &str =
    r#"CREATE ROLE zoo_owner; CREATE ROLE zoo_reader; CREATE ROLE "Zoo ""Keeper""";"#;

/// The database as its superuser sees it.
pub fn database(server: &Postgres, name: &str) -> Database {
    at(&server.url(name))
}

/// The database at this address.
pub fn at(url: &str) -> Database {
    Database::new("app", Address::parse(url).unwrap(), None)
}

/// The same, with its programs run through others.
pub fn through(url: &str, prefix: &[&str]) -> Database {
    let prefix = prefix.iter().map(|word| (*word).to_owned()).collect();
    let tools = Tools { prefix, folder: "/".into(), guard: Guard::new(|| Ok(())) };
    Database::new("app", Address::parse(url).unwrap(), Some(tools))
}

/// A server with a database `app` that holds what `statements` make.
pub fn server_with(statements: &str) -> Postgres {
    let server = Postgres::start();
    server.create("app");
    server.run("postgres", ROLES);
    server.run("app", statements);
    server
}

/// What a database holds.
pub fn capture(database: &Database, store: &MemoryStore) -> Captured {
    database.capture(store, None, &Pace::default()).unwrap()
}

/// A restore from beginning to end: once more with trusted names where one is missing.
pub fn restore(
    database: &Database,
    store: &MemoryStore,
    target: &DatabasePart,
) -> Result<Captured> {
    database.check(store, target, false)?;
    match restore_with(database, store, target, Names::OfTheServer) {
        Err(Error::NameMissing(_)) => restore_with(database, store, target, Names::Trusted),
        other => other,
    }
}

/// One attempt of it.
pub fn restore_with(
    database: &Database,
    store: &MemoryStore,
    target: &DatabasePart,
    names: Names,
) -> Result<Captured> {
    let mut restoring = database.restoring(Options { names, ..patient() })?;
    let safety = restoring.capture(store, Some(target), &Watch::nobody())?;
    restoring.stage(store, target)?;
    restoring.commit()?;
    Ok(safety)
}

/// Waits for others as long as it takes on a busy machine.
pub fn patient() -> Options {
    Options { lock_timeout: Duration::from_secs(60), ..Options::default() }
}
