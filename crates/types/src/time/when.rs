//! WHEN: how people name a moment on the command line. Parsing and resolving are apart, so that the
//! text is checked before anything is opened, and the caller says what `now` and `here` are.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span};

use super::Timestamp;

/// A moment as a person named it: `2 hours ago`, `yesterday 14:00`, `2026-11-15 14:30`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct When {
    kind: Kind,
    /// As the person wrote it, for messages.
    written: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Now,
    Ago(Ago),
    /// The last time a clock showed this.
    Clock(Time),
    Day(Day, Option<Time>),
    Moment(Timestamp),
}

/// Months and days are counted in the calendar, so that `1 day ago` is the same time of day also
/// when the clocks were changed in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ago {
    months: u32,
    days: u32,
    seconds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Day {
    Today,
    Yesterday,
    Date(Date),
}

/// Why a text does not name a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhenError {
    /// The text has none of the known forms.
    #[error("not a time: {0:?}")]
    Malformed(String),
    /// A number of units without direction.
    #[error("not a time: {0:?} does not say `ago`")]
    WithoutAgo(String),
    /// It has a known form, but no such moment can be represented.
    #[error("{0:?} is out of range")]
    OutOfRange(String),
}

impl WhenError {
    /// What would have been accepted, for a `hint:` line.
    pub fn hint(&self) -> String {
        match self {
            Self::WithoutAgo(text) => format!("did you mean `{text} ago`?"),
            Self::Malformed(_) | Self::OutOfRange(_) => When::ACCEPTED.to_owned(),
        }
    }
}

const MAX_LEN: usize = 80;

impl When {
    /// Whether it is this very moment, whatever a clock says.
    pub fn is_now(&self) -> bool {
        self.kind == Kind::Now
    }

    /// The accepted forms, in a sentence.
    pub const ACCEPTED: &str = "a time is `now`, `2 hours ago`, `1h30m ago`, `yesterday 14:00`, \
        `today`, `14:30`, `2026-11-15`, `2026-11-15 14:30:00` or RFC 3339; without an offset it is \
        local time";

    /// Reads any of the accepted forms, in upper or lower case.
    pub fn parse(text: &str) -> Result<Self, WhenError> {
        let shown = || text.trim().chars().take(MAX_LEN).collect();
        let lower = text.trim().to_ascii_lowercase();
        if lower.is_empty() || lower.len() > MAX_LEN {
            return Err(WhenError::Malformed(shown()));
        }
        if let Some(kind) = named(&lower).or_else(|| dated(&lower)) {
            return Ok(Self { kind, written: shown() });
        }
        if let Some(span) = lower.strip_suffix("ago").filter(|span| span.ends_with(' ')) {
            let ago = ago(span).ok_or_else(|| WhenError::Malformed(shown()))?;
            return Ok(Self { kind: Kind::Ago(ago), written: shown() });
        }
        if ago(&lower).is_some() {
            return Err(WhenError::WithoutAgo(shown()));
        }
        Err(WhenError::Malformed(shown()))
    }

