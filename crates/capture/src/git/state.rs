//! One repository as a checkpoint holds it: refs, the files of git's folder, bundles of objects; and
//! how that lies in the facet's tree.
//!
//! Below the repository's key: `dir/…` the files of the common folder, `gitfile` what stands at `.git`
//! where that is not a folder, `refs` what every ref leads to, `tips` the objects from which all is
//! followed, `objects/NAME.pack` and `NAME.ids` the bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;

use gix_index::hash::{Kind, ObjectId as Oid};
use rappel_store::sink::{Sink, Source};
use rappel_store::{content, tree};
use rappel_types::git::{GitPart, RepositoryPart};
use rappel_types::{Entry, Node, RelPath};

use super::apply::path_of;
use super::bundles::{Bundle, bytes_of};
use super::folder::{Role, role, split};
use super::refs::{self, Refs};
use super::status::stages_the_same;
use crate::error::Result;

/// The key of the repository at the workspace's root.
pub const ROOT_KEY: &str = "root";

/// One repository as it was captured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Where it starts; `None` is the workspace's root.
    pub path: Option<RelPath>,
    /// What the manifest says of it.
    pub part: RepositoryPart,
    /// What every ref leads to.
    pub refs: Refs,
    /// The objects from which everything was followed and found.
    pub tips: BTreeSet<Oid>,
    /// The files of the common folder.
    pub files: BTreeMap<RelPath, Node>,
    /// What stands at `.git`, where that is a file.
    pub gitfile: Option<Node>,
    /// Its objects.
    pub bundles: Vec<Bundle>,
}

/// Where a repository is kept in the facet's tree.
pub fn key_of(path: Option<&RelPath>) -> String {
    match path {
        None => ROOT_KEY.to_owned(),
        Some(path) => blake3::hash(path.as_bytes()).to_hex()[..16].to_owned(),
    }
}

impl State {
    /// Reads all repositories of a checkpoint.
    pub fn load(source: &dyn Source, part: &GitPart) -> Result<Vec<Self>> {
        let Some(root) = &part.tree else { return Ok(Vec::new()) };
        let entries = tree::read(source, root)?;
        let states = part.repositories().map(|(path, part)| {
            let mut state = Self { path: path.cloned(), part: part.clone(), ..Self::default() };
            let prefix = format!("{}/", part.key);
            for entry in &entries {
                if let Some(rest) = entry.path.as_bytes().strip_prefix(prefix.as_bytes()) {
                    state.take(rest, &entry.node, source);
                }
            }
            state
        });
        Ok(states.collect())
    }

    /// Whether the same is staged in both, whatever their indexes remember of the files.
    pub fn stages_as(&self, other: &Self, source: &dyn Source) -> bool {
        let index = |state: &Self| {
            let path = match &state.part.linked {
                Some(name) => RelPath::new([b"worktrees/", name.as_bytes(), b"/index"].concat()),
                None => RelPath::new("index"),
            };
            state.files.get(&path.ok()?).cloned()
        };
        let hash = self.tips.iter().chain(&other.tips).next().map_or(Kind::Sha1, Oid::kind);
        match (index(self), index(other)) {
            (Some(old), Some(new)) => stages_the_same(&old, &new, hash, source),
            (None, None) => true,
            _ => false,
        }
    }

    /// The same without anything that git could run or be led away by: configuration, hooks, what an
    /// operation would do next, and links to folders elsewhere. For a checkpoint that came from
    /// elsewhere. `worktrees` says which linked work trees stay.
    #[must_use]
    pub fn harmless(mut self, worktrees: impl Fn(&str) -> bool) -> Self {
        self.part.worktrees.retain(|part| worktrees(&part.name));
        let names: Vec<&str> = self.part.worktrees.iter().map(|part| part.name.as_str()).collect();
        self.files.retain(|path, node| match split(path.as_bytes()) {
            _ if matches!(node, Node::Symlink { .. }) => false,
            (None, b"worktrees") => !names.is_empty(),
            (None, rest) => is_harmless(rest),
            (Some(name), rest) => {
                let stays = names.iter().any(|one| path_of(one).as_os_str().as_bytes() == name);
                stays && (matches!(rest, b"" | b"gitdir" | b"commondir") || is_harmless(rest))
            }
        });
        self.gitfile = None;
        self.part.git_dir = None;
        self.part.linked = None;
        self.part.operation = None;
        self
    }

    /// Has the reflogs of another state instead of its own: a history that came from elsewhere tells
    /// nothing of what happened here.
    pub fn with_logs_of(&mut self, other: &Self) {
        self.files.retain(|path, _| role(path.as_bytes()) != Role::Log);
        let logs = other.files.iter().filter(|(path, _)| role(path.as_bytes()) == Role::Log);
        self.files.extend(logs.map(|(path, node)| (path.clone(), node.clone())));
    }

    /// Has the index of another state where it has none. An import leaves out one that does not hold;
    /// that is no reason to delete the workspace's own.
    pub fn with_index_of(&mut self, other: &Self) {
        let Ok(index) = RelPath::new("index") else { return };
        if self.files.contains_key(&index) {
            return;
        }
        let is_own = |path: &RelPath| {
            split(path.as_bytes()).0.is_none() && role(path.as_bytes()) == Role::Index
        };
        let indexes = other.files.iter().filter(|(path, _)| is_own(path));
        self.files.extend(indexes.map(|(path, node)| (path.clone(), node.clone())));
    }

