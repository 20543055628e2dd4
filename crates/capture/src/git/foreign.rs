//! What a repository that came from elsewhere holds and git would believe unchecked: indexes, and
//! the objects of Git LFS. An import leaves out what does not hold.
//!
//! An index is installed as it is, and git writes to every path in it. An object of Git LFS is taken
//! for what its name says, and stays for good, because no restore and no undo takes one away.

use gix_index::hash::{Kind, ObjectId as Oid, hasher};
use rappel_store::content;
use rappel_store::sink::Source;
use rappel_types::git::GitPart;
use rappel_types::{Node, RelPath};

use super::bundles::{Known, bytes_of};
use super::folder::{Role, role, split};
use super::linked;
use super::state::State;
use super::status::Index;
use crate::error::Result;

/// A file that must not come along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its path in the facet's tree.
    pub path: RelPath,
    /// The same as people say it, seen from the workspace.
    pub file: String,
    /// Why.
    pub reason: String,
}

/// The files of a checkpoint's repositories that must not come along.
pub fn refused(source: &dyn Source, part: &GitPart) -> Result<Vec<Refused>> {
    let mut found = Vec::new();
    for state in State::load(source, part)? {
        let hash = state.tips.first().map_or(Kind::Sha1, Oid::kind);
        let known = Known::of(&state.bundles, hash.len_in_bytes(), source);
        for (path, node) in &state.files {
            let reason = match role(path.as_bytes()) {
                Role::Index => wrong_index(node, &state, (hash, &known), path, source),
                Role::LargeFile => wrong_object(node, path, source)?,
                _ => None,
            };
            let Some(reason) = reason else { continue };
            let inside = [state.part.key.as_bytes(), b"/dir/", path.as_bytes()].concat();
            let Ok(inside) = RelPath::new(inside) else { continue };
            let file = match &state.path {
                Some(repository) => format!("{repository}/.git/{path}"),
                None => format!(".git/{path}"),
            };
            found.push(Refused { path: inside, file, reason });
        }
    }
    Ok(found)
}

/// Why an index cannot be used.
fn wrong_index(
    node: &Node,
    state: &State,
    (hash, known): (Kind, &Known),
    path: &RelPath,
    source: &dyn Source,
) -> Option<String> {
    // Links are never written; folders are none of ours.
    let Node::File { .. } = node else { return None };
    let Some(bytes) = bytes_of(source, node) else { return Some("it cannot be read".into()) };
    let sound = linked::is_sound(b"index", &bytes).then(|| Index::decode_half(&bytes, hash));
    let Some(index) = sound.flatten() else { return Some("it is no index of git".into()) };
    if let Some(base) = index.base() {
        let (_, rest) = split(path.as_bytes());
        let own = &path.as_bytes()[..path.as_bytes().len() - rest.len()];
        let name = RelPath::new([own, format!("sharedindex.{base}").as_bytes()].concat());
        if !name.is_ok_and(|name| state.files.contains_key(&name)) {
            return Some("the index that it is shared with did not come along".into());
        }
    }
    if let Some(flaw) = index.flaw() {
        return Some(flaw);
    }
    let is_here = |oid: &Oid| {
        known.find(oid).is_some() || [Oid::empty_blob(hash), Oid::empty_tree(hash)].contains(oid)
    };
    let missing = index.objects().find(|oid| !is_here(oid));
    missing.map(|oid| format!("it needs {oid}, which did not come along"))
}

/// Why a file is no object of Git LFS: those have the SHA-256 of their bytes for a name.
fn wrong_object(node: &Node, path: &RelPath, source: &dyn Source) -> Result<Option<String>> {
    let Node::File { size, content, .. } = node else { return Ok(None) };
    let mut hash = Hashing(hasher(Kind::Sha256));
    content::write_to(source, content, *size, &mut hash)?;
    let name = hash.0.try_finalize().map(|found| found.to_string()).unwrap_or_default();
    let (_, rest) = split(path.as_bytes());
    let place = name.get(..4).map(|start| {
        let (first, second) = start.split_at(2);
        format!("lfs/objects/{first}/{second}/{name}")
    });
    let fits = place.is_some_and(|place| place.as_bytes() == rest);
    Ok((!fits).then(|| "its name is not the SHA-256 of its content".into()))
}

/// Hashes what is written to it.
struct Hashing(gix_index::hash::Hasher);

impl std::io::Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
