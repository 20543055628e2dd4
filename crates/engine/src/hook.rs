//! What agents' hooks tell: the one use case behind all of them.
//!
//! [`Rappel::hear_event`](crate::Rappel::hear_event) takes an [`Event`], records it in the agent's
//! session, saves where something may be lost or was changed, and says what the agent should know.
//! It never asks, and never runs what is not trusted.

mod above;
mod event;
mod health;
mod hear;
mod memory;
mod sessions;
mod truth;
mod workers;

use std::path::Path;

use rappel_types::config::HooksConfig;

pub use event::{Answer, Call, CallKind, Event, Moment, Outcome, Start, Subagent};
pub use health::{Installed, Integration, IntegrationState, Switch, Trust};
pub use hear::Heard;
pub use workers::{AtWork, Failure, Workers};

/// How long an agent in a workspace waits, as its `rappel.toml` says; the defaults where that cannot
/// be read.
pub fn budgets(root: &Path) -> HooksConfig {
    crate::rappel::read_config(root).map(|config| config.hooks).unwrap_or_default()
}
