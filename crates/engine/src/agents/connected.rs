//! Systems of a program that embeds the library: its own board of hypotheses, its graph of beliefs. They are captured
//! with every checkpoint that this process makes, and restored with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rappel_store::sink::{Role, Sink, Source};
use rappel_types::agents::{AgentsPart, SessionId};
use rappel_types::manifest::PartialReason;
use rappel_types::{Facet, ObjectId, Reference};

use super::StateAt;
use super::board::AgentState;
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::restore::{RestoreOptions, RestoreReport};

/// Why a connected system could not do what it was asked.
pub type ConnectedError = Box<dyn std::error::Error + Send + Sync>;

/// Something of the program's own that belongs to its agent's state.
pub trait Connected: Send + Sync {
    /// What it is called in checkpoints. Two of one name are one too many.
    fn name(&self) -> &str;
    /// All of it, as bytes that [`Connected::restore`] understands.
    fn snapshot(&self) -> Result<Vec<u8>, ConnectedError>;
    /// Becomes what it was when these bytes were taken.
    fn restore(&self, snapshot: &[u8]) -> Result<(), ConnectedError>;
    /// What it knows in the words of a session, if it is a board or a graph of that kind. Each save takes what is new in
    /// it into the session's journal, so that `query_at` and `compare` see it.
    fn state(&self) -> Option<AgentState> {
        None
    }
}

/// What was taken of the connected systems.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshots {
    pub taken: BTreeMap<String, ObjectId>,
    pub failed: Vec<PartialReason>,
}

impl Rappel {
    /// From now on, every checkpoint that this process makes holds that system too, and every restore of agents brings it
    /// back.
    pub fn connect(&self, system: impl Connected + 'static) {
        self.add_connected(Arc::new(system));
    }

    pub(crate) fn snapshot_connected(&self, sink: &dyn Sink) -> Result<Snapshots> {
        let mut snapshots = Snapshots::default();
        for system in self.connected() {
            match system.snapshot() {
                Ok(bytes) => {
                    let id = sink.put(Role::Content, &bytes, None)?;
                    snapshots.taken.insert(system.name().to_owned(), id);
                }
                Err(error) => snapshots.failed.push(PartialReason {
                    facet: Facet::Agents,
                    path: None,
                    database: None,
                    reason: format!("{}: {error}", system.name()),
                }),
            }
        }
        Ok(snapshots)
    }

    /// Brings the connected systems back; what goes wrong is told.
    pub(crate) fn restore_connected(&self, agents: Option<&AgentsPart>) -> Vec<String> {
        let mut failed = Vec::new();
        for system in self.connected() {
            let Some(id) = agents.and_then(|part| part.connected.get(system.name())) else {
                continue;
            };
            let done = match Source::get(&self.store, id) {
                Ok(bytes) => system.restore(&bytes).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            failed.extend(done.err().map(|error| format!("{}: {error}", system.name())));
        }
        failed
    }

    /// Sets a session back to a checkpoint, code left alone, and gives what it knew there: where an agent goes on from.
    pub fn resume_from(
        &self,
        reference: &Reference,
        session: Option<&SessionId>,
    ) -> Result<(StateAt, RestoreReport)> {
        let query = super::TemporalQuery {
            checkpoint: Some(reference.clone()),
            session: session.cloned(),
            ..super::TemporalQuery::default()
        };
        let session = self.query_at_most(&query, 0)?.session;
        let only = Some([Facet::Agents].into());
        let own_session = Some(session.clone());
        let options = RestoreOptions { only, own_session, ..RestoreOptions::default() };
        let report = self.restore(reference, &options)?;
        if !report.conflicts.is_empty() {
            return Err(Error::Changed { conflicts: report.conflicts });
        }
        Ok((self.state_now(&session, u64::MAX)?, report))
    }
}
