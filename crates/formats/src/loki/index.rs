//! `index.jsonl`: a line of JSON for each checkpoint. Lines that make no sense are counted and kept
//! out of the way; a rebuilt index does not have them.

use serde_json::Value;

use super::metadata::Metadata;

/// The index is no longer.
pub(super) const INDEX_MAX: u64 = 256 << 20;
/// A line is no longer.
const LINE_MAX: usize = 1 << 20;
/// So many broken lines are named one by one.
const NAMED: usize = 100;

/// What an index says.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Its lines, the newest of those with one id.
    pub(super) entries: Vec<Metadata>,
    /// Broken lines: their numbers from 1, and what is wrong with each.
    pub(super) broken: Vec<(usize, String)>,
    /// Broken lines that are not named.
    pub(super) more: usize,
}

impl Index {
    /// Reads the text of an index.
    pub(super) fn parse(text: &[u8]) -> Self {
        let mut index = Self::default();
        let mut places = std::collections::HashMap::new();
        for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let parsed = match line.len() <= LINE_MAX {
                true => serde_json::from_slice::<Value>(line).map_err(|error| error.to_string()),
                false => Err(format!("it is longer than {LINE_MAX} bytes")),
            };
            match parsed.and_then(|json| Metadata::parse(json, None)) {
                Ok(entry) => match places.get(&entry.id) {
                    Some(place) => index.entries[*place] = entry,
                    None => {
                        places.insert(entry.id.clone(), index.entries.len());
                        index.entries.push(entry);
                    }
                },
                Err(reason) if index.broken.len() < NAMED => index.broken.push((at + 1, reason)),
                Err(_) => index.more += 1,
            }
        }
        index
    }
}
