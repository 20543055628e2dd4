//! Whether what really stands at a path is what a checkpoint holds, to the last byte.

use std::io::{self, Read};

use rappel_store::Error as StoreError;
use rappel_store::beneath::{Kind, Meta, Root};
use rappel_store::content::ChunkList;
use rappel_store::held::Handle;
use rappel_store::sink::{Source, id_of};
use rappel_types::{Content, Node, ObjectId, RelPath};

use super::error::Result;
use super::probe::is_loop;

/// What stands at a path, measured against the two states of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Absent,
    /// What the step comes from.
    From,
    /// What the step leads to.
    To,
    /// Something else.
    Other,
}

/// Whether permission bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modes {
    /// A file with other bits is another file.
    Count,
    /// Only kind and content do.
    DoNotCount,
}

/// Compares what stands at `path` with `node`. A folder matches any folder: what is in it has
/// entries of its own.
pub fn matches(
    root: &Root,
    source: &dyn Source,
    path: &RelPath,
    meta: &Meta,
    node: &Node,
    modes: Modes,
) -> Result<bool> {
    match (meta.kind, node) {
        (Kind::Directory, Node::Directory { .. }) => Ok(true),
        (Kind::Symlink, Node::Symlink { target }) => Ok(root.read_link(path)? == *target),
        (Kind::File, Node::File { mode, size, content }) => {
            if meta.size != *size || (modes == Modes::Count && meta.mode != *mode) {
                return Ok(false);
            }
            let file = match root.open_file(path) {
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Ok(false);
                }
                other => other?,
            };
            let read = holds(source, file, *size, content);
            read.map_err(|error| StoreError::io("read", root.display(Some(path)))(error).into())
        }
        _ => Ok(false),
    }
}

/// Whether a file holds exactly this content.
fn holds(source: &dyn Source, mut file: Handle, size: u64, content: &Content) -> io::Result<bool> {
    match content {
        Content::Whole(id) => {
            let mut bytes = Vec::with_capacity(size as usize + 1);
            Read::by_ref(&mut file).take(size + 1).read_to_end(&mut bytes)?;
            Ok(bytes.len() as u64 == size && id_of(&bytes) == *id)
        }
        Content::Chunked(id) => {
            let list = ChunkList::load(source, id)?;
            let mut buffer = Vec::new();
            for chunk in &list.0 {
                buffer.resize(chunk.length as usize, 0);
                match file.read_exact(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                    other => other?,
                }
                if ObjectId(*blake3::hash(&buffer).as_bytes()) != chunk.id {
                    return Ok(false);
                }
            }
            Ok(file.read(&mut [0])? == 0)
        }
    }
}

/// Measures what stands at `path` against two states.
pub fn look(
    root: &Root,
    source: &dyn Source,
    path: &RelPath,
    from: Option<&Node>,
    to: Option<&Node>,
) -> Result<Seen> {
    let meta = match root.stat(path) {
        Ok(Some(meta)) => meta,
        Ok(None) => return Ok(Seen::Absent),
        // A link among the folders above: whatever is behind it is not ours.
        Err(error) if is_loop(&error) => return Ok(Seen::Other),
        Err(error) => return Err(error.into()),
    };
    for (node, seen) in [(to, Seen::To), (from, Seen::From)] {
        if let Some(node) = node
            && matches(root, source, path, &meta, node, Modes::DoNotCount)?
        {
            return Ok(seen);
        }
    }
    Ok(Seen::Other)
}