    fn take(&mut self, path: &[u8], node: &Node, source: &dyn Source) {
        if let Some(path) = path.strip_prefix(b"dir/") {
            if let Ok(path) = RelPath::new(path) {
                self.files.insert(path, node.clone());
            }
        } else if let Some(name) = path.strip_prefix(b"objects/") {
            let name = String::from_utf8_lossy(name);
            let Some((name, kind)) = name.rsplit_once('.') else { return };
            if self.bundles.last().is_none_or(|bundle| bundle.name != name) {
                let (pack, ids) = (node.clone(), node.clone());
                self.bundles.push(Bundle { name: name.to_owned(), pack, ids, listed: None });
            }
            if let Some(bundle) = self.bundles.last_mut() {
                match kind {
                    "pack" => bundle.pack = node.clone(),
                    _ => bundle.ids = node.clone(),
                }
            }
        } else {
            match path {
                b"gitfile" => self.gitfile = Some(node.clone()),
                b"refs" => {
                    let bytes = bytes_of(source, node);
                    self.refs = bytes.map(|bytes| refs::decode(&bytes)).unwrap_or_default();
                }
                b"tips" => {
                    let bytes = bytes_of(source, node).unwrap_or_default();
                    self.tips = decode_tips(&bytes);
                }
                _ => {}
            }
        }
    }

    /// The repository's part of the facet's tree. What is derived is put into `sink`.
    pub fn entries(&self, sink: &dyn Sink) -> Result<Vec<Entry>> {
        let key = &self.part.key;
        let mut entries = BTreeMap::new();
        let mut add = |path: Vec<u8>, node: &Node| {
            if let Ok(path) = RelPath::new([key.as_bytes(), b"/", &path].concat()) {
                for folder in path.ancestors() {
                    entries.entry(folder).or_insert(Node::Directory { mode: 0o700 });
                }
                entries.insert(path, node.clone());
            }
        };
        for (path, node) in &self.files {
            add([b"dir/", path.as_bytes()].concat(), node);
        }
        for bundle in &self.bundles {
            add(format!("objects/{}.pack", bundle.name).into_bytes(), &bundle.pack);
            add(format!("objects/{}.ids", bundle.name).into_bytes(), &bundle.ids);
        }
        if let Some(node) = &self.gitfile {
            add(b"gitfile".to_vec(), node);
        }
        let width = self.tips.first().map_or(0, |oid| oid.as_bytes().len() as u8);
        let mut tips = vec![width];
        self.tips.iter().for_each(|oid| tips.extend_from_slice(oid.as_bytes()));
        add(b"refs".to_vec(), &stored(sink, &refs::encode(&self.refs))?);
        add(b"tips".to_vec(), &stored(sink, &tips)?);
        Ok(entries.into_iter().map(|(path, node)| Entry { path, node }).collect())
    }
}

/// Whether a file of git's folder only says what is there: nothing in it is ever run.
fn is_harmless(path: &[u8]) -> bool {
    match role(path) {
        Role::Head | Role::Refs | Role::Log | Role::Index => true,
        Role::LargeFile => path == b"lfs" || path.starts_with(b"lfs/objects"),
        Role::Operation | Role::Setup => false,
    }
}

/// Bytes as a private file.
fn stored(sink: &dyn Sink, bytes: &[u8]) -> Result<Node> {
    let (content, size) = content::store(sink, &mut &*bytes, bytes.len() as u64, None)?;
    Ok(Node::File { mode: 0o600, size, content })
}

/// The length of a name, then the names.
fn decode_tips(bytes: &[u8]) -> BTreeSet<Oid> {
    let Some((width, rest)) = bytes.split_first() else { return BTreeSet::new() };
    let chunks = rest.chunks_exact(usize::from(*width).max(1));
    chunks.filter_map(|bytes| Oid::try_from(bytes).ok()).collect()
}

#[cfg(test)]
mod tests {
    use rappel_types::git::WorktreePart;

    use super::*;

    #[test]
    fn what_came_from_elsewhere_brings_nothing_that_git_could_run() {
        let file = Node::File { mode: 0o755, size: 0, content: bytes() };
        let link = Node::Symlink { target: b"/etc/passwd".to_vec() };
        let paths = [
            "HEAD",
            "config",
            "config.worktree",
            "hooks/pre-commit",
            "index",
            "info/attributes",
            "logs/HEAD",
            "packed-refs",
            "rebase-merge/git-rebase-todo",
            "refs/heads/main",
            "worktrees/asked/HEAD",
            "worktrees/asked/config.worktree",
            "worktrees/asked/gitdir",
            "worktrees/other/HEAD",
        ];
        let path = |text: &str| RelPath::new(text).unwrap();
        let mut state = State::default();
        state.files.extend(paths.map(|text| (path(text), file.clone())));
        state.files.insert(path("refs/heads/evil"), link);
        state.gitfile = Some(file);
        state.part.git_dir = Some("../../outside".into());
        state.part.linked = Some(path("evil"));
        state.part.operation = Some("rebase".into());
        state.part.worktrees = ["asked", "other"].map(worktree).into();
        let state = state.harmless(|name| name == "asked");
        let left: Vec<String> = state.files.keys().map(ToString::to_string).collect();
        let expected = [
            "HEAD",
            "index",
            "logs/HEAD",
            "packed-refs",
            "refs/heads/main",
            "worktrees/asked/HEAD",
            "worktrees/asked/gitdir",
        ];
        assert_eq!(left, expected);
        assert_eq!((state.gitfile, state.part.git_dir, state.part.linked), (None, None, None));
        assert_eq!((state.part.operation, state.part.worktrees.len()), (None, 1));
    }

    fn bytes() -> rappel_types::Content {
        rappel_types::Content::Whole(rappel_types::ObjectId([0; 32]))
    }

    fn worktree(name: &str) -> WorktreePart {
        serde_json::from_value(serde_json::json!({"name": name, "path": "/outside"})).unwrap()
    }
}
