//! The files of a checkpoint as a tree of nodes over the sorted list of their paths.
//!
//! A leaf holds a run of entries, a node above it a run of children. Where a run ends depends on
//! the last path alone (`boundary_level`), so an edit never moves a boundary, and adding or
//! removing a path moves at most the one beside it. Equal runs are equal objects: comparing two
//! trees skips everything they share, and a changed entry costs one leaf and the few nodes above.

mod check;
mod diff;
mod node;
mod read;
#[cfg(test)]
mod tests;
mod update;
mod write;

pub(crate) use check::{Edges, Part, check_joints, part, references};
pub use diff::{Change, diff};
pub(crate) use node::assert_canonical;
pub use read::{Lookup, lookup, nodes, read};
pub use update::update;
pub use write::write;
