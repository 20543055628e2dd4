//! REF: how people name a checkpoint. A reference is only read here; finding what it means needs
//! the index and is the engine's.

use std::fmt;
use std::str::FromStr;

use crate::time::WhenError;
use crate::{CheckpointId, When};

/// The layouts whose checkpoints keep their own ids, and can be named `FORMAT:ID`.
pub const FORMATS: [&str; 6] = ["aiwg", "caf", "forge", "loki", "lugh", "rappel"];

/// How many parents back a reference may go.
pub const MAX_BACK: u32 = 1_000_000;

const MAX_LEN: usize = 200;

/// A checkpoint as a person named it: a starting point and how many parents to go back from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Where to start.
    pub base: Base,
    /// How many parents back from there (`~N`, or `^` for each).
    pub back: u32,
    /// The steps back as they were written: messages repeat what the user wrote.
    steps: String,
}

impl Reference {
    /// A reference to the checkpoint itself, without a step back.
    pub fn new(base: Base) -> Self {
        Self { base, back: 0, steps: String::new() }
    }

    /// Whether it could be the id of one checkpoint, or what it was called where it came from.
    pub fn is_id(&self) -> bool {
        self.back == 0 && matches!(self.base, Base::Id(_) | Base::Imported { .. })
    }
}

/// Where a [`Reference`] starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// `latest`: the newest that holds files and is not a restore's safety save.
    Latest,
    /// An id, or the beginning of one; a whole id goes first.
    Id(CheckpointId),
    /// The number of a checkpoint in its workspace.
    Sequence(u64),
    /// `@{WHEN}`: the newest at or before that time.
    At(When),
    /// Several words, which no checkpoint is called. People give a checkpoint's message where a
    /// reference belongs; the engine then says which checkpoint has it.
    Words(String),
    /// `FORMAT:ID`: an imported one, by the id it had there.
    Imported {
        /// One of [`FORMATS`].
        format: &'static str,
        /// Its id, whole.
        id: CheckpointId,
    },
}

/// Why a text is not a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing was given.
    #[error("the reference is empty")]
    Empty,
    /// It is longer than any reference can be.
    #[error("the reference is longer than {MAX_LEN} characters")]
    TooLong,
    /// What should be an id has characters that ids do not have.
    #[error("not a checkpoint: {0:?}")]
    BadId(String),
    /// A number that no checkpoint can have.
    #[error("no checkpoint can have the number {0:?}; they are counted from 1")]
    BadSequence(String),
    /// What follows `~` is no number, or something follows `^`.
    #[error("{0:?} does not say how many parents to go back")]
    BadBack(String),
    /// `~N` goes back too far.
    #[error("a reference goes back {MAX_BACK} parents at most")]
    BackTooFar,
    /// `~N` without anything to count from.
    #[error("{0:?} does not say where to go back from")]
    NoBase(String),
    /// `@{` without `}`, or `@` without `{`.
    #[error("{0:?} is not of the form `@{{WHEN}}`")]
    BadBraces(String),
    /// The WHEN of `@{WHEN}` is none.
    #[error(transparent)]
    When(#[from] WhenError),
    /// The FORMAT of `FORMAT:ID` is none.
    #[error("no such format of checkpoints: {0:?}")]
    UnknownFormat(String),
    /// `REF:PATH` was asked for and there is no `:PATH`.
    #[error("{0:?} has no `:PATH`")]
    NoPath(String),
}

