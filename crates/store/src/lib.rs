//! The store of Rappel: one log of packs, content-addressed objects, and an index that is only a
//! view of them. `docs/format.md` describes every byte.

pub mod ambient;
mod append;
pub mod beneath;
pub mod block;
pub mod bundle;
mod catch_up;
mod closure;
pub mod codec;
mod connections;
pub mod content;
mod delete;
pub mod disk;
pub mod document;
pub mod error;
pub mod events;
#[doc(hidden)]
pub mod fuzz;
pub mod gc;
pub mod held;
pub mod home;
pub mod index;
mod keeper;
mod let_go;
pub mod lock;
pub mod log;
mod losses;
pub mod operation;
pub mod outline;
pub mod overlay;
pub mod pack;
pub mod proof;
mod read;
mod reconcile;
pub mod record;
mod reserve;
mod scan;
pub mod sink;
pub mod store;
pub mod threads;
pub mod tree;
mod unfinished;
mod unnamed;
pub mod varint;
pub mod verify;
pub mod watcher;
pub mod writer;

pub use error::{Error, Result};
pub use keeper::Keeper;
pub use operation::{Cancel, Operation};
pub use store::{Limits, Options, Store};
pub use writer::{NewRecord, Writer};
