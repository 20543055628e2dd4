//! Long runs: periodic checkpoints while a command or a program works, and the session of a
//! supervised command. The command itself is run by the face; nothing here starts, signals or
//! waits for a process.

mod excluded;
mod exit;
mod memory;
mod periodic;
mod progress;
mod session;
mod state_file;
mod tail;

pub use exit::{OomCounter, describe_exit};
pub use memory::{MemorySamples, ProcessMemory, memory_of_tree};
pub use periodic::{Captured, Finished, OnCheckpoint, Periodic, PeriodicEvent, PeriodicOptions};
pub use rappel_formats::aiwg::{CheckpointData, CheckpointSummary, latest_in, summary_of};
pub(crate) use session::RunLock;
pub use session::{RunSession, RunStart, RunTotals};
pub use tail::{Stream, Tail};
