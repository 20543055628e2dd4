//! A small world for the store's tests: files go in as checkpoints and come out again.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rappel_store::ambient::ManualClock;
use rappel_store::disk::{Disk, RealDisk};
use rappel_store::gc::{GcOptions, GcReport};
use rappel_store::index::CheckpointRow;
use rappel_store::record::Kind;
use rappel_store::verify::Scope;
use rappel_store::{Limits, NewRecord, Options, Result, Store, content, tree};
use rappel_types::manifest::{Cost, FilesPart, MANIFEST_VERSION, SelectionRules, WorkspacePart};
use rappel_types::{
    CheckpointId, Entry, Facet, FacetState, Manifest, Node, RelPath, Timestamp, Trigger,
    WorkspaceId,
};
use tempfile::TempDir;

/// The files of a checkpoint.
pub type Files = BTreeMap<String, Vec<u8>>;

pub const DAY: i64 = 24 * 60 * 60 * 1000;

/// A home in a temporary folder, with a clock of its own.
pub struct World {
    pub home: TempDir,
    pub clock: ManualClock,
    pub disk: Arc<dyn Disk>,
    pub limits: Limits,
}

impl World {
    pub fn new() -> Self {
        Self::on(Arc::new(RealDisk))
    }

    pub fn on(disk: Arc<dyn Disk>) -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            clock: ManualClock::new(Timestamp::from_millis(1_900_000_000_000)),
            disk,
            limits: Limits::default(),
        }
    }

    /// Runs and packs of a few kilobytes, so that small tests have bulk packs and rotation.
    pub fn small(mut self) -> Self {
        self.limits = Limits { run_max: 4 << 10, pack_target: 16 << 10, ..Limits::default() };
        self
    }

    pub fn options(&self) -> Options {
        Options {
            disk: self.disk.clone(),
            clock: Arc::new(self.clock.clone()),
            lock_limit: Duration::from_secs(20),
            waiting: None,
            limits: self.limits,
        }
    }

    pub fn open(&self) -> Store {
        self.try_open().unwrap()
    }

    pub fn try_open(&self) -> Result<Store> {
        Store::open(self.home.path(), self.options())
    }

    pub fn packs(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.home.path().join("packs"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn pack_bytes(&self) -> u64 {
        let packs = self.home.path().join("packs");
        self.packs().iter().map(|name| packs.join(name).metadata().unwrap().len()).sum()
    }

    pub fn forget_index(&self) {
        forget_index(self.home.path());
    }

    /// Opens the store as it is, and once more without its index: what holds must hold by the packs
    /// alone.
    pub fn twice(&self, check: impl Fn(&Store)) {
        check(&self.open());
        self.forget_index();
        check(&self.open());
    }

    /// The index as a database, all of it in the one file. What is changed there has the right
    /// checksums.
    pub fn index(&self) -> rusqlite::Connection {
        drop(self.open());
        let path = self.home.path().join("index.db");
        let flags = rusqlite::OpenFlags::default();
        let database =
            rusqlite::Connection::open_with_flags_and_vfs(path, flags, c"rappel").unwrap();
        database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        database
    }
}

pub fn forget_index(home: &Path) {
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(home.join(name));
    }
}

/// Bytes that do not compress, the same for the same seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

pub fn files(list: &[(&str, &[u8])]) -> Files {
    list.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect()
}

fn manifest(id: &CheckpointId, sequence: u64, part: FilesPart) -> Manifest {
    Manifest {
        version: MANIFEST_VERSION,
        id: id.clone(),
        sequence,
        parent: None,
        created_at: Timestamp::from_millis(1_900_000_000_000 + sequence as i64),
        trigger: Trigger::Manual,
        description: None,
        tags: vec![],
        environment: None,
        variables: BTreeMap::new(),
        session_id: None,
        workspace: WorkspacePart { id: WorkspaceId(1), root: "/w".into(), name: "w".into() },
        facets: BTreeMap::from([(Facet::Files, FacetState::Captured)]),
        partial: false,
        partial_reasons: vec![],
        mid_operation: vec![],
        interrupted_restore: false,
        files: Some(part),
        git: None,
        databases: vec![],
        agents: None,
        knowledge: None,
        process: None,
        metadata: BTreeMap::new(),
        origin: None,
        cost: Cost::default(),
    }
}

