//! A state folder as a history of checkpoints. (Skeleton: its owner replaces it.)

use std::path::Path;

use crate::form::{Found, Reading, Written};
use crate::portable::Portable;
use crate::{Error, Form, Result};

/// Whether what lies here is a state folder, or the folder of its numbered files.
pub fn is_here(_path: &Path) -> bool {
    false
}

/// Reads all checkpoints.
pub fn read_all(path: &Path, _reading: &mut Reading<'_>) -> Result<Found> {
    Err(Error::NotThisForm { path: path.to_owned(), form: Form::Aiwg })
}

/// Writes checkpoints.
pub fn write_all(_checkpoints: &[Portable], place: &Path) -> Result<Written> {
    Err(Error::NotThisForm { path: place.to_owned(), form: Form::Aiwg })
}
