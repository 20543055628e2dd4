//! A repository under protection, and a portrait of everything in it that counts.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use rappel::types::Manifest;
use rappel::{RestoreOptions, RestoreReport, SaveOptions};
pub use rappel_testing::git::{attempt, bytes as git, command, text};
use rappel_testing::project::{Snapshot, memory_dir};
use rappel_testing::{Project, snapshot};

use crate::support::{World, reference};

/// Everything of a repository that a restore must bring back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Portrait {
    pub refs: String,
    pub head: String,
    pub status: String,
    pub stash: String,
    pub staged: String,
    /// Files of git's folder: the index, reflogs, unfinished operations.
    pub inside: BTreeMap<String, Vec<u8>>,
    pub files: Snapshot,
    pub fsck: String,
}

fn lossy(bytes: &[u8]) -> String {
    rappel::types::path::escape(bytes).replace("\\x00", "\n").replace("\\x0a", "\n")
}

/// Files below a folder without `.git`.
pub fn files(folder: &Path) -> Snapshot {
    let all = snapshot(folder).into_iter();
    all.filter(|(path, _)| !path.split('/').any(|name| name == ".git")).collect()
}

/// What git's folder holds, but for objects, refs and set-up.
fn inside(git_dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for (path, thing) in snapshot(git_dir) {
        let rest = match path.strip_prefix("worktrees/") {
            Some(rest) => rest.split_once('/').map_or("", |(_, rest)| rest),
            None => &path,
        };
        let first = rest.split('/').next().unwrap_or_default();
        let skipped = ["objects", "refs", "packed-refs", "reftable", "config", "hooks", "info"];
        let skipped = skipped.contains(&first)
            || ["branches", "description", "modules", "lfs"].contains(&first)
            || first.starts_with("gc.")
            || first.starts_with("sharedindex.");
        if let (false, rappel_testing::project::Thing::File { bytes, .. }) = (skipped, thing) {
            found.insert(path, bytes);
        }
    }
    found
}

