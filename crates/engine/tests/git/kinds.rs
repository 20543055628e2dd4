//! Repositories of every kind: each works, or the checkpoint says what of it is missing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rappel::types::{Facet, FacetState};
use rappel_testing::cannot_run;

use crate::bench::{Bench, arg, assert_same, git, portrait, text};

/// Damages the repository in the usual ways and brings it back; then without any of it, and elsewhere.
fn survives(bench: &Bench) {
    let saved = bench.cycle(|bench| {
        bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
        bench.git(&["branch", "-q", "-D", "feature/x"]);
        bench.git(&["reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all"]);
        bench.git(&["gc", "-q", "--prune=now"]);
    });
    bench.restore(saved.id.as_str());
    comes_back(bench);
}

/// Everything is gone, and comes back; elsewhere too.
fn comes_back(bench: &Bench) -> String {
    let before = bench.portrait();
    let saved = bench.save();
    bench.lose_git();
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "made again");
    let out = bench.restore_to(&saved, "out");
    assert_same(&portrait(&out), &before, "elsewhere");
    saved
}

/// A bare repository to clone from.
fn remote(bench: &Bench) -> String {
    let remote = bench.outside("remote.git");
    let source = Bench::new();
    source.git(&["reset", "-q", "--hard"]);
    source.git(&["clone", "-q", "--mirror", arg(source.root()), arg(&remote)]);
    git(&remote, &["config", "uploadpack.allowFilter", "true"]);
    git(&remote, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    format!("file://{}", arg(&remote))
}

fn clone(arguments: &[&str]) -> Bench {
    let bench = Bench::bare();
    let url = remote(&bench);
    git(bench.root(), &[&["clone", "-q"], arguments, &[&url, "."]].concat());
    bench
}

#[test]
fn a_clone_with_a_remote() {
    let bench = clone(&[]);
    let before = bench.portrait();
    assert!(before.refs.contains("refs/remotes/origin/HEAD"));
    bench.world.write("a", "dirty\n");
    bench.cycle(|bench| {
        bench.git(&["update-ref", "-d", "refs/remotes/origin/feature/x"]);
        bench.git(&["symbolic-ref", "--delete", "refs/remotes/origin/HEAD"]);
        bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    });
    comes_back(&bench);
}

#[test]
fn a_shallow_clone_and_later_a_deep_one() {
    let bench = clone(&["--depth=1"]);
    comes_back(&bench);
    bench.git(&["fetch", "-q", "--unshallow"]);
    comes_back2(&bench);
}

/// Again, to another folder.
fn comes_back2(bench: &Bench) {
    let before = bench.portrait();
    let saved = bench.save();
    bench.lose_git();
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "made again");
    let out = bench.restore_to(&saved, "out2");
    assert_same(&portrait(&out), &before, "elsewhere");
}

#[test]
fn a_partial_clone() {
    let bench = clone(&["--filter=blob:none"]);
    bench.commit("new", "new\n");
    bench.world.write("s", "staged\n");
    bench.git(&["add", "s"]);
    let head = bench.text(&["rev-parse", "HEAD"]);
    let missing = |folder: &Path| {
        text(folder, &["rev-list", "--objects", "--all", "--missing=print"]).matches('?').count()
    };
    let before = missing(bench.root());
    assert!(before > 0);
    let saved = bench.save();
    assert_eq!(missing(bench.root()), before, "objects were fetched");
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    bench.git(&["reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all"]);
    bench.git(&["gc", "-q", "--prune=now"]);
    bench.restore(&saved);
    assert_eq!(bench.text(&["rev-parse", "HEAD"]), head);
    assert_eq!(bench.text(&["status", "--porcelain"]), "A  s");
    assert_eq!(bench.text(&["show", ":s"]), "staged");
    bench.lose_git();
    bench.restore(&saved);
    assert_eq!(bench.text(&["status", "--porcelain"]), "A  s");
    bench.git(&["fsck", "--no-dangling"]);
    // What the server has is still had from there.
    bench.git(&["checkout", "-q", "-f", "-B", "feature/x", "origin/feature/x"]);
}

