//! Asking before a program of a `rappel.toml` is run.

use std::fmt;
use std::sync::Arc;

use super::Result;

/// Asked right before each run: an error if the user has not allowed it.
///
/// Not guaranteed: that nobody replaces a script between the question and the run.
#[derive(Clone)]
pub struct Guard(Arc<dyn Fn() -> Result<()> + Send + Sync>);

impl Guard {
    /// Asks `allowed` each time.
    pub fn new(allowed: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(allowed))
    }

    /// An error if this must not run now.
    pub fn check(&self) -> Result<()> {
        (self.0)()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}
