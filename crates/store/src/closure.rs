//! What a checkpoint needs: the objects that its manifest refers to, and what those refer to.
//!
//! Gc, verify, undelete and writers that gc has overtaken all follow references with this. Bases
//! are not references: they belong to how an object is stored, and the store follows them.

use std::collections::HashSet;

use rappel_types::agents::{STATE_MAGIC, SessionState};
use rappel_types::{Content, ObjectId};

use crate::content::{ChunkList, LIST_MAGIC};
use crate::error::{Error, Result};
use crate::sink::Source;
use crate::tree;

/// Something that an object, or a manifest, refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reference {
    /// A node of a tree.
    Node(ObjectId),
    /// A list of chunks.
    List(ObjectId),
    /// Plain bytes.
    Bytes(ObjectId),
    /// An object that may be any of these; its first bytes tell. Bytes of a user that look like a
    /// node are followed like one, which errs on the safe side.
    Unknown(ObjectId),
}

impl Reference {
    pub fn id(&self) -> &ObjectId {
        match self {
            Self::Node(id) | Self::List(id) | Self::Bytes(id) | Self::Unknown(id) => id,
        }
    }

    pub fn of(content: &Content) -> Self {
        match content {
            Content::Whole(id) => Self::Bytes(*id),
            Content::Chunked(id) => Self::List(*id),
        }
    }

    /// What the object refers to in turn.
    fn read(&self, source: &dyn Source) -> Result<Vec<Self>> {
        let list = |bytes: &[u8]| {
            refuse_newer(bytes)?;
            let chunks = ChunkList::decode(bytes)?.0;
            Ok(chunks.iter().map(|chunk| Self::Bytes(chunk.id)).collect())
        };
        match self {
            Self::Bytes(_) => Ok(Vec::new()),
            Self::Node(id) => tree::references(&source.get(id)?),
            Self::List(id) => list(&source.get(id)?),
            Self::Unknown(id) => {
                let bytes = source.get(id)?;
                refuse_newer(&bytes)?;
                if let Some(json) = bytes.strip_prefix(STATE_MAGIC) {
                    return segments(json);
                }
                match tree::references(&bytes) {
                    Err(error @ Error::Newer { .. }) => Err(error),
                    Err(_) => Ok(list(&bytes).unwrap_or_default()),
                    found => found,
                }
            }
        }
    }
}

/// Structure of a later version looks like plain bytes otherwise, and what it refers to would be
/// taken for garbage.
fn refuse_newer(bytes: &[u8]) -> Result<()> {
    let known = [&STATE_MAGIC[..], &LIST_MAGIC[..]];
    let kinds = ["the state of a session", "a chunk list"];
    for (magic, what) in known.into_iter().zip(kinds) {
        let (name, version) = magic.split_at(3);
        let found = bytes.strip_prefix(name).and_then(|rest| rest.first());
        if let (Some(found), Some(supported)) = (found, version.first())
            && found > supported
        {
            let (found, supported) = (u32::from(*found), u32::from(*supported));
            return Err(Error::Newer { what: what.into(), found, supported });
        }
    }
    Ok(())
}

/// The parts of a session's state that lie apart.
fn segments(json: &[u8]) -> Result<Vec<Reference>> {
    let state: SessionState = serde_json::from_slice(json)
        .map_err(|error| Error::Damaged(format!("state of a session: {error}")))?;
    Ok(state.segments().map(|segment| Reference::Bytes(segment.id)).collect())
}

/// A walk along references that takes each of them once, however many checkpoints share it.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    pending: Vec<Reference>,
    /// By reference, not by object: a file may hold the very bytes of a node.
    seen: HashSet<Reference>,
    /// Structure that could not be read, so that what it refers to is not known.
    pub unreadable: Vec<ObjectId>,
    /// Structure that a later version wrote: it is whole, and what it refers to is not known either.
    pub newer: Vec<(ObjectId, Error)>,
}

impl Closure {
    /// Adds something to follow.
    pub fn add(&mut self, reference: Reference) {
        if self.seen.insert(reference) {
            self.pending.push(reference);
        }
    }

