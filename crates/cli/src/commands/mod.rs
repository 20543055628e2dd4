//! One module per command: what it takes (`Args`), and `run`, which asks the engine and shows the
//! answer. No command calls another one's `run`, except `checkpoint`, which is other names for
//! them.

pub mod cat;
pub mod checkpoint;
pub mod completions;
pub mod help;
pub mod list;
pub mod pin;
pub mod save;
pub mod show;
pub mod tag;
pub mod unpin;
