//! The bytes of transcripts: into a checkpoint, and what of them a restore brings back.
//!
//! A capture gives one tree of ordinary files, `PROVIDER/<path below the agent's home>`, each with
//! mode 0600 (`docs/format.md`, "Transcripts"), so that gc, verify and repair need to know nothing of
//! transcripts.

mod growth;
mod memo;
mod moved;
mod restoring;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use rappel_store::Cancel;
use rappel_store::content;
use rappel_store::held::Handle;
use rappel_store::sink::Sink;
use rappel_store::tree;
use rappel_types::{Content, Entry, Node, ObjectId, RelPath};
use rayon::prelude::*;

use super::follow::{is_compressed, read_at};
use super::home::Home;
use super::locate::{Role, Transcript};
use crate::error::{Error, Result};
use crate::files::stamp::{Kind, Stamp, Trust};

use growth::Kept;
pub use memo::Memo;
use memo::Remembered;
pub use restoring::{Decision, Plan, Planned, Present, Standing, Why, compare, decide, plan};

/// What transcripts hold is nobody else's business.
const MODE: u32 = 0o600;
/// How often a file is read before it counts as one that does not stand still.
const TRIES: usize = 3;

/// How much of a transcript that grew is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// What is new, and enough of the rest to notice that it was written anew.
    Growth,
    /// All of it: something is about to take the file's place, or nobody waits.
    Whole,
}

/// What was captured.
#[derive(Debug, Clone)]
pub struct Captured {
    /// All of it.
    pub tree: ObjectId,
    /// How many files.
    pub files: u64,
    /// How long they are together.
    pub bytes: u64,
    /// For the next capture, once a checkpoint holds the tree.
    pub memo: Memo,
    /// What should be in the tree and is not: where, and why, for people.
    pub troubles: Vec<(RelPath, String)>,
}

/// Where a transcript lies in the tree.
pub fn place(transcript: &Transcript) -> Result<RelPath> {
    let provider = transcript.provider.as_str().as_bytes();
    let path = [provider, b"/", transcript.path.as_bytes()].concat();
    RelPath::new(path).map_err(|error| Error::Conflict {
        path: transcript.root.clone(),
        reason: error.to_string(),
    })
}

/// Captures the files that were located. What `memo` vouches for is not read again; it must be of a
/// checkpoint that is still there. `care` says what is believed of a file that grew.
///
/// A transcript that is being written is taken up to its last complete line. Not guaranteed: that
/// transcripts agree with each other, or with the files of the workspace, to the moment.
pub fn capture(
    sink: &dyn Sink,
    transcripts: &[Transcript],
    memo: Option<&Memo>,
    care: Care,
    cancel: &Cancel,
) -> Result<Captured> {
    let mut homes: BTreeMap<&PathBuf, Result<(Home, Trust)>> = BTreeMap::new();
    for Transcript { root, .. } in transcripts {
        homes.entry(root).or_insert_with(|| {
            let home = Home::open(root)?;
            let trust = home.trust().map_err(Error::io("look at", root))?;
            Ok((home, trust))
        });
    }
    let known: HashMap<&RelPath, &Remembered> = memo.into_iter().flat_map(Memo::items).collect();
    let one = |transcript: &Transcript| -> Result<(RelPath, Outcome)> {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let path = place(transcript)?;
        let former = known.get(&path).copied();
        let outcome = match (former, homes.get(&transcript.root)) {
            (Some(former), _) if former.vouches_for(&transcript.stamp, care) => {
                Outcome::Taken(former.clone())
            }
            (_, Some(Ok((home, trust)))) => {
                Taking { sink, home, trust, transcript, care, cancel }.take(former)?
            }
            (_, Some(Err(error))) => Outcome::Trouble(error.to_string()),
            (_, None) => Outcome::Gone,
        };
        Ok((path, outcome))
    };
    let outcomes = transcripts.par_iter().map(one).collect::<Result<Vec<_>>>()?;
    let mut items = BTreeMap::new();
    let mut troubles = Vec::new();
    for (path, outcome) in outcomes {
        match outcome {
            Outcome::Taken(item) => {
                items.insert(path, item);
            }
            Outcome::Gone => {}
            Outcome::Trouble(reason) => troubles.push((path, reason)),
        }
    }
    let tree = write_tree(sink, &items, memo)?;
    let bytes = items.values().map(Remembered::size).sum();
    let files = items.len() as u64;
    Ok(Captured { tree, files, bytes, memo: Memo::new(tree, items), troubles })
}

/// Stores the tree; out of the former one, so that its cost follows the change.
fn write_tree(
    sink: &dyn Sink,
    items: &BTreeMap<RelPath, Remembered>,
    memo: Option<&Memo>,
) -> Result<ObjectId> {
    let Some(memo) = memo else {
        let entries: Vec<Entry> = items
            .iter()
            .map(|(path, item)| Entry { path: path.clone(), node: item.node() })
            .collect();
        return Ok(tree::write(sink, &entries)?);
    };
    let former: BTreeMap<&RelPath, &Remembered> = memo.items().collect();
    let gone = former.keys().filter(|path| !items.contains_key(**path));
    let mut changes: Vec<(RelPath, Option<Node>)> =
        gone.map(|path| ((*path).clone(), None)).collect();
    for (path, item) in items {
        if former.get(path).is_none_or(|former| !former.has_content_of(item)) {
            changes.push((path.clone(), Some(item.node())));
        }
    }
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    sink.refer(memo.tree());
    Ok(tree::update(sink, memo.tree(), &changes)?)
}

