//! What a session is called and how it stands.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Timestamp;
use crate::id::BASE32;

/// What is wrong with a text that should have been a session's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid session id: {0:?} (letters, digits, `_`, `-`, `.` and `:`, at most 128)")]
pub struct ParseSessionIdError(String);

/// The name of a session: `ses_20261115_143022_k7f3`, or what its agent calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// A new name: a moment, and four random letters.
    pub fn new(at: Timestamp, random: u32) -> Self {
        let letter = |shift: u32| char::from(BASE32[(random >> shift & 31) as usize]);
        let letters: String = [0, 5, 10, 15].map(letter).iter().collect();
        Self(format!("ses_{}_{letters}", at.compact()))
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = ParseSessionIdError;

    fn from_str(text: &str) -> Result<Self, ParseSessionIdError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        if text.is_empty()
            || text.len() > 128
            || text.starts_with(['.', '-'])
            || !text.chars().all(legal)
        {
            return Err(ParseSessionIdError(text.chars().take(80).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

crate::id::serde_as_text!(SessionId);

/// How a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// Its agent is at work.
    #[default]
    Running,
    /// It waits for somebody.
    Paused,
    /// It ended well.
    Completed,
    /// It ended otherwise.
    Failed,
}

impl SessionStatus {
    /// Whether it may still go on.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }

    /// Its name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_never_a_path_or_a_flag() {
        for bad in ["", "..", "a/b", ".x", "-x", "a b", "é"] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad:?}");
        }
        for good in ["ses_20261115_143022_k7f3", "019a8c7e-4b1d-7c11", "claude:1"] {
            assert_eq!(good.parse::<SessionId>().unwrap().as_str(), good);
        }
    }
}
