//! What people write behind a flag, read into values of the domain.
//!
//! Clap calls these while it parses. Each refuses with a [`BadValue`], whose hint survives clap and
//! ends up on the `hint:` line. Nothing here looks at the disk.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rappel_types::agents::{Confidence, SessionId, SessionStatus};
use rappel_types::path::unescape;
use rappel_types::{Facet, Reference, RelPath, Trigger, When};
use serde_json::Value;

use crate::errors::Failure;

/// A value that cannot be what its place asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadValue {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl BadValue {
    fn new(message: &impl ToString, hint: impl Into<String>) -> Self {
        Self { message: message.to_string(), hint: Some(hint.into()) }
    }
}

impl std::fmt::Display for BadValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BadValue {}

/// A REF.
pub fn reference(text: &str) -> Result<Reference, BadValue> {
    text.parse().map_err(|error: rappel_types::reference::ReferenceError| {
        BadValue::new(&error, error.hint())
    })
}

/// What to compare: `A` with something else, or `A..B`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// A.
    pub from: Reference,
    /// B; `None` is the workspace as it is now.
    pub to: Option<Reference>,
    /// Whether it was written with dots.
    pub dots: bool,
    /// The whole text as the name of one checkpoint: an id may have dots.
    whole: Option<Reference>,
}

impl Range {
    /// The same, or the one checkpoint whose id the text is: an id wins over a range.
    pub fn meant(&self, rappel: &rappel::Rappel) -> Self {
        let Some(whole) = &self.whole else { return self.clone() };
        match rappel.has_exactly(whole) {
            true => Self { from: whole.clone(), to: None, dots: false, whole: None },
            false => self.clone(),
        }
    }
}

/// `A` or `A..B`.
pub fn range(text: &str) -> Result<Range, BadValue> {
    let dots = text.contains("..");
    let whole = text.parse::<Reference>().ok().filter(|whole| dots && whole.is_id());
    match (rappel_types::reference::split_range(text), whole) {
        (Ok((from, to)), whole) => Ok(Range { from, to, dots, whole }),
        (Err(_), Some(from)) => Ok(Range { from, to: None, dots: false, whole: None }),
        (Err(error), None) => Err(BadValue::new(&error, error.hint())),
    }
}

/// `REF:PATH`, the path as it was written.
pub fn reference_and_path(text: &str) -> Result<(Reference, String), BadValue> {
    rappel_types::reference::split_path(text)
        .map(|(reference, path)| (reference, path.to_owned()))
        .map_err(|error| BadValue::new(&error, error.hint()))
}

/// A WHEN.
pub fn when(text: &str) -> Result<When, BadValue> {
    When::parse(text).map_err(|error| BadValue::new(&error, error.hint()))
}

const LIMIT_HINT: &str = "write a number from 1 up, as in `rappel list 50`";

/// How many to list.
pub fn limit(text: &str) -> Result<u64, BadValue> {
    match text.parse() {
        Ok(0) => Err(BadValue::new(&"0 would list nothing", LIMIT_HINT)),
        Err(_) => Err(BadValue::new(&format!("{text:?} is not a number"), LIMIT_HINT)),
        Ok(limit) => Ok(limit),
    }
}

/// One of FACETS.
pub fn facet(text: &str) -> Result<Facet, BadValue> {
    text.trim().parse().map_err(|message: String| {
        let hint = match text.trim() {
            "database" | "db" => "did you mean databases?".to_owned(),
            _ => {
                let known: Vec<_> = Facet::ALL.iter().map(|facet| facet.as_str()).collect();
                format!("facets are {}", known.join(", "))
            }
        };
        BadValue::new(&message, hint)
    })
}

/// A trigger.
pub fn trigger(text: &str) -> Result<Trigger, BadValue> {
    text.parse().map_err(|error: rappel_types::trigger::UnknownTrigger| {
        let known: Vec<_> = Trigger::ALL.iter().map(|trigger| trigger.as_str()).collect();
        BadValue::new(&error, format!("triggers are {}", known.join(", ")))
    })
}

/// One of the forms of checkpoints.
pub fn form(text: &str) -> Result<rappel::Form, BadValue> {
    text.parse().map_err(|message: String| {
        let known: Vec<_> = rappel::Form::ALL.iter().map(|form| form.as_str()).collect();
        let hint = rappel_types::slip::nearest(text, known.iter().copied());
        let hint = hint.map_or_else(|| known.join(", "), |near| format!("did you mean {near}?"));
        BadValue::new(&message, hint)
    })
}

/// A session's id.
pub fn session(text: &str) -> Result<SessionId, BadValue> {
    text.parse().map_err(|error: rappel_types::agents::ParseSessionIdError| {
        BadValue::new(&error, "rappel session list shows them")
    })
}

/// How a session can end.
pub fn end_status(text: &str) -> Result<SessionStatus, BadValue> {
    match text {
        "completed" => Ok(SessionStatus::Completed),
        "failed" => Ok(SessionStatus::Failed),
        _ => Err(BadValue::new(&format!("a session does not end {text:?}"), "completed or failed")),
    }
}

