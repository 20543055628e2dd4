//! The only place where the clock is read and randomness is drawn, so that tests can set both.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rappel_types::Timestamp;

/// Where times come from.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the module that may")]
    fn now(&self) -> Timestamp {
        Timestamp(jiff::Timestamp::now())
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.as_millis())))
    }

    /// Moves it forward (or back) by `millis`.
    pub fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Random bits for ids. Ids that must not collide are checked where they are used.
#[allow(clippy::disallowed_methods, reason = "this is the module that may")]
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    if getrandom::fill(&mut bytes).is_err() {
        // Without a random source an id is still distinct: time and process tell it apart.
        let now = SystemClock.now().0.as_nanosecond() as u64;
        return now ^ (u64::from(std::process::id()) << 32);
    }
    u64::from_le_bytes(bytes)
}

/// Bytes that nobody can guess: a secret. Without a random source there is none.
#[allow(clippy::disallowed_methods, reason = "this is the module that may")]
pub fn secret() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}
