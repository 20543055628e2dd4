//! One function per parser that reads what people write, for `fuzz/` and `tests/corpus.rs`: any
//! bytes go in, and what is promised about them is asserted. Not part of the library's interface.

use jiff::tz::TimeZone;

use crate::reference::{Base, split_path, split_range};
use crate::{Config, Reference, Timestamp, When};

/// REF, and REF:PATH.
pub fn reference(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Reference>() {
        Ok(reference) => {
            let shown = reference.to_string();
            assert_eq!(shown.parse::<Reference>().as_ref(), Ok(&reference), "{text:?}");
            let words = matches!(reference.base, Base::Words(_));
            assert!(words || !shown.contains(['/', '\0', '\n']), "{text:?} reads like a path");
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.hint().is_empty()),
    }
    if let Ok((_, path)) = split_path(text) {
        assert!(!path.is_empty() && text.ends_with(path), "{text:?}");
    }
    let _ = split_range(text);
}

/// WHEN.
pub fn when(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let when = match When::parse(text) {
        Ok(when) => when,
        Err(error) => {
            assert!(!error.hint().is_empty());
            return;
        }
    };
    assert_eq!(When::parse(&when.to_string()).as_ref(), Ok(&when), "{text:?}");
    let ends = [jiff::Timestamp::MIN, jiff::Timestamp::UNIX_EPOCH, jiff::Timestamp::MAX];
    let zones = [TimeZone::UTC, TimeZone::fixed(jiff::tz::offset(-11))];
    for now in ends.map(Timestamp) {
        for zone in &zones {
            if let (Ok(first), Ok(last)) = (when.resolve(now, zone), when.resolve_end(now, zone)) {
                assert!(first <= last, "{text:?} ends before it begins");
            }
        }
    }
}

/// `rappel.toml`.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::parse(text, "rappel.toml") {
        Ok(config) => assert!(config.files.max_file_size > 0 && config.store.max_size != Some(0)),
        Err(error) => {
            assert!(!error.mistakes.is_empty());
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            for mistake in &error.mistakes {
                assert!((1..=lines).contains(&mistake.line), "{mistake}");
                let shown = mistake.to_string();
                assert!(!shown.chars().any(char::is_control), "{shown:?} steers a terminal");
            }
        }
    }
}