    /// The moment that is meant if it is `now` in `zone`; of a whole day (`yesterday`,
    /// `2026-11-15`) its beginning.
    ///
    /// A time of day alone is the last one that has passed. A local time that the change to summer
    /// time skipped is taken an hour later; of one that came twice, the first is taken.
    pub fn resolve(&self, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, WhenError> {
        self.first_moment(now, zone).ok_or_else(|| WhenError::OutOfRange(self.to_string()))
    }

    /// Like [`resolve`](Self::resolve), but of a whole day its last moment: what `--until
    /// 2026-11-15` and "the newest at or before 2026-11-15" mean.
    pub fn resolve_end(&self, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, WhenError> {
        let end = match self.kind {
            Kind::Day(day, None) => day
                .date(now, zone)
                .and_then(|date| date.tomorrow().ok())
                .and_then(|date| zone.to_timestamp(date.to_datetime(Time::midnight())).ok())
                .and_then(|end| end.checked_sub(SignedDuration::from_nanos(1)).ok())
                .map(Timestamp),
            _ => self.first_moment(now, zone),
        };
        end.ok_or_else(|| WhenError::OutOfRange(self.to_string()))
    }

    fn first_moment(&self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self.kind {
            Kind::Now => Some(now),
            Kind::Moment(moment) => Some(moment),
            Kind::Ago(ago) => ago.before(now, zone),
            Kind::Day(day, time) => local(day.date(now, zone)?, time.unwrap_or_default(), zone),
            Kind::Clock(time) => {
                let today = local(Day::Today.date(now, zone)?, time, zone)?;
                if today <= now {
                    return Some(today);
                }
                local(Day::Yesterday.date(now, zone)?, time, zone)
            }
        }
    }
}

impl Day {
    fn date(self, now: Timestamp, zone: &TimeZone) -> Option<Date> {
        let today = zone.to_datetime(now.0).date();
        match self {
            Self::Today => Some(today),
            Self::Yesterday => today.yesterday().ok(),
            Self::Date(date) => Some(date),
        }
    }
}

impl Ago {
    fn before(self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let calendar = Span::new().try_months(self.months).ok()?.try_days(self.days).ok()?;
        let day = now.0.to_zoned(zone.clone()).checked_sub(calendar).ok()?;
        let seconds = SignedDuration::from_secs(i64::from(self.seconds));
        day.timestamp().checked_sub(seconds).ok().map(Timestamp)
    }

    fn add(&mut self, count: u32, unit: &str) -> Option<()> {
        let (field, factor) = match unit {
            "s" | "sec" | "secs" | "second" | "seconds" => (&mut self.seconds, 1),
            "m" | "min" | "mins" | "minute" | "minutes" => (&mut self.seconds, 60),
            "h" | "hr" | "hrs" | "hour" | "hours" => (&mut self.seconds, 3600),
            "d" | "day" | "days" => (&mut self.days, 1),
            "w" | "week" | "weeks" => (&mut self.days, 7),
            "mo" | "month" | "months" => (&mut self.months, 1),
            "y" | "year" | "years" => (&mut self.months, 12),
            _ => return None,
        };
        *field = field.checked_add(count.checked_mul(factor)?)?;
        Some(())
    }
}

fn local(date: Date, time: Time, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_timestamp(date.to_datetime(time)).ok().map(Timestamp)
}

/// `now`, `today`, `yesterday`, `yesterday 14:00`, `14:30`.
fn named(text: &str) -> Option<Kind> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    let time = words.next();
    if words.next().is_some() {
        return None;
    }
    let day = match first {
        "now" if time.is_none() => return Some(Kind::Now),
        "today" => Day::Today,
        "yesterday" => Day::Yesterday,
        _ if time.is_none() => return clock(first).map(Kind::Clock),
        _ => return None,
    };
    match time {
        None => Some(Kind::Day(day, None)),
        Some(time) => Some(Kind::Day(day, Some(clock(time)?))),
    }
}

/// `2026-11-15`, with a time after a space or a `T`, with an offset after that.
fn dated(text: &str) -> Option<Kind> {
    let (date, rest) = text.split_at_checked(10)?;
    let day = self::date(date)?;
    if rest.is_empty() {
        return Some(Kind::Day(Day::Date(day), None));
    }
    let time = rest.strip_prefix(['t', ' '])?.trim_start();
    if let Some(time) = clock(time) {
        return Some(Kind::Day(Day::Date(day), Some(time)));
    }
    // `git log` puts a space before the offset.
    let time = time.replace(' ', "");
    let shape = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | '+' | '-' | 'z');
    if !time.chars().all(shape) {
        return None;
    }
    format!("{date}T{time}").to_ascii_uppercase().parse().ok().map(Kind::Moment)
}

fn date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let year = digits(parts.next()?, 4, 4)? as i16;
    let month = digits(parts.next()?, 2, 2)? as i8;
    let day = digits(parts.next()?, 2, 2)? as i8;
    if parts.next().is_some() {
        return None;
    }
    Date::new(year, month, day).ok()
}

