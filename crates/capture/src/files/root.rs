//! Which folders must not become a workspace.

use std::path::Path;

use crate::error::{Error, Result};

/// Folders that belong to the system or to many projects at once.
const SYSTEM: [&str; 24] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/local",
    "/var",
    "/var/tmp",
    "/Users",
    "/Library",
    "/System",
];

/// Refuses roots that nobody means: the whole disk, a home, a folder of the system. `path` is
/// absolute; links in it are followed before it is judged.
pub fn check_root(path: &Path, home: Option<&Path>) -> Result<()> {
    let real = path.canonicalize().map_err(Error::io("open", path))?;
    let refuse = |reason: &str| {
        Err(Error::UnsuitableRoot { path: path.to_owned(), reason: reason.to_owned() })
    };
    if !real.is_dir() {
        return refuse("it is not a folder");
    }
    if real.parent().is_none() {
        return refuse("it is the whole disk; choose the project's folder");
    }
    let home = home.and_then(|home| home.canonicalize().ok());
    if home.as_deref() == Some(&*real) {
        return refuse("it is your home folder; choose a project inside it");
    }
    if home.is_some_and(|home| home.starts_with(&real)) {
        return refuse("your home folder lies inside it; choose a single project");
    }
    if SYSTEM.iter().any(|system| real == Path::new(system)) {
        return refuse("it belongs to the system; choose the project's folder");
    }
    Ok(())
}

/// Refuses a root in the folder where Rappel keeps its data: a restore there would overwrite the
/// very packs that it reads from. The other way round is fine; the data is left out then.
pub fn check_outside(path: &Path, data: &Path) -> Result<()> {
    let real = path.canonicalize().map_err(Error::io("open", path))?;
    // A folder that is not there yet has nothing in it.
    let inside = data.canonicalize().is_ok_and(|data| real.starts_with(data));
    if inside {
        let reason = "Rappel keeps its own data there; choose the project's folder".to_owned();
        return Err(Error::UnsuitableRoot { path: path.to_owned(), reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(path: &str, home: Option<&Path>) -> String {
        check_root(Path::new(path), home).unwrap_err().to_string()
    }

    #[test]
    fn silly_roots_are_refused_with_the_reason() {
        assert!(reason("/", None).contains("whole disk"));
        assert!(reason("/etc", None).contains("system"));
        assert!(reason("/usr/../tmp/.", None).contains("system"));
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap();
        assert!(reason(path, Some(home.path())).contains("your home folder"));
        let inner = home.path().join("me");
        std::fs::create_dir(&inner).unwrap();
        assert!(reason(path, Some(&inner)).contains("lies inside it"));
        assert!(reason("/etc/hostname-that-is-not-there", None).contains("cannot open"));
        assert!(reason("/etc/passwd", None).contains("not a folder"));
    }

    #[test]
    fn a_link_does_not_disguise_a_root() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("innocent");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(reason(link.to_str().unwrap(), None).contains("whole disk"));
    }

    #[test]
    fn rappels_own_data_is_no_project() {
        let folder = tempfile::tempdir().unwrap();
        let (data, packs) = (folder.path().join("data"), folder.path().join("data/packs"));
        std::fs::create_dir_all(&packs).unwrap();
        for inside in [&data, &packs] {
            let refused = check_outside(inside, &data).unwrap_err().to_string();
            assert!(refused.contains("its own data"), "{refused}");
        }
        check_outside(folder.path(), &data).unwrap();
        check_outside(&packs, &folder.path().join("data/pa")).unwrap();
    }

    #[test]
    fn a_project_is_fine_wherever_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        let home = tempfile::tempdir().unwrap();
        check_root(folder.path(), Some(home.path())).unwrap();
        let project = home.path().join("project");
        std::fs::create_dir(&project).unwrap();
        check_root(&project, Some(home.path())).unwrap();
    }
}
