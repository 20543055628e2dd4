//! For whom an agent's settings count.

use serde::{Deserialize, Serialize};

use crate::words;

/// Where a settings file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// In this workspace, for this user.
    Local,
    /// In this workspace, for everyone who has the repository.
    Shared,
    /// In all workspaces of this user.
    User,
}

impl Scope {
    /// All of them. An event is told by the first one that has hooks.
    pub const ALL: [Self; 3] = [Self::Local, Self::Shared, Self::User];

    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Shared => "shared",
            Self::User => "user",
        }
    }

    /// The flag of `rappel integrate` that means it, with a blank before it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Local => "",
            Self::Shared => " --shared",
            Self::User => " --user",
        }
    }

    /// The flag that tells a hook which scope's settings it stands in, with a blank before it.
    pub fn hook_flag(self) -> &'static str {
        match self {
            Self::Local => "",
            Self::Shared => " --shared",
            Self::User => " --projects-only",
        }
    }

    /// The scope that a hook's shell line says it stands in.
    pub fn of_line(line: &str) -> Self {
        let words = words::split(line).unwrap_or_default();
        let has = |scope: Self| {
            words.iter().any(|word| word.trim_end_matches(';') == scope.hook_flag().trim())
        };
        match (has(Self::User), has(Self::Shared)) {
            (true, _) => Self::User,
            (false, true) => Self::Shared,
            (false, false) => Self::Local,
        }
    }
}
