//! The home: the folder where everything is kept, and whether it can be trusted with it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rappel_types::Timestamp;
use rustix::fs::statfs;

use crate::ambient;
use crate::disk::{self, Disk};
use crate::error::{Error, Result};
use crate::lock::Lock;
use crate::pack::{self, PackReader};

/// The version of the home's layout.
pub const FORMAT: u32 = 1;
/// How long to wait for another process that is just creating the same home.
const CREATE_LIMIT: Duration = Duration::from_secs(10);

/// The places inside a home.
#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
    /// A random number that its packs carry too.
    pub id: u64,
}

/// What kind of disk a home is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Footing {
    /// A local disk.
    Firm,
    /// Gone with the next restart, or with the container.
    Fleeting(&'static str),
}

impl Home {
    /// Opens the home at `root`, creating it if it is absent or empty.
    pub fn open(root: &Path, disk: &Arc<dyn Disk>, now: Timestamp) -> Result<Self> {
        disk::create_dir(&**disk, root)?;
        let meta = check(root)?;
        let format = root.join("format");
        let home = match std::fs::read_to_string(&format) {
            Ok(text) => Self { root: root.to_owned(), id: parse_format(&text, &format)? },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Self::create(root, disk, &format, now)?
            }
            Err(error) => return Err(Error::io("read", &format)(error)),
        };
        for folder in [home.packs(), home.intents(), home.restoring(), home.cache()] {
            disk::create_dir(&**disk, &folder)?;
        }
        if meta.mode() & 0o077 != 0 {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o700))
                .map_err(Error::io("set the mode of", root))?;
        }
        Ok(home)
    }

    /// A home that is there and cannot be written to.
    pub fn look(root: &Path) -> Result<Self> {
        check(root)?;
        let format = root.join("format");
        let text = std::fs::read_to_string(&format).map_err(Error::io("read", &format))?;
        Ok(Self { root: root.to_owned(), id: parse_format(&text, &format)? })
    }

    /// Refuses to write once a later version has made the home its own: this process may have opened
    /// it long before.
    pub(crate) fn check_format(&self) -> Result<()> {
        let format = self.root.join("format");
        match std::fs::read_to_string(&format) {
            Ok(text) => parse_format(&text, &format).map(drop),
            // It is made again by whoever opens the home next.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io("read", &format)(error)),
        }
    }

    fn create(root: &Path, disk: &Arc<dyn Disk>, format: &Path, now: Timestamp) -> Result<Self> {
        let mut names = std::fs::read_dir(root).map_err(Error::io("list", root))?;
        let ours = [
            "format",
            "packs",
            "intents",
            "restoring",
            "saving",
            "cache",
            "lock",
            "readers",
            "retention",
            "watch",
            "gc",
            "reserve",
            "token",
            "trust",
            "hooks",
            "integrations",
            "importing",
        ];
        let foreign = names.find_map(|name| {
            let name = name.ok()?.file_name().to_string_lossy().into_owned();
            let half_made = ours.contains(&name.as_str())
                || name.starts_with("index.db")
                || Path::new(&name).extension().is_some_and(|end| end == "tmp");
            (!half_made).then_some(name)
        });
        // Another process may have made the home since we looked for its name.
        if let Some(name) = foreign.filter(|_| !format.exists()) {
            return Err(Error::Unsuitable {
                path: root.to_owned(),
                reason: format!("it is not empty and not a home (it holds {name:?})"),
            });
        }
        // One process names the home; the others find it named.
        let mut lock = Lock::acquire(&root.join("lock"), &CREATE_LIMIT.into(), now)?;
        if let Ok(text) = std::fs::read_to_string(format) {
            return Ok(Self { root: root.to_owned(), id: parse_format(&text, format)? });
        }
        for folder in ["packs", "intents", "restoring", "cache"] {
            disk::create_dir(&**disk, &root.join(folder))?;
        }
        // A home that lost this file keeps the name that its packs know.
        let known = name_in_packs(&root.join("packs"))?;
        let id = known.unwrap_or_else(ambient::random);
        if known.is_none() {
            lock.set_begun(id);
        }
        disk::replace(disk, format, format!("rappel {FORMAT}\nhome {id:016x}\n").as_bytes())?;
        if let Some(above) = root.parent() {
            disk::sync_dir(&**disk, above)?;
        }
        Ok(Self { root: root.to_owned(), id })
    }

    /// Where everything is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of packs.
    pub fn packs(&self) -> PathBuf {
        self.root.join("packs")
    }

    /// The folder of unfinished restores.
    pub fn intents(&self) -> PathBuf {
        self.root.join("intents")
    }

    /// The folder of files, one per workspace, that whoever restores it holds.
    pub fn restoring(&self) -> PathBuf {
        self.root.join("restoring")
    }

    /// The folder of files, one per workspace, by which its saves take turns. It is made with the
    /// first save.
    pub fn saving(&self) -> PathBuf {
        self.root.join("saving")
    }

    /// The folder of notes on retention. It is made with the first of them.
    pub fn retention(&self) -> PathBuf {
        self.root.join("retention")
    }

    /// The folder of what may be deleted at any time.
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// The folder of what users allowed workspaces to run. It is made with the first such decision.
    pub fn trust(&self) -> PathBuf {
        self.root.join("trust")
    }

    /// The folder of what imports unpack. It is made with the first of them.
    pub fn importing(&self) -> PathBuf {
        self.root.join("importing")
    }

    /// The append lock.
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// The claim of those who read packs.
    pub fn readers(&self) -> PathBuf {
        self.root.join("readers")
    }

    /// Held by whoever collects garbage.
    pub fn gc(&self) -> PathBuf {
        self.root.join("gc")
    }

    /// The view.
    pub fn index(&self) -> PathBuf {
        self.root.join("index.db")
    }

    /// Space set aside so that delete and gc work on a full disk.
    pub fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }

    /// What kind of disk this is on.
    pub fn footing(&self) -> Result<Footing> {
        let found =
            statfs(&self.root).map_err(|errno| Error::io("look at", &self.root)(errno.into()))?;
        Ok(match found.f_type as u64 & 0xffff_ffff {
            0x0102_1994 => Footing::Fleeting("tmpfs"),
            0x794c_7630 => Footing::Fleeting("overlay"),
            0x8584_58f6 => Footing::Fleeting("ramfs"),
            _ => Footing::Firm,
        })
    }

    /// Bytes free for us on the home's disk.
    pub fn free_space(&self) -> Result<u64> {
        let found =
            statfs(&self.root).map_err(|errno| Error::io("look at", &self.root)(errno.into()))?;
        Ok(found.f_bavail as u64 * found.f_bsize as u64)
    }

    /// How large the home's disk is.
    pub fn disk_size(&self) -> Result<u64> {
        let found =
            statfs(&self.root).map_err(|errno| Error::io("look at", &self.root)(errno.into()))?;
        Ok(found.f_blocks as u64 * found.f_bsize as u64)
    }
}

