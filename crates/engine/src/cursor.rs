//! Where a page of a list ended. The next page goes on there, whatever was saved or deleted since.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rappel_store::index::{CheckpointRow, Key, Of, Order};
use rappel_types::WorkspaceId;

use crate::error::{Error, Result};

/// The end of a page. Its text is for [`crate::ListFilter::after`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// In lists of one workspace and its lineages: the place in each history behind which
    /// checkpoints were not listed yet.
    Apart(BTreeMap<WorkspaceId, Key>),
    /// In lists of all workspaces: the place of the last checkpoint listed.
    Joined(Key),
}

impl Cursor {
    /// Whether a checkpoint comes after it. `order` is that of its history.
    pub(crate) fn is_before(&self, row: &CheckpointRow, order: Order) -> bool {
        let place = self.place_in(Of::One(row.workspace));
        place.is_none_or(|place| match order {
            Order::Number => row.sequence < place.sequence,
            Order::Time => Key::from(row) < place,
        })
    }

    /// The place behind which checkpoints of these histories were not listed yet.
    pub(crate) fn place_in(&self, of: Of<'_>) -> Option<Key> {
        match (self, of) {
            (Self::Joined(place), _) => Some(*place),
            (Self::Apart(places), Of::One(id)) => places.get(&id).copied(),
            (Self::Apart(_), Of::AllBut(_)) => None,
        }
    }

    /// The end of a page whose checkpoints are `page`, newest first. `newest` has the newest
    /// checkpoint of each history.
    pub(crate) fn behind(
        former: Option<&Self>,
        page: &[CheckpointRow],
        newest: &BTreeMap<WorkspaceId, Key>,
        by_time: bool,
    ) -> Option<Self> {
        let last = page.last()?;
        if by_time {
            return Some(Self::Joined(last.into()));
        }
        let mut places = match former {
            Some(Self::Apart(places)) => places.clone(),
            _ => BTreeMap::new(),
        };
        // What is saved later is above these, also in histories that the page did not reach.
        for (workspace, newest) in newest {
            let above = Key { sequence: newest.sequence + 1, ..*newest };
            places.entry(*workspace).or_insert(above);
        }
        for row in page {
            places.insert(row.workspace, row.into());
        }
        Some(Self::Apart(places))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            |Key { created_at, birth, sequence }: &Key| format!("{created_at}.{birth}.{sequence}");
        match self {
            Self::Joined(place) => write!(f, "t{}", text(place)),
            Self::Apart(places) => {
                let texts = places.iter().map(|(id, place)| format!("{id}.{}", text(place)));
                write!(f, "n{}", texts.collect::<Vec<_>>().join("_"))
            }
        }
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let key = |text: &str| {
            let mut parts = text.splitn(3, '.');
            Some(Key {
                created_at: parts.next()?.parse().ok()?,
                birth: parts.next()?.parse().ok()?,
                sequence: parts.next()?.parse().ok()?,
            })
        };
        let parsed = || {
            if let Some(place) = text.strip_prefix('t') {
                return Some(Self::Joined(key(place)?));
            }
            let places = text.strip_prefix('n')?.split('_').map(|part| {
                let (id, place) = part.split_once('.')?;
                Some((id.parse().ok()?, key(place)?))
            });
            Some(Self::Apart(places.collect::<Option<_>>()?))
        };
        parsed().ok_or_else(|| Error::Usage {
            message: format!("{text:?} is not a place in a list"),
            advice: Vec::new(),
        })
    }
}
