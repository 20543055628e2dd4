use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::Ordering;

use super::*;
use crate::disk::RealDisk;

fn rel(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

/// A root, opened twice: with the kernel's help and walking by itself.
fn both_ways(test: impl Fn(&Path, &Root)) {
    for walks in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("root");
        std::fs::create_dir(&inside).unwrap();
        let root = Root::open(&inside, Arc::new(RealDisk)).unwrap();
        root.walks.store(walks, Ordering::Relaxed);
        test(&inside, &root);
    }
}

fn errno(result: Result<impl std::fmt::Debug>) -> i32 {
    match result.unwrap_err() {
        Error::Io { source, .. } => source.raw_os_error().unwrap(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_linked_parent_stops_every_operation() {
    both_ways(|path, root| {
        let outside = path.parent().unwrap().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("f"), "theirs").unwrap();
        symlink(&outside, path.join("d")).unwrap();
        std::fs::write(path.join("own"), "x").unwrap();
        let loops = Errno::LOOP.raw_os_error();
        assert_eq!(errno(root.stat(&rel("d/f"))), loops);
        assert_eq!(errno(root.open_file(&rel("d/f"))), loops);
        assert_eq!(errno(root.create_file(&rel("d/new"), 0o600)), loops);
        assert_eq!(errno(root.rename(&rel("own"), &rel("d/f"))), loops);
        assert_eq!(errno(root.rename_noreplace(&rel("own"), &rel("d/g"))), loops);
        assert_eq!(errno(root.exchange(&rel("own"), &rel("d/f"), &rel("aside"))), loops);
        assert_eq!(errno(root.link(&rel("own"), &rel("d/g"))), loops);
        assert_eq!(errno(root.symlink(b"x", &rel("d/g"))), loops);
        assert_eq!(errno(root.create_dir(&rel("d/g"), 0o700)), loops);
        assert_eq!(errno(root.remove_dir(&rel("d/f"))), loops);
        assert_eq!(errno(root.unlink(&rel("d/f"))), loops);
        assert_eq!(errno(root.set_mode(Some(&rel("d/f")), 0o600)), loops);
        assert_eq!(errno(root.set_mode(Some(&rel("d")), 0o700)), loops);
        assert_eq!(errno(root.list(Some(&rel("d")))), loops);
        assert_eq!(errno(root.sync_dir(Some(&rel("d")))), loops);
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
        assert_eq!(std::fs::read(outside.join("f")).unwrap(), b"theirs");
    });
}

#[test]
fn a_link_itself_is_content() {
    both_ways(|path, root| {
        root.symlink(b"/etc/passwd", &rel("l")).unwrap();
        assert_eq!(root.read_link(&rel("l")).unwrap(), b"/etc/passwd");
        assert_eq!(root.stat(&rel("l")).unwrap().unwrap().kind, Kind::Symlink);
        assert!(root.open_file(&rel("l")).is_err());
        root.unlink(&rel("l")).unwrap();
        assert!(root.stat(&rel("l")).unwrap().is_none());
        assert!(path.is_dir());
    });
}

#[test]
fn files_are_written_exchanged_and_kept_apart() {
    both_ways(|path, root| {
        root.create_dir(&rel("d"), 0o755).unwrap();
        let mut file = root.create_file(&rel("d/a"), 0o600).unwrap();
        file.write_all(b"new").unwrap();
        file.set_mode(0o640).unwrap();
        file.sync().unwrap();
        assert!(root.create_file(&rel("d/a"), 0o600).is_err(), "it must be new");
        std::fs::write(path.join("b"), "old").unwrap();
        assert_eq!(root.exchange(&rel("d/a"), &rel("b"), &rel("c")).unwrap(), Exchanged::InPlace);
        let mut text = String::new();
        root.open_file(&rel("b")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "new");
        assert_eq!(root.stat(&rel("b")).unwrap().unwrap().mode, 0o640);
        assert!(root.rename_noreplace(&rel("b"), &rel("d/a")).is_err());
        root.displace(&rel("d/a"), &rel("b"), &rel("c")).unwrap();
        assert_eq!(std::fs::read(path.join("b")).unwrap(), b"old");
        assert_eq!(std::fs::read(path.join("c")).unwrap(), b"new");
        assert_eq!(root.list(None).unwrap().len(), 3);
        assert!(root.list(Some(&rel("d"))).unwrap().is_empty());
        root.sync_dir(Some(&rel("d"))).unwrap();
        root.sync_all().unwrap();
    });
}

#[test]
fn a_file_of_mode_zero_can_be_opened_up() {
    both_ways(|path, root| {
        std::fs::write(path.join("f"), "x").unwrap();
        root.set_mode(Some(&rel("f")), 0).unwrap();
        root.set_mode(Some(&rel("f")), 0o4711).unwrap();
        assert_eq!(root.stat(&rel("f")).unwrap().unwrap().mode, 0o4711);
        root.set_mode(None, 0o710).unwrap();
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o710);
    });
}

#[test]
fn a_replaced_root_is_noticed_and_not_written() {
    both_ways(|path, root| {
        assert!(root.is_still_there());
        std::fs::rename(path, path.with_extension("moved")).unwrap();
        assert!(!root.is_still_there());
        std::fs::create_dir(path).unwrap();
        assert!(!root.is_still_there());
        root.create_dir(&rel("d"), 0o755).unwrap();
        assert!(std::fs::read_dir(path).unwrap().next().is_none());
    });
}

#[test]
fn extended_attributes_travel() {
    both_ways(|path, root| {
        std::fs::write(path.join("from"), "x").unwrap();
        let from = root.open_file(&rel("from")).unwrap();
        let name = "user.rappel";
        match fs::fsetxattr(&from, name, b"kept", fs::XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => return,
            other => other.unwrap(),
        }
        let to = root.create_file(&rel("to"), 0o600).unwrap();
        assert!(to.copy_attributes(&from).is_empty());
        let mut value = [0; 16];
        let length = fs::fgetxattr(to.file(), name, &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"kept");
    });
}

#[test]
fn the_roots_own_file_system_is_told_from_others() {
    let root = Root::open(Path::new("/"), Arc::new(RealDisk)).unwrap();
    if !Path::new("/proc/self").exists() {
        return;
    }
    assert_eq!(root.mount_at(&rel("proc/1")).unwrap(), Mount::Foreign);
    both_ways(|path, root| {
        std::fs::write(path.join("f"), "x").unwrap();
        for name in ["f", "absent", "absent/below", "f/below"] {
            assert_eq!(root.mount_at(&rel(name)).unwrap(), Mount::Ours, "{name}");
        }
    });
}
