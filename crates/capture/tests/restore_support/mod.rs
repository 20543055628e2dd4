//! A project with two states, and the way from the one to the other.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::Path;
use std::sync::Arc;

use rappel_capture::databases::DatabaseDrive;
use rappel_capture::restore::{
    Error, Intents, Job, Outcome, Request, Result, RootProbe, Scope, Side, apply, finish,
    plan_files, rollback,
};
use rappel_store::Cancel;
use rappel_store::beneath::Root;
use rappel_store::disk::{Disk, RealDisk};
use rappel_store::operation::Progress;
use rappel_store::tree;
use rappel_testing::{MemoryStore, Project, Snapshot};
use rappel_types::{CheckpointId, Entry, FacetState, Plan, RelPath, Timestamp, WorkspaceId};
use tempfile::TempDir;

pub fn rel(text: impl AsRef<[u8]>) -> RelPath {
    RelPath::new(text.as_ref()).unwrap()
}

pub const CAPTURED: Side<'static> =
    Side { state: FacetState::Captured, skipped: &[], partial: &[] };

/// A workspace in its present state, and the state it is to be brought to.
pub struct Scene {
    pub project: Project,
    pub home: TempDir,
    pub store: MemoryStore,
    pub target: Vec<Entry>,
    pub before: Snapshot,
    pub after: Snapshot,
    pub cancel: Cancel,
    pub progress: Progress,
    pub databases: DatabaseDrive,
}

impl Scene {
    /// From `project` to what `target` is.
    pub fn new(project: Project, target: &Project) -> Self {
        let store = MemoryStore::default();
        let entries = store.take(target.root(), &|_| true);
        let (before, after) = (project.snapshot(), target.snapshot());
        Self {
            home: tempfile::tempdir_in(project.outside().parent().unwrap()).unwrap(),
            project,
            store,
            target: entries,
            before,
            after,
            cancel: Cancel::default(),
            progress: Progress::default(),
            databases: DatabaseDrive::default(),
        }
    }

    pub fn intents(&self, disk: &Arc<dyn Disk>) -> Intents {
        Intents::new(self.home.path().join("intents"), disk.clone())
    }

    pub fn root(&self, disk: &Arc<dyn Disk>) -> Root {
        Root::open(self.project.root(), disk.clone()).unwrap()
    }

    /// The plan, the present side being everything that `held` lets through.
    pub fn plan(&self, held: &dyn Fn(&RelPath) -> bool) -> Plan {
        let present = self.store.take(self.project.root(), held);
        self.plan_from(&present)
    }

    pub fn plan_from(&self, present: &[Entry]) -> Plan {
        let (old, new) = (self.store.tree(present), self.store.tree(&self.target));
        let changes = tree::diff(&self.store, &old, &new).unwrap();
        let real: Arc<dyn Disk> = Arc::new(RealDisk);
        let root = self.root(&real);
        let probe = RootProbe(&root);
        plan_files(&CAPTURED, &CAPTURED, &changes, &Scope::All, &|_, _| true, &probe).unwrap()
    }

    pub fn job<'a>(&'a self, root: &'a Root) -> Job<'a> {
        Job {
            root,
            source: &self.store,
            cancel: &self.cancel,
            progress: &self.progress,
            states: &|_| Ok(Vec::new()),
            databases: &self.databases,
        }
    }

    pub fn apply(&self, plan: &Plan, disk: &Arc<dyn Disk>) -> Result<Outcome> {
        let root = self.root(disk);
        apply(&self.job(&root), &self.intents(disk), &request(plan), &mut |_| Ok(()))
    }

    /// Plans and applies on a disk that works.
    pub fn restore(&self) -> Result<Outcome> {
        self.apply(&self.plan(&|_| true), &real())
    }

