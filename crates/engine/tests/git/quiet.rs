//! A capture changes nothing, runs nothing of the user's, and says what git says.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rappel::types::RelPath;
use rappel::types::git::RepositoryPart;

use crate::bench::{Bench, arg, command, git};

type Listing = Vec<(PathBuf, u32, i64, i64, i64, [u8; 32])>;

/// Every path with its mode, times and content.
fn listing(folder: &Path) -> Listing {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let meta = folder.metadata().unwrap();
        found.push((folder.clone(), meta.mode(), meta.mtime(), meta.mtime_nsec(), 0, [0; 32]));
        for entry in std::fs::read_dir(&folder).unwrap() {
            let (path, meta) = entry.map(|e| (e.path(), e.metadata().unwrap())).unwrap();
            if meta.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            let hash: [u8; 32] = *blake3::hash(&bytes).as_bytes();
            found.push((
                path,
                meta.mode(),
                meta.mtime(),
                meta.mtime_nsec(),
                meta.ctime_nsec(),
                hash,
            ));
        }
    }
    found.sort();
    found
}

fn script(path: &Path, marker: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!("#!/bin/sh\necho ran >> '{}'\ncat\n", arg(marker));
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_capture_leaves_no_trace_and_runs_nothing() {
    let bench = Bench::new();
    let linked = bench.outside("linked");
    bench.git(&["worktree", "add", "-q", arg(&linked), "feature/x"]);
    let marker = bench.outside("marker");
    let evil = bench.outside("evil.sh");
    script(&evil, &marker);
    for hook in ["reference-transaction", "post-index-change", "pre-commit", "post-checkout"] {
        script(&bench.git_dir().join("hooks").join(hook), &marker);
    }
    let evil = arg(&evil);
    let trace = bench.outside("trace");
    for (name, value) in [
        ("core.fsmonitor", evil),
        ("core.pager", evil),
        ("core.alternateRefsCommand", evil),
        ("core.sshCommand", evil),
        ("diff.external", evil),
        ("diff.evil.textconv", evil),
        ("diff.evil.command", evil),
        ("filter.evil.clean", evil),
        ("filter.evil.smudge", evil),
        ("filter.evil.process", evil),
        ("filter.evil.required", "true"),
        ("gpg.program", evil),
        ("log.showSignature", "true"),
        ("core.untrackedCache", "true"),
        ("trace2.eventTarget", arg(&trace)),
        ("trace2.normalTarget", arg(&trace)),
        ("gc.auto", "1"),
        ("remote.origin.url", "ext::/bin/false"),
        ("remote.origin.promisor", "true"),
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
    ] {
        let file = bench.git_dir().join("config");
        bench.git(&["config", "--file", arg(&file), name, value]);
    }
    bench.world.write(".gitattributes", "* filter=evil diff=evil\n");
    bench.world.write("another", "text\n");
    let _ = std::fs::remove_file(&marker);

    for round in 0..3 {
        let before = (listing(&bench.git_dir()), listing(&linked));
        let manifest = bench.manifest();
        assert!(manifest.git.is_some(), "{:?}", manifest.partial_reasons);
        let after = (listing(&bench.git_dir()), listing(&linked));
        assert_eq!(before, after, "round {round}");
        assert!(!marker.exists(), "{:?}", std::fs::read_to_string(&marker));
        assert!(!trace.exists());
        bench.world.write("another", format!("text {round}\n"));
    }
    // Nor does a plan.
    let before = listing(&bench.git_dir());
    let newest = crate::support::reference("latest");
    bench.world.open().plan_restore(&newest, &rappel::RestoreOptions::default()).unwrap();
    assert_eq!(before, listing(&bench.git_dir()));
    assert!(!marker.exists() && !trace.exists());
}

#[test]
fn a_restore_runs_nothing_of_the_users() {
    let bench = Bench::new();
    let marker = bench.outside("marker");
    let saved = bench.save();
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    bench.git(&["branch", "-q", "-D", "feature/x"]);
    for hook in ["reference-transaction", "post-index-change", "post-checkout", "post-rewrite"] {
        script(&bench.git_dir().join("hooks").join(hook), &marker);
    }
    bench.restore(&saved);
    assert!(!marker.exists());
}

fn paths(list: &[RelPath]) -> BTreeSet<Vec<u8>> {
    list.iter().map(|path| path.as_bytes().to_vec()).collect()
}

/// What `git status` says: staged, modified, untracked.
fn status(folder: &Path) -> [BTreeSet<Vec<u8>>; 3] {
    let args = ["--no-optional-locks", "status", "--porcelain=v2", "-z", "--untracked-files=all"];
    let answer = git(folder, &args);
    let mut fields = answer.split(|&b| b == 0);
    let [mut staged, mut modified, mut untracked] = [(); 3].map(|()| BTreeSet::new());
    while let Some(field) = fields.next().filter(|field| !field.is_empty()) {
        let words = |count: usize| field.splitn(count, |&b| b == b' ').last().unwrap().to_vec();
        let (path, both) = match field[0] {
            b'1' => (words(9), true),
            b'2' => {
                fields.next();
                (words(10), true)
            }
            b'u' => (words(11), true),
            _ => (field[2..].to_vec(), false),
        };
        if !both {
            untracked.insert(path);
            continue;
        }
        if field[2] != b'.' {
            staged.insert(path.clone());
        }
        if field[3] != b'.' {
            modified.insert(path);
        }
    }
    [staged, modified, untracked]
}

fn agrees(bench: &Bench) -> RepositoryPart {
    agrees_at(bench, bench.root())
}

fn agrees_at(bench: &Bench, root: &Path) -> RepositoryPart {
    let [staged, modified, untracked] = status(root);
    let manifest = bench.manifest_at(root);
    assert_eq!(manifest.partial_reasons, []);
    let part = manifest.git.unwrap().root;
    let found = [&part.staged, &part.modified, &part.untracked].map(|list| paths(list));
    let shown = |sets: &[BTreeSet<Vec<u8>>; 3]| {
        sets.clone()
            .map(|set| set.iter().map(|path| path.escape_ascii().to_string()).collect::<Vec<_>>())
    };
    assert_eq!(shown(&found), shown(&[staged.clone(), modified.clone(), untracked.clone()]));
    let all: BTreeSet<Vec<u8>> = [staged, modified, untracked].into_iter().flatten().collect();
    assert_eq!(paths(&part.dirty_files), all);
    part
}

fn write(bench: &Bench, name: &[u8], text: &str) {
    let path = bench.root().join(std::ffi::OsStr::from_bytes(name));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn lists_are_those_of_git() {
    let bench = Bench::new();
    agrees(&bench);
    let odd: [&[u8]; 7] = [
        b"with space",
        b"quote\"d",
        b"new\nline",
        b"tab\there",
        b"caf\xe9",
        "d\u{e9}j\u{e0} vu".as_bytes(),
        b"back\\slash",
    ];
    for name in odd {
        write(&bench, name, "one\n");
    }
    write(&bench, b"odd \xff/in\n side", "two\n");
    agrees(&bench);
    bench.git(&["add", "-A"]);
    agrees(&bench);
    bench.git(&["commit", "-q", "-m", "odd"]);
    agrees(&bench);
    for name in odd {
        write(&bench, name, "two\n");
    }
    agrees(&bench);
    // Renames, with and without a change; a mode; a type; something deleted, something ignored.
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "odd"]);
    bench.git(&["mv", "a", "renamed a"]);
    bench.git(&["mv", "d/b", "d/b2"]);
    write(&bench, b"d/b2", "other\n");
    std::fs::set_permissions(bench.root().join("c"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::remove_file(bench.root().join("staged")).unwrap();
    std::fs::remove_file(bench.root().join("with space")).unwrap();
    std::os::unix::fs::symlink("c", bench.root().join("with space")).unwrap();
    write(&bench, b".gitignore", "ignored\n*.log\n");
    write(&bench, b"ignored", "x");
    write(&bench, b"x.log", "x");
    bench.git(&["add", "-f", "x.log"]);
    agrees(&bench);
    write(&bench, b"x.log", "y");
    bench.git(&["add", "-N", "back\\slash"]);
    write(&bench, b"intent", "to add\n");
    bench.git(&["add", "-N", "intent"]);
    agrees(&bench);
    bench.git(&["rm", "-q", "--cached", "c"]);
    agrees(&bench);
    bench.git(&["config", "core.fileMode", "false"]);
    agrees(&bench);
    bench.git(&["update-index", "--assume-unchanged", "x.log"]);
    agrees(&bench);
}

#[test]
fn lists_are_those_of_git_where_files_are_not_chosen_by_its_rules() {
    let bench = Bench::new();
    let change = |name: &str| {
        let path = bench.root().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let db = rusqlite::Connection::open(path).unwrap();
        db.execute_batch("CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1);").unwrap();
    };
    write(&bench, b".gitignore", "notes/\n.env\nignored.db\n");
    let config = "[files]\ninclude = ['.env']\n[knowledge]\npaths = ['notes', 'docs']\n\
                  [[database]]\nname = 'named'\nurl = 'sqlite:ignored.db'\n";
    write(&bench, b"rappel.toml", config);
    for name in ["tracked.db", "notes/known.db", "ignored.db"] {
        change(name);
    }
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "a database"]);
    for name in [&b".env"[..], b"notes/ignored.md", b"docs/new.md"] {
        write(&bench, name, "new\n");
    }
    agrees(&bench);
    for name in ["tracked.db", "notes/known.db", "ignored.db", "untracked.db", "docs/known.db"] {
        change(name);
        agrees(&bench);
    }
    bench.git(&["add", "tracked.db", "untracked.db"]);
    agrees(&bench);
    std::fs::remove_file(bench.root().join("docs/known.db")).unwrap();
    agrees(&bench);
    write(&bench, b".gitignore", "docs/\n");
    agrees(&bench);
}

