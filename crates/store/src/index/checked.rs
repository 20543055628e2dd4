//! A layer below SQLite that notices pages which are not as they were written.
//!
//! SQLite believes what it reads: a spoilt page can hide rows without any error. Each page of the
//! index therefore ends with a checksum of its content and its number, in bytes that SQLite leaves
//! to layers like this one ("reserved bytes"). Plain SQLite can read such a file; what it writes
//! there counts as spoilt. Pages in the write-ahead log have SQLite's own checksums, which it
//! compares when it opens the log.
//!
//! This module is the only one of the store with `unsafe` code: SQLite asks for such a layer through
//! pointers to functions. It takes SQLite's own layer and replaces three of its functions.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi::{
    SQLITE_ERROR, SQLITE_FCNTL_RESERVE_BYTES, SQLITE_FULL, SQLITE_IOERR_DATA, SQLITE_IOERR_SHMSIZE,
    SQLITE_IOERR_SHORT_READ, SQLITE_OK, SQLITE_OPEN_MAIN_DB, sqlite3_file, sqlite3_file_control,
    sqlite3_filename, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};
use rusqlite::{Connection, OpenFlags};

/// The length of a page.
const PAGE: usize = 1024;
/// The length of its checksum.
const CHECKSUM: usize = 8;
/// What SQLite knows the layer by.
const NAME: &CStr = c"rappel";

/// SQLite's own layer. It lives as long as the process.
struct Plain(*mut sqlite3_vfs);

// SAFETY: SQLite does not change the layer, and lets every thread use it.
unsafe impl Send for Plain {}
// SAFETY: as above.
unsafe impl Sync for Plain {}

static PLAIN: OnceLock<Option<Plain>> = OnceLock::new();

/// The functions of an open database file: SQLite's, and the same with ours among them.
struct Methods {
    plain: sqlite3_io_methods,
    checked: sqlite3_io_methods,
}

static METHODS: OnceLock<Methods> = OnceLock::new();

/// Opens a database whose pages are compared with their checksums.
pub(super) fn open(path: &std::path::Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    if PLAIN.get_or_init(register).is_none() {
        let error = rusqlite::ffi::Error::new(SQLITE_ERROR);
        let text = "SQLite has no layer of its own".to_owned();
        return Err(rusqlite::Error::SqliteFailure(error, Some(text)));
    }
    let connection = Connection::open_with_flags_and_vfs(path, flags, NAME)?;
    let mut reserved = CHECKSUM as c_int;
    // SAFETY: the handle is open, the name ends with a zero, and SQLite wants a pointer to an int.
    unsafe {
        let argument = (&raw mut reserved).cast::<c_void>();
        let main = c"main".as_ptr();
        sqlite3_file_control(connection.handle(), main, SQLITE_FCNTL_RESERVE_BYTES, argument);
    }
    // Only a database that is being created asks for it.
    connection.pragma_update(None, "page_size", PAGE as i64)?;
    Ok(connection)
}

/// Makes the layer known to SQLite.
fn register() -> Option<Plain> {
    // SAFETY: SQLite's default layer lives as long as the process; a copy of it that is leaked does
    // too. Its functions only use what the copy has as well.
    unsafe {
        let plain = sqlite3_vfs_find(std::ptr::null());
        if plain.is_null() {
            return None;
        }
        let mut copy = *plain;
        copy.pNext = std::ptr::null_mut();
        copy.zName = NAME.as_ptr();
        copy.xOpen = Some(open_file);
        let checked = Box::leak(Box::new(copy));
        (sqlite3_vfs_register(checked, 0) == SQLITE_OK).then_some(Plain(plain))
    }
}

/// Opens a file as SQLite does. Of databases, but not of their logs, the functions are replaced.
unsafe extern "C" fn open_file(
    _: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(Some(Plain(plain))) = PLAIN.get() else { return SQLITE_ERROR };
    // SAFETY: the arguments are those that SQLite gave, and its own function fills `file`.
    unsafe {
        let Some(open) = (**plain).xOpen else { return SQLITE_ERROR };
        let code = open(*plain, name, file, flags, out);
        if code != SQLITE_OK || flags & SQLITE_OPEN_MAIN_DB == 0 || (*file).pMethods.is_null() {
            return code;
        }
        let methods = METHODS.get_or_init(|| {
            let plain = *(*file).pMethods;
            let mut checked = plain;
            checked.xRead = Some(read);
            checked.xWrite = Some(write);
            checked.xShmMap = plain.xShmMap.map(|_| map_shared as _);
            checked.xFetch = plain.xFetch.map(|_| fetch as _);
            Methods { plain, checked }
        });
        (*file).pMethods = &raw const methods.checked;
        SQLITE_OK
    }
}

/// Reads, and compares every page but for the parts of the first that SQLite looks at before it has
/// a lock.
unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    to: *mut c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    let Some(plain) = METHODS.get().and_then(|methods| methods.plain.xRead) else {
        return SQLITE_ERROR;
    };
    let (Ok(wanted), Ok(start)) = (usize::try_from(length), usize::try_from(offset)) else {
        return SQLITE_IOERR_DATA;
    };
    // SAFETY: `to` has room for `length` bytes, `page` for a page.
    unsafe {
        if start + wanted <= PAGE && wanted < PAGE {
            return plain(file, to, length, offset);
        }
        let within = start % PAGE;
        if within + wanted > PAGE {
            // Pages of another length.
            return SQLITE_IOERR_DATA;
        }
        let mut page = [0; PAGE];
        let code = plain(file, page.as_mut_ptr().cast(), PAGE as c_int, (start - within) as i64);
        if code == SQLITE_IOERR_SHORT_READ {
            // A new database is empty. Any other ends with a whole page.
            let empty = start == 0 && page == [0; PAGE];
            to.cast::<u8>().write_bytes(0, wanted);
            return if empty { code } else { SQLITE_IOERR_DATA };
        }
        if code == SQLITE_OK && !is_intact(&page, start / PAGE) {
            return SQLITE_IOERR_DATA;
        }
        to.cast::<u8>().copy_from_nonoverlapping(page[within..].as_ptr(), wanted);
        code
    }
}

