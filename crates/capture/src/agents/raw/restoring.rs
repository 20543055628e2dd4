//! What a restore does with each transcript: a pure decision, and what it needs to know for it.
//!
//! A transcript is only ever added to. One that grew since the checkpoint holds all that it held
//! then, and the agent that goes on writing it must not lose what came after; so it is left alone.
//! So is one that its agent has moved: a copy at the former place would be an older twin of it.
//! Everything else is brought back; the caller has captured the present before.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use rappel_store::sink::Source;
use rappel_store::{content, tree};
use rappel_types::{Content, Node, ObjectId, RelPath};
use rustix::io::Errno;

use super::memo::Memo;
use super::moved::Moved;
use super::{Care, file_of};
use crate::agents::Provider;
use crate::agents::follow::read_at;
use crate::agents::home::Home;
use crate::agents::locate::Surroundings;
use crate::error::{Error, Result};
use crate::files::stamp::{Kind, Stamp};

/// What stands today where a transcript was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Nothing,
    /// A file.
    File(Present),
    /// Something that is no file.
    Other,
}

/// A file of today, beside what was stored of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// Its length.
    pub size: u64,
    /// How many bytes from its start are those that were stored.
    pub agrees: u64,
}

/// What to do with a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it is as it was.
    Same,
    /// Nothing: it is as it was, with more behind it.
    LeaveItGrew,
    /// Nothing: its agent keeps it at another place now ([`Planned::moved`]).
    LeaveItMoved,
    /// Bring it back.
    PutBack(Why),
}

/// Why a transcript is brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is gone.
    Missing,
    /// Its end is gone.
    Truncated,
    /// It is something else.
    Changed,
}

impl Why {
    /// For plans.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "it was missing",
            Self::Truncated => "its end was cut off",
            Self::Changed => "it was changed",
        }
    }
}

/// What becomes of a transcript of which `stored` bytes were captured.
pub fn decide(now: Standing, stored: u64) -> Decision {
    match now {
        Standing::Nothing => Decision::PutBack(Why::Missing),
        Standing::File(Present { size, agrees }) if agrees >= stored => match size == stored {
            true => Decision::Same,
            false => Decision::LeaveItGrew,
        },
        Standing::File(Present { size, agrees }) if agrees >= size => {
            Decision::PutBack(Why::Truncated)
        }
        Standing::File(_) | Standing::Other => Decision::PutBack(Why::Changed),
    }
}

/// Compares a file of today with what was stored, up to where they part.
pub fn compare(source: &dyn Source, stored: &Content, size: u64, file: &File) -> Result<Present> {
    let now = file.metadata().map_err(Error::io("look at", "a transcript"))?.len();
    let mut same = Same { file, agrees: 0, end: None };
    match (content::write_to(source, stored, size, &mut same), same.end) {
        (Ok(()), _) | (Err(_), Some(Ok(()))) => Ok(Present { size: now, agrees: same.agrees }),
        (Err(_), Some(Err(error))) => Err(Error::io("read", "a transcript")(error)),
        (Err(error), None) => Err(error.into()),
    }
}

/// Takes stored bytes as long as the file has the same.
struct Same<'a> {
    file: &'a File,
    agrees: u64,
    /// Set where the two part, or the file cannot be read.
    end: Option<io::Result<()>>,
}

impl Write for Same<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut own = vec![0; bytes.len()];
        let parted = match read_at(self.file, &mut own, self.agrees) {
            Ok(read) => {
                let same = bytes.iter().zip(&own[..read]).take_while(|(a, b)| a == b).count();
                self.agrees += same as u64;
                (same < bytes.len()).then_some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        };
        match parted {
            None => Ok(bytes.len()),
            Some(end) => {
                self.end = Some(end);
                Err(io::Error::other("it has another content"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stored transcript and what a restore does with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Whose.
    pub provider: Provider,
    /// The agent's home of today, which may not be there.
    pub root: PathBuf,
    /// Where, below that.
    pub path: RelPath,
    /// What was stored.
    pub node: Node,
    /// What to do.
    pub decision: Decision,
    /// What stat said of what stands there now.
    pub now: Option<Stamp>,
    /// Where its agent has moved it, below the same home, and what stat said of it there.
    pub moved: Option<(RelPath, Stamp)>,
}

/// What a restore does with all stored transcripts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// In the order of the tree.
    pub transcripts: Vec<Planned>,
    /// Paths of the tree that this version can bring to no place.
    pub unknown: Vec<RelPath>,
}

/// Looks at what stands today for every transcript of a captured tree, and decides. `memo` is that of
/// the newest capture, the safety checkpoint's: what it vouches for is not read.
pub fn plan(
    source: &dyn Source,
    tree: &ObjectId,
    surroundings: &Surroundings,
    memo: Option<&Memo>,
) -> Result<Plan> {
    let roots = Provider::ALL.map(|provider| surroundings.root(provider));
    let homes = Provider::ALL.map(|provider| Home::open(&surroundings.root(provider)).ok());
    let mut searches: Vec<Option<Moved<'_>>> = Provider::ALL
        .iter()
        .zip(&homes)
        .map(|(provider, home)| Some(Moved::new(*provider, home.as_ref()?)))
        .collect();
    let mut plan = Plan::default();
    for entry in tree::read(source, tree)? {
        let split = split(&entry.path).and_then(|(provider, path)| {
            let file = file_of(&entry.node).map(|(size, content)| (size, *content))?;
            Some((provider, path, file))
        });
        let Some((provider, path, (size, content))) = split else {
            if !matches!(entry.node, Node::Directory { .. }) {
                plan.unknown.push(entry.path);
            }
            continue;
        };
        let at = Provider::ALL.iter().position(|other| *other == provider).unwrap_or_default();
        let root = roots[at].clone();
        let (now, standing) = match &homes[at] {
            None => (None, Standing::Nothing),
            Some(home) => match home.look(&path) {
                Err(Errno::NOENT | Errno::NOTDIR) => (None, Standing::Nothing),
                Err(error) => return Err(Error::io("look at", home.display(&path))(error)),
                Ok(stamp) if stamp.kind() != Kind::File => (Some(stamp), Standing::Other),
                Ok(stamp) => {
                    let known = memo.and_then(|memo| memo.item(&entry.path));
                    let same = known.is_some_and(|known| {
                        known.vouches_for(&stamp, Care::Whole) && known.node() == entry.node
                    });
                    let present = match same {
                        true => Present { size, agrees: size },
                        false => {
                            let file = home.open_file(&path);
                            let file = file.map_err(Error::io("open", home.display(&path)))?;
                            compare(source, &content, size, &file)?
                        }
                    };
                    (Some(stamp), Standing::File(present))
                }
            },
        };
        let moved = match (standing, &mut searches[at]) {
            (Standing::Nothing, Some(search)) => search.find(&path),
            _ => None,
        };
        let decision = match &moved {
            Some(_) => Decision::LeaveItMoved,
            None => decide(standing, size),
        };
        let node = entry.node;
        plan.transcripts.push(Planned { provider, root, path, node, decision, now, moved });
    }
    Ok(plan)
}

/// Whose a path of the tree is, and where it lies below the agent's home.
fn split(path: &RelPath) -> Option<(Provider, RelPath)> {
    let bytes = path.as_bytes();
    let slash = bytes.iter().position(|byte| *byte == b'/')?;
    let provider = Provider::named(&bytes[..slash])?;
    Some((provider, RelPath::new(&bytes[slash + 1..]).ok()?))
}
