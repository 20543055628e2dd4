//! A store that keeps everything in memory.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rappel_store::sink::{Role, Sink, Source, id_of};
use rappel_store::{Error, Result, content, tree};
use rappel_types::{Entry, Node, ObjectId, RelPath};

/// Objects by their ids, and nothing else.
#[derive(Debug, Default)]
pub struct MemoryStore {
    objects: Mutex<HashMap<ObjectId, Arc<[u8]>>>,
}

impl Source for MemoryStore {
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        self.objects.lock().unwrap().get(id).cloned().ok_or(Error::Missing(*id))
    }
}

impl Sink for MemoryStore {
    fn put(&self, _role: Role, bytes: &[u8], _base: Option<&ObjectId>) -> Result<ObjectId> {
        let id = id_of(bytes);
        self.objects.lock().unwrap().entry(id).or_insert_with(|| bytes.into());
        Ok(id)
    }
}

impl MemoryStore {
    /// Stores what `keep` lets through of a folder and returns its entries, in order. The simplest
    /// capture there can be: no rules, no cache.
    pub fn take(&self, folder: &Path, keep: &dyn Fn(&RelPath) -> bool) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.take_folder(folder, None, keep, &mut entries);
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries
    }

    fn take_folder(
        &self,
        folder: &Path,
        at: Option<&RelPath>,
        keep: &dyn Fn(&RelPath) -> bool,
        entries: &mut Vec<Entry>,
    ) {
        for item in std::fs::read_dir(folder).unwrap() {
            let item = item.unwrap();
            let name = item.file_name();
            let path = match at {
                Some(above) => above.join(name.as_bytes()).unwrap(),
                None => RelPath::new(name.as_bytes()).unwrap(),
            };
            if !keep(&path) {
                continue;
            }
            let meta = item.metadata().unwrap();
            let mode = meta.mode() & 0o7777;
            let node = if meta.is_dir() {
                self.take_folder(&item.path(), Some(&path), keep, entries);
                Node::Directory { mode }
            } else if meta.is_symlink() {
                let target = std::fs::read_link(item.path()).unwrap();
                Node::Symlink { target: target.as_os_str().as_bytes().to_vec() }
            } else if meta.is_file() {
                let mut file = std::fs::File::open(item.path()).unwrap();
                let (content, size) = content::store(self, &mut file, meta.size(), None).unwrap();
                Node::File { mode, size, content }
            } else {
                continue;
            };
            entries.push(Entry { path, node });
        }
    }

    /// Stores a list of entries as a tree.
    pub fn tree(&self, entries: &[Entry]) -> ObjectId {
        tree::write(self, entries).unwrap()
    }
}
