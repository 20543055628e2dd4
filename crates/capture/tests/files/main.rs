//! Scans of real folders: what is taken, what is noticed, what is said about the rest.

mod changes;
mod git_agrees;
mod hostile;
mod project;
mod remembered;
mod selection;
