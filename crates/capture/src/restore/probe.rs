//! What a plan has to know about the real folder, beyond what the present checkpoint holds.

use std::collections::BTreeSet;

use rappel_store::beneath::{Kind, Mount, Root};
use rappel_types::RelPath;

use super::error::Result;
use super::fold::other_case;

/// Answers a planner's questions about the file system. It only looks.
pub trait Probe {
    /// What stands at a path, if anything.
    fn kind(&self, path: &RelPath) -> Result<Option<Kind>>;

    /// Everything directly in a folder; nothing if there is no such folder.
    fn list(&self, folder: &RelPath) -> Result<Vec<RelPath>>;

    /// Whether a path can be written without leaving the root's file system.
    fn mount(&self, path: &RelPath) -> Result<Mount>;

    /// Whether names that differ only in case are the same name in this folder (`None`: the root).
    fn folds(&self, folder: Option<&RelPath>) -> Result<bool>;
}

/// The real folder.
pub struct RootProbe<'a>(pub &'a Root);

impl Probe for RootProbe<'_> {
    fn kind(&self, path: &RelPath) -> Result<Option<Kind>> {
        match self.0.stat(path) {
            Ok(meta) => Ok(meta.map(|meta| meta.kind)),
            // Below a link there is nothing that is ours.
            Err(error) if is_loop(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self, folder: &RelPath) -> Result<Vec<RelPath>> {
        if self.kind(folder)? != Some(Kind::Directory) {
            return Ok(Vec::new());
        }
        let names = self.0.list(Some(folder))?;
        let joined = names.iter().map(|(name, _)| folder.join(name));
        joined
            .collect::<Result<_, _>>()
            .map_err(|error| rappel_store::Error::Damaged(error.to_string()).into())
    }

    fn mount(&self, path: &RelPath) -> Result<Mount> {
        Ok(self.0.mount_at(path)?)
    }

    fn folds(&self, folder: Option<&RelPath>) -> Result<bool> {
        // Asking without writing: a name that exists, spelled in the other case.
        let mut at = folder.cloned();
        loop {
            let exists = match &at {
                Some(path) => self.kind(path)? == Some(Kind::Directory),
                None => true,
            };
            if exists && let Some(answer) = self.folds_here(at.as_ref())? {
                return Ok(answer);
            }
            match at {
                Some(path) => at = path.parent(),
                None => return Ok(false),
            }
        }
    }
}

/// The real folder as it will be when something in it is gone that this plan has nothing to do with.
pub struct WithoutProbe<'a> {
    /// The folder.
    pub root: RootProbe<'a>,
    /// What will be gone by then.
    pub gone: BTreeSet<RelPath>,
}

impl Probe for WithoutProbe<'_> {
    fn kind(&self, path: &RelPath) -> Result<Option<Kind>> {
        if self.gone.contains(path) { Ok(None) } else { self.root.kind(path) }
    }

    fn list(&self, folder: &RelPath) -> Result<Vec<RelPath>> {
        let mut found = self.root.list(folder)?;
        found.retain(|path| !self.gone.contains(path));
        Ok(found)
    }

    fn mount(&self, path: &RelPath) -> Result<Mount> {
        self.root.mount(path)
    }

    fn folds(&self, folder: Option<&RelPath>) -> Result<bool> {
        self.root.folds(folder)
    }
}

impl RootProbe<'_> {
    /// Whether a folder folds its names; `None` if no name in it can tell.
    fn folds_here(&self, folder: Option<&RelPath>) -> Result<Option<bool>> {
        let names = self.0.list(folder)?;
        for (name, _) in &names {
            let Some(swapped) = other_case(name) else { continue };
            if names.iter().any(|(other, _)| *other == swapped) {
                return Ok(Some(false));
            }
            let path = match folder {
                Some(folder) => folder.join(&swapped),
                None => RelPath::new(swapped),
            };
            if let Ok(path) = path {
                return Ok(Some(self.kind(&path)?.is_some()));
            }
        }
        Ok(None)
    }
}

/// Whether an error says that a symbolic link stands in the way.
pub(super) fn is_loop(error: &rappel_store::Error) -> bool {
    const LOOP: i32 = rustix::io::Errno::LOOP.raw_os_error();
    matches!(error, rappel_store::Error::Io { source, .. } if source.raw_os_error() == Some(LOOP))
}