#[test]
fn objects_of_another_repository() {
    let bench = Bench::bare();
    let url = remote(&bench);
    let path = url.strip_prefix("file://").unwrap().to_owned();
    git(bench.root(), &["clone", "-q", "--shared", &path, "."]);
    bench.commit("new", "new\n");
    let before = bench.portrait();
    let saved = bench.save();
    bench.lose_git();
    std::fs::remove_dir_all(&path).unwrap();
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "restored");
}

#[test]
fn sha256() {
    let bench = Bench::bare();
    bench.git(&["init", "-q", "--object-format=sha256"]);
    bench.fill();
    survives(&bench);
    let bench = Bench::bare();
    bench.git(&["init", "-q", "--object-format=sha256"]);
    bench.world.write("a", "one\n");
    bench.git(&["add", "a"]);
    bench.cycle(|bench| {
        bench.git(&["rm", "-q", "--cached", "a"]);
        bench.git(&["prune", "--expire=now"]);
    });
}

#[test]
fn refs_in_tables() {
    let bench = Bench::bare();
    if !bench.attempt(&["init", "-q", "--ref-format=reftable"]).status.success() {
        return cannot_run("git is older than 2.45 and keeps no refs in tables");
    }
    bench.fill();
    let before = bench.portrait();
    let saved = bench.save();
    let reflog = || bench.text(&["reflog", "show", "--all", "--format=%H %gd %gs"]);
    let log = reflog();
    bench.git(&["stash", "drop", "-q", "stash@{1}"]);
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    bench.git(&["branch", "-q", "-D", "feature/x"]);
    bench.git(&["tag", "-d", "v1"]);
    assert!(!bench.attempt(&["revert", "--no-edit", "HEAD~2"]).status.success());
    let (damaged, damaged_log) = (bench.portrait(), reflog());
    assert_ne!(damaged_log, log);
    let report = bench.restore(&saved);
    assert!(report.warnings.is_empty(), "{report:?}");
    assert_same(&bench.portrait(), &before, "restored");
    assert_eq!(reflog(), log);
    assert!(!bench.attempt(&["rev-parse", "--verify", "REVERT_HEAD"]).status.success());
    bench.undo();
    assert_same(&bench.portrait(), &damaged, "undone");
    assert_eq!(reflog(), damaged_log);
    bench.git(&["rev-parse", "--verify", "REVERT_HEAD"]);
    bench.git(&["revert", "--abort"]);
    // A ref that stays keeps the tables: the others move one by one, and that is said.
    bench.git(&["branch", "later"]);
    let report = bench.restore(&saved);
    assert!(report.warnings[0].contains("kept in tables"), "{report:?}");
    let now = bench.portrait();
    assert!(now.refs.contains("refs/heads/later"));
    assert_eq!((&now.head, &now.files), (&before.head, &before.files));
    assert_eq!((&now.staged, &now.status), (&before.staged, &before.status));
    // Somebody else is at work on the refs.
    let prune = rappel::RestoreOptions { prune_refs: true, ..Default::default() };
    let lock = bench.git_dir().join("reftable/tables.list.lock");
    std::fs::write(&lock, "somebody's").unwrap();
    let error = bench.restore_with(&saved, &prune).unwrap_err();
    assert_eq!(error.kind(), rappel::ErrorKind::Busy, "{error}");
    assert_eq!(std::fs::read(&lock).unwrap(), b"somebody's");
    std::fs::remove_file(&lock).unwrap();
    bench.restore_with(&saved, &prune).unwrap();
    assert_same(&bench.portrait(), &before, "restored");
    assert_eq!(reflog(), log);
    bench.restore(&saved);
    bench.git(&["stash", "clear"]);
    bench.lose_git();
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "made again");
    let out = bench.restore_to(&saved, "out");
    assert_same(&portrait(&out), &before, "elsewhere");
}

