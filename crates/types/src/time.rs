//! Moments, and how people name them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment, to the nanosecond; shown to the millisecond as RFC 3339 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub jiff::Timestamp);

impl Timestamp {
    /// The moment `millis` milliseconds after the epoch.
    pub fn from_millis(millis: i64) -> Self {
        Self(jiff::Timestamp::from_millisecond(millis).unwrap_or_default())
    }

    /// Milliseconds since the epoch.
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// `20261115_143022`, as ids carry it.
    pub fn compact(self) -> String {
        self.0.strftime("%Y%m%d_%H%M%S").to_string()
    }

    /// Milliseconds from `earlier` to this moment; negative if it is later.
    pub fn millis_since(self, earlier: Self) -> i64 {
        self.as_millis() - earlier.as_millis()
    }
}