/// Saves `files` as the next checkpoint of the one workspace.
pub fn save(store: &Store, files: &Files) -> CheckpointId {
    try_save(store, files).unwrap()
}

pub fn try_save(store: &Store, files: &Files) -> Result<CheckpointId> {
    save_with(store, files, |_| {})
}

/// As [`save`]; `before` runs when everything is put and nothing committed.
pub fn save_with(
    store: &Store,
    files: &Files,
    before: impl FnOnce(&Store),
) -> Result<CheckpointId> {
    let newest = store.with_index(|index| index.newest(WorkspaceId(1)))?;
    let former = match newest.as_ref().map(|row| store.manifest(row)) {
        Some(manifest) => manifest?.files.map(|part| part.tree),
        None => None,
    };
    let writer = store.begin()?;
    let mut entries = Vec::new();
    for (path, bytes) in files {
        let path: RelPath = path.parse().unwrap();
        let base = match &former {
            Some(root) => match tree::lookup(store, root, &path) {
                Ok(Some(Node::File { content, .. })) => Some(content),
                _ => None,
            },
            None => None,
        };
        let (content, size) =
            content::store(&writer, &mut &bytes[..], bytes.len() as u64, base.as_ref())?;
        entries.push(Entry { path, node: Node::File { mode: 0o644, size, content } });
    }
    let root = tree::write(&writer, &entries)?;
    before(store);
    let part = FilesPart {
        tree: root,
        count: files.len() as u64,
        bytes: files.values().map(|bytes| bytes.len() as u64).sum(),
        added: 0,
        modified: 0,
        deleted: 0,
        skipped: vec![],
        rules: SelectionRules::default(),
    };
    let mut made = None;
    writer.commit(|moment| {
        let sequence = moment.index.last_sequence(WorkspaceId(1))? + 1;
        let id: CheckpointId = format!("chk_{sequence}").parse().unwrap();
        let base = moment.index.newest(WorkspaceId(1))?.map(|row| row.manifest);
        let manifest = Box::new(manifest(&id, sequence, part));
        made = Some(id);
        Ok(vec![NewRecord::Manifest { manifest, base }])
    })?;
    Ok(made.unwrap())
}

/// The files of a checkpoint, as the store gives them.
pub fn load(store: &Store, id: &CheckpointId) -> Result<Files> {
    let row = store.checkpoint(id)?.unwrap_or_else(|| panic!("{id} is gone"));
    load_row(store, &row)
}

/// The same, of a checkpoint that was looked up before.
pub fn load_row(store: &Store, row: &CheckpointRow) -> Result<Files> {
    let manifest = store.manifest(row)?;
    let mut files = Files::new();
    for entry in tree::read(store, &manifest.files.unwrap().tree)? {
        if let Node::File { size, content, .. } = &entry.node {
            let bytes = content::read(store, content, *size, 1 << 30)?;
            files.insert(entry.path.to_string(), bytes);
        }
    }
    Ok(files)
}

/// Every checkpoint is as it was saved.
pub fn check_saved(store: &Store, saved: &[(CheckpointId, Files)]) {
    for (id, state) in saved {
        assert_eq!(load(store, id).unwrap(), *state, "{id}");
    }
}

/// Nothing is wrong with the store.
pub fn check_clean(store: &Store) {
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

pub fn ids(store: &Store) -> Vec<CheckpointId> {
    let rows = store.with_index(|index| index.checkpoints(None)).unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

pub fn delete(store: &Store, id: &CheckpointId, now: bool) {
    let row = store.checkpoint(id).unwrap().unwrap();
    store.delete(&[row], now).unwrap();
}

pub fn gc_now(store: &Store) -> GcReport {
    store.gc(&GcOptions { now: true, grace: Duration::ZERO, ..GcOptions::default() }).unwrap()
}

pub fn gc(store: &Store) -> GcReport {
    store.gc(&GcOptions::default()).unwrap()
}

/// Adds a document.
pub fn document(store: &Store, kind: Kind, key: &str, json: &str) {
    let (key, json) = (key.to_owned(), json.to_owned());
    let writer = store.begin().unwrap();
    writer.commit(|_| Ok(vec![NewRecord::Document { kind, key, json }])).unwrap();
}
