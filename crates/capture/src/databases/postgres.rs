//! PostgreSQL, through its own `pg_dump` and `psql`.

pub mod fingerprint;
pub mod lookup;
pub mod program;
pub mod session;
pub mod url;

use super::Fingerprint;
use super::error::Result;
use program::Programs;
pub use url::Address;

/// A database of a PostgreSQL server.
#[derive(Debug, Clone)]
pub struct Database {
    name: String,
    programs: Programs,
}

impl Database {
    /// The database that `rappel.toml` calls `name`. `tools` is put before the names of the programs.
    pub fn new(name: &str, address: Address, tools: Vec<String>) -> Self {
        Self { name: name.to_owned(), programs: Programs { address, tools } }
    }

    /// Has anything been committed?
    pub fn fingerprint(&self) -> Result<Fingerprint> {
        fingerprint::look(&self.programs)
    }
}
