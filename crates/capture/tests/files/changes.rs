//! What changed since the last scan, and how little has to be read to know it.

use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use rappel_types::{Node, RelPath};
use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_OMIT};

use crate::project::{Project, leaves, path, whole};

fn names(changes: &[(RelPath, Option<Node>)]) -> Vec<String> {
    let mark = |node: &Option<Node>| if node.is_some() { "+" } else { "-" };
    changes.iter().map(|(path, node)| format!("{}{path}", mark(node))).collect()
}

fn set_modified(project: &Project, name: &str, like: &std::fs::Metadata) {
    use std::os::unix::fs::MetadataExt;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: like.mtime(), tv_nsec: like.mtime_nsec() },
    };
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(rustix::fs::CWD, project.at(name), &times, flags).unwrap();
}

#[test]
fn everything_is_new_the_first_time() {
    let mut project = Project::new();
    project.write("a/file", "text").write("b", "");
    std::fs::create_dir_all(project.at("empty/er")).unwrap();
    symlink("a/file", project.at("link")).unwrap();
    std::fs::set_permissions(project.at("b"), PermissionsExt::from_mode(0o4750)).unwrap();
    let scanned = project.save_checked();
    assert_eq!(scanned.base, None);
    assert_eq!(names(&scanned.changes), ["+a", "+a/file", "+b", "+empty", "+empty/er", "+link"]);
    assert_eq!((scanned.count, scanned.bytes), (3, 4));
    assert_eq!((scanned.added, scanned.modified, scanned.deleted), (3, 0, 0));
    assert!(scanned.skipped.is_empty() && scanned.partial.is_empty());
    let file = Node::File { mode: 0o4750, size: 0, content: whole("") };
    assert_eq!(project.tree[&path("b")], file);
    assert_eq!(project.tree[&path("link")], Node::Symlink { target: b"a/file".to_vec() });
}

#[test]
fn nothing_is_read_when_nothing_changed() {
    let mut project = Project::with_git();
    project.write("a/b/c", "1").write("d", "2").write(".gitignore", "*.log\n").write("x.log", "");
    symlink("nowhere", project.at("link")).unwrap();
    project.settle();
    project.save();
    project.settle();
    let before = project.sink.puts();
    for _ in 0..3 {
        let scanned = project.save();
        assert!(scanned.changes.is_empty());
        assert_eq!(scanned.count, 4);
    }
    assert_eq!(project.sink.puts(), before);
}

