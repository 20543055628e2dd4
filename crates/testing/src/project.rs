//! Folders to work on, and what is in them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rappel_types::path::escape;
use tempfile::TempDir;

/// A folder with files, removed with the value. Paths may be any bytes.
#[derive(Debug)]
pub struct Project {
    folder: TempDir,
    root: PathBuf,
}

impl Default for Project {
    fn default() -> Self {
        Self::new()
    }
}

impl Project {
    /// An empty one.
    pub fn new() -> Self {
        Self::below(tempfile::tempdir().unwrap())
    }

    /// An empty one on a disk that is quick to sync, for tests that do so a thousand times.
    pub fn in_memory() -> Self {
        Self::below(memory_dir())
    }

    fn below(folder: TempDir) -> Self {
        let root = folder.path().join("project");
        std::fs::create_dir(&root).unwrap();
        Self { folder, root }
    }

    /// Where its files are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder around it, for what must lie outside.
    pub fn outside(&self) -> &Path {
        self.folder.path()
    }

    /// The absolute path of something in it.
    pub fn path(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.root.join(OsStr::from_bytes(path.as_ref()))
    }

    fn parent(&self, path: &[u8]) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// With a file, and the folders it needs.
    #[must_use]
    pub fn file(self, path: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.parent(path.as_ref()), bytes).unwrap();
        self
    }

    /// With a folder.
    #[must_use]
    pub fn dir(self, path: impl AsRef<[u8]>) -> Self {
        std::fs::create_dir_all(self.parent(path.as_ref())).unwrap();
        self
    }

    /// With a symbolic link.
    #[must_use]
    pub fn symlink(self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        let target = OsStr::from_bytes(target.as_ref());
        std::os::unix::fs::symlink(target, self.parent(path.as_ref())).unwrap();
        self
    }

    /// With other permission bits on something that is there.
    #[must_use]
    pub fn mode(self, path: impl AsRef<[u8]>, mode: u32) -> Self {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.path(path), mode).unwrap();
        self
    }

    /// What is in it.
    pub fn snapshot(&self) -> Snapshot {
        snapshot(&self.root)
    }
}

/// A temporary folder in memory where the platform has such a place, on disk otherwise. All of
/// them are on one file system.
pub fn memory_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = tempfile::Builder::new().prefix("rappel").tempdir_in(memory);
    made.or_else(|_| tempfile::tempdir()).unwrap()
}

/// Something in a folder, to the byte.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Thing {
    Folder { mode: u32 },
    File { mode: u32, bytes: Vec<u8> },
    Link { target: Vec<u8> },
    Special,
}

impl fmt::Debug for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder { mode } => write!(f, "folder {mode:o}"),
            Self::File { mode, bytes } if bytes.len() > 60 => {
                write!(f, "file {mode:o} {}… ({} bytes)", escape(&bytes[..40]), bytes.len())
            }
            Self::File { mode, bytes } => write!(f, "file {mode:o} {:?}", escape(bytes)),
            Self::Link { target } => write!(f, "link to {}", escape(target)),
            Self::Special => f.write_str("special"),
        }
    }
}

/// Everything in a folder, by escaped path.
pub type Snapshot = BTreeMap<String, Thing>;

/// Everything in the folder at `root`.
pub fn snapshot(root: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let mut folders = vec![(root.to_owned(), Vec::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for item in std::fs::read_dir(&folder).unwrap() {
            let item = item.unwrap();
            let mut path: Vec<u8> = prefix.clone();
            path.extend_from_slice(item.file_name().as_bytes());
            let meta = item.metadata().unwrap();
            let mode = meta.mode() & 0o7777;
            let thing = if meta.is_symlink() {
                let target = std::fs::read_link(item.path()).unwrap();
                Thing::Link { target: target.as_os_str().as_bytes().to_vec() }
            } else if meta.is_dir() {
                let mut below = path.clone();
                below.push(b'/');
                folders.push((item.path(), below));
                Thing::Folder { mode }
            } else if meta.is_file() {
                Thing::File { mode, bytes: std::fs::read(item.path()).unwrap() }
            } else {
                Thing::Special
            };
            found.insert(escape(&path), thing);
        }
    }
    found
}

/// What the files below a folder take.
pub fn size_of(folder: &Path) -> u64 {
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => size_of(&entry.path()),
        Ok(data) => data.len(),
        // Somebody else removed it meanwhile.
        Err(_) => 0,
    };
    std::fs::read_dir(folder).map_or(0, |entries| entries.flatten().map(size).sum())
}