#[test]
fn a_split_index() {
    let bench = Bench::new();
    bench.git(&["update-index", "--split-index"]);
    bench.world.write("more", "more\n");
    bench.git(&["add", "more"]);
    survives(&bench);
    let bench = Bench::new();
    bench.git(&["update-index", "--split-index"]);
    bench.world.write("more", "more\n");
    bench.git(&["add", "more"]);
    bench.cycle(|bench| {
        bench.git(&["update-index", "--no-split-index"]);
        for entry in bench.git_dir().read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("sharedindex") {
                std::fs::remove_file(path).unwrap();
            }
        }
        bench.git(&["reset", "-q"]);
    });
}

#[test]
fn settings_of_a_work_tree() {
    let bench = Bench::new();
    bench.git(&["config", "extensions.worktreeConfig", "true"]);
    bench.git(&["config", "--worktree", "user.nick", "x"]);
    survives(&bench);
    assert_eq!(bench.text(&["config", "--worktree", "user.nick"]), "x");
}

#[test]
fn sparse_checkouts() {
    for sparse_index in [false, true] {
        let bench = Bench::new();
        bench.git(&["reset", "-q", "--hard"]);
        bench.git(&["clean", "-q", "-f", "-d"]);
        bench.commit("e/f/g", "deep\n");
        bench.commit("h/i", "other\n");
        let flag = if sparse_index { "--sparse-index" } else { "--no-sparse-index" };
        bench.git(&["sparse-checkout", "set", "--cone", flag, "e"]);
        assert!(!bench.world.exists("h/i"));
        bench.world.write("e/f/g", "dirty\n");
        bench.world.write("e/new", "new\n");
        let part = bench.manifest().git.unwrap().root;
        assert_eq!(part.dirty_files.len(), 2, "{:?}", part.dirty_files);
        survives(&bench);
        assert!(!bench.world.exists("h/i"));
    }
}

#[test]
fn line_ends_are_not_phantom_changes() {
    for attributes in [false, true] {
        let bench = Bench::empty();
        match attributes {
            true => bench.commit(".gitattributes", "*.txt text eol=crlf\n*.bin -text\n"),
            false => drop(bench.git(&["config", "core.autocrlf", "true"])),
        }
        bench.commit("a.txt", "one\r\ntwo\r\n");
        bench.commit("b.bin", "one\r\ntwo\r\n");
        bench.commit("c.txt", "one\r\n");
        bench.git(&["branch", "feature/x"]);
        // As git itself writes them.
        bench.git(&["rm", "-q", "-r", "--cached", "."]);
        bench.git(&["reset", "-q", "--hard"]);
        assert_eq!(bench.text(&["status", "--porcelain"]), "");
        let part = bench.manifest().git.unwrap().root;
        assert_eq!(part.dirty_files, []);
        bench.world.write("c.txt", "dirty\r\n");
        survives(&bench);
        assert_eq!(bench.world.read("a.txt"), "one\r\ntwo\r\n");
        assert_eq!(bench.text(&["status", "--porcelain"]), " M c.txt");
    }
}

#[test]
fn filters_are_not_run_and_not_in_the_way() {
    let bench = Bench::empty();
    bench.git(&["config", "filter.rot.clean", "tr a-m n-z"]);
    bench.git(&["config", "filter.rot.smudge", "tr n-z a-m"]);
    bench.commit(".gitattributes", "*.rot filter=rot\n");
    bench.commit("plain", "plain\n");
    bench.commit("a.rot", "abc\n");
    assert_eq!(bench.text(&["show", "HEAD:a.rot"]), "nop");
    bench.git(&["branch", "feature/x"]);
    bench.commit("b.rot", "def\n");
    survives(&bench);
    assert_eq!(bench.world.read("a.rot"), "abc\n");
    assert_eq!(bench.text(&["status", "--porcelain"]), "");
}

#[test]
fn large_files_beside_the_repository() {
    let bench = Bench::new();
    let object = bench.git_dir().join("lfs/objects/aa/bb/aabbcc");
    std::fs::create_dir_all(object.parent().unwrap()).unwrap();
    std::fs::write(&object, "large").unwrap();
    let saved = bench.save();
    std::fs::remove_dir_all(bench.git_dir().join("lfs")).unwrap();
    bench.restore(&saved);
    assert_eq!(std::fs::read(&object).unwrap(), b"large");
    bench.lose_git();
    bench.restore(&saved);
    assert_eq!(std::fs::read(&object).unwrap(), b"large");
}

