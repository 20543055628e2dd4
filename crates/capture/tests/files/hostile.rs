//! Folders that want to be difficult.

use std::ffi::OsStr;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rappel_capture::Error;
use rappel_capture::files::{Environment, Request, scan};
use rappel_store::Cancel;
use rappel_store::content;
use rappel_testing::user;
use rappel_types::config::FilesConfig;
use rappel_types::manifest::Facet;
use rappel_types::{Content, Node, RelPath};
use rustix::fs::{CWD, FileType, Mode, mkdirat, mknodat, openat};

use crate::project::{Project, leaves, path};

#[test]
fn names_are_bytes() {
    let mut project = Project::with_git();
    let names: [&[u8]; 7] =
        [b"caf\xe9", b"new\nline", b"\xff\xfe", b"back\\slash", b" ", b"tab\t", b"*?["];
    for name in names {
        project.write([b"dir/", name].concat(), "x");
        project.write([name, b"/inner"].concat(), "y");
    }
    project.settle();
    project.save_checked();
    for name in names {
        assert!(project.tree.contains_key(&RelPath::new([b"dir/", name].concat()).unwrap()));
        assert!(project.tree.contains_key(&RelPath::new([name, b"/inner"].concat()).unwrap()));
    }
    project.write(b"caf\xe9/inner".as_slice(), "z");
    assert_eq!(project.save_checked().modified, 1);
}

#[test]
fn links_are_never_followed() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let mut project = Project::with_git();
    project.write("a/x", "");
    symlink(".", project.at("self")).unwrap();
    symlink("..", project.at("a/up")).unwrap();
    symlink("loop-b", project.at("loop-a")).unwrap();
    symlink("loop-a", project.at("loop-b")).unwrap();
    symlink(outside.path(), project.at("out")).unwrap();
    symlink(outside.path().join("secret"), project.at(".gitignore")).unwrap();
    symlink(OsStr::from_bytes(b"\xff\n"), project.at("bytes")).unwrap();
    project.also = vec![path("out/secret")];
    project.settle();
    let scanned = project.save_checked();
    assert_eq!(
        leaves(&scanned),
        [".gitignore", "a/up", "a/x", "bytes", "loop-a", "loop-b", "out", "self"]
    );
    assert_eq!(project.tree[&path("bytes")], Node::Symlink { target: b"\xff\n".to_vec() });
    // A folder that becomes a link takes its content away.
    project.settle();
    project.write("b/secret", "mine");
    project.save_checked();
    project.settle();
    project.save_checked();
    project.remove("b");
    symlink(outside.path(), project.at("b")).unwrap();
    project.save_checked();
    assert!(matches!(project.tree[&path("b")], Node::Symlink { .. }));
    assert!(!project.tree.contains_key(&path("b/secret")));
}