    /// Recovers the one open intent, if there is one.
    pub fn recover(&self, disk: &Arc<dyn Disk>, forward: bool) -> Option<Result<Outcome>> {
        let intents = self.intents(disk);
        let listing = intents.list().unwrap();
        assert!(listing.damaged.is_empty(), "{listing:?}");
        assert!(listing.open.len() <= 1);
        let id = listing.open.first()?.header.id;
        let root = self.root(disk);
        let job = self.job(&root);
        let intent = match intents.take(id) {
            Ok(intent) => intent,
            Err(error) => return Some(Err(error)),
        };
        let record = &mut |_: &Outcome| Ok(());
        Some(match forward {
            true => finish(&job, intent, record),
            false => rollback(&job, intent, record),
        })
    }

    pub fn now(&self) -> Snapshot {
        self.project.snapshot()
    }

    /// Nothing of the restore itself is left: no staged file, no open intent.
    pub fn assert_tidy(&self) {
        let left: Vec<_> =
            self.now().into_keys().filter(|path| path.contains(".rappel-")).collect();
        assert!(left.is_empty(), "{left:?}");
        let listing = self.intents(&real()).list().unwrap();
        assert!(listing.open.is_empty() && listing.damaged.is_empty(), "{listing:?}");
    }
}

pub fn request(plan: &Plan) -> Request<'_> {
    static IDS: std::sync::OnceLock<[CheckpointId; 2]> = std::sync::OnceLock::new();
    let ids = IDS.get_or_init(|| {
        ["chk_20261115_143022_k7f3".parse().unwrap(), "chk_20261115_150000_0000".parse().unwrap()]
    });
    Request {
        workspace: WorkspaceId(7),
        target: &ids[0],
        safety: &ids[1],
        plan,
        now: Timestamp::from_millis(1_800_000_000_000),
    }
}

pub fn real() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// A project with one of everything that can happen, and its target.
pub fn everything() -> (Project, Project) {
    let present = Project::new()
        .file("same", "same")
        .file("edit.txt", "old text")
        .file("run.sh", "#!/bin/sh\n")
        .mode("run.sh", 0o644)
        .file("gone.txt", "to be deleted")
        .file("src/lib.rs", "old lib")
        .file("src/deep/er/a.rs", "a")
        .file("src/deep/er/b.rs", "b")
        .dir("empty")
        .file("was-file", "a file stands in the way of a folder")
        .file("was-dir/x/y", "a folder stands in the way of a file")
        .symlink("link", "src/lib.rs")
        .symlink("link-to-file", "same")
        .symlink("link-to-dir", "src")
        .file("file-to-link", "soon a link")
        .file("dir-to-link/inner", "inner")
        .file("closed/a", "old a")
        .file("closed/b", "old b")
        .mode("closed", 0o555)
        .dir("mode-dir")
        .mode("mode-dir", 0o700)
        .file(b"caf\xe9/\xff\xfe.txt", "not utf-8, old");
    let target = Project::new()
        .file("same", "same")
        .file("edit.txt", "new text, longer than before")
        .file("run.sh", "#!/bin/sh\n")
        .mode("run.sh", 0o755)
        .file("src/lib.rs", "new lib")
        .file("added/with/folders/c.rs", "c")
        .dir("added/empty")
        .mode("added/with/folders", 0o555)
        .file("was-file/now/a/folder", "new")
        .file("was-dir", "now a file")
        .symlink("link", "same")
        .file("link-to-file", "now a file too")
        .file("link-to-dir/z", "now a folder")
        .symlink("file-to-link", "/etc/passwd")
        .symlink("dir-to-link", "..")
        .file("closed/a", "new a")
        .file("closed/c", "new c")
        .mode("closed", 0o555)
        .dir("mode-dir")
        .mode("mode-dir", 0o750)
        .file(b"caf\xe9/\xff\xfe.txt", "not utf-8, new");
    (present, target)
}

/// What an error says of the state it leaves.
pub fn is_rolled_back(error: &Error) -> bool {
    matches!(error, Error::RolledBack { .. })
}

pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}
