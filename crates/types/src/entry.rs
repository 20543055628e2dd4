//! What a tree holds: one entry per path.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ObjectId, RelPath};

/// Where the bytes of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// One object holds the whole file; its id is the hash of the file.
    Whole(ObjectId),
    /// The object is a list of chunks, in order.
    Chunked(ObjectId),
}

impl Content {
    /// The object to fetch first.
    pub fn id(&self) -> &ObjectId {
        match self {
            Self::Whole(id) | Self::Chunked(id) => id,
        }
    }
}

/// What stands at a path. Modes are the twelve permission bits (`0o7777`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Node {
    /// A folder, empty or not.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// Length in bytes.
        size: u64,
        /// Its bytes.
        content: Content,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points, as raw bytes.
        #[serde(with = "escaped")]
        #[schemars(with = "String")]
        target: Vec<u8>,
    },
}

/// A path and what stands there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct Entry {
    /// Where.
    pub path: RelPath,
    /// What.
    pub node: Node,
}

mod escaped {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::path::{escape, unescape};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escape(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        unescape(&text).ok_or_else(|| serde::de::Error::custom("malformed escape in a link target"))
    }
}
