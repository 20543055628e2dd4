//! Answers about one or more checkpoints and what they hold.

use rappel_capture::restore::copy_out::Copied;
use rappel_store::gc::GcReport;
use rappel_types::agents::SessionId;
use rappel_types::path::escape_bytes;
use rappel_types::{CheckpointId, Entry, Node, RelPath};
use schemars::JsonSchema;
use serde::Serialize;

use super::AtAnswer;
use crate::checkpoint::Checkpoint;
use crate::export::LokiWritten;
use crate::restore::RestoreReport;
use crate::save::Saved;
use crate::undo::Step;

/// The answer to a save: the checkpoint, and what the user should know besides.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SaveAnswer<'a> {
    /// The checkpoint.
    #[serde(flatten)]
    pub checkpoint: &'a Checkpoint,
    /// What the user should know besides, in sentences.
    pub notes: &'a rappel_types::Remarks,
    /// What to do about them.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub advice: &'a [rappel_types::Advice],
    /// How long the save waited for tool calls that were running.
    pub waited_ms: u64,
}

impl<'a> From<&'a Saved> for SaveAnswer<'a> {
    fn from(saved: &'a Saved) -> Self {
        Self {
            checkpoint: &saved.checkpoint,
            notes: &saved.notes,
            advice: &saved.advice,
            waited_ms: saved.waited.as_millis() as u64,
        }
    }
}

/// The answer to a save that was also written for Loki Mode.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct LokiSaveAnswer<'a> {
    /// The answer to the save.
    #[serde(flatten)]
    pub saved: SaveAnswer<'a>,
    /// What was written for Loki Mode.
    pub loki: LokiAnswer,
}

/// What was written for Loki Mode.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct LokiAnswer {
    /// What Loki Mode calls the checkpoint.
    pub id: String,
    /// The checkpoint's folder.
    pub location: String,
    /// How many items of state were copied.
    pub items: u64,
}

impl From<&LokiWritten> for LokiAnswer {
    fn from(written: &LokiWritten) -> Self {
        Self {
            id: written.id.clone(),
            location: written.location.to_string_lossy().into_owned(),
            items: written.items,
        }
    }
}

/// A checkpoint; with its paths and with what its sessions knew, if those were asked for.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ShowAnswer<'a> {
    /// The checkpoint.
    #[serde(flatten)]
    pub checkpoint: &'a Checkpoint,
    /// Every path that it holds, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<ShownEntry>>,
    /// What each of its sessions knew, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Vec<AtAnswer>>,
}

/// A path that a checkpoint holds.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum ShownEntry {
    /// A folder.
    Directory {
        /// Where it is.
        path: RelPath,
        /// Permission bits in octal: `0755`.
        mode: String,
    },
    /// A regular file.
    File {
        /// Where it is.
        path: RelPath,
        /// Permission bits in octal: `0644`.
        mode: String,
        /// Length in bytes.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// Where it is.
        path: RelPath,
        /// Where it points. A byte that is not UTF-8 is written `\xNN`.
        target: String,
    },
}

/// An entry without the names that objects have in the store: no caller can use those.
impl From<&Entry> for ShownEntry {
    fn from(entry: &Entry) -> Self {
        let path = entry.path.clone();
        let octal = |mode: u32| format!("{mode:04o}");
        match &entry.node {
            Node::Directory { mode } => Self::Directory { path, mode: octal(*mode) },
            Node::File { mode, size, .. } => Self::File { path, mode: octal(*mode), size: *size },
            Node::Symlink { target } => Self::Symlink { path, target: escape_bytes(target) },
        }
    }
}

/// One file as a checkpoint holds it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FileContent {
    /// Where it is.
    pub path: RelPath,
    /// Length in bytes.
    pub bytes: u64,
    /// The content, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The content in base 64, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_base64: Option<String>,
}

impl FileContent {
    /// The file with these bytes.
    pub fn new(path: RelPath, bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        let (content, content_base64) = match String::from_utf8(bytes) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(base64(error.as_bytes()))),
        };
        Self { path, bytes: length, content, content_base64 }
    }
}

/// Base 64 as RFC 4648 has it, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// A checkpoint's files in a folder of their own. The workspace was not touched.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct CopyAnswer<'a> {
    /// The checkpoint.
    pub checkpoint: &'a CheckpointId,
    /// The folder.
    pub to: String,
    /// How many regular files and links were written.
    pub files: u64,
    /// How many folders.
    pub folders: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// How many databases.
    pub databases: u64,
    /// How many repositories.
    pub repositories: u64,
    /// What else was written, and where.
    pub notes: &'a [String],
    /// What was left out, and why.
    pub warnings: &'a rappel_types::Remarks,
}

impl<'a> CopyAnswer<'a> {
    /// What was written from `checkpoint` into the folder `to`.
    pub fn new(checkpoint: &'a CheckpointId, to: &std::path::Path, copied: &'a Copied) -> Self {
        use std::os::unix::ffi::OsStrExt;
        Self {
            checkpoint,
            to: escape_bytes(to.as_os_str().as_bytes()),
            files: copied.files,
            folders: copied.folders,
            bytes: copied.bytes,
            databases: copied.databases,
            repositories: copied.repositories,
            notes: &copied.notes,
            warnings: &copied.warnings,
        }
    }
}

/// A plan or a report of an undo or a redo, and which step it is.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct UndoAnswer<'a> {
    /// Which step it is.
    pub step: &'a Step,
    /// The plan, or what was done.
    #[serde(flatten)]
    pub report: &'a RestoreReport,
}

/// What was deleted.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct DeleteAnswer<'a> {
    /// The checkpoints.
    pub deleted: &'a [CheckpointId],
    /// Whether they are gone for good. Otherwise they can be brought back for a day.
    pub now: bool,
    /// What was freed, if that was asked for.
    pub gc: Option<&'a GcReport>,
}

/// What was brought back: one checkpoint by itself, or a list.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum UndeleteAnswer<'a> {
    /// One checkpoint.
    One(&'a Checkpoint),
    /// Several checkpoints, or sessions.
    Several {
        /// The checkpoints.
        checkpoints: &'a [Checkpoint],
        /// The sessions, if there are any.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        sessions: &'a [SessionId],
    },
}

impl<'a> UndeleteAnswer<'a> {
    /// The answer about these.
    pub fn new(checkpoints: &'a [Checkpoint], sessions: &'a [SessionId]) -> Self {
        match (checkpoints, sessions) {
            ([one], []) => Self::One(one),
            _ => Self::Several { checkpoints, sessions },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }
}
