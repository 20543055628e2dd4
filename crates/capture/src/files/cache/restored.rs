//! Telling the cache what a restore has written, so that the next scan need not read it again.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;

use rappel_store::beneath::Meta;
use rappel_types::{CheckpointId, Content, Node, ObjectId, RelPath};

use super::super::choose::{Inside, OWN};
use super::super::compare::compare;
use super::super::git::IGNORE;
use super::super::handle::Root;
use super::super::selector::join;
use super::super::stamp::{Kind, Stamp};
use super::record::{Draft, DraftEntry, Stored, What, entry, folder};
use super::{Cache, CacheDraft, ROOT};
use crate::error::Result;

/// What a restore did to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Where.
    pub path: RelPath,
    /// What stands there now; `None` if it was deleted.
    pub node: Option<Node>,
    /// What the file system said of it before its content was compared, if that was old enough then
    /// for any later write to show.
    pub proof: Option<Meta>,
}

impl Cache {
    /// The cache after a restore made `changes` below `root`. `base` is the tree that the cache
    /// described before, with these changes.
    ///
    /// What was written is stat'ed, not read. Only where that says what it said before the content
    /// was compared need the next scan not read it: somebody may have written to it since.
    ///
    /// Folders that a change touched are listed again by the next scan, and restored rule files make
    /// it judge again what they govern.
    pub fn restored(
        self,
        root: &Path,
        changes: &[Restored],
        base: ObjectId,
        checkpoint: Option<CheckpointId>,
    ) -> Result<Self> {
        let root = Root::open(root)?;
        let mut edit =
            Edit { cache: &self, root: &root, drafts: BTreeMap::new(), next: self.memo.next };
        let mut changes: Vec<_> = changes.iter().collect();
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        for change in changes {
            edit.apply(change);
        }
        let next = edit.next;
        let drafts: Vec<Draft> = edit.drafts.into_values().collect();
        let mut memo = self.memo.clone();
        memo.next = next;
        let totals = compare(Some(&self), &drafts);
        memo.count = memo.count.saturating_add_signed(totals.count);
        memo.bytes = memo.bytes.saturating_add_signed(totals.bytes);
        Ok(CacheDraft { before: Some(self), drafts, memo }.finish(base, checkpoint))
    }
}

struct Edit<'a> {
    cache: &'a Cache,
    root: &'a Root,
    drafts: BTreeMap<u32, Draft>,
    next: u32,
}

impl Edit<'_> {
    fn apply(&mut self, change: &Restored) {
        let Restored { path, node, .. } = change;
        let parent = path.parent();
        let Some(number) = self.open(parent.as_ref()) else { return };
        let Some(device) = self.drafts.get(&number).map(|draft| draft.device) else { return };
        let name = path.name();
        let known = self.find(number, name);
        let made = node.as_ref().map(|node| self.entry(change, node, device, known.as_ref()));
        let Some(draft) = self.drafts.get_mut(&number) else { return };
        draft.flags |= folder::LIST;
        if name == IGNORE || name == OWN {
            draft.flags |= folder::STALE;
        }
        let at = draft.entries.binary_search_by(|entry| (*entry.name).cmp(name));
        match (at, made) {
            (Ok(at), Some(entry)) => draft.entries[at] = entry,
            (Err(at), Some(entry)) => draft.entries.insert(at, entry),
            (Ok(at), None) => {
                draft.entries.remove(at);
            }
            (Err(_), None) => {}
        }
    }

    fn find(&self, number: u32, name: &[u8]) -> Option<DraftEntry> {
        let draft = self.drafts.get(&number)?;
        let at = draft.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        Some(draft.entries[at].clone())
    }

    /// The draft of the folder at `path`, made from its record if there is one.
    fn open(&mut self, path: Option<&RelPath>) -> Option<u32> {
        let mut number = ROOT;
        let mut way = Vec::new();
        self.draft(number, &way)?;
        for component in path.iter().flat_map(|path| path.components()) {
            let What::Folder(child) = self.find(number, component)?.what else { return None };
            way = join(&way, component);
            number = child;
            self.draft(number, &way)?;
        }
        Some(number)
    }

    fn draft(&mut self, number: u32, path: &[u8]) -> Option<()> {
        if !self.drafts.contains_key(&number) {
            let draft = Draft::copy(&self.cache.record(number)?, path);
            self.drafts.insert(number, draft);
        }
        Some(())
    }

    /// What the cache shall know of a restored path. Whatever stands there by now, it is recorded as
    /// it was restored, since that is what the base tree holds; a stamp that does not fit makes the
    /// next scan look for itself.
    fn entry(
        &mut self,
        change: &Restored,
        node: &Node,
        device: u64,
        known: Option<&DraftEntry>,
    ) -> DraftEntry {
        let path = &change.path;
        let nothing = Stamp { device, inode: 0, size: 0, modified: 0, changed: 0, mode: 0 };
        let found = CString::new(path.as_bytes()).ok().and_then(|path| self.root.look(&path).ok());
        let stamp = found.unwrap_or(nothing);
        let unmoved = change.proof.as_ref().is_some_and(|proof| {
            let mode = stamp.permissions();
            Stamp { mode, ..stamp } == Stamp::from(proof)
        });
        let believed = unmoved && stamp.device == device;
        let flags = entry::TODAY | if believed { 0 } else { entry::YOUNG };
        let stored = |mode: u32, size: u64, id: [u8; 32], kind: Kind| {
            let fits = stamp.kind() == kind;
            Stored {
                mode,
                size,
                inode: if fits { stamp.inode } else { 0 },
                ..Stored::new(&stamp, id)
            }
        };
        let what = match node {
            Node::File { mode, size, content: Content::Whole(id) } => {
                What::Whole(stored(*mode, *size, id.0, Kind::File))
            }
            Node::File { mode, size, content: Content::Chunked(id) } => {
                What::Chunked(stored(*mode, *size, id.0, Kind::File))
            }
            Node::Symlink { target } => {
                let id = *blake3::hash(target).as_bytes();
                What::Symlink(stored(stamp.permissions(), stamp.size, id, Kind::Symlink))
            }
            Node::Directory { mode } => What::Folder(self.folder(path, *mode, &stamp, known)),
        };
        DraftEntry::new(path.name(), what, flags)
    }

    /// The number of the folder at `path`, which is in the tree from now on.
    fn folder(
        &mut self,
        path: &RelPath,
        mode: u32,
        stamp: &Stamp,
        known: Option<&DraftEntry>,
    ) -> u32 {
        let number = match known.map(|known| known.what) {
            Some(What::Folder(number)) => number,
            _ => {
                self.next += 1;
                self.next - 1
            }
        };
        if self.draft(number, path.as_bytes()).is_none() {
            let draft = Draft::new(number, path.as_bytes(), stamp, Inside::Normal, folder::STALE);
            self.drafts.insert(number, draft);
        }
        if let Some(draft) = self.drafts.get_mut(&number) {
            draft.mode = mode;
            draft.flags = (draft.flags | folder::LIST) & !folder::ABSENT;
        }
        number
    }
}
