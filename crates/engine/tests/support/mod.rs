//! A workspace with a home beside it, and short words for what tests do with them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]
#![allow(dead_code, reason = "each test file uses some of it")]

use std::path::Path;

use rappel::ambient::ManualClock;
use rappel::types::{Reference, RelPath};
use rappel::{Answer, OpenOptions, Rappel, RestoreOptions, RestoreReport, SaveOptions};
use rappel_testing::project::Snapshot;
use rappel_testing::{Project, snapshot};

/// A project under protection.
pub struct World {
    pub project: Project,
    pub home: tempfile::TempDir,
    pub clock: ManualClock,
}

impl World {
    pub fn new(project: Project) -> Self {
        let start = "2026-11-15T14:30:22Z".parse().unwrap();
        Self { project, home: tempfile::tempdir().unwrap(), clock: ManualClock::new(start) }
    }

    pub fn options(&self) -> OpenOptions {
        self.options_at(self.project.root())
    }

    pub fn options_at(&self, root: &Path) -> OpenOptions {
        let mut options = OpenOptions::new(root, self.home.path());
        options.clock = std::sync::Arc::new(self.clock.clone());
        options
    }

    pub fn open(&self) -> Rappel {
        Rappel::open(self.options()).unwrap()
    }

    /// The user allows what `rappel.toml` runs and reaches now.
    pub fn trust(&self) {
        let rappel = self.open();
        let shown = rappel.trust();
        assert!(!shown.entries.is_empty(), "there is nothing to allow");
        rappel.decide(&shown, Answer::Allowed).unwrap();
    }

    /// Saves with a message, a minute after the last thing, and returns the id.
    pub fn save(&self, message: &str) -> String {
        self.clock.advance(61_000);
        let saved = self
            .open()
            .save(&SaveOptions { message: Some(message.to_owned()), ..SaveOptions::default() });
        let checkpoint = saved.unwrap().checkpoint;
        assert!(checkpoint.created);
        checkpoint.manifest.id.to_string()
    }

    pub fn restore(&self, id: &str) -> RestoreReport {
        self.clock.advance(1000);
        let report = self.open().restore(&reference(id), &RestoreOptions::default()).unwrap();
        assert_eq!(report.conflicts, [], "{report:?}");
        report
    }

    pub fn undo(&self) -> RestoreReport {
        self.clock.advance(1000);
        let rappel = self.open();
        let step = rappel.next_undo().unwrap();
        rappel.step(&step, false, &RestoreOptions::default()).unwrap()
    }

    pub fn redo(&self) -> RestoreReport {
        self.clock.advance(1000);
        let rappel = self.open();
        let step = rappel.next_redo().unwrap();
        rappel.step(&step, false, &RestoreOptions::default()).unwrap()
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.project.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[allow(clippy::disallowed_methods, reason = "a test reads what a restore wrote")]
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project.path(path)).unwrap()
    }

    pub fn remove(&self, path: &str) {
        let path = self.project.path(path);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }

    pub fn exists(&self, path: &str) -> bool {
        std::fs::symlink_metadata(self.project.path(path)).is_ok()
    }

    pub fn snapshot(&self) -> Snapshot {
        snapshot(self.project.root())
    }

    pub fn git(&self, arguments: &[&str]) {
        rappel_testing::git::git(self.project.root(), arguments);
    }

    /// Every checkpoint reads to the end, and nothing is damaged.
    pub fn verify(&self) {
        let rappel = self.open();
        let report = rappel.verify(None).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

pub fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

pub fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}
