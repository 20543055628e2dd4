//! What a checkpoint holds: its tree, and the content of its files as a stream.
//!
//! Content is never sent as HTML: whatever an agent wrote into a file, a browser shows it as text or
//! saves it.

use std::io::{self, Write};
use std::ops::Range;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use rappel::answers::ShownEntry;
use rappel::{Rappel, Workspace};
use rappel_types::{Entry, Node, Reference, RelPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::app::{Answer, App};
use crate::describe::{Endpoint, on_get};
use crate::extract::{Asked, At, Named, exactly, path, reference};
use crate::problem::Problem;

/// So many entries of a tree are answered at once.
const ENTRIES_MAX: usize = 10_000;
/// A reader may take so long for one piece.
const PATIENCE: Duration = Duration::from_secs(60);
/// So many bytes are gathered to one piece.
const PIECE: usize = 64 << 10;

pub fn endpoints() -> Vec<Endpoint> {
    vec![
        on_get("/api/checkpoints/{id}/tree", "The paths that a checkpoint holds", tree)
            .query::<TreeQuery>()
            .answers::<Tree>(200),
        on_get("/api/checkpoints/{id}/files/{*path}", "A file's content; takes Range", content)
            .sends(200, "text/plain")
            .sends(200, "application/octet-stream")
            .sends(206, "application/octet-stream")
            .sends(416, "application/octet-stream"),
    ]
}

/// Which part of the tree.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct TreeQuery {
    /// Only this folder, or this file.
    path: Option<String>,
    /// Only paths behind this one in their order: the last one of the page before.
    after: Option<String>,
}

/// Paths of a checkpoint, in order.
#[derive(Debug, Serialize, JsonSchema)]
struct Tree {
    /// At most ten thousand.
    entries: Vec<TreeEntry>,
    /// Whether there are more behind the last one.
    more: bool,
}

/// A path, and of a file the identity of its bytes.
#[derive(Debug, Serialize, JsonSchema)]
struct TreeEntry {
    #[serde(flatten)]
    shown: ShownEntry,
    /// Files with the same one have the same bytes. Of a file in one piece it is the BLAKE3 hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

impl From<&Entry> for TreeEntry {
    fn from(entry: &Entry) -> Self {
        let content = match &entry.node {
            Node::File { content, .. } => Some(content.id().to_string()),
            _ => None,
        };
        Self { shown: ShownEntry::from(entry), content }
    }
}

async fn tree(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
    Asked(query): Asked<TreeQuery>,
) -> Answer<Tree> {
    let within = query.path.filter(|text| !text.is_empty()).map(|text| path(&text)).transpose()?;
    let after = query.after.map(|text| path(&text)).transpose()?;
    app.answer(workspace, move |rappel| {
        let entries = rappel.files_of(&reference)?;
        let mut meant = entries.iter().filter(|entry| {
            within.as_ref().is_none_or(|folder| entry.path.is_within(folder))
                && after.as_ref().is_none_or(|after| entry.path > *after)
        });
        let entries: Vec<_> = meant.by_ref().take(ENTRIES_MAX).map(TreeEntry::from).collect();
        if let (Some(folder), true, None) = (&within, entries.is_empty(), &after) {
            let id = rappel.show(&reference)?.manifest.id;
            let (checkpoint, path) = (id.to_string(), folder.to_string());
            return Err(rappel::Error::NoPath { checkpoint, path }.into());
        }
        Ok(Tree { entries, more: meant.next().is_some() })
    })
    .await
}

async fn content(
    State(app): State<App>,
    At(workspace): At,
    Path((id, given)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (named, path) = (reference(&id)?, path(&given)?);
    let at = path.clone();
    let found = app.ask(workspace.clone(), move |rappel| {
        let reference = exactly(&rappel.resolve(&named, true)?.id);
        let length = rappel.length_of(&reference, &at)?;
        Ok((reference, length))
    });
    let (reference, length) = found.await?;
    let asked = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let range = match (length, asked) {
        (Some(length), Some(asked)) => parse_range(asked, length),
        _ => Part::All,
    };
    let mut answer = Response::builder()
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox")
        .header(header::CACHE_CONTROL, "no-store");
    if let (Part::Unsatisfiable, Some(length)) = (&range, length) {
        let answer = answer
            .status(StatusCode::RANGE_NOT_SATISFIABLE)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::CONTENT_RANGE, format!("bytes */{length}"));
        return answer.body(Body::empty()).map_err(|error| Problem::broken(error.to_string()));
    }
    if let Some(length) = length {
        answer = answer.header(header::ACCEPT_RANGES, "bytes");
        answer = match &range {
            Part::Some(part) => answer
                .status(StatusCode::PARTIAL_CONTENT)
                .header(
                    header::CONTENT_RANGE,
                    format!("bytes {}-{}/{length}", part.start, part.end - 1),
                )
                .header(header::CONTENT_LENGTH, part.end - part.start),
            _ => answer.header(header::CONTENT_LENGTH, length),
        };
    }
    let part = match range {
        Part::Some(part) => part,
        _ => 0..u64::MAX,
    };
    let whole = part == (0..u64::MAX);
    let room = app.streams.clone().try_acquire_owned().map_err(|_| {
        Problem::of(StatusCode::CONFLICT, "busy", "too many files are being read at once")
            .hint("try again in a moment")
    })?;
    let (first, pieces) = stream(workspace, reference, path, part, room).await?;
    let kind = match whole && is_text(&first) {
        true => "text/plain; charset=utf-8",
        false => "application/octet-stream",
    };
    let body = futures_util::stream::unfold((Some(first), pieces), |(first, mut pieces)| async {
        let piece = match first {
            Some(first) => Some(Ok(first)),
            None => pieces.recv().await,
        };
        piece.map(|piece| (piece, (None, pieces)))
    });
    let answer = answer.header(header::CONTENT_TYPE, kind);
    answer.body(Body::from_stream(body)).map_err(|error| Problem::broken(error.to_string()))
}

/// What a `Range` asks for.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    All,
    Some(Range<u64>),
    Unsatisfiable,
}

