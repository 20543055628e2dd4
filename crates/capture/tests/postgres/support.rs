//! A server, its databases, and how a test reaches them.

use rappel_capture::databases::postgres::{Address, Database};
use rappel_testing::Postgres;

/// The database as its superuser sees it.
pub fn database(server: &Postgres, name: &str) -> Database {
    at(&server.url(name))
}

/// The database at this address.
pub fn at(url: &str) -> Database {
    Database::new("app", Address::parse(url).unwrap(), Vec::new())
}
