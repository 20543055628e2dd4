//! A whole checkpoint in a folder of its own.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod restore_support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rappel_capture::restore::{Scope, restore_beside, restore_to};
use rappel_store::Cancel;
use rappel_store::disk::{Disk, Op};
use rappel_testing::{Failure, Fault, FaultDisk, MemoryStore, Project, memory_dir, snapshot};
use rappel_types::{Content, Entry, Node};
use restore_support::*;

#[test]
fn everything_is_there_to_the_byte() {
    let (_, target) = everything();
    let target = target.file("large", vec![7; 4 << 20]).file("suid", "x").mode("suid", 0o4755);
    let target = target.dir("locked").mode("locked", 0);
    let store = MemoryStore::default();
    let tree = store.tree(&store.take(target.root(), &|_| true));
    let folder = tempfile::tempdir().unwrap();
    for name in ["absent", "absent/twice/deep"] {
        let to = folder.path().join(name);
        let cancel = Cancel::default();
        let outcome = restore_to(&to, &real(), &store, Some(&tree), &Scope::All, &cancel);
        if name == "absent" {
            let copied = outcome.unwrap();
            assert_eq!(snapshot(&to), target.snapshot());
            assert_eq!(copied.files + copied.folders, target.snapshot().len() as u64);
            let error =
                restore_to(&to, &real(), &store, Some(&tree), &Scope::All, &cancel).unwrap_err();
            assert!(error.is_conflict(), "{error}");
        } else {
            outcome.unwrap();
        }
    }
}

/// A disk that counts the bytes that are written to it.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Disk for Counting {
    fn gate(&self, op: &Op<'_>) -> std::io::Result<usize> {
        let Op::Write { bytes, .. } = op else { return Ok(0) };
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }
}

/// Whether files in this folder can share their blocks.
fn can_clone(folder: &Path) -> bool {
    let (from, to) = (folder.join("probe-from"), folder.join("probe-to"));
    std::fs::write(&from, [1; 4096]).unwrap();
    let copied = Command::new("cp").arg("--reflink=always").args([&from, &to]).output().unwrap();
    copied.status.success()
}

/// `TMPDIR` on a file system that shares blocks between files shows the one side of this, any other
/// the other side.
#[test]
fn a_large_file_that_the_workspace_has_is_cloned_and_no_other_content_is_believed() {
    const SIZE: usize = 300_000;
    let target = Project::new().file("same", vec![1; SIZE]).file("other", vec![2; SIZE]);
    let target = target.file("shorter", vec![3; SIZE]).file("gone", vec![4; SIZE]);
    let target = target.file("link", vec![5; SIZE]).file("small", "small");
    let store = MemoryStore::default();
    let tree = store.tree(&store.take(target.root(), &|_| true));
    let wanted = target.snapshot();
    // The workspace has gone on since.
    std::fs::write(target.path("other"), vec![9; SIZE]).unwrap();
    std::fs::write(target.path("shorter"), vec![3; SIZE - 1]).unwrap();
    std::fs::remove_file(target.path("gone")).unwrap();
    std::fs::remove_file(target.path("link")).unwrap();
    std::os::unix::fs::symlink("same", target.path("link")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let counting = Arc::new(Counting::default());
    let disk: Arc<dyn Disk> = counting.clone();
    let (holder, cancel) = (Some(target.root()), Cancel::default());
    restore_beside(holder, &to, &disk, &store, Some(&tree), &Scope::All, &cancel).unwrap();
    assert_eq!(snapshot(&to), wanted);
    let cloned = u64::from(can_clone(folder.path()));
    assert_eq!(counting.0.load(Ordering::Relaxed), (5 - cloned) * SIZE as u64 + 5);
    // Neither side sees what is written to the other.
    std::fs::write(to.join("same"), vec![6; SIZE]).unwrap();
    assert_eq!(std::fs::read(target.path("same")).unwrap(), vec![1; SIZE]);
    // A holder that is not there is no reason to fail.
    let gone = folder.path().join("no such folder");
    let to = folder.path().join("again");
    let disk = real();
    restore_beside(Some(&gone), &to, &disk, &store, Some(&tree), &Scope::All, &cancel).unwrap();
    assert_eq!(snapshot(&to), wanted);
}

#[test]
fn a_part_of_it_brings_its_folders() {
    let target = Project::new().file("a/b/c", "c").file("a/d", "d").file("e", "e");
    let store = MemoryStore::default();
    let tree = store.tree(&store.take(target.root(), &|_| true));
    let to = tempfile::tempdir().unwrap();
    let scope = Scope::Paths(vec![rel("a/b")]);
    restore_to(to.path(), &real(), &store, Some(&tree), &scope, &Cancel::default()).unwrap();
    assert_eq!(snapshot(to.path()).into_keys().collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
}

#[test]
fn a_file_in_the_place_is_not_overwritten() {
    let store = MemoryStore::default();
    let tree = store.tree(&[]);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("f");
    std::fs::write(&to, "mine").unwrap();
    let cancel = Cancel::default();
    assert!(restore_to(&to, &real(), &store, Some(&tree), &Scope::All, &cancel).is_err());
    assert_eq!(read(&to), b"mine");
}

#[test]
fn a_stop_or_an_error_leaves_nothing_behind() {
    let (_, target) = everything();
    let store = MemoryStore::default();
    let tree = store.tree(&store.take(target.root(), &|_| true));
    for at in 1..200 {
        let folder = memory_dir();
        let to = folder.path().join("to");
        let disk = FaultDisk::in_memory(Fault::Fail { at, failure: Failure::NoSpace });
        let gate: Arc<dyn Disk> = disk.clone();
        let cancel = Cancel::default();
        match restore_to(&to, &gate, &store, Some(&tree), &Scope::All, &cancel) {
            Ok(_) => {
                assert!(disk.count() < at);
                return;
            }
            Err(error) => assert!(!to.exists(), "{at}: {error}"),
        }
    }
    panic!("it never succeeded");
}

#[test]
fn a_stop_is_heard() {
    let store = MemoryStore::default();
    let (_, target) = everything();
    let tree = store.tree(&store.take(target.root(), &|_| true));
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let cancel = Cancel::default();
    cancel.cancel();
    assert!(restore_to(&to, &real(), &store, Some(&tree), &Scope::All, &cancel).is_err());
    assert!(!to.exists());
}

#[test]
fn hostile_trees_write_nothing_outside_and_no_git() {
    use rappel_store::sink::{Role, Sink};
    let store = MemoryStore::default();
    let id = store.put(Role::Content, b"x", None).unwrap();
    let file = Node::File { mode: 0o644, size: 1, content: Content::Whole(id) };
    let entry = |path: &str, node: &Node| Entry { path: rel(path), node: node.clone() };
    let link = Node::Symlink { target: b"/tmp".to_vec() };
    let entries = [
        entry(".Git/config", &file),
        entry("implied/folder/f", &file),
        entry("link", &link),
        entry("sub/.git/hooks/x", &file),
    ];
    let tree = store.tree(&entries);
    let to = tempfile::tempdir().unwrap();
    let copied =
        restore_to(to.path(), &real(), &store, Some(&tree), &Scope::All, &Cancel::default())
            .unwrap();
    assert_eq!(copied.warnings.len(), 2, "{copied:?}");
    let names: Vec<_> = snapshot(to.path()).into_keys().collect();
    assert_eq!(names, ["implied", "implied/folder", "implied/folder/f", "link"]);
}
