//! What the engine answers, as one type for each answer that a face shows.
//!
//! The command line with `--json`, HTTP and MCP answer with these and with the reports of the
//! engine ([`Listing`](crate::Listing), [`Diff`](crate::Diff), [`RestoreReport`](crate::RestoreReport) …).
//! Each has a JSON schema; [`schemas::all`] names them. `docs/schema/answers.json` is made of it.
//!
//! An answer borrows what the engine gave: a face builds it, writes it and lets it go. Words for
//! people do not belong here.

mod checkpoints;
mod integrations;
mod replay;
pub mod schemas;
mod sessions;
mod upkeep;

pub use checkpoints::{
    CopyAnswer, DeleteAnswer, FileContent, LokiAnswer, LokiSaveAnswer, SaveAnswer, ShowAnswer,
    ShownEntry, UndeleteAnswer, UndoAnswer,
};
pub use integrations::{AgentAnswer, GitHooksAnswer, RemovedAnswer, SystemdAnswer};
pub use replay::{
    ReplayExitAnswer, ReplayFiles, ReplayHead, ReplayOverview, ReplayStep, StepTitle,
};
pub use sessions::{
    AtAnswer, LineAnswer, LineError, RecordAnswer, ResumeAnswer, SessionAnswer, SessionShowAnswer,
    SessionsAnswer,
};
pub use upkeep::{
    BisectAbortAnswer, DecisionsAnswer, DoctorAnswer, ExportAnswer, PruneAnswer, RevokedAnswer,
    UnusableStatus,
};
