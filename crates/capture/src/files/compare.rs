//! The difference between the folders that a scan wrote down anew and what the cache says of them.

use rappel_types::{Node, ObjectId, RelPath};
use rayon::prelude::*;

use super::cache::Cache;
use super::cache::record::{Draft, Record, What, folder};
use super::selector::join;

/// What differs.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// In order.
    pub changes: Vec<(RelPath, Option<Node>)>,
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
    /// By how much the number of files and links grew.
    pub count: i64,
    /// By how many bytes the files grew.
    pub bytes: i64,
    /// Folders that are gone, without those below them.
    pub gone: Vec<Vec<u8>>,
}

/// Compares `drafts` with the records that they replace.
pub(crate) fn compare(before: Option<&Cache>, drafts: &[Draft]) -> Comparison {
    let parts: Vec<Comparison> = drafts
        .par_iter()
        .with_min_len(16)
        .map(|draft| {
            let mut part = Comparison::default();
            let record = before.and_then(|cache| cache.record(draft.number));
            part.folder(before, record, draft);
            part
        })
        .collect();
    let mut all = Comparison::default();
    all.changes.reserve(parts.iter().map(|part| part.changes.len()).sum());
    for mut part in parts {
        all.changes.append(&mut part.changes);
        all.gone.append(&mut part.gone);
        all.added += part.added;
        all.modified += part.modified;
        all.deleted += part.deleted;
        all.count += part.count;
        all.bytes += part.bytes;
    }
    all.changes.par_sort_unstable_by(|a, b| a.0.cmp(&b.0));
    all
}

/// What a name amounts to in the tree, apart from folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaf {
    File { mode: u32, size: u64, id: [u8; 32], chunked: bool },
    Symlink { id: [u8; 32] },
}

fn leaf(what: &What) -> Option<Leaf> {
    match what {
        What::Whole(stored) | What::Chunked(stored) => Some(Leaf::File {
            mode: stored.mode,
            size: stored.size,
            id: stored.id,
            chunked: matches!(what, What::Chunked(_)),
        }),
        What::Symlink(stored) => Some(Leaf::Symlink { id: stored.id }),
        _ => None,
    }
}

/// Whether what left the tree is in the workspace all the same.
fn still_there(what: &What) -> bool {
    matches!(what, What::Unreadable | What::Database(_) | What::Companion)
}

fn bytes_of(leaf: Leaf) -> i64 {
    match leaf {
        Leaf::File { size, .. } => size as i64,
        Leaf::Symlink { .. } => 0,
    }
}

impl Comparison {
    fn change(&mut self, path: &[u8], node: Option<Node>) {
        // Paths that are too long for a tree were left out where they were found.
        if let Ok(path) = RelPath::new(path) {
            self.changes.push((path, node));
        }
    }

    fn folder(&mut self, before: Option<&Cache>, record: Option<Record<'_>>, draft: &Draft) {
        let old = record.filter(Record::in_tree).map(|record| record.mode());
        let new = draft.in_tree().then_some(draft.mode);
        if old != new && !draft.path.is_empty() {
            self.change(&draft.path, new.map(|mode| Node::Directory { mode }));
        }
        let blind = draft.flags & folder::UNREADABLE != 0;
        let mut known = record.map(|record| record.entries()).into_iter().flatten().peekable();
        for entry in &draft.entries {
            while let Some(gone) = known.next_if(|known| *known.name < *entry.name) {
                self.gone(before, &join(&draft.path, gone.name), &gone.what, blind);
            }
            let same = known.next_if(|known| *known.name == *entry.name);
            let old = same.map(|known| known.what);
            self.entry(before, &draft.path, entry, old.as_ref());
        }
        for gone in known {
            self.gone(before, &join(&draft.path, gone.name), &gone.what, blind);
        }
    }

    fn entry(
        &mut self,
        before: Option<&Cache>,
        folder: &[u8],
        entry: &super::cache::record::DraftEntry,
        old: Option<&What>,
    ) {
        let (old_leaf, new_leaf) = (old.and_then(leaf), leaf(&entry.what));
        if old_leaf == new_leaf && !matches!(old, Some(What::Folder(_))) {
            return;
        }
        let path = join(folder, &entry.name);
        match (old, &entry.what) {
            // A folder that stays has a draft of its own if it differs.
            (Some(What::Folder(old)), What::Folder(new)) if old == new => return,
            (Some(What::Folder(number)), new) => {
                self.subtree(
                    before,
                    *number,
                    &path,
                    !matches!(new, What::Folder(_)) && new_leaf.is_none(),
                );
                self.gone.push(path.clone());
            }
            _ => {}
        }
        if let Some(old) = old_leaf {
            self.count -= 1;
            self.bytes -= bytes_of(old);
        }
        let Some(new) = new_leaf else {
            if old_leaf.is_some() {
                // Where a folder took the place, its own draft says so.
                if !matches!(entry.what, What::Folder(_)) {
                    self.change(&path, None);
                }
                self.deleted += u64::from(!still_there(&entry.what));
            }
            return;
        };
        self.count += 1;
        self.bytes += bytes_of(new);
        match old_leaf {
            Some(_) => self.modified += 1,
            None => self.added += 1,
        }
        let node = match (&entry.what, &entry.target) {
            (What::Symlink(_), Some(target)) => Node::Symlink { target: target.clone() },
            (What::Whole(stored) | What::Chunked(stored), _) => Node::File {
                mode: stored.mode,
                size: stored.size,
                content: entry
                    .what
                    .content()
                    .unwrap_or(rappel_types::Content::Whole(ObjectId(stored.id))),
            },
            _ => return,
        };
        self.change(&path, Some(node));
    }

    fn gone(&mut self, before: Option<&Cache>, path: &[u8], what: &What, blind: bool) {
        if let What::Folder(number) = what {
            self.subtree(before, *number, path, true);
            self.gone.push(path.to_vec());
        } else if let Some(old) = leaf(what) {
            self.change(path, None);
            self.count -= 1;
            self.bytes -= bytes_of(old);
            self.deleted += u64::from(!blind);
        }
    }

    /// Everything below a folder is gone, and the folder itself if `whole`.
    fn subtree(&mut self, before: Option<&Cache>, number: u32, path: &[u8], whole: bool) {
        let Some(cache) = before else { return };
        for (at, record) in cache.below(number, path) {
            if record.in_tree() && (whole || at != path) {
                self.change(&at, None);
            }
            for entry in record.entries() {
                if let Some(old) = leaf(&entry.what) {
                    self.change(&join(&at, entry.name), None);
                    self.count -= 1;
                    self.bytes -= bytes_of(old);
                    self.deleted += 1;
                }
            }
        }
    }
}
