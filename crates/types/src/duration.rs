//! Lengths of time as people write and read them: `30m`, `1h 30m`.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It has not the form.
    #[error("{0:?} is not a duration")]
    Malformed(String),
    /// A number without a unit.
    #[error("{0:?} is not a duration: it has no unit")]
    NoUnit(String),
    /// It has the form, but is too long.
    #[error("the duration {0:?} is too long")]
    TooLong(String),
}

impl DurationError {
    /// What would have been accepted, for a `hint:` line.
    pub fn hint(&self) -> &'static str {
        "a duration is written `500ms`, `60s`, `30m`, `1h30m`, `24h`, `7d`, `2w` or `1y`"
    }
}

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
const YEAR: u64 = 365 * DAY;

/// The two largest units of a duration, rounded down: `1h 30m`, `1m 30s`, `5s`, `2d 3h`; below a
/// second `120ms`.
pub fn format_duration(millis: u64) -> String {
    let (large, small) = match millis {
        0 => return "0s".to_owned(),
        1..SECOND => return format!("{millis}ms"),
        SECOND..MINUTE => return format!("{}s", millis / SECOND),
        MINUTE..HOUR => ((MINUTE, "m"), (SECOND, "s")),
        HOUR..DAY => ((HOUR, "h"), (MINUTE, "m")),
        DAY.. => ((DAY, "d"), (HOUR, "h")),
    };
    let first = format!("{}{}", millis / large.0, large.1);
    match millis % large.0 / small.0 {
        0 => first,
        rest => format!("{first} {rest}{}", small.1),
    }
}

/// Reads `30m`, `1h30m`, `1h 30m`, `24h`, `7d`, `60s`, `500ms`, `2w`, `1y` (365 days).
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let shown = || text.chars().take(80).collect::<String>();
    let malformed = || DurationError::Malformed(shown());
    let too_long = || DurationError::TooLong(shown());

    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after.trim_start(), |c| !c.is_ascii_alphabetic());
        if number.is_empty() {
            return Err(malformed());
        }
        let factor = match unit {
            "ms" => 1,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            "d" => DAY,
            "w" => WEEK,
            "y" => YEAR,
            "" if after.is_empty() => return Err(DurationError::NoUnit(shown())),
            _ => return Err(malformed()),
        };
        let count: u64 = number.parse().map_err(|_| too_long())?;
        let part = count.checked_mul(factor).ok_or_else(too_long)?;
        total = total.checked_add(part).ok_or_else(too_long)?;
        rest = after.trim_start();
    }
    Ok(Duration::from_millis(total))
}

fn split_where(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_print_their_two_largest_units() {
        for (millis, text) in [
            (0, "0s"),
            (120, "120ms"),
            (5_000, "5s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (90_000, "1m 30s"),
            (3_600_000, "1h"),
            (3_605_000, "1h"),
            (5_400_000, "1h 30m"),
            (51 * 3_600_000, "2d 3h"),
        ] {
            assert_eq!(format_duration(millis), text);
        }
    }

    #[test]
    fn durations_are_read() {
        for (text, millis) in [
            ("500ms", 500),
            ("60s", 60_000),
            ("30m", 1_800_000),
            ("1h30m", 5_400_000),
            (" 1h 30m ", 5_400_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("1y", 31_536_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in ["", " ", "h", "-5m", "5 parsecs", "1.5h", "30m!", "5m 3", "1h, 3m"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse_duration("30"), Err(DurationError::NoUnit("30".into())));
        assert!(matches!(parse_duration("99999999999y"), Err(DurationError::TooLong(_))));
        assert!(parse_duration(&"9".repeat(40)).is_err());
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[0-9a-z \\PC]{0,40}") {
            let _ = parse_duration(&text);
        }

        #[test]
        fn what_is_printed_can_be_read(millis in any::<u64>()) {
            let read = parse_duration(&format_duration(millis)).unwrap();
            let lost = u128::from(millis) - read.as_millis();
            prop_assert!(lost < u128::from(HOUR));
        }
    }
}
