//! Starting threads. Where the system refuses one, that is an error, or the work is done without it;
//! it is never a panic.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Builder, JoinHandle, Scope, ScopedJoinHandle};

use crate::error::{Error, Result};

/// Makes sure that the threads run among which work is divided (rayon's). Whoever is the first to
/// divide work asks before: rayon itself would panic.
pub fn ready() -> Result<()> {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let refused = REFUSED.get_or_init(|| {
        let built = rayon::ThreadPoolBuilder::new().build_global();
        // An error without a source says that they run already.
        let refused = built.err().filter(|error| std::error::Error::source(error).is_some());
        refused.map(|error| error.to_string())
    });
    match refused {
        None => Ok(()),
        Some(words) => Err(Error::io("start", "a thread")(io::Error::other(words.clone()))),
    }
}

/// Starts a thread.
pub fn start<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().spawn(work)
}

/// Starts a thread that ends with `scope`.
pub fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work)
}

/// Does work beside other work, on a thread of its own. If there can be none, it is done at once.
pub fn beside<'scope, T: Send + 'scope, W: FnOnce() -> T + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: W,
) -> Beside<'scope, T> {
    // A thread that cannot be started takes along what it was given.
    let waiting = Arc::new(Mutex::new(Some(work)));
    let given = Arc::clone(&waiting);
    match start_in(scope, move || take(&given).map(|work| work())) {
        Ok(thread) => Beside::Thread(thread),
        Err(_) => Beside::Done(take(&waiting).map(|work| work())),
    }
}

fn take<W>(waiting: &Mutex<Option<W>>) -> Option<W> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// What [`beside`] has begun.
#[derive(Debug)]
pub enum Beside<'scope, T> {
    /// It is being done.
    Thread(ScopedJoinHandle<'scope, Option<T>>),
    /// It was done at once.
    Done(Option<T>),
}

impl<T> Beside<'_, T> {
    /// Waits for the result; the error is what the work panicked with.
    pub fn join(self) -> thread::Result<T> {
        let done = match self {
            Self::Thread(thread) => thread.join()?,
            Self::Done(done) => done,
        };
        done.ok_or_else(|| Box::new("the work was taken twice") as _)
    }
}