#[test]
fn repositories_in_a_repository() {
    let bench = Bench::new();
    let url = remote(&bench);
    bench.git(&["submodule", "--quiet", "add", &url, "libs/sub"]);
    bench.git(&["commit", "-q", "-m", "with a submodule"]);
    let sub = bench.root().join("libs/sub");
    let nested = bench.root().join("nested/one");
    git(bench.root(), &["clone", "-q", &url, "nested/one"]);
    std::fs::write(sub.join("a"), "dirty\n").unwrap();
    std::fs::write(nested.join("n"), "staged\n").unwrap();
    git(&nested, &["add", "n"]);
    let all = || [bench.portrait(), portrait(&sub), portrait(&nested)];
    let same = |expected: &[crate::bench::Portrait; 3], when: &str| {
        for (found, expected) in all().iter().zip(expected) {
            assert_same(found, expected, when);
        }
    };
    let before = all();
    let manifest = bench.manifest();
    assert_eq!(manifest.partial_reasons, []);
    let part = manifest.git.clone().unwrap();
    let found: Vec<String> = part.nested.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(found, ["libs/sub", "nested/one"]);
    let saved = manifest.id.to_string();
    for repository in [&sub, &nested] {
        git(repository, &["reset", "-q", "--hard", "HEAD~1"]);
        git(repository, &["reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all"]);
        git(repository, &["gc", "-q", "--prune=now"]);
    }
    let damaged = all();
    bench.restore(&saved);
    same(&before, "restored");
    bench.undo();
    same(&damaged, "undone");
    bench.redo();
    same(&before, "redone");

    // The folders of both.
    std::fs::remove_dir_all(&nested).unwrap();
    std::fs::remove_dir_all(&sub).unwrap();
    bench.restore(&saved);
    same(&before, "folders made again");

    // Every git folder, but not the files.
    std::fs::remove_dir_all(nested.join(".git")).unwrap();
    bench.lose_git();
    bench.restore(&saved);
    same(&before, "repositories made again");

    // All there is.
    for name in [".git", "nested", "libs"] {
        std::fs::remove_dir_all(bench.root().join(name)).unwrap();
    }
    bench.restore(&saved);
    same(&before, "everything made again");

    let out = bench.restore_to(&saved, "out");
    assert_same(&portrait(&out), &before[0], "elsewhere");
    assert_same(&portrait(&out.join("libs/sub")), &before[1], "elsewhere");
    assert_same(&portrait(&out.join("nested/one")), &before[2], "elsewhere");
}

#[test]
fn a_broken_repository() {
    let bench = Bench::new();
    bench.save();
    std::fs::write(bench.git_dir().join("HEAD"), "nonsense").unwrap();
    bench.world.write("a", "still captured\n");
    let manifest = bench.manifest();
    assert_eq!(manifest.facets[&Facet::Files], FacetState::Captured);
    assert!(manifest.partial || manifest.facets[&Facet::Git] == FacetState::Failed, "{manifest:?}");

    // An object that everything needs.
    let bench = Bench::new();
    let tree = bench.text(&["rev-parse", "HEAD~1^{tree}"]);
    let (folder, name) = tree.split_at(2);
    std::fs::remove_file(bench.git_dir().join("objects").join(folder).join(name)).unwrap();
    let manifest = bench.manifest();
    assert!(manifest.partial, "{manifest:?}");
    assert_eq!(manifest.facets[&Facet::Files], FacetState::Captured);
    assert!(manifest.partial_reasons.iter().all(|reason| reason.facet == Facet::Git));
    // It is not forgotten.
    let again = bench.manifest();
    assert_eq!(again.partial_reasons, manifest.partial_reasons);

    // An index that is none.
    let bench = Bench::new();
    std::fs::write(bench.git_dir().join("index"), "nonsense").unwrap();
    let manifest = bench.manifest();
    assert!(manifest.partial);
    assert!(manifest.git.is_some());
}