/// Writes a page with its checksum.
unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    let Some(plain) = METHODS.get().and_then(|methods| methods.plain.xWrite) else {
        return SQLITE_ERROR;
    };
    let start = usize::try_from(offset).unwrap_or(1);
    if length != PAGE as c_int || !start.is_multiple_of(PAGE) {
        return SQLITE_IOERR_DATA;
    }
    let mut page = [0; PAGE];
    // SAFETY: `from` has `length` bytes, which is a page.
    unsafe {
        page.as_mut_ptr().copy_from_nonoverlapping(from.cast(), PAGE);
        let sum = checksum(&page, start / PAGE).to_le_bytes();
        page[PAGE - CHECKSUM..].copy_from_slice(&sum);
        plain(file, page.as_ptr().cast(), length, offset)
    }
}

/// Gives a page of a database that is mapped into memory.
unsafe extern "C" fn fetch(
    file: *mut sqlite3_file,
    offset: i64,
    length: c_int,
    page: *mut *mut c_void,
) -> c_int {
    let Some(Methods { plain, .. }) = METHODS.get() else { return SQLITE_ERROR };
    let (Some(fetch), Some(unfetch)) = (plain.xFetch, plain.xUnfetch) else { return SQLITE_ERROR };
    // SAFETY: where SQLite gives a page, `length` bytes can be read.
    unsafe {
        let code = fetch(file, offset, length, page);
        if code != SQLITE_OK || (*page).is_null() {
            return code;
        }
        let start = usize::try_from(offset).unwrap_or(1);
        let whole = length == PAGE as c_int && start.is_multiple_of(PAGE);
        if whole && is_intact(&*(*page).cast::<[u8; PAGE]>(), start / PAGE) {
            return SQLITE_OK;
        }
        unfetch(file, offset, *page);
        *page = std::ptr::null_mut();
        SQLITE_IOERR_DATA
    }
}

/// Gives a part of the memory that processes share beside the write-ahead log. Its file may have
/// holes: where the disk is full, writing there would end the process. So all of it is written to
/// once in a way that can fail.
unsafe extern "C" fn map_shared(
    file: *mut sqlite3_file,
    number: c_int,
    length: c_int,
    extend: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    let Some(map) = METHODS.get().and_then(|methods| methods.plain.xShmMap) else {
        return SQLITE_ERROR;
    };
    // SAFETY: where SQLite gives memory, it has `length` bytes, and only whole pages of memory are
    // mapped.
    unsafe {
        let code = map(file, number, length, extend, memory);
        if code == SQLITE_IOERR_SHMSIZE && is_full(&std::io::Error::last_os_error()) {
            return SQLITE_FULL;
        }
        if code != SQLITE_OK || (*memory).is_null() {
            return code;
        }
        match populate(*memory, usize::try_from(length).unwrap_or_default()) {
            Err(rustix::io::Errno::FAULT) => {
                *memory = std::ptr::null_mut();
                SQLITE_FULL
            }
            // Kernels before 5.14 do not know the question.
            _ => SQLITE_OK,
        }
    }
}

#[cfg(target_os = "linux")]
unsafe fn populate(memory: *mut c_void, length: usize) -> rustix::io::Result<()> {
    // SAFETY: the caller's memory is mapped and may be written to; nothing in it changes.
    unsafe { rustix::mm::madvise(memory, length, rustix::mm::Advice::LinuxPopulateWrite) }
}

#[cfg(not(target_os = "linux"))]
unsafe fn populate(_: *mut c_void, _: usize) -> rustix::io::Result<()> {
    Ok(())
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

fn is_intact(page: &[u8; PAGE], number: usize) -> bool {
    page[PAGE - CHECKSUM..] == checksum(page, number).to_le_bytes()
}

/// The checksum of a page without its own bytes. Each step can be undone. So a change within one word
/// of eight bytes never goes unnoticed, nor does another page's content; more does once in 2^64.
fn checksum(page: &[u8; PAGE], number: usize) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| {
        let sum = (sum ^ word).wrapping_mul(FACTOR);
        sum ^ (sum >> 32)
    };
    // Four sums at once: a processor works on them side by side.
    let mut sums: [u64; 4] = [1, 2, 3, 4];
    let (words, _) = page[..PAGE - CHECKSUM].as_chunks::<8>();
    let (rounds, rest) = words.as_chunks::<4>();
    for round in rounds {
        for (sum, word) in sums.iter_mut().zip(round) {
            *sum = mix(*sum, u64::from_le_bytes(*word));
        }
    }
    for (sum, word) in sums.iter_mut().zip(rest) {
        *sum = mix(*sum, u64::from_le_bytes(*word));
    }
    mix(sums.into_iter().fold(FACTOR, mix), number as u64)
}
