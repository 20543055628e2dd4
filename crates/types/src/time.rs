//! Moments, and how people name them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod when;

pub use when::{When, WhenError};

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

/// What is wrong with a text that should have been a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 timestamp: {0:?}")]
pub struct ParseTimestampError(String);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        let bad = || ParseTimestampError(text.chars().take(80).collect());
        text.parse().map(Self).map_err(|_| bad())
    }
}

crate::id::serde_as_text!(Timestamp);

/// How long ago `then` was, for people: `just now`, `5 minutes ago`, `3 weeks ago`. A moment that
/// lies ahead (the clock was set back) reads `in 5 minutes`.
pub fn age(now: Timestamp, then: Timestamp) -> String {
    let past = then <= now;
    let seconds = now.0.duration_since(then.0).unsigned_abs().as_secs();
    let (count, unit) = match seconds {
        0..5 => return "just now".to_owned(),
        5..MINUTE => (seconds, "second"),
        MINUTE..HOUR => (seconds / MINUTE, "minute"),
        HOUR..DAY => (seconds / HOUR, "hour"),
        DAY..WEEK => (seconds / DAY, "day"),
        WEEK..TWO_MONTHS => (seconds / WEEK, "week"),
        TWO_MONTHS..YEAR => (seconds / MONTH, "month"),
        YEAR.. => (seconds / YEAR, "year"),
    };
    let plural = if count == 1 { "" } else { "s" };
    if past { format!("{count} {unit}{plural} ago") } else { format!("in {count} {unit}{plural}") }
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
const MONTH: u64 = 30 * DAY;
const TWO_MONTHS: u64 = 2 * MONTH;
const YEAR: u64 = 365 * DAY;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn text_is_utc_with_milliseconds() {
        assert_eq!(at("2026-11-15T14:30:22Z").to_string(), "2026-11-15T14:30:22.000Z");
        assert_eq!(at("2026-11-15T14:30:22.123456789Z").to_string(), "2026-11-15T14:30:22.123Z");
        assert_eq!(at("2026-11-15T14:30:22.5+05:30").to_string(), "2026-11-15T09:00:22.500Z");
        assert_eq!(at("2026-11-15t14:30:22-08:00").to_string(), "2026-11-15T22:30:22.000Z");
    }

    #[test]
    fn a_time_without_an_offset_is_no_moment() {
        for bad in ["", "now", "2026-11-15", "2026-11-15T14:30:22", "2026-13-15T14:30:22Z"] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn nanoseconds_decide_the_order() {
        assert!(at("2026-11-15T14:30:22.000000002Z") > at("2026-11-15T14:30:22.000000001Z"));
    }

    #[test]
    fn json_is_the_same_text() {
        let json = serde_json::to_string(&at("2026-11-15T14:30:22.25Z")).unwrap();
        assert_eq!(json, "\"2026-11-15T14:30:22.250Z\"");
        assert!(serde_json::from_str::<Timestamp>("\"yesterday\"").is_err());
        assert!(serde_json::from_str::<Timestamp>("12").is_err());
    }

    #[test]
    fn ages_read_like_speech() {
        let then = at("2026-01-01T00:00:00Z");
        for (seconds, text) in [
            (0, "just now"),
            (4, "just now"),
            (59, "59 seconds ago"),
            (60, "1 minute ago"),
            (5 * 60 + 59, "5 minutes ago"),
            (3600, "1 hour ago"),
            (2 * 3600, "2 hours ago"),
            (86_400, "1 day ago"),
            (6 * 86_400, "6 days ago"),
            (7 * 86_400, "1 week ago"),
            (21 * 86_400, "3 weeks ago"),
            (59 * 86_400, "8 weeks ago"),
            (60 * 86_400, "2 months ago"),
            (364 * 86_400, "12 months ago"),
            (365 * 86_400, "1 year ago"),
            (-3, "just now"),
            (-60, "in 1 minute"),
        ] {
            let now = Timestamp::from_millis(then.as_millis() + seconds * 1000);
            assert_eq!(age(now, then), text);
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Timestamp>();
        }

        #[test]
        fn milliseconds_survive_text(millis in -62_000_000_000_000_i64..250_000_000_000_000) {
            let moment = Timestamp::from_millis(millis);
            prop_assert_eq!(moment.to_string().parse::<Timestamp>().unwrap(), moment);
        }

        #[test]
        fn every_pair_of_moments_has_an_age(a in any::<i64>(), b in any::<i64>()) {
            prop_assert!(!age(Timestamp::from_millis(a), Timestamp::from_millis(b)).is_empty());
        }
    }
}