    /// Follows everything that was added, handing each object to `visit`; stops with false when
    /// that says so, or when something cannot be read.
    pub fn follow(
        &mut self,
        source: &dyn Source,
        visit: &mut dyn FnMut(&ObjectId) -> bool,
    ) -> bool {
        while let Some(reference) = self.pending.pop() {
            if !visit(reference.id()) {
                return false;
            }
            match reference.read(source) {
                Ok(found) => found.into_iter().for_each(|found| self.add(found)),
                Err(error @ Error::Newer { .. }) => {
                    self.newer.push((*reference.id(), error));
                    return false;
                }
                Err(_) => {
                    self.unreadable.push(*reference.id());
                    return false;
                }
            }
        }
        true
    }
}

/// The texts in a JSON document that could name objects. A facet that a later version adds keeps
/// its objects alive by naming them, whether or not this build knows the facet.
pub(crate) fn named_in(json: &serde_json::Value, out: &mut Vec<ObjectId>) {
    match json {
        serde_json::Value::String(text) => out.extend(text.parse::<ObjectId>().ok()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| named_in(item, out)),
        serde_json::Value::Object(fields) => {
            fields.values().for_each(|value| named_in(value, out));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rappel_types::{Entry, Node, RelPath};

    use super::*;
    use crate::content;
    use crate::sink::{Role, Scratch, Sink, id_of};

    struct Kept(Scratch<'static>);

    impl Source for Kept {
        fn get(&self, id: &ObjectId) -> Result<std::sync::Arc<[u8]>> {
            self.0.get(id)
        }
    }

    impl Sink for Kept {
        fn put(&self, _: Role, bytes: &[u8], base: Option<&ObjectId>) -> Result<ObjectId> {
            self.0.put(Role::Structure, bytes, base)
        }
    }

    fn file(sink: &Kept, path: &str, bytes: &[u8]) -> Entry {
        let (content, size) = content::store(sink, &mut &bytes[..], 0, None).unwrap();
        Entry {
            path: path.parse::<RelPath>().unwrap(),
            node: Node::File { mode: 0o644, size, content },
        }
    }

    #[test]
    fn everything_below_a_tree_is_found_once() {
        let sink = Kept(Scratch::over(&crate::sink::Nothing));
        let large: Vec<u8> = (0..1u32 << 19).flat_map(u32::to_le_bytes).collect();
        let node = file(&sink, "inner", b"inner");
        let inner = tree::write(&sink, &[node]).unwrap();
        let copy_of_node = sink.get(&inner).unwrap();
        let entries = [
            file(&sink, "a", b"text"),
            file(&sink, "b", &copy_of_node),
            file(&sink, "c", &large),
            file(&sink, "d", b"text"),
        ];
        let root = tree::write(&sink, &entries).unwrap();
        let seen = Mutex::new(Vec::new());
        let mut closure = Closure::default();
        closure.add(Reference::Unknown(root));
        assert!(closure.follow(&sink, &mut |id| {
            seen.lock().unwrap().push(*id);
            true
        }));
        let seen = seen.into_inner().unwrap();
        assert!(seen.contains(&id_of(b"text")));
        assert!(!seen.contains(&id_of(b"inner")), "a file is bytes, whatever they look like");
        assert!(seen.len() > 5, "the chunks are there");
        let unique: HashSet<_> = seen.iter().collect();
        assert_eq!(unique.len(), seen.len());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let mut closure = Closure::default();
        let id = ObjectId([9; 32]);
        closure.add(Reference::Node(id));
        assert!(!closure.follow(&crate::sink::Nothing, &mut |_| true));
        assert_eq!(closure.unreadable, [id]);
    }

    #[test]
    fn structure_of_a_later_version_is_not_taken_for_bytes() {
        for magic in [b"RTR\x02", b"RCL\x02", b"RSS\x02"] {
            let sink = Kept(Scratch::over(&crate::sink::Nothing));
            let id = sink.put(Role::Structure, magic, None).unwrap();
            let mut closure = Closure::default();
            closure.add(Reference::Unknown(id));
            assert!(!closure.follow(&sink, &mut |_| true), "{magic:?}");
            assert!(closure.unreadable.is_empty() && closure.newer[0].0 == id, "{magic:?}");
        }
    }

    #[test]
    fn ids_are_found_at_any_depth_of_a_document() {
        let id = ObjectId([7; 32]);
        let json = serde_json::json!({"a": [{"b": id.to_string()}, "short", 7, null]});
        let mut found = Vec::new();
        named_in(&json, &mut found);
        assert_eq!(found, [id]);
    }
}
