//! PostgreSQL (13 and later), through its own `pg_dump` and `psql`.
//!
//! - [`url`] and [`service`] are about addresses;
//! - [`program`]: running the programs; [`session`]: a `psql` that is told one thing after the other;
//! - [`fingerprint`]: has anything been committed? [`capture`]: a dump into the store; [`definition`] and [`left_out`]: what a dump
//!   leaves out;
//! - [`restoring`]: a dump out of the store, in one transaction; with [`check`], [`demands`], [`rights`] and [`room`] (may it?), [`lock`]
//!   (holding writers off), [`inventory`] (did anything slip in?), [`trusted`] (where may names be
//!   looked for?), `clear.sql` (dropping what is there, to what [`origin`]'s dump takes for granted) and [`fate`] (was it
//!   committed?); [`create`]: a database that was dropped.
//!
//! Restoring a dump means running it: with the rights of the URL's user, in the server. What is a
//! command to `psql`, and so would run on this side, is refused.

pub mod capture;
pub mod check;
pub mod create;
pub mod definition;
pub mod demands;
pub mod fate;
pub mod fingerprint;
pub mod inventory;
pub mod left_out;
pub mod lock;
pub mod origin;
pub mod program;
pub mod restoring;
pub mod rights;
pub mod room;
pub mod service;
pub mod session;
mod source;
mod tables;
pub mod trusted;
pub mod url;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rappel_store::Cancel;
use rappel_store::sink::{Sink, Source};
use rappel_types::database::{DatabasePart, Ticket};

use super::error::Result;
use super::{Captured, Fate, Fingerprint, Restoring};
use program::{Programs, SILENCE, Version};
use session::Session;

pub use capture::Pace;
pub use program::Tools;
pub use restoring::Options;
pub use url::Address;

/// A database of a PostgreSQL server.
#[derive(Debug, Clone)]
pub struct Database {
    name: String,
    programs: Programs,
    /// The connection of the last look, for what is asked next: to connect takes longer than to ask.
    connection: Arc<Mutex<Option<Session>>>,
}

/// Who is talking to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// As the server says it, like `15.4 (Debian 15.4-1)`.
    pub server: String,
    /// The client's `pg_dump`.
    pub client: Version,
}

/// Commands that run something in a container of this machine, unless told otherwise.
const CONTAINERS: [&str; 4] = ["docker", "podman", "nerdctl", "docker-compose"];

impl Database {
    /// The database that `rappel.toml` calls `name`. Its programs are run through `tools`.
    pub fn new(name: &str, address: Address, tools: Option<Tools>) -> Self {
        let programs = Programs { address, tools, cancel: Cancel::default(), silence: SILENCE };
        Self { name: name.to_owned(), programs, connection: Arc::default() }
    }

    /// The same, given up whatever it waits for once `cancel` is set.
    #[must_use]
    pub fn until(mut self, cancel: Cancel) -> Self {
        self.programs.cancel = cancel;
        self
    }

    /// The same, given up once its server has nothing to say for so long although it has little to do.
    #[must_use]
    pub fn given_up_after(mut self, silence: Duration) -> Self {
        self.programs.silence = silence;
        self
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.programs.address
    }

    /// Whether it is on this machine, as far as can be told. What `tools` reach is, if they enter a
    /// container of this machine.
    pub fn is_local(&self) -> bool {
        let tools = self.programs.tools.as_ref();
        let Some((first, rest)) = tools.and_then(|tools| tools.prefix.split_first()) else {
            return self.programs.address.is_local();
        };
        let name = first.rsplit('/').next().unwrap_or(first);
        let elsewhere = |word: &String| {
            ["-H", "-c", "--host", "--context", "--url", "--connection", "--remote", "-r"]
                .iter()
                .any(|option| word == option || word.starts_with(&format!("{option}=")))
        };
        // What comes behind the word `exec` is for the inside.
        let outside = rest.iter().take_while(|word| *word != "exec");
        CONTAINERS.contains(&name)
            && !outside.into_iter().any(elsewhere)
            && ["DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT"].iter().all(|name| {
                std::env::var(name)
                    .map_or(true, |host| host.is_empty() || host.starts_with("unix:"))
            })
            // The file that says where a service is lies inside.
            && self.programs.address.service().is_none()
            && self.programs.address.is_local()
    }

    /// The versions of both sides.
    pub fn versions(&self) -> Result<Versions> {
        let client = self.programs.version("pg_dump")?;
        let mut session = Session::open(&self.programs)?;
        let server = session.value("SELECT pg_catalog.current_setting('server_version');")?;
        Ok(Versions { server, client })
    }

    /// Has anything been committed? Two equal answers: no.
    pub fn fingerprint(&self) -> Result<Fingerprint> {
        let mut session = Session::open(&self.programs)?;
        let fingerprint = fingerprint::look(&mut session)?;
        *self.connection() = Some(session);
        Ok(fingerprint)
    }

    fn connection(&self) -> std::sync::MutexGuard<'_, Option<Session>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads it. `prior` is what an earlier checkpoint holds of it, to store only the difference.
    pub fn capture(
        &self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        pace: &Pace<'_>,
    ) -> Result<Captured> {
        let fingerprint = match self.fingerprint() {
            Ok(fingerprint) => Some(fingerprint),
            // Somebody has a sequence to himself; the dump tells whether that lasts.
            Err(super::Error::Busy(_)) => None,
            Err(error) => return Err(error),
        };
        let part = capture::dump(self, sink, prior, pace)?;
        Ok(Captured { part, fingerprint })
    }

    /// Refuses a restore that cannot succeed, or goes to another machine without being allowed to. Changes nothing.
    pub fn check(
        &self,
        source: &dyn Source,
        target: &DatabasePart,
        allow_remote: bool,
    ) -> Result<()> {
        check::check(self, source, target, allow_remote)
    }

    /// Begins a restore: from here on nobody else can write to it.
    pub fn restoring(&self, options: Options) -> Result<Box<dyn Restoring>> {
        Ok(Box::new(restoring::Restore::begin(self, options)?))
    }

    /// What became of a restore whose end nobody saw.
    pub fn fate(&self, ticket: &Ticket) -> Result<Fate> {
        fate::of(&self.programs, ticket)
    }

    /// Makes it anew, empty, where it is absent, as `target` knew it. Tells what could not be made like that.
    pub fn create(&self, target: &DatabasePart) -> Result<Vec<String>> {
        create::create(&self.programs, target.definition.as_ref())
    }
}
