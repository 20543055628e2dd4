//! Agents' hooks. One module per vendor translates its payloads into the engine's neutral
//! [`Event`] and the [`Answer`] back into the vendor's form. Nothing else in
//! Rappel knows what a vendor's payload looks like.

pub mod claude;
pub mod files;
#[doc(hidden)]
pub mod fuzz;
pub mod git;
pub mod json_text;
pub mod owned;
pub mod records;
pub mod shell;
pub mod typed;
pub mod words;

use std::path::{Path, PathBuf};

use rappel::hook::{Answer, Event};
use rappel_types::agents::ProcessId;

pub use claude::handlers::Scope;

/// An agent whose hooks are understood.
#[derive(Debug)]
pub struct Vendor {
    /// What it is called on the command line, and its sessions by their provider.
    pub name: &'static str,
    /// The environment variable with the folder that it was started in.
    pub project: &'static str,
    /// The one with its process.
    pub process: &'static str,
    /// The one that tells the programs in its shell what it calls its session.
    pub session: &'static str,
    /// Where it keeps the user's own settings: the variable that names the folder, and the folder's
    /// name in the user's home where that is not set.
    pub folder: (&'static str, &'static str),
    /// Whether a hook of this scope leaves the event to another one, which tells it too: for a
    /// project's folder, the folder of the user's settings, and the folders with programs.
    pub stands_aside: fn(Scope, &Path, &Path, &[PathBuf]) -> bool,
    /// Reads what a hook was given.
    pub event: fn(&[u8], Option<ProcessId>) -> Result<Event, PayloadError>,
    /// What goes to the hook's standard output; empty where there is nothing to say.
    pub answer: fn(&Event, &Answer) -> String,
}

/// All of them.
pub const VENDORS: &[Vendor] = &[claude::VENDOR];

/// Why a payload cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// It is not what the vendor sends.
    #[error("the hook's payload cannot be read: {0}")]
    Malformed(String),
    /// It tells of something that this version does not know, or does not need.
    #[error("the event {0:?} is passed over")]
    Unknown(String),
}