impl ReferenceError {
    /// What to write instead, for a `hint:` line.
    pub fn hint(&self) -> String {
        match self {
            Self::When(error) => error.hint(),
            Self::NoBase(text) => format!("did you mean `latest{text}`?"),
            Self::BadBack(_) | Self::BackTooFar => {
                "`latest~2` is the checkpoint two parents before the latest".to_owned()
            }
            Self::BadBraces(_) => "write `@{2 hours ago}`, in quotes".to_owned(),
            Self::UnknownFormat(_) => format!("known formats are {}", FORMATS.join(", ")),
            Self::NoPath(_) => "write `latest:src/main.rs`".to_owned(),
            Self::Empty | Self::TooLong | Self::BadId(_) | Self::BadSequence(_) => {
                "a checkpoint is named by its id or the beginning of one, by its number, or as \
                 `latest`, `latest~2` or `@{2 hours ago}`"
                    .to_owned()
            }
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.trim().is_empty() {
            return Err(ReferenceError::Empty);
        }
        if text.contains(char::is_whitespace) && !text.starts_with('@') {
            return Ok(Self::new(Base::Words(text.to_owned())));
        }
        if text.len() > MAX_LEN {
            return Err(ReferenceError::TooLong);
        }
        let (base, steps) = text.split_at(text.find(['~', '^']).unwrap_or(text.len()));
        if base.is_empty() {
            return Err(ReferenceError::NoBase(text.to_owned()));
        }
        Ok(Self { base: parse_base(base)?, back: parse_back(steps)?, steps: steps.to_owned() })
    }
}

fn parse_base(text: &str) -> Result<Base, ReferenceError> {
    if let Some(rest) = text.strip_prefix('@') {
        let when = rest
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .ok_or_else(|| ReferenceError::BadBraces(text.to_owned()))?;
        return Ok(Base::At(When::parse(when)?));
    }
    let id = |text: &str| text.parse().map_err(|_| ReferenceError::BadId(text.to_owned()));
    if let Some((name, rest)) = text.split_once(':') {
        let format =
            known_format(name).ok_or_else(|| ReferenceError::UnknownFormat(name.to_owned()))?;
        return Ok(Base::Imported { format, id: id(rest)? });
    }
    if text == "latest" {
        return Ok(Base::Latest);
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse() {
            Ok(0) | Err(_) => Err(ReferenceError::BadSequence(text.to_owned())),
            Ok(number) => Ok(Base::Sequence(number)),
        };
    }
    Ok(Base::Id(id(text)?))
}

/// The sum of `~2~~3^`; `~` and `^` alone are 1. In git, `^2` is another parent; there is only one.
fn parse_back(mut steps: &str) -> Result<u32, ReferenceError> {
    let mut back = 0_u32;
    while let Some(sign) = steps.chars().next() {
        let rest = &steps[sign.len_utf8()..];
        let (count, next) = rest.split_at(rest.find(['~', '^']).unwrap_or(rest.len()));
        if !count.bytes().all(|b| b.is_ascii_digit()) || (sign == '^' && !count.is_empty()) {
            return Err(ReferenceError::BadBack(format!("{sign}{count}")));
        }
        // All digits, so that only a number beyond u32 fails.
        let count = if count.is_empty() { 1 } else { count.parse().unwrap_or(u32::MAX) };
        back = back.saturating_add(count);
        steps = next;
    }
    if back > MAX_BACK { Err(ReferenceError::BackTooFar) } else { Ok(back) }
}

fn known_format(name: &str) -> Option<&'static str> {
    FORMATS.into_iter().find(|format| *format == name)
}

/// Splits `A..B`, as `diff` takes it: A alone where there are no dots. A missing A is `latest`, a
/// missing B is `None`: the workspace as it is now.
pub fn split_range(text: &str) -> Result<(Reference, Option<Reference>), ReferenceError> {
    // Words with dots among them are words; only a WHEN has spaces.
    let is_end = |end: &str| end.starts_with("@{") || !end.contains(char::is_whitespace);
    let Some((from, to)) = text.split_once("..").filter(|(from, to)| is_end(from) && is_end(to))
    else {
        return Ok((text.parse()?, None));
    };
    let from = if from.is_empty() { "latest" } else { from };
    let to = if to.is_empty() { None } else { Some(to.parse()?) };
    Ok((from.parse()?, to))
}

