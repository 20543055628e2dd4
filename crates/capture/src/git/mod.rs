//! The state of git repositories: everything that a reset, a rebase, a dropped stash or a removed
//! work tree takes away.
//!
//! A capture reads git's folder file by file and asks the `git` program for objects that the
//! home lacks; it changes nothing there and runs nothing of the user's ([`program`]). What moved
//! since the last capture is told by stamps ([`memo`]); when nothing did, neither objects nor
//! git are asked for.

pub mod apply;
pub mod bundles;
pub mod capture;
mod contents;
pub mod create;
pub mod early;
mod extra;
pub mod folder;
pub mod foreign;
pub mod linked;
pub mod lists;
pub mod live;
pub mod memo;
mod objects;
pub mod packs;
pub mod patches;
pub mod place;
pub mod plan;
pub mod program;
pub mod refs;
pub mod remove;
pub mod spoilt;
mod stand_in;
pub mod state;
pub mod status;
pub mod transfer;

pub use capture::{Before, Captured, Request, WorktreeFiles, capture};
pub use extra::Extra;
pub use live::{folder_of, linked_folders};
pub use memo::Memo;
pub use objects::LACKS;
pub use place::Place;
pub use state::State;
