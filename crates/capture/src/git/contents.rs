//! Reading git's folder: what the memo does not vouch for.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_store::content;
use rappel_store::held::{self, Handle};
use rappel_store::sink::Sink;
use rappel_types::manifest::{Facet, PartialReason};
use rappel_types::{Content, Node, RelPath};

use super::capture::Work;
use super::folder::{self, Item, Role};
use super::memo::{self, Base, Remembered, RepositoryMemo};
use super::place::Place;
use crate::error::{Error, Result};
use crate::files::stamp::{Kind, Stamp, Trust};

/// The files of git's folder as they are now.
pub(super) struct Contents {
    pub(super) items: Vec<Remembered>,
    /// The bytes of what was read for this.
    pub(super) bytes: HashMap<RelPath, Vec<u8>>,
    /// Large ones that are still to be stored, and against what: there is time for it while git works.
    pub(super) pending: Vec<(RelPath, Option<Content>)>,
    pub(super) changed: bool,
}

impl Contents {
    /// Stores what is pending.
    pub(super) fn store(&self, sink: &dyn Sink) -> Result<()> {
        for (path, former) in &self.pending {
            let Some(bytes) = self.bytes.get(path) else { continue };
            content::store(sink, &mut &**bytes, bytes.len() as u64, former.as_ref())?;
        }
        Ok(())
    }
}

impl Work<'_> {
    /// Reads what the memo does not vouch for.
    pub(super) fn read(
        &mut self,
        place: &Place,
        items: Vec<Item>,
        known: Option<&RepositoryMemo>,
    ) -> Result<Contents> {
        let dir = held::open(&place.common_dir).map_err(Error::io("open", &place.common_dir))?;
        let trust = Trust::start(&dir).map_err(Error::io("look at", &place.common_dir))?;
        let old: HashMap<&RelPath, &Remembered> = known
            .iter()
            .flat_map(|known| &known.items)
            .map(|remembered| (&remembered.path, remembered))
            .collect();
        let mut read = Contents {
            items: Vec::new(),
            bytes: HashMap::new(),
            pending: Vec::new(),
            changed: false,
        };
        for Item { path, stamp } in items {
            let before = old.get(&path).copied();
            let believed = trust.believes(&stamp);
            if let Some(old) = before.filter(|old| old.believed && old.stamp == stamp) {
                read.items.push(Remembered { believed, ..old.clone() });
                continue;
            }
            let (former, mut base) = before.map(Remembered::bases).unwrap_or_default();
            let node = self.read_one(place, &path, &stamp, former.as_ref(), &mut read)?;
            let Some(node) = node else { continue };
            match (&node, before) {
                (_, Some(old)) if old.node == node => base.clone_from(&old.base),
                (Node::File { size, content, .. }, _) if base.is_none() && *size >= memo::LARGE => {
                    base = Some(Base { content: *content, uses: 0 });
                }
                _ => {}
            }
            read.changed |= before.is_none_or(|old| old.node != node);
            read.items.push(Remembered { path, stamp, believed, node, base });
        }
        read.changed |= read.items.len() != old.len();
        Ok(read)
    }

    fn read_one(
        &mut self,
        place: &Place,
        path: &RelPath,
        stamp: &Stamp,
        former: Option<&Content>,
        read: &mut Contents,
    ) -> Result<Option<Node>> {
        let full = place.common_dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        let mode = stamp.permissions();
        match stamp.kind() {
            Kind::Folder => return Ok(Some(Node::Directory { mode })),
            Kind::Symlink => {
                let target = std::fs::read_link(&full).ok();
                return Ok(target.map(|target| Node::Symlink {
                    target: target.as_os_str().as_bytes().to_vec(),
                }));
            }
            _ => {}
        }
        let opened = open_quietly(&full);
        let mut file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.moved = true;
                return Ok(None);
            }
            Err(error) => {
                self.partial.push(PartialReason {
                    facet: Facet::Git,
                    path: None,
                    database: None,
                    reason: format!("{path} in git's folder: {error}"),
                });
                return Ok(None);
            }
            Ok(file) => file,
        };
        let is_text = folder::role(path.as_bytes()) != Role::LargeFile && stamp.size < 64 << 20;
        let (content, size) = if is_text {
            let mut bytes = Vec::with_capacity(stamp.size as usize + 1);
            file.read_to_end(&mut bytes).map_err(Error::io("read", &full))?;
            let stored = match stamp.size < memo::LARGE {
                true => content::store(self.sink, &mut &*bytes, stamp.size, former)?,
                false => {
                    read.pending.push((path.clone(), former.copied()));
                    content::identify(&mut &*bytes, stamp.size)?
                }
            };
            read.bytes.insert(path.clone(), bytes);
            stored
        } else {
            content::store(self.sink, &mut file, stamp.size, former)?
        };
        let after = rustix::fs::fstat(&file).map(|stat| Stamp::of(&stat));
        self.moved |= after.ok() != Some(*stamp);
        Ok(Some(Node::File { mode, size, content }))
    }
}

/// Opens a file without leaving a trace where that is permitted.
fn open_quietly(path: &Path) -> std::io::Result<Handle> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = |flags: OFlags| {
        Handle::open(File::options().read(true).custom_flags(flags.bits().cast_signed()), path)
    };
    #[cfg(target_os = "linux")]
    if let Ok(file) = open(flags | OFlags::NOATIME) {
        return Ok(file);
    }
    open(flags)
}
