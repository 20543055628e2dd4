//! The words of Rappel's domain: ids, paths, times, manifests, plans and configuration.
//!
//! Everything here is a value. Nothing in this crate touches a disk, a clock, the environment or a
//! thread; what needs those lives in `rappel-store` and above.

pub mod advice;
pub mod agents;
pub mod bisect;
pub mod config;
pub mod database;
pub mod duration;
pub mod entry;
#[doc(hidden)]
pub mod fuzz;
pub mod git;
pub mod git_name;
pub mod id;
pub mod knowledge;
pub mod manifest;
pub mod path;
pub mod plan;
pub mod redact;
pub mod reference;
pub mod retention;
mod schema;
pub mod secret;
pub mod size;
pub mod slip;
pub mod time;
pub mod trigger;

pub use advice::{Advice, Remark, Remarks};
pub use config::{Config, ConfigError};
pub use entry::{Content, Entry, Node};
pub use id::{CheckpointId, ObjectId, ParseIdError, WorkspaceId};
pub use manifest::{Facet, FacetState, Manifest};
pub use path::{PathError, RelPath};
pub use plan::{Action, ActionKind, Plan};
pub use reference::Reference;
pub use time::{Timestamp, When};
pub use trigger::Trigger;
