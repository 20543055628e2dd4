//! A folder to scan, and the simplest possible engine around the scan: a tree in memory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rappel_capture::Result;
use rappel_capture::files::{
    Cache, Environment, First, Identity, Request, Scanned, Selector, scan,
};
use rappel_store::Cancel;
use rappel_store::content;
use rappel_store::disk::{Disk, RealDisk};
use rappel_store::sink::{Role, Sink, Source, id_of};
use rappel_types::config::FilesConfig;
use rappel_types::{Content, Node, ObjectId, RelPath};

type React = Box<dyn Fn(&[u8]) + Send + Sync>;

/// A sink that keeps everything, counts, and can do something whenever it is given an object.
#[derive(Default)]
pub struct Memory {
    objects: Mutex<HashMap<ObjectId, Arc<[u8]>>>,
    puts: AtomicUsize,
    pub on_put: Option<React>,
}

impl Source for Memory {
    fn get(&self, id: &ObjectId) -> rappel_store::Result<Arc<[u8]>> {
        self.objects.lock().unwrap().get(id).cloned().ok_or(rappel_store::Error::Missing(*id))
    }
}

impl Sink for Memory {
    fn put(&self, _: Role, bytes: &[u8], _: Option<&ObjectId>) -> rappel_store::Result<ObjectId> {
        let id = id_of(bytes);
        self.objects.lock().unwrap().insert(id, bytes.into());
        self.puts.fetch_add(1, Ordering::Relaxed);
        if let Some(react) = &self.on_put {
            react(bytes);
        }
        Ok(id)
    }
}

impl Memory {
    /// How often something was put here, known already or not.
    pub fn puts(&self) -> usize {
        self.puts.load(Ordering::Relaxed)
    }
}

/// A project folder with its cache and the tree that its scans describe.
pub struct Project {
    pub dir: tempfile::TempDir,
    /// The workspace; below `dir`.
    pub root: PathBuf,
    pub config: FilesConfig,
    pub environment: Environment,
    pub excluded: Vec<Identity>,
    pub excluded_paths: Vec<RelPath>,
    pub databases: Vec<RelPath>,
    pub also: Vec<RelPath>,
    pub first: First,
    pub sink: Memory,
    pub tree: BTreeMap<RelPath, Node>,
}

pub fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

