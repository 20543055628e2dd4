//! An agent's session: what happened in it, and what it knew at any moment.
//!
//! A session's journal is a list of [`Event`]s. What was believed, suspected, open and tried after
//! any of them is [`SessionState`], a fold over the events up to it: [`SessionState::apply`] takes one event more, and
//! [`SessionState::check`] says whether it may be taken. After a restore the journal goes on as a fork ([`Lineage`]).
//! Everything here is a value; the journal itself is in the store.

pub mod brief;
pub mod contradiction;
mod diff;
mod event;
mod fold;
mod input;
mod items;
mod lineage;
mod news;
pub mod outcomes;
mod part;
mod plan;
pub mod raised;
pub mod replay;
pub mod report;
mod said;
mod searches;
mod session;
mod shown;
mod state;
pub mod tools;

pub use diff::{AgentsDiff, Change, ChangeKind};
pub use event::{Body, EVENT_VERSION, Event, EventError, payload};
pub use fold::Illegal;
pub use input::{NewEvent, PREVIEW_MAX, TEXT_MAX};
pub use items::{Item, Items, List, Long, Segment};
pub use lineage::{Fork, Lineage};
pub use news::{legal, news};
pub use part::{AgentsPart, SessionPart, SessionPosition};
pub use plan::{AgentsPlan, SessionMove};
pub use session::{ParseSessionIdError, SessionId, SessionStatus};
pub use shown::{
    ShownContext, ShownMessage, ShownState, ShownTools, ToolResult, state_from_json, state_json,
};
pub use state::*;