/// What came of a file.
enum Outcome {
    Taken(Remembered),
    Gone,
    Trouble(String),
}

/// One file on its way into the store.
struct Taking<'a> {
    sink: &'a dyn Sink,
    home: &'a Home,
    trust: &'a Trust,
    transcript: &'a Transcript,
    care: Care,
    cancel: &'a Cancel,
}

impl Taking<'_> {
    fn take(&self, former: Option<&Remembered>) -> Result<Outcome> {
        for _ in 0..TRIES {
            match self.take_once(former)? {
                Ok(Some(item)) => return Ok(Outcome::Taken(item)),
                Ok(None) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound => return Ok(Outcome::Gone),
                    _ => return Ok(Outcome::Trouble(error.to_string())),
                },
            }
        }
        Ok(Outcome::Trouble("it was rewritten again and again while it was being read".into()))
    }

    /// Reads it; nothing if it was rewritten meanwhile. The outer error is the store's.
    fn take_once(&self, former: Option<&Remembered>) -> Result<io::Result<Option<Remembered>>> {
        let opened = || -> io::Result<(Handle, Stamp, u64)> {
            let file = self.home.open_file(&self.transcript.path)?;
            let stamp = Stamp::of(&rustix::fs::fstat(&file)?);
            if stamp.kind() != Kind::File {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
            }
            // An end that has been left alone is what the agent meant, complete or not.
            let length = match self.grows() && !self.trust.believes(&stamp) {
                true => complete_lines(&file, stamp.size)?,
                false => stamp.size,
            };
            Ok((file, stamp, length))
        };
        let begun = opened().and_then(|(file, stamp, length)| {
            let kept = self.kept(&file, &stamp, former)?;
            // A last line that is not complete any more was rewritten.
            let kept = kept.filter(|kept| kept.length < length);
            if let Some(kept) = &kept {
                (&*file).seek(SeekFrom::Start(kept.length))?;
            }
            Ok((file, stamp, length, kept))
        });
        let (file, before, length, kept) = match begun {
            Ok(begun) => begun,
            Err(error) => return Ok(Err(error)),
        };
        let rest = length - kept.as_ref().map_or(0, |kept| kept.length);
        let grown = kept.as_ref().map(|kept| kept.grown);
        let mut reader = Noting { inner: (&*file).take(rest), cancel: self.cancel, error: None };
        let stored = match (kept, former.map(Remembered::content)) {
            (Some(kept), Some(base)) => {
                content::store_on(self.sink, kept.chunks, &mut reader, base)
            }
            (_, base) => content::store(self.sink, &mut reader, length, base),
        };
        let (content, size) = match (stored, reader.error) {
            (_, _) if self.cancel.is_cancelled() => return Err(Error::Cancelled),
            (Ok(stored), _) => stored,
            (Err(_), Some(error)) => return Ok(Err(error)),
            (Err(error), None) => return Err(error.into()),
        };
        let after = match rustix::fs::fstat(&file) {
            Ok(stat) => Stamp::of(&stat),
            Err(error) => return Ok(Err(error.into())),
        };
        let grew = self.grows() && after.size > before.size;
        if size < length || after != before && !grew {
            return Ok(Ok(None));
        }
        let believed = after == before && length == before.size && self.trust.believes(&before);
        Ok(Ok(Some(Remembered::new(before, believed, size, content).grown(grown))))
    }

    /// What of the file need not be read.
    fn kept(
        &self,
        file: &File,
        stamp: &Stamp,
        former: Option<&Remembered>,
    ) -> io::Result<Option<Kept>> {
        match former {
            Some(former) if self.care == Care::Growth && self.grows() => {
                growth::kept(self.sink, file, former, stamp)
            }
            _ => Ok(None),
        }
    }

    /// Whether lines are only ever added to it.
    fn grows(&self) -> bool {
        self.transcript.role != Role::Output && !is_compressed(&self.transcript.path)
    }
}

/// How much of the first `size` bytes are complete lines.
fn complete_lines(file: &File, size: u64) -> io::Result<u64> {
    let mut block = vec![0; 64 << 10];
    let mut end = size;
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let wanted = (end - start) as usize;
        let read = read_at(file, &mut block[..wanted], start)?;
        if let Some(at) = memchr::memrchr(b'\n', &block[..read]) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Tells errors of the file from those of the store, and stops when asked to.
struct Noting<'a, R> {
    inner: R,
    cancel: &'a Cancel,
    error: Option<io::Error>,
}

impl<R: Read> Read for Noting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        let read = self.inner.read(buffer);
        match &read {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.error = Some(io::Error::new(error.kind(), error.to_string()));
            }
            _ => {}
        }
        read
    }
}

/// The file that an entry of the tree is; nothing if it is something else.
fn file_of(node: &Node) -> Option<(u64, &Content)> {
    match node {
        Node::File { size, content, .. } => Some((*size, content)),
        _ => None,
    }
}