impl Project {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        std::fs::create_dir(&root).unwrap();
        Self {
            root,
            config: FilesConfig::default(),
            environment: Environment {
                home: Some(dir.path().join("home")),
                ..Environment::default()
            },
            excluded: Vec::new(),
            excluded_paths: Vec::new(),
            databases: Vec::new(),
            also: Vec::new(),
            first: First::default(),
            sink: Memory::default(),
            tree: BTreeMap::new(),
            dir,
        }
    }

    pub fn with_git() -> Self {
        let project = Self::new();
        project.git(&["init", "-q"]);
        project
    }

    pub fn at(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.root.join(OsStr::from_bytes(name.as_ref()))
    }

    pub fn write(&self, name: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> &Self {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub fn remove(&self, name: impl AsRef<[u8]>) {
        let path = self.at(name);
        if path.is_dir() && !path.is_symlink() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }

    pub fn git(&self, arguments: &[&str]) -> Vec<u8> {
        git(&self.root, self.dir.path(), arguments)
    }

    pub fn cache_file(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// Lets the file system's clock move on, so that what was written is believed.
    #[allow(clippy::unused_self, reason = "it is this project that settles")]
    pub fn settle(&self) {
        std::thread::sleep(std::time::Duration::from_millis(25));
    }

    pub fn try_scan(&self, cache: Option<Cache>, maybe: Option<&[RelPath]>) -> Result<Scanned> {
        let request = Request {
            root: &self.root,
            config: &self.config,
            environment: &self.environment,
            excluded: &self.excluded,
            excluded_paths: &self.excluded_paths,
            databases: &self.databases,
            cache,
            also: &self.also,
            first: Some(&self.first),
            maybe_changed: maybe,
            cancel: &Cancel::default(),
            progress: None,
        };
        scan(request, &self.sink)
    }

    /// Scans without a cache and keeps nothing.
    pub fn fresh(&self) -> Scanned {
        self.try_scan(None, None).unwrap()
    }

    /// Scans with the cache, keeps it, and brings the tree up to date.
    pub fn save(&mut self) -> Scanned {
        self.save_maybe(None)
    }

    pub fn save_maybe(&mut self, maybe: Option<&[RelPath]>) -> Scanned {
        let cache = Cache::load(&self.cache_file());
        assert_eq!(cache.is_some(), self.cache_file().exists(), "a cache must be readable");
        if cache.is_none() {
            self.tree.clear();
        }
        let mut scanned = self.try_scan(cache, maybe).unwrap();
        assert!(scanned.changes.is_sorted_by(|a, b| a.0 < b.0), "in order and without repeats");
        for (path, node) in &scanned.changes {
            match node {
                Some(node) => {
                    let old = self.tree.insert(path.clone(), node.clone());
                    assert_ne!(old.as_ref(), Some(node), "{path} did not change");
                }
                None => assert!(self.tree.remove(path).is_some(), "{path} was not there"),
            }
        }
        let next = std::mem::replace(&mut scanned.next, self.empty_draft());
        let mut cache = next.finish(ObjectId([7; 32]), None);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        cache.save(&disk, &self.cache_file()).unwrap();
        let files = self.tree.values().filter(|node| !matches!(node, Node::Directory { .. }));
        assert_eq!(scanned.count, files.count() as u64);
        let bytes = self.tree.values().map(|node| match node {
            Node::File { size, .. } => *size,
            _ => 0,
        });
        assert_eq!(scanned.bytes, bytes.sum::<u64>());
        scanned
    }

    fn empty_draft(&self) -> rappel_capture::files::CacheDraft {
        let empty = self.dir.path().join("empty");
        std::fs::create_dir_all(&empty).unwrap();
        let request = Request {
            root: &empty,
            config: &FilesConfig::default(),
            environment: &Environment::default(),
            excluded: &[],
            excluded_paths: &[],
            databases: &[],
            cache: None,
            also: &[],
            first: None,
            maybe_changed: None,
            cancel: &Cancel::default(),
            progress: None,
        };
        scan(request, &self.sink).unwrap().next
    }

    /// Saves, and checks that a scan without any cache finds the very same.
    pub fn save_checked(&mut self) -> Scanned {
        let scanned = self.save();
        let fresh = self.fresh();
        let expected: BTreeMap<_, _> = fresh
            .changes
            .iter()
            .map(|(path, node)| (path.clone(), node.clone().unwrap()))
            .collect();
        assert_eq!(self.tree, expected);
        assert_eq!(scanned.skipped, fresh.skipped);
        assert_eq!(scanned.partial, fresh.partial);
        assert_eq!(scanned.rules, fresh.rules);
        assert_eq!(scanned.databases, fresh.databases);
        assert_eq!((scanned.count, scanned.bytes), (fresh.count, fresh.bytes));
        scanned
    }

    /// The files and links of a fresh scan, by name.
    pub fn taken(&self) -> Vec<String> {
        leaves(&self.fresh())
    }

    /// The rules of a scan as a restore would ask them, with rule files from the scan's own tree.
    pub fn selector(&self, scanned: &Scanned) -> Selector<'_> {
        let tree: BTreeMap<RelPath, Option<Node>> = scanned.changes.iter().cloned().collect();
        Selector::recorded(&scanned.rules, move |path| match tree.get(path)? {
            Some(Node::File { size, content, .. }) => {
                Some(content::read(&self.sink, content, *size, 1 << 20).unwrap())
            }
            _ => None,
        })
        .unwrap()
    }

    /// What the tree holds at `name`.
    pub fn text(&self, name: &str) -> String {
        match &self.tree[&path(name)] {
            Node::File { size, content, .. } => {
                String::from_utf8(content::read(&self.sink, content, *size, 1 << 20).unwrap())
                    .unwrap()
            }
            other => panic!("{name} is {other:?}"),
        }
    }
}

/// The files and links that a scan without a cache found.
pub fn leaves(scanned: &Scanned) -> Vec<String> {
    let leaf = |node: &Option<Node>| !matches!(node, Some(Node::Directory { .. }) | None);
    scanned
        .changes
        .iter()
        .filter(|(_, node)| leaf(node))
        .map(|(path, _)| path.to_string())
        .collect()
}

/// Runs git without anybody's configuration.
pub fn git(root: &Path, home: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .current_dir(root)
        .env("HOME", home.join("home"))
        .env_remove("XDG_CONFIG_HOME")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

pub fn whole(text: &str) -> Content {
    Content::Whole(id_of(text.as_bytes()))
}
