//! The listing of a tree, made once before anything is timed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Paths relative to the tree's root, each folder before its content, neighbours together.
#[derive(Default)]
pub struct Tree {
    pub files: Vec<PathBuf>,
    pub links: Vec<PathBuf>,
    /// The root is `.`.
    pub dirs: Vec<PathBuf>,
}

impl Tree {
    pub fn list(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.dirs.push(PathBuf::from("."));
        tree.add(root, Path::new(""))?;
        Ok(tree)
    }

    fn add(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
        let mut entries = fs::read_dir(root.join(folder))?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if entry.file_name() != ".git" {
                    self.dirs.push(path.clone());
                    self.add(root, &path)?;
                }
            } else if kind.is_file() {
                self.files.push(path);
            } else if kind.is_symlink() {
                self.links.push(path);
            }
        }
        Ok(())
    }
}
