//! Contents of a checkpoint for whoever writes it somewhere: read out of the store when they are wanted.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use rappel_formats::portable;
use rappel_store::Store;
use rappel_store::content::ChunkList;
use rappel_store::sink::Source;
use rappel_types::{Content, ObjectId};

/// A file of a tree.
pub(super) struct Stored {
    pub(super) store: Arc<Store>,
    pub(super) content: Content,
    pub(super) size: u64,
}

impl portable::Content for Stored {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        let chunks = match &self.content {
            Content::Whole(id) => vec![*id],
            Content::Chunked(id) => {
                let list = ChunkList::load(&*self.store, id).map_err(io::Error::other)?;
                list.0.into_iter().map(|chunk| chunk.id).collect()
            }
        };
        Ok(Box::new(Chunks { source: &*self.store, rest: chunks.into_iter(), now: None, at: 0 }))
    }

    fn len(&self) -> u64 {
        self.size
    }
}

/// Chunk after chunk.
struct Chunks<'a> {
    source: &'a dyn Source,
    rest: std::vec::IntoIter<ObjectId>,
    now: Option<Arc<[u8]>>,
    at: usize,
}

impl Read for Chunks<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let rest = self.now.as_ref().map_or(&[][..], |now| &now[self.at..]);
            if !rest.is_empty() {
                let count = rest.len().min(out.len());
                out[..count].copy_from_slice(&rest[..count]);
                self.at += count;
                return Ok(count);
            }
            let Some(next) = self.rest.next() else { return Ok(0) };
            self.now = Some(self.source.get(&next).map_err(io::Error::other)?);
            self.at = 0;
        }
    }
}

type Make = Box<dyn Fn(&mut File) -> io::Result<()> + Send + Sync>;

/// What has to be put together first: into a file without a name, once, when somebody wants it.
pub(super) struct Made {
    make: Make,
    /// How long it will be, where that is known before.
    length: Option<u64>,
    store: Arc<Store>,
    ready: OnceLock<Result<(File, u64), String>>,
}

impl Made {
    /// `make` writes it from the beginning.
    pub(super) fn new(
        store: &Arc<Store>,
        length: Option<u64>,
        make: impl Fn(&mut File) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { make: Box::new(make), length, store: store.clone(), ready: OnceLock::new() }
    }

    fn get(&self) -> Result<&(File, u64), &String> {
        let made = self.ready.get_or_init(|| {
            let make = || -> io::Result<(File, u64)> {
                let folder = scratch(&self.store)?;
                let mut file = tempfile::tempfile_in(folder)?;
                (self.make)(&mut file)?;
                file.flush()?;
                let length = file.seek(SeekFrom::End(0))?;
                Ok((file, length))
            };
            make().map_err(|error| error.to_string())
        });
        made.as_ref()
    }
}

impl portable::Content for Made {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        let (file, _) = self.get().map_err(|error| io::Error::other(error.clone()))?;
        Ok(Box::new(FromStart { file, at: 0 }))
    }

    fn len(&self) -> u64 {
        // One that cannot be made says why when it is opened.
        self.length.unwrap_or_else(|| self.get().map_or(0, |(_, length)| *length))
    }
}

struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(out, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Where unfinished things may lie: a folder of the home that may be deleted at any time.
pub(crate) fn scratch(store: &Store) -> io::Result<std::path::PathBuf> {
    let folder = store.home().cache();
    rappel_store::disk::create_dir(&**store.disk(), &folder).map_err(io::Error::other)?;
    Ok(folder)
}