#[test]
fn a_file_that_cannot_be_read() {
    let bench = Bench::new();
    let hook = bench.git_dir().join("hooks/private");
    std::fs::write(&hook, "x").unwrap();
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o000)).unwrap();
    let manifest = bench.manifest();
    // Who may read everything reads it.
    assert!(manifest.git.is_some());
    assert_eq!(manifest.partial, std::fs::read(&hook).is_err());
}

#[test]
fn a_workspace_that_is_a_linked_work_tree() {
    let bench = Bench::new();
    let linked = bench.outside("linked");
    bench.git(&["worktree", "add", "-q", "-b", "agent", arg(&linked), "feature/x"]);
    std::fs::write(linked.join("x"), "dirty\n").unwrap();
    std::fs::write(linked.join("n"), "new\n").unwrap();
    git(&linked, &["add", "n"]);
    let (before, main) = (portrait(&linked), bench.portrait());
    let saved = bench.manifest_at(&linked);
    assert_eq!(saved.partial_reasons, []);
    git(&linked, &["reset", "-q", "--hard", "HEAD~1"]);
    bench.git(&["tag", "-d", "v1"]);
    bench.git(&["stash", "clear"]);
    bench.world.write("of the main one", "stays\n");
    bench.git(&["add", "of the main one"]);
    let rappel = rappel::Rappel::open(bench.world.options_at(&linked)).unwrap();
    bench.world.clock.advance(1000);
    let id = crate::support::reference(saved.id.as_str());
    let report = rappel.restore(&id, &rappel::RestoreOptions::default()).unwrap();
    assert_eq!(report.conflicts, []);
    let now = portrait(&linked);
    assert_eq!((&now.refs, &now.head, &now.stash), (&before.refs, &before.head, &before.stash));
    assert_eq!((&now.staged, &now.status), (&before.staged, &before.status));
    assert_eq!((&now.files, &now.fsck), (&before.files, &before.fsck));
    assert!(bench.world.exists("of the main one"));
    assert!(bench.text(&["ls-files"]).contains("of the main one"));
    assert_eq!(bench.portrait().head, main.head);
    let out = bench.outside("out");
    rappel.restore_to(&id, &out, &rappel::RestoreOptions::default()).unwrap();
    let now = portrait(&out);
    assert_eq!((&now.refs, &now.head, &now.stash), (&before.refs, &before.head, &before.stash));
    assert_eq!((&now.files, &now.status), (&before.files, &before.status));
    git(&out, &["fsck"]);
}

#[test]
fn a_linked_work_tree_that_lost_its_link() {
    let bench = Bench::new();
    let linked = bench.outside("linked");
    bench.git(&["worktree", "add", "-q", "-b", "agent", arg(&linked), "feature/x"]);
    std::fs::write(linked.join("n"), "new\n").unwrap();
    git(&linked, &["add", "n"]);
    let before = portrait(&linked);
    let saved = bench.manifest_at(&linked);
    let open = || rappel::Rappel::open(bench.world.options_at(&linked)).unwrap();
    let id = crate::support::reference(saved.id.as_str());
    git(&linked, &["reset", "-q", "--hard", "HEAD~1"]);
    let damaged = portrait(&linked);
    let link = std::fs::read(linked.join(".git")).unwrap();
    std::fs::remove_file(linked.join(".git")).unwrap();
    bench.world.clock.advance(1000);
    let options = rappel::RestoreOptions::default();
    let plan = open().plan_restore(&id, &options).unwrap();
    assert!(plan.details.iter().any(|line| line.contains("linked again")), "{plan:?}");
    let report = open().restore(&id, &options).unwrap();
    assert_eq!(report.conflicts, []);
    let now = portrait(&linked);
    assert_eq!((&now.refs, &now.head), (&before.refs, &before.head));
    assert_eq!((&now.staged, &now.status), (&before.staged, &before.status));
    assert_eq!(now.files, before.files);
    // And back: without the link, but everything else as it was.
    bench.world.clock.advance(1000);
    let step = open().next_undo().unwrap();
    let report = open().step(&step, false, &options).unwrap();
    assert_eq!(report.conflicts, [], "{report:?}");
    assert!(!linked.join(".git").exists());
    std::fs::write(linked.join(".git"), &link).unwrap();
    assert_same(&portrait(&linked), &damaged, "undone");
    std::fs::remove_file(linked.join(".git")).unwrap();
    bench.world.clock.advance(1000);
    let step = open().next_redo().unwrap();
    assert_eq!(open().step(&step, false, &options).unwrap().conflicts, []);
    let now = portrait(&linked);
    assert_eq!((&now.head, &now.staged, &now.files), (&before.head, &before.staged, &before.files));

    // A folder of that name that is somebody else's by now is left alone.
    std::fs::remove_file(linked.join(".git")).unwrap();
    let other = bench.outside("somewhere else");
    let admin = bench.git_dir().join("worktrees/linked/gitdir");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(&admin, format!("{}/.git\n", arg(&other))).unwrap();
    let index = std::fs::read(bench.git_dir().join("worktrees/linked/index")).unwrap();
    bench.world.clock.advance(1000);
    let report = open().restore(&id, &options).unwrap();
    assert!(report.warnings.iter().any(|line| line.contains("not restored")), "{report:?}");
    assert_eq!(std::fs::read(bench.git_dir().join("worktrees/linked/index")).unwrap(), index);
}

