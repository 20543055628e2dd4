//! Knowledge as part of a checkpoint: the documents below `[knowledge] paths`, with an index of them.
//!
//! The documents lie in the same tree as the files, and are scanned, stored and restored with them;
//! which of the two a path belongs to follows from the paths that the manifest names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use rappel_store::beneath::Root;
use rappel_store::index::CheckpointRow;
use rappel_store::sink::{Role, Sink};
use rappel_store::tree;
use rappel_types::config::Config;
use rappel_types::knowledge::{Document, KnowledgePart, title_of};
use rappel_types::{Manifest, Node, ObjectId, RelPath};

use crate::error::Result;
use crate::rappel::Rappel;
use crate::save::CapturedFiles;

/// How much of a document is looked at for its title.
const HEAD: u64 = 8 << 10;

/// Whether a path belongs to knowledge.
pub(crate) fn holds(paths: &[RelPath], path: &RelPath) -> bool {
    paths.iter().any(|knowledge| path.is_within(knowledge))
}

/// Has the files take everything that is knowledge, whatever git ignores.
pub(crate) fn include(config: &mut Config) {
    let globs = config.knowledge.paths.iter().map(as_glob);
    config.files.include.extend(globs);
}

/// A pattern that means a path as it is.
pub(crate) fn as_glob(path: &RelPath) -> String {
    let mut glob = String::from("/");
    for c in path.to_string().chars() {
        if "*?[\\".contains(c) {
            glob.push('\\');
        }
        glob.push(c);
    }
    glob
}

impl Rappel {
    /// A sentence for each of `[knowledge] paths` where nothing lies.
    pub(crate) fn missing_knowledge(&self) -> impl Iterator<Item = String> {
        let paths = self.config.knowledge.paths.iter();
        let missing = paths.filter(|path| {
            let found = self.root.join(OsStr::from_bytes(path.as_bytes())).symlink_metadata();
            found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        });
        missing.map(|path| format!("there is no {path}, which rappel.toml names as knowledge"))
    }

    /// The knowledge among the files that were just looked at.
    pub(crate) fn capture_knowledge(
        &self,
        files: &CapturedFiles,
        newest: Option<&CheckpointRow>,
        sink: &dyn Sink,
    ) -> Result<Option<KnowledgePart>> {
        let paths = &self.config.knowledge.paths;
        if paths.is_empty() {
            return Ok(None);
        }
        let newest = newest.and_then(|row| self.store.manifest(row).ok());
        let prior = newest.as_ref().and_then(|manifest| manifest.knowledge.as_ref());
        let changes = || files.scanned.changes.iter().filter(|(path, _)| holds(paths, path));
        if let Some(prior) = prior
            && prior.paths == *paths
            && changes().next().is_none()
            && newest.as_ref().and_then(tree_of) == files.base
            && files.base.is_some()
        {
            return Ok(Some(prior.clone()));
        }
        let mut nodes: BTreeMap<RelPath, Node> = BTreeMap::new();
        if let Some(base) = &files.base {
            let entries = tree::read(self.source(), base)?;
            let held = entries.into_iter().filter(|entry| holds(paths, &entry.path));
            nodes.extend(held.map(|entry| (entry.path, entry.node)));
        }
        for (path, node) in changes() {
            match node {
                Some(node) => nodes.insert(path.clone(), node.clone()),
                None => nodes.remove(path),
            };
        }
        let known = prior.map(|prior| self.documents(&prior.index)).unwrap_or_default();
        let root = Root::open(&self.root, self.options.disk.clone())?;
        let mut documents = Vec::new();
        for (path, node) in &nodes {
            let Node::File { size, content, .. } = node else { continue };
            let hash = *content.id();
            let same = known.get(path).filter(|document| document.hash == hash);
            let title = match same {
                Some(document) => document.title.clone(),
                None => head(&root, path).as_deref().and_then(title_of),
            };
            documents.push(Document { path: path.clone(), size: *size, hash, title });
        }
        let json = serde_json::to_vec(&documents).unwrap_or_default();
        let index = sink.put(Role::Content, &json, prior.map(|prior| &prior.index))?;
        Ok(Some(KnowledgePart {
            projects: projects(paths, &nodes),
            document_count: documents.len() as u64,
            paths: paths.clone(),
            index,
        }))
    }

    /// The documents of an index, by path; none if it cannot be read.
    fn documents(&self, index: &ObjectId) -> BTreeMap<RelPath, Document> {
        let bytes = rappel_store::sink::Source::get(&self.store, index).ok();
        let documents =
            bytes.and_then(|bytes| serde_json::from_slice::<Vec<Document>>(&bytes).ok());
        let documents = documents.unwrap_or_default().into_iter();
        documents.map(|document| (document.path.clone(), document)).collect()
    }
}

fn tree_of(manifest: &Manifest) -> Option<ObjectId> {
    manifest.files.as_ref().map(|files| files.tree)
}

/// The folders right below the knowledge paths.
fn projects(paths: &[RelPath], nodes: &BTreeMap<RelPath, Node>) -> Vec<String> {
    let folders = nodes.iter().filter(|(_, node)| matches!(node, Node::Directory { .. }));
    let first = folders.filter(|(path, _)| path.parent().is_some_and(|up| paths.contains(&up)));
    let mut names: Vec<String> =
        first.map(|(path, _)| rappel_types::path::escape(path.name())).collect();
    names.sort();
    names.dedup();
    names
}

/// The beginning of a document, if it is text.
fn head(root: &Root, path: &RelPath) -> Option<String> {
    let mut bytes = Vec::new();
    root.open_file(path).ok()?.take(HEAD).read_to_end(&mut bytes).ok()?;
    if bytes.contains(&0) {
        return None;
    }
    // A character may be cut at the end.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
