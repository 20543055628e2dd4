//! Contents that had to be unpacked: one file in the scratch folder of a reading. Equal ones of up
//! to 1 MiB are there once, however many checkpoints hold them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_store::sink::id_of;
use rappel_types::ObjectId;

use crate::portable::Content;

/// Contents up to this size are compared with those that are there.
const COMPARED: u64 = 1 << 20;

/// See the module.
pub struct Spool {
    path: PathBuf,
    file: Option<Arc<File>>,
    end: u64,
    known: HashMap<ObjectId, (u64, u64)>,
}

impl Spool {
    /// One in a scratch folder. Nothing is written before there is something to write.
    pub fn new(scratch: &Path) -> Self {
        let path = scratch.join(format!("contents-{:016x}", rappel_store::ambient::random()));
        Self { path, file: None, end: 0, known: HashMap::new() }
    }

    /// Takes `size` bytes; a reader that ends before is an error.
    pub fn add(&mut self, from: &mut dyn Read, size: u64) -> io::Result<Arc<dyn Content>> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let options = File::options().read(true).write(true).create_new(true).clone();
                self.file.insert(Arc::new(options.open(&self.path)?)).clone()
            }
        };
        if size <= COMPARED {
            let mut bytes = Vec::with_capacity(size as usize);
            from.take(size).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let id = id_of(&bytes);
            let (offset, len) = match self.known.get(&id) {
                Some(known) => *known,
                None => {
                    file.write_all_at(&bytes, self.end)?;
                    let place = (self.end, size);
                    self.end += size;
                    self.known.insert(id, place);
                    place
                }
            };
            return Ok(Arc::new(Spooled { file, offset, len }));
        }
        let offset = self.end;
        let mut buffer = vec![0; 256 << 10];
        let mut left = size;
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = from.read(&mut buffer[..most])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.write_all_at(&buffer[..read], self.end)?;
            self.end += read as u64;
            left -= read as u64;
        }
        Ok(Arc::new(Spooled { file, offset, len: size }))
    }
}

struct Spooled {
    file: Arc<File>,
    offset: u64,
    len: u64,
}

impl Content for Spooled {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(At { file: &self.file, offset: self.offset, left: self.len }))
    }

    fn len(&self) -> u64 {
        self.len
    }
}

struct At<'a> {
    file: &'a File,
    offset: u64,
    left: u64,
}

impl Read for At<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut out[..most], self.offset)?;
        self.offset += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}
