//! Agents' hooks. One module per vendor translates its payloads into the engine's neutral
//! [`Event`] and the [`Answer`] back into the vendor's form. Nothing else in
//! Rappel knows what a vendor's payload looks like.

pub mod caller;
pub mod claude;
pub mod codex;
pub mod files;
#[doc(hidden)]
pub mod fuzz;
pub mod gemini;
pub mod git;
pub mod hook_settings;
pub mod integrate;
pub mod json_text;
pub mod opencode;
pub mod owned;
mod payload;
pub mod records;
pub mod scope;
pub mod servers;
pub mod shell;
pub mod skill;
pub mod typed;
pub mod words;

use std::path::{Path, PathBuf};

use rappel::hook::{Answer, Event, Moment, Switch, Trust};
use rappel_types::agents::ProcessId;
use serde::de::DeserializeOwned;

use caller::Caller;
use hook_settings::StatusLine;
use integrate::{Hooks, Layout, Place, Servers, UserFolder};

pub use scope::Scope;

/// An agent whose hooks are understood.
#[derive(Debug)]
pub struct Vendor {
    /// What it is called on the command line, and its sessions by their provider.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// The comment at the end of each shell line that we wrote into its settings.
    pub mark: &'static str,
    /// What it tells the programs that it starts.
    pub environment: Environment,
    /// Where it keeps the user's own settings: for the folder that an environment variable names,
    /// and the user's home.
    pub user_folder: fn(Variables<'_>, Option<&Path>) -> Option<UserFolder>,
    /// Reads what a hook was given.
    pub event: fn(&[u8], Option<ProcessId>) -> Result<Event, PayloadError>,
    /// What goes to the hook's standard output; empty where there is nothing to say.
    pub answer: fn(&Event, &Answer) -> String,
    /// Where it keeps its files.
    pub layout: Layout,
    /// What makes it call Rappel.
    pub hooks: Hooks,
    /// Its status line, where that can run a command.
    pub status_line: Option<fn(&Caller) -> StatusLine>,
    /// Where it keeps its servers for MCP.
    pub servers: Servers,
    /// Whether it runs the hooks of a place, all of them or those for one event, as far as it asks
    /// its user.
    pub trust: fn(&Place, Option<&str>) -> Trust,
    /// It asks its user again about a hook that has another place among the hooks for its event.
    pub counts_hooks: bool,
    /// The setting that keeps it from running a hook of a place, of any event or of that one.
    pub switched_off: fn(&Place, Option<&str>) -> Option<Switch>,
    /// What the user should know after hooks were put in a place, in sentences.
    pub notes: fn(&Place) -> Vec<String>,
    /// What the user should know after a conversation was set back, for the folder of the user's own
    /// settings.
    pub rewound: fn(&Path) -> Option<String>,
}

/// The folders that environment variables name.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

/// What an agent tells the programs that it starts: the names of environment variables.
#[derive(Debug)]
pub struct Environment {
    /// The folder that it was started in.
    pub project: Option<&'static str>,
    /// Its process.
    pub process: Process,
    /// What it calls its session.
    pub session: Option<&'static str>,
    /// The word of its command line with which it runs hooks that its user has not confirmed.
    pub unasked: Option<&'static str>,
}

/// How an agent's process is found.
#[derive(Debug)]
pub enum Process {
    /// An environment variable has its number.
    Variable(&'static str),
    /// It is the nearest one above the hook whose command line looks like this.
    Above(fn(&[&str]) -> bool),
}

/// All of them.
pub static VENDORS: [&Vendor; 4] =
    [&claude::VENDOR, &codex::VENDOR, &gemini::VENDOR, &opencode::VENDOR];

/// The one of that name.
pub fn vendor(name: &str) -> Option<&'static Vendor> {
    VENDORS.into_iter().find(|vendor| vendor.name == name)
}

/// Why a payload cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// It is not what the vendor sends.
    #[error("the hook's payload cannot be read: {0}")]
    Malformed(String),
    /// It tells of something that this version does not know, or does not need.
    #[error("the event {0:?} is passed over")]
    Unknown(String),
    /// It is known, and nothing has to be done: a call of our own tools, which record what they do.
    #[error("there is nothing to do")]
    Nothing,
}

impl PayloadError {
    /// Reads a payload, as far as a vendor's module knows it.
    fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Self> {
        serde_json::from_slice(bytes).map_err(|error| Self::Malformed(error.to_string()))
    }
}

/// Whether most agents have a place for a text for the model. On all other events it would make the
/// agent go on, or be an error.
fn carries_context(moment: &Moment) -> bool {
    use Moment::{AfterCall, BeforeCall, Prompt, SessionStart};
    matches!(moment, SessionStart(_) | Prompt { .. } | BeforeCall(_) | AfterCall(..))
}