/// Looks at a work tree without leaving a trace.
pub fn portrait(folder: &Path) -> Portrait {
    let ask = |arguments: &[&str]| {
        let output = attempt(folder, &[&["--no-optional-locks"], arguments].concat());
        format!("{}{}", lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let git_dir = text(folder, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    Portrait {
        refs: ask(&["for-each-ref", "--format=%(refname) %(objectname) %(symref)"]),
        head: ask(&["rev-parse", "--symbolic-full-name", "HEAD"]) + &ask(&["rev-parse", "HEAD"]),
        status: ask(&["status", "--porcelain=v2", "-z", "--untracked-files=all"]),
        stash: ask(&["stash", "list", "--format=%gd %H %gs"]),
        staged: ask(&["ls-files", "--stage", "-v", "-z"]),
        inside: inside(Path::new(&git_dir)),
        files: files(folder),
        fsck: ask(&["fsck", "--no-dangling", "--no-progress"]),
    }
}

/// Says what differs, not everything.
pub fn assert_same(found: &Portrait, expected: &Portrait, when: &str) {
    assert_eq!(found.refs, expected.refs, "refs, {when}");
    assert_eq!(found.head, expected.head, "HEAD, {when}");
    assert_eq!(found.stash, expected.stash, "stash, {when}");
    assert_eq!(found.staged, expected.staged, "index, {when}");
    let names = |of: &Portrait| of.inside.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "files of git, {when}");
    for (name, bytes) in &found.inside {
        assert_eq!(lossy(bytes), lossy(&expected.inside[name]), "{name}, {when}");
    }
    assert_eq!(found.files, expected.files, "files, {when}");
    assert_eq!(found.status, expected.status, "status, {when}");
    assert_eq!(found.fsck, expected.fsck, "fsck, {when}");
}

/// A repository with a home beside it.
pub struct Bench {
    pub world: World,
}

impl Bench {
    /// A folder without a repository.
    pub fn bare() -> Self {
        let mut world = World::new(Project::in_memory());
        world.home = memory_dir();
        Self { world }
    }

    /// As [`Bench::new`], on the disk that tests with faults need.
    pub fn on_disk() -> Self {
        let bench = Self { world: World::new(Project::new()) };
        bench.git(&["init", "-q"]);
        bench.fill();
        bench
    }

    /// An empty repository.
    pub fn empty() -> Self {
        let bench = Self::bare();
        bench.git(&["init", "-q"]);
        bench
    }

    /// History, branches, tags, notes, two stashes; something staged, dirty and untracked.
    pub fn new() -> Self {
        let bench = Self::empty();
        bench.fill();
        bench
    }

    pub fn fill(&self) {
        self.commit("a", "one\n");
        self.commit("d/b", "two\n");
        self.commit("a", "one\nmore\n");
        self.git(&["tag", "light"]);
        self.git(&["tag", "-a", "-m", "heavy", "v1"]);
        self.git(&["notes", "add", "-m", "a note"]);
        self.git(&["checkout", "-q", "-b", "feature/x", "HEAD~1"]);
        self.commit("x", "feature\n");
        self.commit("y", "feature\n");
        self.git(&["checkout", "-q", "main"]);
        self.commit("c", "three\n");
        for text in ["first\n", "second\n"] {
            self.world.write("a", text);
            self.world.write("left", text);
            self.git(&["stash", "push", "-q", "-u", "-m", text.trim()]);
        }
        self.world.write("staged", "staged\n");
        self.git(&["add", "staged"]);
        self.world.write("d/b", "two\nstaged\n");
        self.git(&["add", "d/b"]);
        self.world.write("d/b", "two\nstaged\ndirty\n");
        self.world.write("c", "dirty\n");
        self.world.write("new folder/untracked", "untracked\n");
    }

    pub fn root(&self) -> &Path {
        self.world.project.root()
    }

    pub fn git_dir(&self) -> PathBuf {
        self.root().join(".git")
    }

    pub fn outside(&self, name: &str) -> PathBuf {
        self.world.project.outside().join(name)
    }

    pub fn git(&self, arguments: &[&str]) -> Vec<u8> {
        git(self.root(), arguments)
    }

    pub fn text(&self, arguments: &[&str]) -> String {
        text(self.root(), arguments)
    }

    /// Git, where failing is fine.
    pub fn attempt(&self, arguments: &[&str]) -> Output {
        attempt(self.root(), arguments)
    }

    pub fn commit(&self, path: &str, content: &str) {
        self.world.write(path, content);
        self.git(&["add", path]);
        self.git(&["commit", "-q", "-m", &format!("{path}: {:.20}", content.trim_end())]);
    }

    pub fn portrait(&self) -> Portrait {
        portrait(self.root())
    }

    /// Saves; the checkpoint must be whole.
    pub fn save(&self) -> String {
        let manifest = self.manifest();
        assert_eq!(manifest.partial_reasons, []);
        manifest.id.to_string()
    }

    /// Saves, and says what the checkpoint holds.
    pub fn manifest(&self) -> Manifest {
        self.manifest_at(self.root())
    }

    pub fn manifest_at(&self, root: &Path) -> Manifest {
        self.world.clock.advance(61_000);
        let rappel = rappel::Rappel::open(self.world.options_at(root)).unwrap();
        rappel.save(&SaveOptions::default()).unwrap().checkpoint.manifest
    }

    pub fn restore(&self, id: &str) -> RestoreReport {
        self.world.restore(id)
    }

    pub fn restore_with(
        &self,
        id: &str,
        options: &RestoreOptions,
    ) -> rappel::Result<RestoreReport> {
        self.world.clock.advance(1000);
        self.world.open().restore(&reference(id), options)
    }

    pub fn restore_to(&self, id: &str, name: &str) -> PathBuf {
        let out = self.outside(name);
        let done =
            self.world.open().restore_to(&reference(id), &out, &RestoreOptions::default()).unwrap();
        assert!(done.warnings.is_empty());
        out
    }

    pub fn undo(&self) -> RestoreReport {
        let report = self.world.undo();
        assert_eq!(report.conflicts, [], "{report:?}");
        report
    }

    pub fn redo(&self) {
        let report = self.world.redo();
        assert_eq!(report.conflicts, [], "{report:?}");
    }

    /// Deletes what git's folder is.
    pub fn lose_git(&self) {
        std::fs::remove_dir_all(self.git_dir()).unwrap();
    }

    /// Saves, damages, restores, undoes and redoes; everything must be as it was each time.
    pub fn cycle(&self, damage: impl FnOnce(&Self)) -> Manifest {
        let saved = self.manifest();
        assert_eq!(saved.partial_reasons, []);
        let before = self.portrait();
        assert!(!before.fsck.contains("error"), "{}", before.fsck);
        damage(self);
        let damaged = self.portrait();
        assert!(damaged != before, "the damage did nothing");
        self.restore(saved.id.as_str());
        assert_same(&self.portrait(), &before, "restored");
        self.undo();
        assert_same(&self.portrait(), &damaged, "undone");
        self.redo();
        assert_same(&self.portrait(), &before, "redone");
        self.undo();
        assert_same(&self.portrait(), &damaged, "undone again");
        saved
    }
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    std::str::from_utf8(path.as_os_str().as_bytes()).unwrap()
}