#[test]
fn lists_are_those_of_git_in_a_merge() {
    let bench = Bench::new();
    bench.git(&["reset", "-q", "--hard"]);
    bench.git(&["checkout", "-q", "-b", "side", "HEAD~1"]);
    bench.commit("c", "side\n");
    bench.commit("d/b", "side\n");
    bench.git(&["rm", "-q", "a"]);
    bench.git(&["commit", "-q", "-m", "without a"]);
    bench.git(&["checkout", "-q", "main"]);
    bench.commit("a", "changed\n");
    bench.attempt(&["merge", "side"]);
    agrees(&bench);
    bench.git(&["add", "c"]);
    agrees(&bench);
}

#[test]
fn what_is_changed_in_the_same_moment_is_seen() {
    let bench = Bench::new();
    bench.git(&["reset", "-q", "--hard"]);
    for round in 0..20 {
        write(&bench, b"same", &format!("{round:03}\n"));
        bench.git(&["add", "same"]);
        write(&bench, b"same", &format!("{round:03}!"));
        agrees(&bench);
    }
}

#[test]
fn a_linked_work_tree_as_the_workspace() {
    let bench = Bench::new();
    let linked = bench.outside("linked");
    bench.git(&["worktree", "add", "-q", "-b", "agent", arg(&linked), "feature/x"]);
    std::fs::write(linked.join("x"), "dirty\n").unwrap();
    std::fs::write(linked.join("n"), "new\n").unwrap();
    git(&linked, &["add", "n"]);
    let part = agrees_at(&bench, &linked);
    assert_eq!(part.branch.as_deref(), Some("agent"));
    let names: Vec<_> = part.worktrees.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["main"]);
    assert_eq!(part.worktrees[0].branch.as_deref(), Some("main"));
    let _ = command(&linked);
}