#[test]
fn special_and_oversize_files_are_listed_every_time() {
    let mut project = Project::new();
    project.config.max_file_size = 100;
    project.write("big", [7; 101]).write("fits", [7; 100]);
    let _listener = UnixListener::bind(project.at("socket")).unwrap();
    mknodat(CWD, project.at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    project.settle();
    for _ in 0..3 {
        let scanned = project.save_checked();
        let skipped: Vec<_> =
            scanned.skipped.iter().map(|s| format!("{}: {}", s.path, s.reason)).collect();
        assert_eq!(
            skipped,
            ["big: larger than 100 B (max_file_size)", "pipe: a named pipe", "socket: a socket"]
        );
        assert!(scanned.partial.is_empty());
        assert_eq!(scanned.count, 1);
        project.settle();
    }
    project.write("big", [7; 99]).write("fits", [7; 200]);
    let scanned = project.save_checked();
    assert_eq!((scanned.added, scanned.deleted, scanned.count), (1, 1, 1));
    // A pipe that takes a file's place is not opened, least of all for ever.
    project.settle();
    project.remove("big");
    mknodat(CWD, project.at("big"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert_eq!(project.save_checked().count, 0);
}

#[test]
fn sparse_and_large_files_are_streamed() {
    let mut project = Project::new();
    let mut file = std::fs::File::create(project.at("sparse")).unwrap();
    file.seek(SeekFrom::Start(48 << 20)).unwrap();
    file.write_all(b"end").unwrap();
    project.settle();
    project.save();
    let Node::File { size, content, .. } = project.tree[&path("sparse")].clone() else { panic!() };
    assert_eq!(size, (48 << 20) + 3);
    assert!(matches!(content, Content::Chunked(_)));
    let bytes = content::read(&project.sink, &content, size, 64 << 20).unwrap();
    assert!(bytes.ends_with(b"\0end") && bytes[..48 << 20].iter().all(|b| *b == 0));
    let puts = project.sink.puts();
    assert!(project.save().changes.is_empty());
    assert_eq!(project.sink.puts(), puts);
}

#[test]
fn a_file_that_never_stands_still_is_captured_and_said_to_be_partial() {
    let mut project = Project::new();
    project.write("busy", "0").write("calm", "calm");
    let busy = project.at("busy");
    // Whenever some state of the file is stored, it has another one already.
    project.sink.on_put = Some(Box::new(move |bytes| {
        if bytes != b"calm" {
            std::fs::write(&busy, [bytes, b"+"].concat()).unwrap();
        }
    }));
    let scanned = project.save();
    assert_eq!(scanned.partial.len(), 1);
    assert_eq!(scanned.partial[0].facet, Facet::Files);
    assert_eq!(scanned.partial[0].path, Some(path("busy")));
    assert_eq!(scanned.count, 2);
    assert_eq!(project.text("busy"), "0++");
    project.sink.on_put = None;
    let scanned = project.save();
    assert!(scanned.partial.is_empty());
    assert_eq!(project.text("busy"), "0+++");
}

#[test]
fn files_that_come_and_go_meanwhile_do_no_harm() {
    let mut project = Project::new();
    for number in 0..50 {
        project
            .write(format!("dir{}/file{number}", number % 5), "x")
            .write(format!("stay{number}"), "x");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let root = project.root.clone();
    let stopped = stop.clone();
    let chaos = std::thread::spawn(move || {
        let mut round = 0;
        while !stopped.load(Ordering::Relaxed) {
            round += 1;
            let number = round % 50;
            let file = root.join(format!("dir{}/file{number}", number % 5));
            let _ = std::fs::remove_file(&file);
            let _ = std::fs::rename(root.join("dir3"), root.join("dir9"));
            let _ = std::fs::write(&file, format!("{round}"));
            let _ = std::fs::rename(root.join("dir9"), root.join("dir3"));
            let _ = std::fs::write(root.join("new"), format!("{round}"));
            let _ = std::fs::rename(root.join("new"), root.join("dir0/file0"));
        }
    });
    for _ in 0..60 {
        project.save();
        for number in 0..50 {
            assert!(project.tree.contains_key(&path(&format!("stay{number}"))));
        }
    }
    stop.store(true, Ordering::Relaxed);
    chaos.join().unwrap();
    project.save_checked();
    project.settle();
    assert!(project.save_checked().changes.is_empty());
}

#[test]
fn a_tree_deeper_than_any_path_is_partial() {
    let mut project = Project::new();
    project.write("x", "");
    let mut folder = openat(CWD, &project.root, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..3000 {
        mkdirat(&folder, "d", Mode::RWXU).unwrap();
        folder = openat(&folder, "d", rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    }
    project.settle();
    for _ in 0..2 {
        let scanned = project.save_checked();
        assert_eq!(scanned.partial.len(), 1);
        let place = scanned.partial[0].path.as_ref().unwrap();
        assert!(place.as_bytes().len() > 4090, "as deep as a path goes");
        assert!(scanned.partial[0].reason.contains("too long"));
        assert_eq!(scanned.count, 1);
        project.settle();
    }
    // Without help of the shell such a tree is not even removed.
    drop(folder);
    assert!(Command::new("rm").arg("-rf").arg(project.at("d")).status().unwrap().success());
}

#[test]
fn a_workspace_that_is_removed_or_replaced_meanwhile_is_a_conflict() {
    for replace in [false, true] {
        let mut project = Project::new();
        project.write("a", "x");
        let (root, aside) = (project.root.clone(), project.dir.path().join("aside"));
        project.sink.on_put = Some(Box::new(move |_| {
            std::fs::rename(&root, &aside).unwrap();
            if replace {
                std::fs::create_dir(&root).unwrap();
            }
        }));
        let error = project.try_scan(None, None).unwrap_err();
        assert!(error.is_conflict(), "{error}");
        assert!(error.to_string().contains(if replace { "replaced" } else { "removed" }));
    }
    let mut project = Project::new();
    project.root = project.at("nowhere");
    assert!(matches!(project.try_scan(None, None), Err(Error::Io { .. })));
}

#[test]
fn a_scan_can_be_cancelled() {
    let project = Project::new();
    for number in 0..100 {
        project.write(format!("f{number}"), "x");
    }
    let cancel = Cancel::default();
    let mut project = project;
    let set = cancel.clone();
    project.sink.on_put = Some(Box::new(move |_| set.cancel()));
    let request = Request {
        root: &project.root,
        config: &FilesConfig::default(),
        environment: &Environment::default(),
        excluded: &[],
        excluded_paths: &[],
        databases: &[],
        cache: None,
        also: &[],
        first: None,
        maybe_changed: None,
        cancel: &cancel,
        progress: None,
    };
    assert!(matches!(scan(request, &project.sink), Err(Error::Cancelled)));
    assert!(project.sink.puts() < 100);
}

#[test]
fn an_ignore_file_that_changes_between_use_and_capture_makes_its_folder_partial() {
    let mut project = Project::with_git();
    project.write("sub/.gitignore", "*.log\n").write("sub/a.log", "").write("first", "first");
    let rules = project.at("sub/.gitignore");
    project.sink.on_put = Some(Box::new(move |bytes| {
        if bytes == b"first" || bytes == b"*.log\n" {
            std::fs::write(&rules, "*.tmp\n").unwrap();
        }
    }));
    let scanned = project.save();
    let places: Vec<_> = scanned.partial.iter().map(|reason| reason.path.clone()).collect();
    assert_eq!(places, [Some(path("sub"))]);
    project.sink.on_put = None;
    assert!(project.save_checked().partial.is_empty());
    assert!(project.tree.contains_key(&path("sub/a.log")));
}

const SCENE: &str = "RAPPEL_TEST_UNREADABLE";

/// Root may read everything, so the scan runs as somebody else: this very test in a second process.
#[test]
fn what_cannot_be_read_is_partial_by_its_path() {
    if let Some(root) = std::env::var_os(SCENE) {
        return scan_unreadable(root.into());
    }
    let project = Project::new();
    project
        .write("ok", "x")
        .write("locked-file", "x")
        .write("locked-folder/x", "x")
        .write("no-search/x", "x");
    for (name, mode) in
        [("locked-file", 0o000), ("locked-folder", 0o000), ("no-search", 0o644), ("", 0o755)]
    {
        std::fs::set_permissions(project.at(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    std::fs::set_permissions(project.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    if !user::is_root() {
        return scan_unreadable(project.root.clone());
    }
    let program = user::copy_program(&std::env::current_exe().unwrap(), project.dir.path());
    let mut command = Command::new(program);
    command
        .args(["--exact", "hostile::what_cannot_be_read_is_partial_by_its_path"])
        .env(SCENE, &project.root)
        .current_dir("/");
    let output = user::by_ordinary_user(&mut command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn scan_unreadable(root: std::path::PathBuf) {
    let project = Project { root, ..Project::new() };
    let scanned = project.fresh();
    let partial: Vec<_> = scanned
        .partial
        .iter()
        .map(|reason| format!("{}: {}", reason.path.as_ref().unwrap(), reason.reason))
        .collect();
    let denied = "Permission denied (os error 13)";
    assert_eq!(
        partial,
        [
            format!("locked-file: {denied}"),
            format!("locked-folder: {denied}"),
            format!("no-search/x: {denied}"),
        ]
    );
    assert_eq!(leaves(&scanned), ["ok"]);
    let next = scanned.next.finish(rappel_types::ObjectId([1; 32]), None);
    let again = project.try_scan(Some(next), None).unwrap();
    assert_eq!(again.partial, scanned.partial);
    assert!(again.changes.is_empty());
}

/// Where a rule file or git's index should be, there is a pipe that nobody ever writes to.
#[test]
fn pipes_in_the_place_of_rule_files_are_not_waited_for() {
    for name in [".git/index", ".git/info/exclude", ".git/config", ".gitignore", ".rappelignore"] {
        let project = Project::with_git();
        project.write("a", "1");
        let place = project.at(name);
        let _ = std::fs::remove_file(&place);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        mknodat(CWD, &place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for _ in 0..2 {
            let scanned = project.try_scan(None, None).unwrap();
            assert!(leaves(&scanned).contains(&"a".to_owned()), "{name}");
            let tells = scanned.partial.iter().any(|one| one.reason.contains("git's index"));
            assert_eq!(tells, name == ".git/index", "{:?}", scanned.partial);
        }
    }
    let project = Project::new();
    project.write("a", "1");
    mknodat(CWD, project.at(".git"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(leaves(&project.try_scan(None, None).unwrap()).contains(&"a".to_owned()));
}
