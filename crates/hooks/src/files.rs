//! Files of the user's and of an agent's, changed with care: whole or not at all, durable, and only
//! if nobody else changed them in between.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why a file is not changed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not UTF-8.
    #[error("{} is no text in UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// Nobody may write to it.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// A link that leads nowhere.
    #[error("{} is a link to a file that does not exist", path.display())]
    Dangling {
        /// The link.
        path: PathBuf,
    },
    /// Another process of ours is at it.
    #[error("another `rappel integrate` is at work")]
    Locked,
    /// Another program writes to it again and again.
    #[error("{} changes all the time", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
}

impl FileError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// A result about a file.
pub type Result<T, E = FileError> = std::result::Result<T, E>;

/// The mode of a new file in the user's folders; the umask takes away from it.
pub const ORDINARY: u32 = 0o666;
/// The mode of a new file in Rappel's home.
pub const PRIVATE: u32 = 0o600;

/// How often a file is read again that another program changed.
const TRIES: usize = 5;

/// Opens a file to read it. A pipe would be waited for without end, and a device has no end: only
/// what is a file once it is open will do.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a file")),
    }
}

/// A file's text; nothing if there is no file.
pub fn read(path: &Path) -> Result<Option<String>> {
    let mut bytes = Vec::new();
    match open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(FileError::NotText { path: path.to_owned() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.is_symlink() {
            true => Err(FileError::Dangling { path: path.to_owned() }),
            false => Ok(None),
        },
        Err(error) => Err(FileError::io("read", path)(error)),
    }
}

/// Makes of a file's text what `change` makes of it; `None` is a file that is not there, and `mode`
/// is for a new one. Tells whether that is something else. What `change` decides about is what it
/// changes: it is asked again if another program wrote in between.
pub fn update<E: From<FileError>>(
    path: &Path,
    mode: u32,
    mut change: impl FnMut(Option<&str>) -> Result<Option<String>, E>,
) -> Result<bool, E> {
    remove_litter(path);
    for _ in 0..TRIES {
        let before = read(path)?;
        let after = change(before.as_deref())?;
        if before == after {
            return Ok(false);
        }
        if put(path, mode, before.as_deref(), after.as_deref())? {
            return Ok(true);
        }
    }
    Err(FileError::Busy { path: path.to_owned() }.into())
}

/// Replaces what is expected to be there. Tells whether it was there.
fn put(path: &Path, mode: u32, before: Option<&str>, after: Option<&str>) -> Result<bool> {
    // Where a link leads is what the user means by it; the link stays.
    let path = &match before {
        Some(_) => fs::canonicalize(path).map_err(FileError::io("find", path))?,
        None => path.to_owned(),
    };
    let permissions = match before {
        Some(_) => Some(fs::metadata(path).map_err(FileError::io("look at", path))?.permissions()),
        None => None,
    };
    if permissions.as_ref().is_some_and(fs::Permissions::readonly) {
        return Err(FileError::ReadOnly { path: path.clone() });
    }
    let folder = path.parent().unwrap_or(path);
    let Some(after) = after else {
        if read(path)?.as_deref() != before {
            return Ok(false);
        }
        fs::remove_file(path).map_err(FileError::io("remove", path))?;
        return sync_folder(folder).map(|()| true);
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.{:016x}.tmp", rappel::ambient::random()));
    let replaced = write_new(&beside, after, mode, permissions).and_then(|_locked| {
        if read(path)?.as_deref() != before {
            return Ok(false);
        }
        fs::rename(&beside, path).map_err(FileError::io("replace", path)).map(|()| true)
    });
    if !matches!(replaced, Ok(true)) {
        let _ = fs::remove_file(&beside);
        return replaced;
    }
    sync_folder(folder).map(|()| true)
}

/// Removes what processes that were killed in the middle of writing left beside a file. A living one holds a lock.
pub fn remove_litter(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let start = format!(".{}.", name.to_string_lossy());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let random = found.to_str().and_then(|it| it.strip_prefix(&start)?.strip_suffix(".tmp"));
        let is_ours = random
            .is_some_and(|it| it.len() == 16 && it.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let is_free = || {
            let path = entry.path();
            // A link has no lock of its own, and is there for a moment only.
            path.is_symlink() || open(&path).is_ok_and(|file| file.try_lock().is_ok())
        };
        if is_ours && is_free() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The new file is locked as long as what comes back lives.
pub fn write_new(
    path: &Path,
    text: &str,
    mode: u32,
    permissions: Option<fs::Permissions>,
) -> Result<File> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.lock()?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(file)
    };
    write().map_err(FileError::io("write", path))
}

fn sync_folder(path: &Path) -> Result<()> {
    let sync = File::open(path).and_then(|folder| folder.sync_all());
    sync.map_err(FileError::io("sync", path))
}

/// Of a folder and those above it, the ones that are not there, outermost first. What is there and
/// is no folder is in the way.
pub fn missing_folders(path: &Path) -> Result<Vec<PathBuf>> {
    let missing = path.ancestors().take_while(|folder| !folder.is_dir());
    let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    missing.reverse();
    match missing.first().filter(|folder| folder.symlink_metadata().is_ok()) {
        Some(other) => Err(FileError::io("create", other)(io::ErrorKind::AlreadyExists.into())),
        None => Ok(missing),
    }
}

/// Makes a folder, with those above it. Returns the ones that were not there, outermost first.
pub fn make_folder(path: &Path) -> Result<Vec<PathBuf>> {
    let missing = missing_folders(path)?;
    for folder in &missing {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            other => other.map_err(FileError::io("create", folder))?,
        }
        if let Some(above) = folder.parent() {
            sync_folder(above)?;
        }
    }
    Ok(missing)
}

/// Removes a folder if nothing is in it. Tells whether it is gone.
pub fn remove_if_empty(path: &Path) -> Result<bool> {
    use io::ErrorKind::{DirectoryNotEmpty, NotFound};
    match fs::remove_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == NotFound => Ok(true),
        Err(error) if error.kind() == DirectoryNotEmpty => Ok(false),
        Err(error) => Err(FileError::io("remove", path)(error)),
    }
}
