//! Helpers that the tests of every crate share: projects on disk, a store in memory, a disk that
//! fails on demand, a PostgreSQL server, and the corpus of the fuzz targets.
//!
//! Nothing here is part of the product; it panics freely, since a helper that cannot do its work
//! fails the test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

pub mod cannot_run;
pub mod corpus;
pub mod fault;
pub mod git;
pub mod killed;
pub mod memory;
pub mod noise;
pub mod postgres;
pub mod project;
pub mod records;
pub mod user;
mod zone;

pub use cannot_run::cannot_run;
pub use fault::{Failure, Fault, FaultDisk, Loss, Names, Writes};
pub use killed::Steps;
pub use memory::MemoryStore;
pub use noise::noise;
pub use postgres::Postgres;
pub use project::{Project, Snapshot, Thing, memory_dir, size_of, snapshot};
pub use zone::{calm_zone, zone_before_midnight};