/// Splits `REF:PATH`, as `cat` takes it. The colon is the first one after the reference: those in
/// `@{…}` and the one of `FORMAT:` belong to the reference, and the path may have its own. The path
/// is not looked at: one that begins with `./` or `../` means something only in a folder.
pub fn split_path(text: &str) -> Result<(Reference, &str), ReferenceError> {
    let no_path = || ReferenceError::NoPath(text.chars().take(MAX_LEN).collect());
    let skip = if text.starts_with("@{") {
        text.find('}').ok_or_else(no_path)?
    } else {
        match text.split_once(':') {
            Some((name, _)) if known_format(name).is_some() => name.len() + 1,
            _ => 0,
        }
    };
    let colon = skip + text[skip..].find(':').ok_or_else(no_path)?;
    let (reference, path) = (&text[..colon], &text[colon + 1..]);
    if path.is_empty() {
        return Err(no_path());
    }
    Ok((reference.parse()?, path))
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base {
            Base::Latest => f.write_str("latest")?,
            Base::Id(id) => write!(f, "{id}")?,
            Base::Sequence(number) => write!(f, "{number}")?,
            Base::At(when) => write!(f, "@{{{when}}}")?,
            Base::Words(words) => f.write_str(words)?,
            Base::Imported { format, id } => write!(f, "{format}:{id}")?,
        }
        f.write_str(&self.steps)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reference(text: &str) -> Reference {
        text.parse().unwrap()
    }

    fn id(text: &str) -> Base {
        Base::Id(text.parse().unwrap())
    }

    fn imported(format: &'static str, text: &str) -> Base {
        Base::Imported { format, id: text.parse().unwrap() }
    }

    #[test]
    fn every_form_is_read() {
        let two_hours_ago = || Base::At(When::parse("2 hours ago").unwrap());
        for (text, base, back) in [
            ("latest", Base::Latest, 0),
            ("chk_20261115_143022_k7f3", id("chk_20261115_143022_k7f3"), 0),
            ("chk_20261115_143022", id("chk_20261115_143022"), 0),
            ("cp-12-1739345422", id("cp-12-1739345422"), 0),
            ("42", Base::Sequence(42), 0),
            ("latest~", Base::Latest, 1),
            ("latest~0", Base::Latest, 0),
            ("latest~2", Base::Latest, 2),
            ("latest~2~~3", Base::Latest, 6),
            ("42~1", Base::Sequence(42), 1),
            ("latest^", Base::Latest, 1),
            ("latest^^~2^", Base::Latest, 5),
            ("@{2 hours ago}^", two_hours_ago(), 1),
            ("Before adding Stripe", Base::Words("Before adding Stripe".into()), 0),
            ("about ~5 files", Base::Words("about ~5 files".into()), 0),
            ("@{2 hours ago}", two_hours_ago(), 0),
            ("@{2 hours ago}~3", two_hours_ago(), 3),
            ("aiwg:3", imported("aiwg", "3"), 0),
            ("aiwg:003~1", imported("aiwg", "003"), 1),
            ("lugh:latest", imported("lugh", "latest"), 0),
        ] {
            let found = reference(text);
            assert_eq!((found.base.clone(), found.back), (base, back), "{text:?}");
            assert_eq!(found.to_string(), text, "as it was written");
        }
    }

    #[test]
    fn other_texts_are_refused_with_their_fault() {
        use ReferenceError as E;
        for (text, error) in [
            ("", E::Empty),
            ("~2", E::NoBase("~2".into())),
            ("0", E::BadSequence("0".into())),
            ("99999999999999999999", E::BadSequence("99999999999999999999".into())),
            ("latest~x", E::BadBack("~x".into())),
            ("latest~-1", E::BadBack("~-1".into())),
            ("latest~99999999999", E::BackTooFar),
            ("latest~999999~2", E::BackTooFar),
            ("@{now", E::BadBraces("@{now".into())),
            ("@", E::BadBraces("@".into())),
            ("@{now}x", E::BadBraces("@{now}x".into())),
            ("@{soon}", E::When(WhenError::Malformed("soon".into()))),
            ("tar:3", E::UnknownFormat("tar".into())),
            ("aiwg:../3", E::BadId("../3".into())),
            ("../etc/passwd", E::BadId("../etc/passwd".into())),
            ("..", E::BadId("..".into())),
            ("a/b", E::BadId("a/b".into())),
            ("latest^2", E::BadBack("^2".into())),
            ("^", E::NoBase("^".into())),
            (" ", E::Empty),
        ] {
            assert_eq!(text.parse::<Reference>(), Err(error), "{text:?}");
        }
        assert_eq!("x".repeat(201).parse::<Reference>(), Err(E::TooLong));
        assert!("~".repeat(150).parse::<Reference>().is_err());
    }

    #[test]
    fn hints_say_what_to_write() {
        let hint = |text: &str| text.parse::<Reference>().unwrap_err().hint();
        assert_eq!(hint("~2"), "did you mean `latest~2`?");
        assert_eq!(hint("@{2 hours}"), "did you mean `2 hours ago`?");
        assert!(hint("tar:3").contains("aiwg"));
    }

    #[test]
    fn a_path_follows_the_first_colon_after_the_reference() {
        for (text, expected, path) in [
            ("latest:src/main.rs", "latest", "src/main.rs"),
            ("latest~2:a:b", "latest~2", "a:b"),
            ("42:x", "42", "x"),
            ("aiwg:3:notes.md", "aiwg:3", "notes.md"),
            ("aiwg:3~1:a:b", "aiwg:3~1", "a:b"),
            ("@{yesterday 14:00}:a", "@{yesterday 14:00}", "a"),
            ("@{14:00}~1:a", "@{14:00}~1", "a"),
            ("latest:./a", "latest", "./a"),
            (r"latest:caf\xe9\\x", "latest", r"caf\xe9\\x"),
        ] {
            let (found, found_path) = split_path(text).unwrap();
            assert_eq!((found.to_string().as_str(), found_path), (expected, path));
        }
    }

    #[test]
    fn a_range_has_two_ends_and_either_may_be_left_out() {
        for (text, from, to) in [
            ("1..2", "1", Some("2")),
            ("latest^..latest", "latest^", Some("latest")),
            ("1..", "1", None),
            ("..2", "latest", Some("2")),
            ("1", "1", None),
            ("@{9:30}..@{2 hours ago}", "@{9:30}", Some("@{2 hours ago}")),
        ] {
            let (found, end) = split_range(text).unwrap();
            assert_eq!(found.to_string(), from, "{text:?}");
            assert_eq!(end.map(|end| end.to_string()).as_deref(), to, "{text:?}");
        }
        assert_eq!(split_range("well.. no").unwrap().0, reference("well.. no"));
        assert!(split_range("1...2").is_err());
        assert!(split_range("../src").is_err());
    }

    #[test]
    fn a_path_is_needed() {
        use ReferenceError as E;
        for text in ["latest", "latest:", "@{14:00}", "@{14:00:x", "aiwg:3", ""] {
            assert!(matches!(split_path(text), Err(E::NoPath(_))), "{text:?}");
        }
        assert_eq!(split_path(":x"), Err(E::Empty));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,60}") {
            let _ = text.parse::<Reference>();
            let _ = split_path(&text);
        }

        #[test]
        fn what_parses_survives_text(
            text in "(latest|[0-9]{1,21}|[a-z_.-]{1,9}|aiwg:[0-9]{1,3}|@\\{(now|9:30|2 days ago)\\})(~[0-9]{0,7}){0,3}(:[a-z:\\\\]{0,4})?",
        ) {
            if let Ok(reference) = text.parse::<Reference>() {
                prop_assert_eq!(reference.to_string().parse::<Reference>(), Ok(reference));
            }
            let _ = split_path(&text);
        }
    }
}