/// A length of time.
pub fn duration(text: &str) -> Result<std::time::Duration, BadValue> {
    if text == "0" {
        return Ok(std::time::Duration::ZERO);
    }
    rappel_types::duration::parse_duration(text)
        .map_err(|error| BadValue::new(&error, error.hint()))
}

/// The time between two checkpoints. A capture has to end before the next one begins.
pub fn interval(text: &str) -> Result<std::time::Duration, BadValue> {
    let interval = duration(text)?;
    match interval.as_millis() < 100 {
        true => Err(BadValue::new(&"the interval is too short", "100ms is the shortest one")),
        false => Ok(interval),
    }
}

/// How sure something is.
pub fn confidence(text: &str) -> Result<Confidence, BadValue> {
    text.parse().map_err(|message: String| BadValue::new(&message, "0 is no, 1 is certain"))
}

/// One of a few words.
pub fn word<T: std::str::FromStr<Err = String>>(text: &str) -> Result<T, BadValue> {
    text.parse().map_err(|message| BadValue { message, hint: None })
}

/// One tag of a list that commas split. What a tag may look like is the engine's to say.
#[allow(clippy::unnecessary_wraps, reason = "the shape that clap asks for")]
pub fn tag(text: &str) -> Result<String, BadValue> {
    Ok(text.trim().to_owned())
}

/// `KEY=VALUE`: numbers, truth values, lists and objects as JSON has them, all else as text.
pub fn key_value(text: &str) -> Result<(String, Value), BadValue> {
    let hint = "write KEY=VALUE, as in `step_number=3`";
    let (key, value) =
        text.split_once('=').ok_or_else(|| BadValue::new(&format!("{text:?} has no `=`"), hint))?;
    if key.is_empty() || key.chars().any(char::is_control) {
        return Err(BadValue::new(&format!("{key:?} cannot be a key"), hint));
    }
    let value = match serde_json::from_str(value) {
        // `null` would take a key away wherever metadata is merged, which nobody means by it.
        Ok(Value::Null) | Err(_) => Value::String(value.to_owned()),
        Ok(json) => json,
    };
    Ok((key.to_owned(), value))
}

/// A path as it was written on the command line, relative to `folder` as git has it, as a path
/// below `root`; `None` is the root itself. Text is unescaped (`\xNN`, `\\`), raw bytes are taken
/// as they are.
pub fn path_below(root: &Path, folder: &Path, given: &OsStr) -> Result<Option<RelPath>, Failure> {
    let bytes = match given.to_str() {
        Some(text) => unescape(text).ok_or_else(|| {
            Failure::usage(
                format!("unusable path {text:?}"),
                "a backslash is written `\\\\` and a byte `\\xNN`",
            )
        })?,
        None => given.as_bytes().to_vec(),
    };
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    let whole = without_dots(&folder.join(&path));
    let Ok(below) = whole.strip_prefix(root) else {
        return Err(Failure::usage(
            format!("{} lies outside of the workspace {}", path.display(), root.display()),
            "paths are relative to the current folder",
        ));
    };
    if below.as_os_str().is_empty() {
        return Ok(None);
    }
    RelPath::new(below.as_os_str().as_bytes())
        .map(Some)
        .map_err(|error| Failure::usage(error.to_string(), "name a file or folder"))
}

/// A path without `.` and `..`, by its text alone: it may name what is no longer there.
pub fn without_dots(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = whole.pop(),
            other => whole.push(other),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(folder: &str, given: &str) -> Result<Option<String>, Failure> {
        path_below(Path::new("/w"), Path::new(folder), OsStr::new(given))
            .map(|path| path.map(|path| path.to_string()))
    }

    #[test]
    fn paths_are_relative_to_the_current_folder() {
        for (folder, given, expected) in [
            ("/w", "a/b", Some("a/b")),
            ("/w", "a/b/", Some("a/b")),
            ("/w/src", "a", Some("src/a")),
            ("/w/src", "./a", Some("src/a")),
            ("/w/src", "../a", Some("a")),
            ("/w/src", "/w/a", Some("a")),
            ("/w/src", "..", None),
            ("/w", ".", None),
            ("/w", r"caf\xe9", Some(r"caf\xe9")),
            ("/w", r"a\\b", Some(r"a\\b")),
        ] {
            let found = below(folder, given).unwrap();
            assert_eq!(found.as_deref(), expected, "{given:?} in {folder}");
        }
    }

    #[test]
    fn paths_outside_of_the_workspace_are_refused() {
        for given in ["../x", "/etc/passwd", "a/../../w2", r"a\b", "a\0"] {
            assert!(below("/w", given).is_err(), "{given:?}");
        }
    }

    #[test]
    fn metadata_values_are_json_where_they_can_be() {
        let value = |text: &str| key_value(text).unwrap().1;
        assert_eq!(value("n=3"), Value::from(3));
        assert_eq!(value("n=true"), Value::from(true));
        assert_eq!(value("n=[1,2]"), serde_json::json!([1, 2]));
        assert_eq!(value("n=3 steps"), Value::from("3 steps"));
        assert_eq!(value("n=null"), Value::from("null"));
        assert_eq!(value("n=a=b"), Value::from("a=b"));
        assert!(key_value("n").is_err());
        assert!(key_value("=3").is_err());
    }
}
