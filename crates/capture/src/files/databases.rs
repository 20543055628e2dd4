//! Telling databases of SQLite from other files.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::FileExt;

use rappel_store::held::HELD;
use rappel_types::RelPath;

use super::handle::Root;
use crate::databases::sqlite::{COMPANIONS, HEADER, MAGIC, companions_of, page_size};
use crate::restore::intent::staging_name;

/// Why a database that was asked for is not taken as a file.
pub(crate) const IN_USE: &str = "it is a SQLite database that a program works with, or that one left in the middle of its work; \
     replacing its file would mix two contents";

/// Whether `file`, which stands at `path`, is a database. One of which the end is missing is a file like any other, unless
/// somebody is just writing it.
pub(crate) fn is_one(root: &Root, path: &[u8], file: &File) -> bool {
    let mut head = [0; HEADER];
    file.read_exact_at(&mut head, 0).is_ok()
        && head.starts_with(MAGIC)
        && (has_all_pages(&head, file) || is_in_use(root, path))
}

/// Whether a file is as long as its header says.
fn has_all_pages(head: &[u8; HEADER], file: &File) -> bool {
    let number = |at: usize| {
        head[at..].first_chunk().map_or(0, |bytes: &[u8; 4]| u64::from(u32::from_be_bytes(*bytes)))
    };
    // Old programs count commits, but not pages.
    let (commits, counted_at, pages) = (number(24), number(92), number(28));
    let Some(size) = page_size(head) else { return false };
    let length = file.metadata().map_or(0, |meta| meta.len());
    length >= u64::from(size) && (commits != counted_at || pages * u64::from(size) <= length)
}

/// Whether a database stands at `path`. Nothing else is ever held.
pub(crate) fn is_at(root: &Root, path: &[u8]) -> bool {
    match root.open_file(path) {
        Ok(file) => is_one(root, path, &file),
        Err(error) => error == HELD,
    }
}

/// Whether `name` is that of a database which a restore puts together, or left when it crashed.
pub(crate) fn is_unfinished(name: &[u8]) -> bool {
    name.ends_with(b".sqlite") && staging_name(name).is_some()
}

/// Whether a file of that size is worth a look: databases consist of whole pages.
pub(crate) fn may_be_one(size: u64) -> bool {
    size >= 512 && size.is_multiple_of(512)
}

/// The name of the database that SQLite would keep a file called `name` for.
pub(crate) fn beside(name: &[u8]) -> Option<&[u8]> {
    COMPANIONS.iter().find_map(|suffix| name.strip_suffix(suffix.as_bytes()))
}

/// Whether the database at `path` cannot be understood without what lies beside it.
pub(crate) fn is_in_use(root: &Root, path: &[u8]) -> bool {
    COMPANIONS.iter().any(|suffix| {
        let beside = [path, suffix.as_bytes()].concat();
        if *suffix == "-journal" {
            // One that is over is empty, or its header is overwritten.
            let mut first = [0];
            return root.open_file(&beside).is_ok_and(|journal| {
                journal.read_at(&mut first, 0).is_ok_and(|read| read == 1) && first != [0]
            });
        }
        let Ok(beside) = CString::new(beside) else { return false };
        root.look(&beside).is_ok_and(|stamp| *suffix == "-shm" || stamp.size > 0)
    })
}

/// These databases and all that SQLite may keep beside them.
pub(crate) fn with_companions(databases: &[RelPath]) -> impl Iterator<Item = RelPath> {
    databases.iter().flat_map(|path| [path.clone()].into_iter().chain(companions_of(path)))
}
