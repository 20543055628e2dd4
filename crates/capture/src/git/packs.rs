//! Whether git's packs are whole. A pack never changes once it is written, so one that does not
//! look as it did is read: each ends with a checksum of all its bytes. Not guaranteed: damage that
//! leaves size and times as they were is not noticed here; only `git fsck` reads everything.

use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gix_index::hash::{Kind, ObjectId as Oid, hasher};
use rappel_store::held;
use serde::{Deserialize, Serialize};

use crate::files::stamp::Stamp;

/// A capture reads so much of packs that look different, and leaves larger ones to restores: git
/// itself gives an old pack a new time when it finds an object in it that it was about to write.
pub const BUDGET: u64 = 64 << 20;

/// A file of packs as it was when it was known to be whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackFile {
    /// Its name in `objects/pack`.
    pub name: String,
    /// What stat said of it.
    pub stamp: Stamp,
}

/// What a look at the packs gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Packs {
    /// What may be believed next time.
    pub known: Vec<PackFile>,
    /// The files that are not whole, by name.
    pub spoilt: Vec<String>,
}

/// Looks at the packs of a repository. Those that are as in `known` are not read; of the others, as
/// many as `budget` allows.
pub fn look(common_dir: &Path, hash: Kind, known: &[PackFile], budget: u64) -> Packs {
    let folder = common_dir.join("objects/pack");
    let mut found = Packs::default();
    let mut left = budget;
    let listed = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        listed.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let is_there = |name: &str| names.binary_search_by(|one| one.as_str().cmp(name)).is_ok();
    for name in &names {
        let Some((stem, end @ ("pack" | "idx"))) = name.rsplit_once('.') else { continue };
        let path = folder.join(name);
        let Ok(stat) = rustix::fs::stat(&path) else { continue };
        let stamp = Stamp::of(&stat);
        let before = known.iter().find(|one| one.name == *name);
        let whole = match before {
            _ if end == "idx" && !is_there(&format!("{stem}.pack")) => false,
            Some(one) if one.stamp == stamp => true,
            Some(one) if stamp.size > left => {
                // It was not read, so it is not known yet.
                found.known.push(one.clone());
                continue;
            }
            Some(_) => {
                left -= stamp.size;
                is_intact(&path, hash.len_in_bytes())
            }
            // Git wrote it since, and has just read what it packed.
            None => end == "pack" || fit_together(&path, hash.len_in_bytes()),
        };
        match whole {
            true => found.known.push(PackFile { name: name.clone(), stamp }),
            false => {
                found.known.extend(before.cloned());
                found.spoilt.push(name.clone());
            }
        }
    }
    found
}

/// Whether a pack or the index of one ends with the checksum of all that comes before. Takes as
/// long as it takes to read it.
pub fn is_intact(path: &Path, width: usize) -> bool {
    let kind = if width == 32 { Kind::Sha256 } else { Kind::Sha1 };
    let read = || -> std::io::Result<bool> {
        let mut file = held::open(path)?;
        let size = file.metadata()?.len();
        let Some(mut left) = size.checked_sub(width as u64) else { return Ok(false) };
        let mut hasher = hasher(kind);
        let mut buffer = vec![0; 256 << 10];
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = file.read(&mut buffer[..most])?;
            if read == 0 {
                return Ok(false);
            }
            hasher.update(&buffer[..read]);
            left -= read as u64;
        }
        let mut said = vec![0; width];
        file.read_exact(&mut said)?;
        Ok(hasher.try_finalize().is_ok_and(|found| found.as_bytes() == said))
    };
    read().unwrap_or(false)
}

/// Whether a pack begins as packs do and ends as its index says. What is between is not read.
pub fn fit_together(index: &Path, width: usize) -> bool {
    let ends = |path: &Path, from_end: usize| -> std::io::Result<([u8; 4], Vec<u8>)> {
        let (mut begin, mut name) = ([0; 4], vec![0; width]);
        let file = held::open(path)?;
        let end = file.metadata()?.len().saturating_sub(from_end as u64);
        file.read_exact_at(&mut begin, 0)?;
        file.read_exact_at(&mut name, end)?;
        Ok((begin, name))
    };
    match (ends(&index.with_extension("pack"), width), ends(index, 2 * width)) {
        (Ok((begin, name)), Ok((magic, said))) => {
            // Indexes of the first version begin with a table that begins with a small number.
            begin == *b"PACK" && (magic == *b"\xfftOc" || magic[0] == 0) && name == said
        }
        _ => false,
    }
}

/// Whether an object lies in a file of its own that does not begin as such files do: empty, or
/// zeros, as a power loss leaves it.
pub fn is_torn(common_dir: &Path, oid: &Oid) -> bool {
    let hex = oid.to_string();
    let path = common_dir.join("objects").join(&hex[..2]).join(&hex[2..]);
    let begin = || -> std::io::Result<bool> {
        let file = held::open(&path)?;
        if !file.metadata()?.is_file() {
            return Ok(false);
        }
        let mut begin = [0; 2];
        file.read_exact_at(&mut begin, 0)?;
        // What zlib begins with.
        Ok(begin[0] & 0x0f == 8 && u16::from_be_bytes(begin) % 31 == 0)
    };
    match begin() {
        Ok(begins) => !begins,
        Err(error) => {
            matches!(error.kind(), std::io::ErrorKind::UnexpectedEof)
                || path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
        }
    }
}

/// In words.
pub fn told(spoilt: &[String]) -> String {
    let first = spoilt.first().map_or("", String::as_str);
    match spoilt.len() {
        1 => format!("{first} is damaged, and git may not be able to read what is in it"),
        more => format!(
            "{first} and {} more files of packs are damaged, and git may not be able to read what is \
             in them",
            more - 1
        ),
    }
}