#[test]
fn a_submodule_whose_folder_is_gone() {
    let bench = Bench::new();
    let url = remote(&bench);
    bench.git(&["submodule", "--quiet", "add", &url, "libs/sub"]);
    bench.git(&["commit", "-q", "-m", "with a submodule"]);
    let sub = bench.root().join("libs/sub");
    std::fs::write(sub.join("n"), "staged\n").unwrap();
    git(&sub, &["add", "n"]);
    let (before, before_there) = (bench.portrait(), portrait(&sub));
    let saved = bench.save();
    git(&sub, &["reset", "-q", "--hard", "HEAD~1"]);
    git(&sub, &["branch", "mine"]);
    git(&sub, &["reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all"]);
    git(&sub, &["gc", "-q", "--prune=now"]);
    let damaged_there = portrait(&sub);
    let link = std::fs::read(sub.join(".git")).unwrap();
    std::fs::remove_dir_all(bench.root().join("libs")).unwrap();
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "restored");
    let now = portrait(&sub);
    assert!(now.refs.contains("refs/heads/mine"));
    assert_eq!((&now.head, &now.staged), (&before_there.head, &before_there.staged));
    assert_eq!((&now.status, &now.files), (&before_there.status, &before_there.files));
    bench.undo();
    assert!(!bench.root().join("libs").exists());
    std::fs::create_dir_all(&sub).unwrap();
    std::fs::write(sub.join(".git"), link).unwrap();
    let now = portrait(&sub);
    assert_eq!((&now.refs, &now.head), (&damaged_there.refs, &damaged_there.head));
    assert_eq!((&now.staged, &now.inside), (&damaged_there.staged, &damaged_there.inside));
}

