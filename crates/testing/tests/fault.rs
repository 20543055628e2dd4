//! The faulty disk itself: it loses what was not synced, and only that.

#![allow(clippy::unwrap_used, reason = "tests may")]

use std::path::Path;
use std::sync::Arc;

use rappel_store::disk::{self, Disk, DiskFile};
use rappel_testing::{Failure, Fault, FaultDisk, Loss, Names, Writes};

const DROP_ALL: Loss = Loss { writes: Writes::Dropped, names: Names::Undone };

fn write(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8]) -> DiskFile {
    let file = DiskFile::create_new(disk, path).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

#[test]
fn synced_bytes_stay_and_unsynced_ones_go_or_tear() {
    for (writes, expected) in [
        (Writes::Kept, "synced, not synced"),
        (Writes::Dropped, "synced"),
        (Writes::Torn, "synced, not "),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let faulty = FaultDisk::new();
        let disk: Arc<dyn Disk> = faulty.clone();
        let path = folder.path().join("f");
        let file = write(&disk, &path, b"synced");
        file.sync().unwrap();
        disk::sync_dir(&*disk, folder.path()).unwrap();
        file.write_at(b", not synced", 6).unwrap();
        faulty.lose(Loss { writes, names: Names::Undone });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}

#[test]
fn overwritten_bytes_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let faulty = FaultDisk::new();
    let disk: Arc<dyn Disk> = faulty.clone();
    let path = folder.path().join("f");
    let file = write(&disk, &path, b"before");
    file.sync().unwrap();
    disk::sync_dir(&*disk, folder.path()).unwrap();
    file.write_at(b"AFTER", 0).unwrap();
    file.write_at(b"more", 4).unwrap();
    faulty.lose(DROP_ALL);
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
}

#[test]
fn a_name_needs_its_folder_synced() {
    let folder = tempfile::tempdir().unwrap();
    let faulty = FaultDisk::new();
    let disk: Arc<dyn Disk> = faulty.clone();
    let (kept, lost) = (folder.path().join("kept"), folder.path().join("lost"));
    write(&disk, &kept, b"k").sync().unwrap();
    disk::sync_dir(&*disk, folder.path()).unwrap();
    write(&disk, &lost, b"l").sync().unwrap();
    faulty.lose(DROP_ALL);
    assert!(kept.exists() && !lost.exists());
}

#[test]
fn a_removed_file_comes_back_with_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let faulty = FaultDisk::new();
    let disk: Arc<dyn Disk> = faulty.clone();
    let path = folder.path().join("f");
    std::fs::write(&path, "old").unwrap();
    disk::unlink(&*disk, &path).unwrap();
    assert!(!path.exists());
    faulty.lose(DROP_ALL);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_replaced_file_comes_back_unless_the_folder_was_synced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, "old").unwrap();
    let faulty = FaultDisk::new();
    let disk: Arc<dyn Disk> = faulty.clone();
    disk::replace(&disk, &path, b"new").unwrap();
    faulty.lose(DROP_ALL);
    assert_eq!(std::fs::read(&path).unwrap(), b"new", "it syncs its folder");
    let faulty = FaultDisk::new();
    let disk: Arc<dyn Disk> = faulty.clone();
    let last = {
        disk::replace(&disk, &path, b"counted").unwrap();
        faulty.count()
    };
    faulty.set(Fault::Crash { at: last });
    disk::replace(&disk, &path, b"newest").unwrap_err();
    faulty.lose(DROP_ALL);
    assert_eq!(std::fs::read(&path).unwrap(), b"counted", "the crash was before the sync");
}

#[test]
fn one_folders_sync_says_nothing_about_another() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    std::fs::create_dir(&a).unwrap();
    std::fs::create_dir(&b).unwrap();
    let faulty = FaultDisk::new();
    let disk: Arc<dyn Disk> = faulty.clone();
    write(&disk, &a.join("f"), b"x");
    write(&disk, &b.join("f"), b"x");
    disk::sync_dir(&*disk, &b).unwrap();
    faulty.lose(Loss { writes: Writes::Kept, names: Names::Undone });
    assert!(!a.join("f").exists() && b.join("f").exists());
}

#[test]
fn faults_hit_the_operation_they_were_meant_for() {
    let folder = tempfile::tempdir().unwrap();
    let faulty = FaultDisk::with(Fault::Fail { at: 2, failure: Failure::NoSpace });
    let disk: Arc<dyn Disk> = faulty.clone();
    let file = DiskFile::create_new(&disk, &folder.path().join("f")).unwrap();
    assert!(file.write_at(b"x", 0).is_err());
    file.write_at(b"x", 0).unwrap();
    faulty.set(Fault::Fail { at: 1, failure: Failure::ShortWrite });
    file.write_at(b"whole all the same", 0).unwrap();
    assert_eq!(faulty.count(), 2);
    assert_eq!(std::fs::read(file.path()).unwrap(), b"whole all the same");
    faulty.set(Fault::Crash { at: 2 });
    file.sync().unwrap();
    assert!(file.sync().is_err() && file.write_at(b"y", 0).is_err());
    assert!(faulty.has_crashed());
}
