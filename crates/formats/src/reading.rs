//! What the readers of folders share: files of a folder that is not ours, opened without following
//! a link, and bounded.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use rappel_store::beneath::{Kind, Root};
use rappel_store::disk::RealDisk;
use rappel_types::RelPath;
use serde_json::Value;

use crate::portable::Content;
use crate::{Error, Result};

/// A folder of somebody else's.
#[derive(Clone)]
pub(crate) struct Foreign {
    root: Arc<Root>,
}

impl Foreign {
    /// Opens it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self { root: Arc::new(Root::open(path, Arc::new(RealDisk))?) })
    }

    /// The names in it or in a folder below it, sorted.
    pub(crate) fn list(&self, folder: Option<&RelPath>) -> Result<Vec<(Vec<u8>, Kind)>> {
        Ok(self.root.list(folder)?)
    }

    /// The bytes of a file of at most `most` bytes; `None` if nothing is there.
    pub(crate) fn bytes(&self, path: &RelPath, most: u64) -> Result<Option<Vec<u8>>, String> {
        let Some(meta) = self.root.stat(path).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        if meta.size > most {
            return Err(format!("{path} has {} bytes, more than {most}", meta.size));
        }
        let file = self.root.open_file(path).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        let read = file.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("cannot read {path}: {error}"))?;
        if bytes.len() as u64 > most {
            return Err(format!("{path} has more than {most} bytes"));
        }
        Ok(Some(bytes))
    }

    /// A file as JSON; `None` if nothing is there.
    pub(crate) fn json(&self, path: &RelPath, most: u64) -> Result<Option<Value>, String> {
        let Some(bytes) = self.bytes(path, most)? else { return Ok(None) };
        let parsed = crate::files::parse(&bytes);
        parsed.map(Some).map_err(|error| format!("{path} is no JSON: {error}"))
    }

    /// A file, to be read later; `None` if nothing is there.
    pub(crate) fn content(&self, path: &RelPath) -> Result<Option<ForeignFile>, String> {
        let Some(meta) = self.root.stat(path).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        if meta.kind != Kind::File {
            return Err(format!("{path} is no regular file"));
        }
        let root = self.root.clone();
        Ok(Some(ForeignFile { root, path: path.clone(), len: meta.size, mode: meta.mode }))
    }
}

/// A file of a foreign folder.
pub(crate) struct ForeignFile {
    root: Arc<Root>,
    path: RelPath,
    len: u64,
    /// Its permission bits.
    pub(crate) mode: u32,
}

impl Content for ForeignFile {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        let file = self.root.open_file(&self.path).map_err(io::Error::other)?;
        Ok(Box::new(file.take(self.len)))
    }

    fn len(&self) -> u64 {
        self.len
    }
}

/// A path that is written in this source.
pub(crate) fn known(path: &str) -> Result<RelPath> {
    RelPath::new(path)
        .map_err(|error| Error::Refused { path: path.into(), reason: error.reason.to_owned() })
}

/// The text under a key, if it is one that says something.
pub(crate) fn text(json: &Value, key: &str) -> Option<String> {
    json.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The texts of a list under a key.
pub(crate) fn texts(json: &Value, key: &str) -> Vec<String> {
    let list = json.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// The paths of a list under a key; what is no path is passed over.
pub(crate) fn paths(json: &Value, key: &str) -> Vec<RelPath> {
    texts(json, key).iter().filter_map(|text| text.parse().ok()).collect()
}
