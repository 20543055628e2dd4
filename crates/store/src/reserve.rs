//! Space set aside, so that what gives space back works on a full disk.

use rustix::fs::{FallocateFlags, fallocate};

use crate::disk::{self, DiskFile, Op};
use crate::error::{Error, Result};
use crate::pack;
use crate::store::Store;

/// How much is set aside.
const RESERVE: u64 = 16 << 20;
/// The reserve is made only where this much stays free beside it.
const ROOM: u64 = 64 << 20;

impl Store {
    /// Runs `work`; if the disk is full, gives up the reserve and runs it again.
    pub(crate) fn with_reserve<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if error.is_no_space() && self.release_reserve()? => work(),
            other => other,
        }
    }

    fn release_reserve(&self) -> Result<bool> {
        let path = self.home.reserve();
        if !path.exists() {
            return Ok(false);
        }
        disk::unlink(&*self.disk, &path)?;
        Ok(true)
    }

    /// Sets the reserve aside if the home is large enough to want one and the disk has the room.
    /// Not for the hot path.
    pub fn tend_reserve(&self) -> Result<()> {
        let path = self.home.reserve();
        if path.exists() || self.size()? <= self.limits.reserve_from {
            return Ok(());
        }
        if self.home.free_space()? < RESERVE + ROOM {
            return Ok(());
        }
        let file = DiskFile::create_new(&self.disk, &path)?;
        let allocate = || -> std::io::Result<()> {
            self.disk.gate(&Op::Write { path: &path, offset: 0, bytes: &[] })?;
            Ok(fallocate(file.file(), FallocateFlags::empty(), 0, RESERVE)?)
        };
        match allocate() {
            Ok(()) => file.sync(),
            // A reserve that takes no space is none; the home works without.
            Err(_) => disk::unlink(&*self.disk, &path),
        }
    }

    /// What the packs take on the disk.
    pub fn size(&self) -> Result<u64> {
        let packs = self.home.packs();
        let mut size = 0;
        for pack in pack::list(&packs)? {
            let path = pack.path(&packs);
            match path.metadata() {
                Ok(meta) => size += meta.len(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("read", &path)(error)),
            }
        }
        Ok(size)
    }
}
