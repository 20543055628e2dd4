//! The cache: a hint that survives, grows little, and never lies.

use std::sync::Arc;

use rappel_capture::files::{Cache, Restored};
use rappel_store::beneath::Root;
use rappel_store::disk::{Disk, RealDisk};
use rappel_types::{Node, ObjectId, RelPath};

use crate::project::{Project, leaves, path, whole};

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

fn project() -> Project {
    let mut project = Project::with_git();
    project.write(".gitignore", "*.log\n").write("a/b", "1").write("x.log", "").write("c", "2");
    project.settle();
    project.save();
    project
}

#[test]
fn any_damage_makes_it_no_cache() {
    let mut project = project();
    project.write("d", "3");
    project.save();
    let bytes = std::fs::read(project.cache_file()).unwrap();
    assert!(Cache::decode(bytes.clone()).is_some());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(Cache::decode(damaged).is_none(), "byte {at}");
    }
    let whole_batches =
        (0..bytes.len()).filter(|&end| Cache::decode(bytes[..end].to_vec()).is_some());
    assert_eq!(whole_batches.count(), 1, "only the end of the first batch is an end");
    assert!(Cache::decode([bytes.clone(), vec![0]].concat()).is_none());
    assert!(Cache::load(&project.dir.path().join("nowhere")).is_none());
}

#[test]
fn a_small_change_writes_little_and_the_file_stays_bounded() {
    let mut project = Project::new();
    for number in 0..2000 {
        project.write(format!("dir{}/file{number}", number % 100), "x");
    }
    project.settle();
    project.save();
    project.settle();
    project.save();
    let size = || std::fs::metadata(project.cache_file()).unwrap().len();
    let whole = size();
    assert!(whole > 150_000);
    let mut project_at = |round: u32| {
        project.write("dir7/file7", format!("{round}"));
        project.save();
        std::fs::metadata(project.cache_file()).unwrap().len()
    };
    assert!(project_at(0) - whole < 8_000);
    let largest = (1..400).map(&mut project_at).max().unwrap();
    assert!(largest < 2 * whole + 300_000, "{largest} of {whole}");
}

#[test]
fn two_scans_at_once_do_not_mix_their_caches() {
    let mut project = project();
    let (first, second) =
        (Cache::load(&project.cache_file()).unwrap(), Cache::load(&project.cache_file()).unwrap());
    project.write("new1/x", "");
    let first = project.try_scan(Some(first), None).unwrap();
    project.write("new2/x", "");
    let second = project.try_scan(Some(second), None).unwrap();
    first.next.finish(ObjectId([1; 32]), None).save(&disk(), &project.cache_file()).unwrap();
    second.next.finish(ObjectId([2; 32]), None).save(&disk(), &project.cache_file()).unwrap();
    let last = Cache::load(&project.cache_file()).unwrap();
    assert_eq!(last.base(), &ObjectId([2; 32]));
    project.settle();
    assert!(project.try_scan(Some(last), None).unwrap().changes.is_empty());
    project.tree.clear();
    std::fs::remove_file(project.cache_file()).unwrap();
    project.save_checked();
}

#[test]
fn it_says_what_it_is_relative_to() {
    let project = project();
    let cache = Cache::load(&project.cache_file()).unwrap();
    let scanned = project.try_scan(Some(cache), None).unwrap();
    assert_eq!(scanned.base, Some(ObjectId([7; 32])));
    let id = "chk_20261115_143022_k7f3".parse().unwrap();
    let cache = scanned.next.finish(ObjectId([8; 32]), Some(id));
    assert_eq!(cache.checkpoint().unwrap().as_str(), "chk_20261115_143022_k7f3");
    assert_eq!(cache.base(), &ObjectId([8; 32]));
}

#[test]
fn a_copy_of_the_folder_is_read_again_and_found_equal() {
    let mut project = project();
    let copy = project.dir.path().join("copy");
    let status =
        std::process::Command::new("cp").arg("-a").arg(&project.root).arg(&copy).status().unwrap();
    assert!(status.success());
    project.root = copy;
    let puts = project.sink.puts();
    assert!(project.save_checked().changes.is_empty());
    assert!(project.sink.puts() > puts);
}

/// What a restore does, in short: write, delete, then tell the cache.
fn restore(project: &mut Project, changes: &[(&str, Option<Node>)]) {
    restore_while(project, changes, true, || ());
}