/// Refuses folders that cannot be trusted with anything.
fn check(root: &Path) -> Result<std::fs::Metadata> {
    let unsuitable = |reason: String| Error::Unsuitable { path: root.to_owned(), reason };
    let meta = std::fs::metadata(root).map_err(Error::io("read", root))?;
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me {
        return Err(unsuitable(format!("it belongs to user {} and we are {me}", meta.uid())));
    }
    if let Some(kind) = network_file_system(root)? {
        return Err(unsuitable(format!(
            "it is on {kind}, where locks and syncs cannot be relied on; choose a local folder"
        )));
    }
    Ok(meta)
}

/// The home's id as the headers of its packs say it.
fn name_in_packs(packs: &Path) -> Result<Option<u64>> {
    for id in pack::list(packs)? {
        if let Some(header) = PackReader::open(packs, id)?.header {
            return Ok(Some(header.home));
        }
    }
    Ok(None)
}

fn parse_format(text: &str, path: &Path) -> Result<u64> {
    let bad = || Error::Damaged(format!("{} is not what Rappel writes", path.display()));
    let mut lines = text.lines();
    let version = lines.next().and_then(|line| line.strip_prefix("rappel ")).ok_or_else(bad)?;
    let version: u32 = version.trim().parse().map_err(|_| bad())?;
    if version > FORMAT {
        let home = path.parent().unwrap_or(path).display();
        let what = match text.lines().find_map(|line| line.strip_prefix("needs ")) {
            Some(needed) => format!("the home {home} needs rappel {} or later: it", needed.trim()),
            None => format!("the home {home}"),
        };
        return Err(Error::Newer { what, found: version, supported: FORMAT });
    }
    let id = lines.next().and_then(|line| line.strip_prefix("home ")).ok_or_else(bad)?;
    u64::from_str_radix(id.trim(), 16).map_err(|_| bad())
}

/// The network file system that a path is on, if it is on one.
fn network_file_system(path: &Path) -> Result<Option<&'static str>> {
    let found = statfs(path).map_err(|errno| Error::io("look at", path)(errno.into()))?;
    Ok(match found.f_type as u64 & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9p"),
        0x6a65_6a63 => Some("virtiofs"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f => Some("AFS"),
        0x6573_5546 => Some("a FUSE file system"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn a_home_without_its_name_is_told_from_a_folder_of_the_users() {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let now = Timestamp::from_millis(0);
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("home");
        let first = Home::open(&root, &disk, now).unwrap();
        // What other parts of Rappel keep there.
        for name in ["hooks", "integrations", "saving"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::remove_file(root.join("format")).unwrap();
        assert_eq!(Home::open(&root, &disk, now).unwrap().root(), first.root());
        std::fs::create_dir(root.join("photos")).unwrap();
        std::fs::remove_file(root.join("format")).unwrap();
        let refused = Home::open(&root, &disk, now).unwrap_err().to_string();
        assert!(refused.contains("photos"), "{refused}");
    }
}