/// `9:30`, `14:30`, `14:30:05`, `14:30:05.25`.
fn clock(text: &str) -> Option<Time> {
    let mut parts = text.split(':');
    let hour = digits(parts.next()?, 1, 2)? as i8;
    let minute = digits(parts.next()?, 2, 2)? as i8;
    let (second, nanosecond) = match parts.next() {
        None => (0, 0),
        Some(seconds) => match seconds.split_once('.') {
            None => (digits(seconds, 2, 2)? as i8, 0),
            Some((seconds, fraction)) => {
                let scale = 10_u32.pow(9_u32.saturating_sub(fraction.len() as u32));
                (digits(seconds, 2, 2)? as i8, (digits(fraction, 1, 9)? * scale) as i32)
            }
        },
    };
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, nanosecond).ok()
}

fn digits(text: &str, least: usize, most: usize) -> Option<u32> {
    let fits = (least..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// `2 hours`, `an hour`, `1h30m`, `1 day 2 hours`.
fn ago(text: &str) -> Option<Ago> {
    let mut ago = Ago::default();
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (count, after) = if number.is_empty() {
            let after = after.strip_prefix("an ").or_else(|| after.strip_prefix("a "))?;
            (1, after)
        } else {
            (digits(number, 1, 10)?, after)
        };
        let (unit, after) = split_where(after.trim_start(), |c| !c.is_ascii_alphabetic());
        ago.add(count, unit)?;
        rest = after.trim_start();
    }
    Some(ago)
}

fn split_where(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

impl FromStr for When {
    type Err = WhenError;

    fn from_str(text: &str) -> Result<Self, WhenError> {
        Self::parse(text)
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Central Europe, spelled out so that the tests need no time zone database.
    fn zone() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A Sunday, 15:30:10 on the wall.
    const NOW: &str = "2026-11-15T14:30:10.5Z";

    fn resolved(text: &str) -> Timestamp {
        When::parse(text).unwrap().resolve(at(NOW), &zone()).unwrap()
    }

    #[test]
    fn every_form_names_its_moment() {
        for (text, moment) in [
            ("now", NOW),
            (" Now ", NOW),
            ("2 hours ago", "2026-11-15T12:30:10.5Z"),
            ("an hour ago", "2026-11-15T13:30:10.5Z"),
            ("a minute ago", "2026-11-15T14:29:10.5Z"),
            ("90 seconds ago", "2026-11-15T14:28:40.5Z"),
            ("3 days ago", "2026-11-12T14:30:10.5Z"),
            ("2 weeks ago", "2026-11-01T14:30:10.5Z"),
            ("1h30m ago", "2026-11-15T13:00:10.5Z"),
            ("1 h 30 min  ago", "2026-11-15T13:00:10.5Z"),
            ("1 day 2 hours ago", "2026-11-14T12:30:10.5Z"),
            ("1 YEAR AGO", "2025-11-15T14:30:10.5Z"),
            ("today", "2026-11-14T23:00:00Z"),
            ("today 9:30", "2026-11-15T08:30:00Z"),
            ("today 23:00", "2026-11-15T22:00:00Z"),
            ("yesterday", "2026-11-13T23:00:00Z"),
            ("yesterday 14:00", "2026-11-14T13:00:00Z"),
            ("14:30", "2026-11-15T13:30:00Z"),
            ("2026-11-15", "2026-11-14T23:00:00Z"),
            ("2026-11-15 14:30", "2026-11-15T13:30:00Z"),
            ("2026-11-15 14:30:00", "2026-11-15T13:30:00Z"),
            ("2026-11-15T14:30:00", "2026-11-15T13:30:00Z"),
            ("2026-11-15T14:30:00.25", "2026-11-15T13:30:00.25Z"),
            ("2026-07-15 14:30", "2026-07-15T12:30:00Z"),
            ("2026-11-15T14:30:00Z", "2026-11-15T14:30:00Z"),
            ("2026-11-15t14:30:00.123z", "2026-11-15T14:30:00.123Z"),
            ("2026-11-15T14:30:00-05:00", "2026-11-15T19:30:00Z"),
            ("2026-11-15 14:30:00 +0530", "2026-11-15T09:00:00Z"),
        ] {
            assert_eq!(resolved(text), at(moment), "{text:?}");
        }
    }

    #[test]
    fn a_time_of_day_that_is_still_to_come_was_yesterday() {
        assert_eq!(resolved("15:30"), at("2026-11-15T14:30:00Z"));
        assert_eq!(resolved("15:31"), at("2026-11-14T14:31:00Z"));
    }

    #[test]
    fn a_day_ends_with_its_last_nanosecond() {
        let end = |text: &str| When::parse(text).unwrap().resolve_end(at(NOW), &zone()).unwrap();
        assert_eq!(end("2026-11-14"), at("2026-11-14T22:59:59.999999999Z"));
        assert_eq!(end("yesterday"), at("2026-11-14T22:59:59.999999999Z"));
        assert_eq!(end("yesterday 14:00"), at("2026-11-14T13:00:00Z"));
        assert_eq!(end("2 hours ago"), at("2026-11-15T12:30:10.5Z"));
    }

    #[test]
    fn days_are_those_of_the_calendar_and_hours_those_of_the_clock() {
        let after_the_change = at("2026-10-25T11:00:00Z");
        let before =
            |text: &str| When::parse(text).unwrap().resolve(after_the_change, &zone()).unwrap();
        assert_eq!(before("1 day ago"), at("2026-10-24T10:00:00Z"));
        assert_eq!(before("24 hours ago"), at("2026-10-24T11:00:00Z"));
    }

    #[test]
    fn skipped_and_repeated_local_times_have_a_moment() {
        assert_eq!(resolved("2026-03-29 02:30"), at("2026-03-29T01:30:00Z"));
        assert_eq!(resolved("2026-10-25 02:30"), at("2026-10-25T00:30:00Z"));
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in [
            "",
            "  ",
            "soon",
            "ago",
            " ago",
            "2 ago",
            "hours ago",
            "2hoursago",
            "-2 hours ago",
            "2 parsecs ago",
            "in 2 hours",
            "14",
            "24:00",
            "14:60",
            "9:5",
            "1:2:3:4",
            "14:30:00.",
            "yesterday 25:00",
            "yesterday noon",
            "now 14:00",
            "2026-11-31",
            "2026-2-3",
            "26-11-15",
            "2026-11-15x",
            "2026-11-15T",
            "2026-11-15T14:30:00[Europe/Paris]",
            "٢ hours ago",
            "2026-11-1٥",
            "9999999999 seconds ago",
            "999999999 years ago",
        ] {
            assert!(When::parse(bad).is_err(), "{bad:?}");
        }
        assert!(When::parse(&"1h".repeat(100)).is_err());
    }

    #[test]
    fn a_missing_ago_is_named() {
        let error = When::parse("2 hours").unwrap_err();
        assert_eq!(error.to_string(), "not a time: \"2 hours\" does not say `ago`");
        assert_eq!(error.hint(), "did you mean `2 hours ago`?");
        assert!(When::parse("soon").unwrap_err().hint().contains("yesterday 14:00"));
    }

    #[test]
    fn moments_before_all_time_are_out_of_range() {
        for text in ["90000 years ago", "999999999 days ago", "999999999 months ago"] {
            let when = When::parse(text).unwrap();
            let error = when.resolve(at(NOW), &zone()).unwrap_err();
            assert!(matches!(error, WhenError::OutOfRange(_)), "{text:?}");
        }
    }

    #[test]
    fn large_counts_survive_text() {
        for text in ["84000000 years ago", "4294967295 seconds ago"] {
            let when = When::parse(text).unwrap();
            assert_eq!(When::parse(&when.to_string()), Ok(when));
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,60}") {
            let _ = When::parse(&text);
        }

        #[test]
        fn what_parses_resolves_or_says_why_and_survives_text(
            text in "(now|today|yesterday|[0-9]{1,4}-[01][0-9]-[0-3][0-9]|[0-9]{1,9} ?(s|m|h|days|mo|y) ago)([ T][0-2]?[0-9]:[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-][01][0-9]:30)?)?)?",
            now in -60_000_000_000_000_i64..250_000_000_000_000,
        ) {
            if let Ok(when) = When::parse(&text) {
                let now = Timestamp::from_millis(now);
                let start = when.resolve(now, &zone());
                let end = when.resolve_end(now, &zone());
                if let (Ok(start), Ok(end)) = (start, end) {
                    prop_assert!(start <= end);
                }
                prop_assert_eq!(When::parse(&when.to_string()), Ok(when));
            }
        }
    }
}
