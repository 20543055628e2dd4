//! Making a database that is not there.

use super::super::error::{Error, Result};
use super::program::Programs;
use super::session::{Session, literal};

/// Makes the database that the address names, empty.
pub fn create(programs: &Programs) -> Result<()> {
    let Some(name) = programs.address.database() else {
        return Err(Error::Unavailable("the URL does not say which database is meant".to_owned()));
    };
    let statement =
        format!("SELECT pg_catalog.format('CREATE DATABASE %I', {}) \\gexec", literal(name));
    let mut refused = None;
    for other in ["postgres", "template1"] {
        let address = programs.address.with_database(other);
        let there = Programs { address, ..programs.clone() };
        let mut session = Session::open(&there)?;
        match session.ask(&statement).map_err(Error::from) {
            Ok(_) => return Ok(()),
            Err(error @ Error::Absent(_)) => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    refused.map_or(Ok(()), Err)
}
