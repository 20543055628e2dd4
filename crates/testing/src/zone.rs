//! Time zones in which a test runs undisturbed.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 3600;

/// A value of `TZ` in which midnight is far: UTC, but for an hour around its own midnight. The first
/// save of a day makes a checkpoint more than a test expects.
#[allow(clippy::disallowed_methods, reason = "it is the real clock that the program asks")]
pub fn calm_zone() -> &'static str {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let second = since.as_secs() % DAY;
    match !(300..=DAY - 3300).contains(&second) {
        true => "CALM+6",
        false => "UTC",
    }
}

/// A value of `TZ` in which midnight is so many seconds ahead.
#[allow(clippy::disallowed_methods, reason = "it is the real clock that the program asks")]
pub fn zone_before_midnight(seconds: i64) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let day = DAY as i64;
    let now = since.as_secs() as i64 % day;
    // Local time is UTC plus this; at most twelve hours either way.
    let ahead = (day - seconds - now + day / 2).rem_euclid(day) - day / 2;
    let sign = if ahead < 0 { '+' } else { '-' };
    let ahead = ahead.abs();
    format!("NEAR{sign}{:02}:{:02}:{:02}", ahead / 3600, ahead / 60 % 60, ahead % 60)
}
