//! What people give for a checkpoint that is none: a tag, a message, or a slip of the pen.

use std::collections::BTreeSet;

use rappel_store::index::CheckpointRow;
use rappel_types::slip;

use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::references;

/// How many checkpoints are named that may be meant.
const NAMED: usize = 3;
/// Fewer letters are part of too many messages.
const PART_MIN: usize = 3;

impl Rappel {
    /// Why a text names none of these checkpoints, and what it may have meant.
    pub(crate) fn no_checkpoint(&self, text: &str, rows: &[CheckpointRow]) -> Error {
        let reference = text.to_owned();
        let nearest = (!rows.is_empty()).then(|| match slip::nearest(text, ["latest"]) {
            Some(latest) => vec![latest.to_owned()],
            None => references::nearest(text, rows),
        });
        // The beginning of an id is no word.
        if text.starts_with("chk_") {
            return Error::NoCheckpoint { reference, nearest };
        }
        let wanted = text.trim().to_lowercase();
        let (mut tagged, mut said, mut partly) = (Vec::new(), Vec::new(), Vec::new());
        let mut tags = BTreeSet::new();
        for row in rows.iter().rev() {
            // One that cannot be read is not what is meant, as far as anybody can tell.
            let Ok(checkpoint) = self.view(row) else { continue };
            let id = checkpoint.manifest.id.to_string();
            let message = checkpoint.manifest.description.unwrap_or_default().to_lowercase();
            if checkpoint.manifest.tags.contains(&reference) {
                tagged.push(id);
            } else if message.trim() == wanted {
                said.push(id);
            } else if wanted.chars().count() >= PART_MIN && message.contains(&wanted) {
                partly.push(id);
            }
            tags.extend(checkpoint.manifest.tags);
        }
        let first = |mut ids: Vec<String>| {
            ids.truncate(NAMED);
            ids
        };
        let meant = slip::nearest(text, tags.iter().map(String::as_str)).map(str::to_owned);
        match (tagged.is_empty(), said.is_empty(), meant, partly.is_empty()) {
            (false, ..) => Error::ATag { reference, tagged: first(tagged) },
            (_, false, ..) => Error::AMessage { reference, checkpoints: first(said) },
            (_, _, Some(tag), _) => Error::AlmostATag { reference, tag },
            (_, _, None, false) => Error::AMessage { reference, checkpoints: first(partly) },
            _ => Error::NoCheckpoint { reference, nearest },
        }
    }

    /// The tag of this workspace that `tag` is most likely a slip of; `None` if there is a `tag`.
    pub fn nearest_tag(&self, tag: &str) -> Result<Option<String>> {
        let mut tags = BTreeSet::new();
        for row in &self.rows()? {
            tags.extend(self.view(row).map(|one| one.manifest.tags).unwrap_or_default());
        }
        let nearest = slip::nearest(tag, tags.iter().map(String::as_str));
        Ok(nearest.filter(|_| !tags.contains(tag)).map(str::to_owned))
    }
}
