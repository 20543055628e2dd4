//! Objects that are not in a store and never will be, over those that are: what an export makes of a
//! checkpoint before it writes it out.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rappel_types::ObjectId;

use crate::ambient;
use crate::disk::{Disk, DiskFile, unlink};
use crate::error::{Error, Result};
use crate::sink::{Role, Sink, Source, id_of};
use crate::store::held;

/// New objects lie in a file without a name, so that neither memory nor a crash matters.
pub struct Overlay<'a> {
    below: &'a dyn Source,
    kept: Mutex<Kept>,
}

struct Kept {
    file: DiskFile,
    length: u64,
    places: HashMap<ObjectId, (u64, usize)>,
}

impl<'a> Overlay<'a> {
    /// An overlay over `below`, with its file in `folder`.
    pub fn over(below: &'a dyn Source, disk: &Arc<dyn Disk>, folder: &Path) -> Result<Self> {
        let path = folder.join(format!(".rappel-{:016x}.tmp", ambient::random()));
        let file = DiskFile::create_new(disk, &path)?;
        // A name that stays would be an empty file of nobody's.
        unlink(&**disk, &path).or_else(|_| unlink(&**disk, &path))?;
        Ok(Self { below, kept: Mutex::new(Kept { file, length: 0, places: HashMap::new() }) })
    }

    /// Whether an object is among the new ones.
    pub fn holds(&self, id: &ObjectId) -> bool {
        held(&self.kept).places.contains_key(id)
    }
}

impl Source for Overlay<'_> {
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        use std::os::unix::fs::FileExt;
        let kept = held(&self.kept);
        let Some((offset, length)) = kept.places.get(id).copied() else {
            drop(kept);
            return self.below.get(id);
        };
        let mut bytes = vec![0; length];
        let read = kept.file.file().read_exact_at(&mut bytes, offset);
        read.map_err(Error::io("read", kept.file.path()))?;
        match id_of(&bytes) == *id {
            true => Ok(bytes.into()),
            false => Err(Error::Damaged(format!("object {id} does not have its hash"))),
        }
    }
}

impl Sink for Overlay<'_> {
    fn put(&self, _role: Role, bytes: &[u8], _base: Option<&ObjectId>) -> Result<ObjectId> {
        let id = id_of(bytes);
        let mut kept = held(&self.kept);
        if !kept.places.contains_key(&id) {
            let at = kept.length;
            kept.file.write_at(bytes, at)?;
            kept.length += bytes.len() as u64;
            kept.places.insert(id, (at, bytes.len()));
        }
        Ok(id)
    }
}