#[test]
fn every_kind_of_change_is_noticed() {
    let mut project = Project::new();
    for name in [
        "same",
        "content",
        "mode",
        "gone",
        "to-folder",
        "to-link",
        "dir/gone",
        "dir/x",
        "old/deep/x",
    ] {
        project.write(name, "1");
    }
    for name in ["to-file/x", "folder-mode/x", "emptied/x"] {
        project.write(name, "1");
    }
    symlink("1", project.at("link")).unwrap();
    project.settle();
    project.save_checked();
    project.settle();
    project.write("content", "2").write("new", "").write("dir/new/x", "");
    std::fs::set_permissions(project.at("mode"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::set_permissions(project.at("folder-mode"), PermissionsExt::from_mode(0o700)).unwrap();
    for name in ["gone", "to-folder", "to-link", "to-file", "dir/gone", "link", "emptied/x"] {
        project.remove(name);
    }
    project.write("to-folder/x", "").write("to-file", "");
    symlink("x", project.at("to-link")).unwrap();
    symlink("2", project.at("link")).unwrap();
    std::fs::rename(project.at("old"), project.at("renamed")).unwrap();
    let scanned = project.save_checked();
    assert_eq!(
        names(&scanned.changes),
        [
            "+content",
            "-dir/gone",
            "+dir/new",
            "+dir/new/x",
            "-emptied/x",
            "+folder-mode",
            "-gone",
            "+link",
            "+mode",
            "+new",
            "-old",
            "-old/deep",
            "-old/deep/x",
            "+renamed",
            "+renamed/deep",
            "+renamed/deep/x",
            "+to-file",
            "-to-file/x",
            "+to-folder",
            "+to-folder/x",
            "+to-link",
        ]
    );
    assert_eq!((scanned.added, scanned.modified, scanned.deleted), (5, 4, 6));
    project.settle();
    assert!(project.save_checked().changes.is_empty());
}

#[test]
fn touching_is_no_change_but_is_looked_into() {
    let mut project = Project::new();
    project.write("a", "1");
    project.settle();
    project.save();
    project.settle();
    let before = project.sink.puts();
    project.write("a", "1");
    assert!(project.save().changes.is_empty());
    assert!(project.sink.puts() > before);
}

/// Kernels from 6.13 on give a file that was looked at a finer stamp; on those this cannot fail, and
/// the rule itself is held by the tests of `stamp`.
#[test]
fn a_write_within_the_same_tick_is_never_missed() {
    let mut project = Project::new();
    project.write("other", "");
    for round in 0..300u32 {
        project.write("file", format!("{round:08} a"));
        project.save();
        // The same length, as soon as possible.
        project.write("file", format!("{round:08} b"));
        project.save();
        assert_eq!(project.text("file"), format!("{round:08} b"));
    }
}

#[test]
fn a_name_within_the_same_tick_is_never_missed() {
    let mut project = Project::new();
    for round in 0..100u32 {
        project.write("dir/one", "");
        project.save();
        project.write("dir/two", "");
        project.save();
        assert!(project.tree.contains_key(&path("dir/two")), "round {round}");
        project.remove("dir/two");
        project.save();
        assert!(!project.tree.contains_key(&path("dir/two")), "round {round}");
    }
}

#[test]
fn a_modification_time_that_is_set_back_does_not_deceive() {
    let mut project = Project::new();
    project.write("file", "1").write("dir/x", "");
    project.settle();
    let (file, dir) = (
        std::fs::metadata(project.at("file")).unwrap(),
        std::fs::metadata(project.at("dir")).unwrap(),
    );
    project.save();
    project.settle();
    project.write("file", "2");
    set_modified(&project, "file", &file);
    project.write("dir/y", "");
    set_modified(&project, "dir", &dir);
    project.save_checked();
    assert_eq!(project.text("file"), "2");
    assert!(project.tree.contains_key(&path("dir/y")));
}

#[test]
fn a_file_from_the_future_is_read_every_time() {
    let mut project = Project::new();
    project.write("file", "1");
    let like = std::fs::metadata("/proc/self").unwrap();
    set_modified(&project, "file", &like);
    let later = Timespec { tv_sec: 4_000_000_000, tv_nsec: 5 };
    let times = Timestamps { last_access: later, last_modification: later };
    rustix::fs::utimensat(rustix::fs::CWD, project.at("file"), &times, AtFlags::empty()).unwrap();
    project.settle();
    project.save();
    let before = project.sink.puts();
    assert!(project.save().changes.is_empty());
    assert!(project.sink.puts() > before);
}

#[test]
fn ignored_names_come_and_go_without_a_change() {
    let mut project = Project::with_git();
    project.write(".gitignore", "*.log\nout/\n").write("x", "");
    project.settle();
    project.save_checked();
    project.write("a.log", "").write("out/big", "");
    assert!(project.save_checked().changes.is_empty());
    project.settle();
    assert!(project.save_checked().changes.is_empty());
    // An ignored name that becomes something else is judged again.
    project.remove("out");
    project.write("out", "a file is not a folder");
    assert_eq!(names(&project.save_checked().changes), ["+out"]);
}

#[test]
fn an_edited_ignore_file_counts_at_once_and_everywhere_below() {
    let mut project = Project::with_git();
    project.write(".gitignore", "*.log\n").write("deep/er/a.log", "").write("deep/er/b.tmp", "");
    project.settle();
    project.save_checked();
    project.settle();
    project.write(".gitignore", "*.tmp\n");
    let scanned = project.save_checked();
    assert_eq!(names(&scanned.changes), ["+.gitignore", "+deep/er/a.log", "-deep/er/b.tmp"]);
    project.settle();
    project.write("deep/.gitignore", "*.log\n");
    let scanned = project.save_checked();
    assert_eq!(names(&scanned.changes), ["+deep/.gitignore", "-deep/er/a.log"]);
    project.settle();
    project.remove("deep/.gitignore");
    project.write("deep/.rappelignore", "er\n");
    let scanned = project.save_checked();
    assert_eq!(names(&scanned.changes), ["-deep/.gitignore", "+deep/.rappelignore", "-deep/er"]);
}

#[test]
fn a_repository_that_appears_or_goes_changes_the_rules() {
    let mut project = Project::new();
    project.write(".gitignore", "*.log\n").write("a/b.log", "").write("node_modules/x", "");
    project.settle();
    project.save_checked();
    project.git(&["init", "-q"]);
    project.save_checked();
    assert_eq!(leaves(&project.fresh()), [".gitignore", "node_modules/x"]);
    project.settle();
    project.save_checked();
    project.remove(".git");
    project.save_checked();
    assert_eq!(leaves(&project.fresh()), [".gitignore", "a/b.log"]);
}

#[test]
fn a_repository_above_that_appears_is_noticed() {
    let mut project = Project::new();
    project.write("sub/a.log", "").write(".gitignore", "*.log\n");
    let outer = project.root.clone();
    project.root = project.at("sub");
    project.settle();
    project.save_checked();
    assert!(project.tree.contains_key(&path("a.log")));
    crate::project::git(&outer, project.dir.path(), &["init", "-q"]);
    project.save_checked();
    assert!(project.tree.is_empty());
    std::fs::remove_dir_all(outer.join(".git")).unwrap();
    project.save_checked();
    assert!(project.tree.contains_key(&path("a.log")));
}

#[test]
fn a_watcher_narrows_the_look() {
    let mut project = Project::new();
    project.write("a/b/c", "1").write("a/d", "1").write("e/f", "1").write("g", "1");
    project.settle();
    project.save();
    project.settle();
    project.write("a/b/c", "2").write("e/f", "2").write("a/new/x", "");
    let scanned = project.save_maybe(Some(&[path("a")]));
    assert_eq!(names(&scanned.changes), ["+a/b/c", "+a/new", "+a/new/x"]);
    assert_eq!(scanned.count, 5);
    let scanned = project.save_maybe(Some(&[path("e/f")]));
    assert_eq!(names(&scanned.changes), ["+e/f"]);
    assert!(project.save_maybe(Some(&[])).changes.is_empty());
    assert!(project.save_checked().changes.is_empty());
}

#[derive(Debug, Clone)]
enum Edit {
    Write(String, u8),
    Remove(String),
    Link(String, String),
    Mode(String, bool),
    Rename(String, String),
    Folder(String),
}

fn edit() -> impl Strategy<Value = Edit> {
    let name = || {
        prop::collection::vec(
            prop::sample::select(vec!["a", "b", "c", ".gitignore", "l.log"]),
            1..4,
        )
        .prop_map(|parts| parts.join("/"))
    };
    prop_oneof![
        5 => (name(), any::<u8>()).prop_map(|(name, seed)| Edit::Write(name, seed)),
        2 => name().prop_map(Edit::Remove),
        1 => (name(), name()).prop_map(|(name, target)| Edit::Link(name, target)),
        1 => (name(), any::<bool>()).prop_map(|(name, on)| Edit::Mode(name, on)),
        1 => (name(), name()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => name().prop_map(Edit::Folder),
    ]
}

/// Carries out an edit as far as it is possible.
fn apply(project: &Project, edit: &Edit) {
    match edit {
        Edit::Write(name, seed) => {
            let text = if name.ends_with(".gitignore") {
                ["*.log\n", "a\n", "!l.log\n", ""][usize::from(seed % 4)]
            } else {
                ["", "one", "two"][usize::from(seed % 3)]
            };
            let _ = std::fs::create_dir_all(project.at(name).parent().unwrap());
            let _ = std::fs::write(project.at(name), text);
        }
        Edit::Remove(name) => {
            let _ = std::fs::remove_file(project.at(name));
            if !project.at(name).is_symlink() {
                let _ = std::fs::remove_dir_all(project.at(name));
            }
        }
        Edit::Link(name, target) => {
            let _ = symlink(target, project.at(name));
        }
        Edit::Mode(name, on) => {
            if !project.at(name).is_symlink() {
                let mode = if *on { 0o755 } else { 0o700 };
                let _ = std::fs::set_permissions(project.at(name), PermissionsExt::from_mode(mode));
            }
        }
        Edit::Rename(from, to) => {
            let _ = std::fs::rename(project.at(from), project.at(to));
        }
        Edit::Folder(name) => {
            let _ = std::fs::create_dir_all(project.at(name));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn any_edits_between_any_scans_are_found(
        git in any::<bool>(),
        rounds in prop::collection::vec((prop::collection::vec(edit(), 0..6), any::<bool>()), 1..8),
    ) {
        let mut project = if git { Project::with_git() } else { Project::new() };
        for (edits, wait) in rounds {
            for edit in &edits {
                apply(&project, edit);
            }
            if wait {
                project.settle();
            }
            project.save_checked();
        }
    }
}
