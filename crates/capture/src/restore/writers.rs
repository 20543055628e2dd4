//! Which files some process has open for writing, as far as we may know.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rappel_store::beneath::{Identity, Meta};
use rappel_store::held;
use rustix::fs::{AtFlags, Dir, statat};
use rustix::io::Errno;

/// Whether a process has a file open for writing, as far as `open_for_writing` can tell.
pub fn is_open_for_writing(file: Identity) -> bool {
    !open_for_writing(&HashSet::from([file])).is_empty()
}

/// Those of `files` that a process has open for writing.
///
/// Not guaranteed: processes of other users cannot be looked into, nor can mappings that outlived
/// their file; that is why content is compared once more before it is removed.
pub fn open_for_writing(files: &HashSet<Identity>) -> HashSet<Identity> {
    let mut found = HashSet::new();
    if files.is_empty() {
        return found;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return found };
    for process in processes.flatten() {
        if !process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let folder = process.path();
        let Ok(handles) = held::open(folder.join("fd")) else { continue };
        let Ok(names) = Dir::read_from(&handles) else { continue };
        for name in names.flatten() {
            let meta = match statat(&handles, name.file_name(), AtFlags::empty()) {
                Ok(stat) => Meta::from(&stat),
                // It is another user's, and so are all its handles.
                Err(Errno::ACCESS | Errno::PERM) => break,
                Err(_) => continue,
            };
            if !files.contains(&meta.identity) || found.contains(&meta.identity) {
                continue;
            }
            let number = OsStr::from_bytes(name.file_name().to_bytes());
            let info = held::read_to_string(folder.join("fdinfo").join(number));
            if info.is_ok_and(|info| is_writable(&info)) {
                found.insert(meta.identity);
            }
        }
    }
    found
}

/// Reads the access mode from a handle's description; one that cannot be read counts as a writer.
fn is_writable(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & 3 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_writer_is_told_from_a_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let writer = std::fs::File::create(&path).unwrap();
        let reader = std::fs::File::open(&path).unwrap();
        let meta = reader.metadata().unwrap();
        let identity = Identity { device: meta.dev(), inode: meta.ino() };
        let files = HashSet::from([identity]);
        assert_eq!(open_for_writing(&files), files);
        drop(writer);
        assert!(open_for_writing(&files).is_empty());
    }
}
