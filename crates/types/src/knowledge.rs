//! Knowledge in a checkpoint: folders of documents that are captured whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ObjectId, RelPath};

/// What a manifest says of knowledge. The documents themselves are in the files' tree.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct KnowledgePart {
    /// The first-level folders in it.
    pub projects: Vec<String>,
    /// How many documents there are.
    pub document_count: u64,
    /// `paths` of the configuration: everything at and below them belongs to this facet.
    pub paths: Vec<RelPath>,
    /// The list of documents: an object that holds a JSON array of [`Document`].
    pub index: ObjectId,
}

/// One document of the index.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Document {
    /// Where it lies.
    pub path: RelPath,
    /// How long it is.
    pub size: u64,
    /// The object that holds it, which is the BLAKE3 hash of its bytes unless it is larger than
    /// one object.
    pub hash: ObjectId,
    /// Its first heading, or what its front matter calls it.
    pub title: Option<String>,
}

/// What a document calls itself: `title` of its front matter, else its first heading.
pub fn title_of(text: &str) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().map(str::trim_end).peekable();
    if lines.peek() == Some(&"---") {
        lines.next();
        let mut title = None;
        for line in lines.by_ref() {
            if line == "---" || line == "..." {
                break;
            }
            if let Some(value) = line.strip_prefix("title:") {
                let value = value.trim().trim_matches(['"', '\'']).trim();
                title = (!value.is_empty()).then(|| value.to_owned());
            }
        }
        if title.is_some() {
            return title;
        }
    }
    let mut fenced = false;
    let mut before: &str = "";
    for line in lines {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let heading = line.trim_start_matches('#');
            if heading.len() < line.len() && heading.starts_with(' ') {
                let heading = heading.trim().trim_end_matches('#').trim_end();
                return (!heading.is_empty()).then(|| heading.to_owned());
            }
            let underlined = line.len() >= 3 && line.bytes().all(|b| b == b'=');
            if underlined && !before.trim().is_empty() {
                return Some(before.trim().to_owned());
            }
        }
        before = line;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_come_from_front_matter_or_the_first_heading() {
        for (text, title) in [
            ("# One #\n\ntext\n# Two\n", Some("One")),
            ("---\ntitle: \"From the front\"\ntags: [a]\n---\n# Heading\n", Some("From the front")),
            ("---\ntags: [a]\n---\n\n## Heading\n", Some("Heading")),
            ("text first\n\n### Later\n", Some("Later")),
            ("Underlined\n==========\n", Some("Underlined")),
            ("```\n# a comment in code\n```\n# Real\n", Some("Real")),
            ("#hashtag is none\n", None),
            ("", None),
            ("---\ntitle: unfinished", Some("unfinished")),
        ] {
            assert_eq!(title_of(text).as_deref(), title, "{text:?}");
        }
    }
}