/// The same, while somebody acts after the content was compared.
fn restore_while(
    project: &mut Project,
    changes: &[(&str, Option<Node>)],
    proven: bool,
    act: impl FnOnce(),
) {
    let cache = Cache::load(&project.cache_file()).unwrap();
    let changes: Vec<(RelPath, Option<Node>)> =
        changes.iter().map(|(name, node)| (path(name), node.clone())).collect();
    for (path, node) in &changes {
        match node {
            Some(node) => project.tree.insert(path.clone(), node.clone()),
            None => project.tree.remove(path),
        };
    }
    let root = Root::open(&project.root, disk()).unwrap();
    let changes: Vec<Restored> = changes
        .into_iter()
        .map(|(path, node)| Restored {
            proof: root.stat(&path).unwrap_or_default().filter(|_| proven),
            path,
            node,
        })
        .collect();
    act();
    let mut cache = cache.restored(&project.root, &changes, ObjectId([9; 32]), None).unwrap();
    assert_eq!(cache.base(), &ObjectId([9; 32]));
    cache.save(&disk(), &project.cache_file()).unwrap();
}

#[allow(clippy::unnecessary_wraps, reason = "beside `None` in a list of changes")]
fn file(text: &str) -> Option<Node> {
    Some(Node::File { mode: 0o644, size: text.len() as u64, content: whole(text) })
}

#[test]
fn after_a_restore_nothing_restored_is_read_again() {
    let mut project = project();
    project.write("a/b", "restored").write("new/deep/x", "restored too");
    project.remove("c");
    std::os::unix::fs::symlink("target", project.at("link")).unwrap();
    project.settle();
    let folder = Some(Node::Directory { mode: 0o755 });
    let link = Some(Node::Symlink { target: b"target".to_vec() });
    let changes = [
        ("a/b", file("restored")),
        ("c", None),
        ("link", link),
        ("new", folder.clone()),
        ("new/deep", folder),
        ("new/deep/x", file("restored too")),
    ];
    restore(&mut project, &changes);
    let puts = project.sink.puts();
    let scanned = project.save();
    assert!(scanned.changes.is_empty(), "{:?}", scanned.changes);
    assert_eq!(project.sink.puts(), puts);
    project.save_checked();
}

#[test]
fn an_edit_right_after_the_comparison_is_found_whatever_its_age() {
    for proven in [true, false] {
        let mut project = project();
        project.write("a/b", "restored");
        project.settle();
        let edited = project.at("a/b");
        restore_while(&mut project, &[("a/b", file("restored"))], proven, || {
            std::fs::write(edited, "same len").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
        });
        project.save_checked();
        assert_eq!(project.text("a/b"), "same len");
    }
}

#[test]
fn what_changed_since_the_restore_is_found() {
    let mut project = project();
    project.write("a/b", "restored").write("gone", "x").write("other", "x");
    project.settle();
    project.remove("gone");
    project.write("a/b", "somebody else's");
    project.remove("other");
    project.write("other/inner", "x");
    restore(&mut project, &[("a/b", file("restored")), ("gone", file("x")), ("other", file("x"))]);
    project.save_checked();
    assert_eq!(project.text("a/b"), "somebody else's");
    assert_eq!(leaves(&project.fresh()), [".gitignore", "a/b", "c", "other/inner"]);
}

#[test]
fn a_restored_ignore_file_rules_and_restored_ignored_files_are_judged_again() {
    let mut project = project();
    project.write(".gitignore", "c\n").write("y.log", "1").write("sub/c", "1");
    project.settle();
    let folder = Some(Node::Directory { mode: 0o755 });
    restore(
        &mut project,
        &[(".gitignore", file("c\n")), ("sub", folder), ("sub/c", file("1")), ("y.log", file("1"))],
    );
    project.save_checked();
    let taken: Vec<_> = project.tree.keys().map(ToString::to_string).collect();
    assert_eq!(taken, [".gitignore", "a", "a/b", "sub", "x.log", "y.log"]);
}

#[test]
fn a_restored_folder_over_a_file_and_a_file_over_a_folder() {
    let mut project = project();
    project.remove("a");
    project.remove("c");
    project.write("a", "file").write("c/inner", "x");
    project.settle();
    let folder = Some(Node::Directory { mode: 0o755 });
    restore(
        &mut project,
        &[("a", file("file")), ("a/b", None), ("c", folder), ("c/inner", file("x"))],
    );
    assert!(project.save_checked().changes.is_empty());
}