#[test]
fn a_submodule_in_a_submodule() {
    let inner = Bench::new();
    inner.git(&["reset", "-q", "--hard"]);
    let middle = Bench::new();
    middle.git(&["reset", "-q", "--hard"]);
    middle.git(&["submodule", "--quiet", "add", arg(inner.root()), "in"]);
    middle.git(&["commit", "-q", "-m", "inner"]);
    let bench = Bench::new();
    bench.git(&["submodule", "--quiet", "add", arg(middle.root()), "mid"]);
    bench.git(&["submodule", "--quiet", "update", "--init", "--recursive"]);
    bench.git(&["commit", "-q", "-m", "middle"]);
    let folders = [bench.root().to_owned(), bench.root().join("mid"), bench.root().join("mid/in")];
    for (n, folder) in folders.iter().enumerate() {
        std::fs::write(folder.join("a"), format!("dirty {n}\n")).unwrap();
        std::fs::write(folder.join("s"), format!("staged {n}\n")).unwrap();
        git(folder, &["add", "s"]);
    }
    let all = || folders.clone().map(|folder| portrait(&folder));
    let same = |expected: &[crate::bench::Portrait; 3], when: &str| {
        all().iter().zip(expected).for_each(|(now, then)| assert_same(now, then, when));
    };
    let before = all();
    let manifest = bench.manifest();
    assert_eq!(manifest.partial_reasons, []);
    let found = manifest.git.unwrap().nested;
    let found: Vec<String> = found.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(found, ["mid", "mid/in"]);
    let saved = manifest.id.to_string();
    for folder in &folders {
        git(folder, &["reset", "-q", "--hard", "HEAD~1"]);
    }
    let damaged = all();
    bench.restore(&saved);
    same(&before, "restored");
    bench.undo();
    same(&damaged, "undone");
    bench.redo();
    same(&before, "redone");
    // Only the folders; the repositories are still in `.git/modules`.
    std::fs::remove_dir_all(&folders[1]).unwrap();
    bench.restore(&saved);
    same(&before, "folders made again");
    for name in [".git", "mid"] {
        std::fs::remove_dir_all(bench.root().join(name)).unwrap();
    }
    bench.restore(&saved);
    same(&before, "everything made again");
    bench.undo();
    assert!(!bench.git_dir().exists() && !folders[1].exists());
    let out = bench.restore_to(&saved, "out");
    assert_same(&portrait(&out.join("mid/in")), &before[2], "elsewhere");
}

#[test]
fn what_a_solved_conflict_was_made_of() {
    let bench = Bench::new();
    bench.git(&["reset", "-q", "--hard"]);
    bench.git(&["checkout", "-q", "-b", "other", "HEAD~1"]);
    bench.commit("c", "other\n");
    bench.git(&["checkout", "-q", "main"]);
    assert!(!bench.attempt(&["merge", "-q", "other"]).status.success());
    bench.world.write("c", "solved\n");
    bench.git(&["add", "c"]);
    let unmerged = bench.text(&["ls-files", "--resolve-undo"]);
    assert_eq!(unmerged.lines().count(), 2, "{unmerged}");
    let saved = bench.save();
    // No commit has what the index remembers of the two sides.
    bench.git(&["merge", "--abort"]);
    bench.git(&["branch", "-D", "other"]);
    bench.git(&["reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all"]);
    bench.git(&["gc", "-q", "--prune=now"]);
    bench.restore(&saved);
    assert_eq!(bench.text(&["ls-files", "--resolve-undo"]), unmerged);
    for line in unmerged.lines() {
        bench.git(&["cat-file", "-e", line.split_whitespace().nth(1).unwrap()]);
    }
    bench.git(&["checkout", "-m", "--", "c"]);
    assert!(bench.world.read("c").contains("<<<<<<<"));
}

#[test]
fn git_lfs_itself() {
    let bench = Bench::empty();
    if !bench.attempt(&["lfs", "version"]).status.success() {
        return cannot_run("git-lfs is not installed");
    }
    bench.git(&["lfs", "install", "--local"]);
    bench.git(&["lfs", "track", "*.big"]);
    bench.git(&["add", ".gitattributes"]);
    bench.commit("a.big", "large one\n");
    bench.git(&["branch", "feature/x"]);
    bench.commit("a.big", "large two\n");
    bench.commit("plain", "plain\n");
    assert!(bench.text(&["show", "HEAD:a.big"]).contains("oid sha256:"));
    let part = bench.manifest().git.unwrap().root;
    assert_eq!(part.dirty_files.len(), 0, "{:?}", part.dirty_files);
    let saved = bench.save();
    let before = bench.portrait();
    bench.lose_git();
    bench.world.remove("a.big");
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "made again");
    assert_eq!(bench.world.read("a.big"), "large two\n");
    assert_eq!(bench.text(&["status", "--porcelain"]), "");
    // Both versions are at hand, without a server.
    bench.git(&["checkout", "-q", "feature/x"]);
    assert_eq!(bench.world.read("a.big"), "large one\n");
    bench.git(&["lfs", "fsck"]);
}
