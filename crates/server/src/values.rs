//! Values that requests carry as text, checked and refused in our own words.

use std::fmt::Display;
use std::str::FromStr;

use rappel::Rappel;
use rappel_types::{Timestamp, When};

use crate::problem::Problem;

/// A page has so many items.
pub const PAGE: usize = 20;
/// And at most so many.
pub const PAGE_MAX: u64 = 200;

/// How many items are asked for.
pub fn limit(given: Option<u64>) -> Result<usize, Problem> {
    match given {
        None => Ok(PAGE),
        Some(number @ 1..=PAGE_MAX) => Ok(number as usize),
        Some(number) => {
            Err(Problem::out_of_range(format!("limit is from 1 to {PAGE_MAX}, not {number}")))
        }
    }
}

/// A value of a type that reads itself.
pub fn parse<T: FromStr<Err: Display>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: T::Err| Problem::malformed(error.to_string()))
}

/// The same where there may be none.
pub fn parse_some<T: FromStr<Err: Display>>(text: Option<String>) -> Result<Option<T>, Problem> {
    text.filter(|text| !text.is_empty()).map(|text| parse(&text)).transpose()
}

/// Values in a list with commas.
pub fn parse_list<T: FromStr<Err: Display>>(text: Option<String>) -> Result<Vec<T>, Problem> {
    let text = text.unwrap_or_default();
    text.split(',').filter(|one| !one.is_empty()).map(parse).collect()
}

/// The beginning, or the end, of what a text means as a time.
pub fn moment(text: &str, rappel: &Rappel, end: bool) -> Result<Timestamp, Problem> {
    let malformed = |error: rappel_types::time::WhenError| {
        Problem::malformed(error.to_string()).hint(error.hint())
    };
    let when = When::parse(text).map_err(malformed)?;
    let (now, zone) = (rappel.now(), rappel.zone());
    let moment = if end { when.resolve_end(now, zone) } else { when.resolve(now, zone) };
    moment.map_err(malformed)
}
