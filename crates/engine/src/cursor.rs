//! Where a page of a list ended. The next page goes on there, whatever was saved or deleted since.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rappel_store::index::CheckpointRow;
use rappel_types::WorkspaceId;

use crate::error::{Error, Result};

/// The end of a page. Its text is for [`crate::ListFilter::after`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// In lists of one workspace and its lineages: of each history, the number below which
    /// checkpoints were not listed yet.
    Numbers(BTreeMap<WorkspaceId, u64>),
    /// In lists of all workspaces: when the last checkpoint listed was made, and its commit.
    Time(i64, u64),
}

impl Cursor {
    /// Whether a checkpoint comes after it.
    pub(crate) fn is_before(&self, row: &CheckpointRow) -> bool {
        match self {
            Self::Numbers(numbers) => {
                numbers.get(&row.workspace).is_none_or(|number| row.sequence < *number)
            }
            Self::Time(at, birth) => (row.created_at, row.birth) < (*at, *birth),
        }
    }

    /// The end of a page whose checkpoints are `page`, newest first. `newest` has the number of the
    /// newest checkpoint of each history.
    pub(crate) fn behind(
        former: Option<&Self>,
        page: &[&CheckpointRow],
        newest: &BTreeMap<WorkspaceId, u64>,
        by_time: bool,
    ) -> Option<Self> {
        let last = page.last()?;
        if by_time {
            return Some(Self::Time(last.created_at, last.birth));
        }
        let mut numbers = match former {
            Some(Self::Numbers(numbers)) => numbers.clone(),
            _ => BTreeMap::new(),
        };
        // What is saved later is above these, also in histories that the page did not reach.
        for (workspace, number) in newest {
            numbers.entry(*workspace).or_insert(number + 1);
        }
        for row in page {
            numbers.insert(row.workspace, row.sequence);
        }
        Some(Self::Numbers(numbers))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(at, birth) => write!(f, "t{at}.{birth}"),
            Self::Numbers(numbers) => {
                let texts = numbers.iter().map(|(id, number)| format!("{id}.{number}"));
                write!(f, "n{}", texts.collect::<Vec<_>>().join("_"))
            }
        }
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = || {
            if let Some(rest) = text.strip_prefix('t') {
                let (at, birth) = rest.split_once('.')?;
                return Some(Self::Time(at.parse().ok()?, birth.parse().ok()?));
            }
            let numbers = text.strip_prefix('n')?.split('_').map(|part| {
                let (id, number) = part.split_once('.')?;
                Some((id.parse().ok()?, number.parse().ok()?))
            });
            Some(Self::Numbers(numbers.collect::<Option<_>>()?))
        };
        parsed().ok_or_else(|| Error::Usage {
            message: format!("{text:?} is not a place in a list"),
            advice: Vec::new(),
        })
    }
}
