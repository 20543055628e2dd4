//! Who has a database open, as far as this machine tells.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rappel_store::held;
use rustix::fs::{AtFlags, Dir, statat};

/// A process that has the database open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Holder {
    pub pid: u32,
    pub name: String,
}

/// The other processes that have the file at `path` open.
///
/// Not guaranteed: processes of other users, of other containers, and all processes where there is
/// no `/proc`, are not seen.
pub(super) fn list(path: &Path) -> BTreeSet<Holder> {
    let mut found = BTreeSet::new();
    let Ok(file) = std::fs::metadata(path) else { return found };
    let Ok(processes) = std::fs::read_dir("/proc") else { return found };
    let own = std::process::id();
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let folder = process.path();
        let Ok(handles) = held::open(folder.join("fd")) else { continue };
        let Ok(names) = Dir::read_from(&handles) else { continue };
        let holds = names.flatten().any(|name| {
            statat(&handles, name.file_name(), AtFlags::empty())
                .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (file.dev(), file.ino()))
        });
        if holds && pid != own {
            let name = held::read_to_string(folder.join("comm")).unwrap_or_default();
            found.insert(Holder { pid, name: name.trim_end().into() });
        }
    }
    found
}

/// The same in words, to be put behind a sentence; empty if nobody is seen.
pub(super) fn of(path: &Path) -> String {
    let names: Vec<String> =
        list(path).iter().map(|holder| format!("{} (pid {})", holder.name, holder.pid)).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("; it is open in {}", names.join(", ")),
    }
}
