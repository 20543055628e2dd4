//! Bundles: checkpoints in a file by themselves, to be carried elsewhere.
//!
//! A bundle is a sealed pack of its own kind: a header, the manifests, the documents that belong to
//! them, every object that they need, and a footer that vouches for all of it. It depends on no home:
//! nothing in it is stored against a base, and no number or name in it is a home's. The same
//! checkpoints give the same bytes. `docs/format.md` describes them.
//!
//! [`write()`] makes one out of any source of objects. [`Bundle::open`] reads one that may be
//! anything: it gives nothing out before every byte was compared with its checksum, every object
//! with its id, and every checkpoint with what it needs.

mod check;
mod read;
mod write;

use rappel_types::{Manifest, ObjectId};

use crate::error::{Error, Result};
use crate::record::Kind;

pub use read::Bundle;
pub use write::{Contents, Written, write};

/// The first bytes of every bundle.
pub const MAGIC: [u8; 8] = *b"RAPPELBN";
/// The version that this build writes and reads.
pub const VERSION: u32 = 1;
/// The first version of Rappel that reads it. It stands in the header, for older ones to name.
const NEEDS: &str = "0.1.0";
/// Length of the header.
pub(crate) const HEADER: usize = 64;
/// No bundle holds more checkpoints.
const CHECKPOINTS_MAX: u32 = 1 << 20;

/// What a bundle says beside its manifests: an event of a journal, or the label of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Document {
    /// [`Kind::Event`] or [`Kind::Label`].
    pub kind: Part,
    /// The session or the checkpoint that it is about.
    pub key: String,
    /// An event's number in its session; 0 for a label.
    pub number: u64,
    /// Its JSON.
    pub json: String,
}

/// What a document of a bundle is, in the order in which they stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Part {
    Label,
    Event,
}

impl Part {
    /// The kind of its records.
    pub fn kind(self) -> Kind {
        match self {
            Self::Label => Kind::Label,
            Self::Event => Kind::Event,
        }
    }
}

/// The header of a bundle with so many checkpoints.
pub(crate) fn encode_header(checkpoints: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&checkpoints.to_le_bytes());
    bytes[16..16 + NEEDS.len()].copy_from_slice(NEEDS.as_bytes());
    let hash = blake3::hash(&bytes[..48]);
    bytes[48..].copy_from_slice(&hash.as_bytes()[..16]);
    bytes
}

/// How many checkpoints a header announces.
fn decode_header(bytes: &[u8; HEADER]) -> Result<u32> {
    let number = |at: usize| {
        let mut array = [0; 4];
        array.copy_from_slice(&bytes[at..at + 4]);
        u32::from_le_bytes(array)
    };
    if bytes[..8] != MAGIC {
        return Err(Error::Damaged("this is no bundle of checkpoints".into()));
    }
    let found = number(8);
    if found > VERSION {
        return Err(Error::Newer { what: newer(bytes), found, supported: VERSION });
    }
    let checkpoints = number(12);
    if encode_header(checkpoints) != *bytes {
        return Err(Error::Damaged("the header of the bundle".into()));
    }
    if !(1..=CHECKPOINTS_MAX).contains(&checkpoints) {
        return Err(Error::Damaged(format!("a bundle of {checkpoints} checkpoints")));
    }
    Ok(checkpoints)
}

/// What a bundle of a later version is, with the version of Rappel that it asks for.
fn newer(header: &[u8; HEADER]) -> String {
    let needs = header[16..32].split(|byte| *byte == 0).next().unwrap_or_default();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+".contains(byte);
    match std::str::from_utf8(needs) {
        Ok(needs) if !needs.is_empty() && needs.bytes().all(|byte| plain(&byte)) => {
            format!("the bundle (it needs Rappel {needs})")
        }
        _ => "the bundle".into(),
    }
}

/// The objects that a manifest cannot do without.
#[derive(Debug, Default)]
struct Roots {
    /// Trees.
    trees: Vec<ObjectId>,
    /// Anything else.
    others: Vec<ObjectId>,
}

impl Roots {
    fn of(manifest: &Manifest) -> Self {
        let mut roots = Self::default();
        roots.trees.extend(manifest.files.as_ref().map(|files| files.tree));
        if let Some(git) = &manifest.git {
            roots.trees.extend(git.tree);
            let worktrees = git.repositories().flat_map(|(_, part)| &part.worktrees);
            let files = worktrees.filter_map(|worktree| worktree.files.as_ref());
            roots.trees.extend(files.map(|files| files.tree));
        }
        roots.trees.extend(manifest.databases.iter().map(|database| database.tree));
        if let Some(agents) = &manifest.agents {
            roots.trees.extend(agents.transcripts);
            roots.others.extend(agents.connected.values());
            roots.others.extend(agents.sessions.iter().filter_map(|session| session.snapshot));
        }
        roots.others.extend(manifest.knowledge.as_ref().map(|knowledge| knowledge.index));
        roots
    }
}