/// One range of bytes; what is not understood, and several at once, is all of it.
fn parse_range(text: &str, length: u64) -> Part {
    let Some(range) = text.strip_prefix("bytes=") else { return Part::All };
    let Some((first, last)) = range.split_once('-') else { return Part::All };
    let part = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(length),
        (Ok(first), Err(_)) if last.is_empty() => first..length,
        (Err(_), Ok(last)) if first.is_empty() && last > 0 => length.saturating_sub(last)..length,
        (Err(_), Ok(0)) if first.is_empty() => return Part::Unsatisfiable,
        _ => return Part::All,
    };
    if part.is_empty() { Part::Unsatisfiable } else { Part::Some(part) }
}

/// Reads a file piece by piece, as fast as the pieces are taken. The first one is waited for, so
/// that what cannot be read is an error and not an empty file.
async fn stream(
    workspace: Workspace,
    reference: Reference,
    path: RelPath,
    part: Range<u64>,
    room: OwnedSemaphorePermit,
) -> Result<(Bytes, mpsc::Receiver<io::Result<Bytes>>), Problem> {
    let (sender, mut pieces) = mpsc::channel(4);
    let handle = Handle::current();
    let work = tokio::task::spawn_blocking(move || -> Result<(), Problem> {
        let _room = room;
        let rappel: Rappel = workspace.now()?;
        let mut out = Pieces { sender, handle, part, at: 0, gathered: Vec::new() };
        match rappel.cat(&reference, &path, &mut out).map_err(Problem::from) {
            // All that was asked for has been read.
            Err(_) if out.is_done() => {}
            Err(problem) => {
                // A reader that takes nothing is not waited for again.
                let _ = out.sender.try_send(Err(io::Error::other(problem.error.message.clone())));
                return Err(problem);
            }
            Ok(()) => {}
        }
        let _ = out.flush();
        Ok(())
    });
    match pieces.recv().await {
        Some(Ok(first)) => Ok((first, pieces)),
        Some(Err(_)) | None => match work.await {
            Ok(Ok(())) => Ok((Bytes::new(), pieces)),
            Ok(Err(problem)) => Err(problem),
            Err(error) => Err(Problem::broken(error.to_string())),
        },
    }
}

/// Takes what is written, cuts the asked part out of it, and gives it on in pieces.
struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    handle: Handle,
    part: Range<u64>,
    at: u64,
    gathered: Vec<u8>,
}

impl Pieces {
    fn is_done(&self) -> bool {
        self.at >= self.part.end
    }

    /// Waits until the reader has room, but not for ever: a thread waits here.
    fn give(&self, piece: io::Result<Bytes>) -> io::Result<()> {
        let sent = self.handle.block_on(tokio::time::timeout(PATIENCE, self.sender.send(piece)));
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_done() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let end = self.at + bytes.len() as u64;
        let cut = |place: u64| (place.clamp(self.at, end) - self.at) as usize;
        let wanted = &bytes[cut(self.part.start)..cut(self.part.end)];
        self.gathered.extend_from_slice(wanted);
        self.at = end;
        if self.gathered.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.gathered));
        self.give(Ok(piece))
    }
}

/// Whether a file's beginning is text.
fn is_text(bytes: &[u8]) -> bool {
    let valid = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        // A character may be cut at the end of the piece.
        Err(error) => error.error_len().is_none(),
    };
    valid && !bytes.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_has_them() {
        for (text, expected) in [
            ("bytes=0-0", Part::Some(0..1)),
            ("bytes=2-", Part::Some(2..10)),
            ("bytes=-3", Part::Some(7..10)),
            ("bytes=-30", Part::Some(0..10)),
            ("bytes=5-500", Part::Some(5..10)),
            ("bytes=10-", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
            ("bytes=5-2", Part::All),
            ("bytes=0-1,3-4", Part::All),
            ("lines=0-1", Part::All),
            ("bytes=x", Part::All),
        ] {
            assert_eq!(parse_range(text, 10), expected, "{text}");
        }
        assert_eq!(parse_range("bytes=0-", 0), Part::Unsatisfiable);
    }
}
