//! One module per command: what it takes (`Args`), and `run`, which asks the engine and shows the
//! answer. No command calls another one's `run`, except `checkpoint`, which is other names for
//! them.

pub mod adopt;
pub mod at;
pub mod bisect;
pub mod cat;
pub mod checkpoint;
pub mod completions;
pub mod delete;
pub mod describe;
pub mod diff;
pub mod doctor;
pub mod find;
pub mod gc;
pub mod guard;
pub mod help;
pub mod hook;
mod hook_git;
pub mod init;
pub mod integrate;
mod integrate_git;
pub mod list;
pub mod log;
mod patch;
pub mod pin;
pub mod prune;
pub mod recall;
pub mod record;
pub mod recover;
pub mod redo;
pub mod replay;
pub mod report;
pub mod restore;
pub mod save;
pub mod session;
pub mod show;
pub mod stats;
pub mod status;
pub mod tag;
pub mod timeline;
pub mod trust;
pub mod undelete;
pub mod undo;
pub mod unpin;
pub mod verify;
