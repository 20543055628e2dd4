//! A folder with databases, and a store that they go to and come from.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rappel_capture::databases::sqlite::{Database, Way, companions};
use rappel_capture::databases::{Captured, Error, Result, Watch};
use rappel_store::Cancel;
use rappel_store::beneath::Root;
use rappel_store::disk::{Disk, RealDisk};
use rappel_store::sink::Sink;
use rappel_types::RelPath;
use rappel_types::database::{DatabasePart, Digest};
use rusqlite::Connection;
use tempfile::TempDir;

pub struct Place {
    folder: PathBuf,
    pub home: PathBuf,
    pub store: Memory,
    _kept: Option<TempDir>,
}

pub const JOURNALS: [&str; 3] = ["DELETE", "TRUNCATE", "WAL"];

/// Nobody stops it.
pub fn never() -> &'static Cancel {
    Cancel::never()
}

/// Nobody watches.
pub fn watch() -> Watch<'static> {
    static BYTES: AtomicU64 = AtomicU64::new(0);
    Watch { cancel: Cancel::never(), bytes: &BYTES }
}

/// What the file system says of one file: its bytes and its times.
pub type Seen = Option<(Vec<u8>, i64, i64, u64)>;

impl Place {
    pub fn new() -> Self {
        let kept = tempfile::tempdir().unwrap();
        let [folder, home] = ["work", "home"].map(|name| kept.path().join(name));
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(&home).unwrap();
        Self { folder, home, store: Memory::default(), _kept: Some(kept) }
    }

    /// The place of a process that this one was started by.
    pub fn of_parent(above: &std::path::Path) -> Self {
        let [folder, home] = ["work", "home"].map(|name| above.join(name));
        let store = Memory::read(&home.join("objects"));
        Self { folder, home, store, _kept: None }
    }

    /// Starts this test program again, to play `role` with the database called `name`.
    pub fn play(&self, role: &str, name: &str) -> Play {
        // A write beyond a limit shall be an error, not the end.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        let mut play = self.play_under(command, role, name);
        play.wait_for("ready");
        play
    }

    /// The same under a program that starts another one.
    pub fn play_under(&self, mut command: Command, role: &str, name: &str) -> Play {
        let above = self.folder.parent().unwrap();
        let part = "others::a_part_in_another_process";
        let mut child = command
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", part, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(DATABASE, name)
            .env(ABOVE, above)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Play { child, lines }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn open(&self, name: &str) -> Connection {
        let connection = Connection::open(self.path(name)).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        connection
    }

    pub fn database(&self, name: &str) -> Database {
        Database {
            name: name.into(),
            path: self.path(name),
            location: Some(name.into()),
            patience: Duration::from_secs(20),
        }
    }

    pub fn way(&self, name: &str) -> Way {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        Way {
            root: Arc::new(Root::open(&self.folder, disk).unwrap()),
            path: RelPath::new(name).unwrap(),
            slot: RelPath::new(format!("{name}.slot")).unwrap(),
            staging: self.home.join("staged"),
        }
    }

    pub fn capture(&self, name: &str, prior: Option<&DatabasePart>) -> Captured {
        self.database(name).capture(&self.store, prior, &Cancel::default()).unwrap()
    }

    pub fn digest(&self, name: &str) -> Option<Digest> {
        self.database(name).digest(&Cancel::default()).unwrap()
    }

    /// Restores, and returns the safety copy.
    pub fn restore(&self, name: &str, target: &DatabasePart) -> Result<Captured> {
        let mut restoring = self.database(name).restoring(self.way(name));
        let safety = restoring.capture(&self.store, None, &watch())?;
        restoring.stage(&self.store, target)?;
        restoring.commit()?;
        Ok(safety)
    }

    /// Restores one that is absent.
    pub fn create(&self, name: &str, target: &DatabasePart) -> Result<()> {
        let mut restoring = self.database(name).restoring(self.way(name));
        assert!(matches!(restoring.capture(&self.store, None, &watch()), Err(Error::Absent(_))));
        restoring.stage(&self.store, target)?;
        restoring.commit()
    }

    /// All rows of all tables, as text.
    pub fn dump(&self, name: &str) -> Vec<String> {
        let connection = self.open(name);
        let mut tables = connection
            .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name")
            .unwrap();
        let tables: Vec<(String, String)> = tables
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(|row| row.unwrap())
            .collect();
        let mut lines = Vec::new();
        for (table, sql) in tables {
            lines.push(sql);
            let mut rows = connection.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
            let columns = rows.column_count();
            let mut rows = rows.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                let values = (0..columns).map(|at| format!("{:?}", row.get_ref(at).unwrap()));
                lines.push(values.collect::<Vec<_>>().join("|"));
            }
        }
        lines
    }

    /// The database and its companions, to the byte and the nanosecond.
    pub fn files(&self, name: &str) -> Vec<Seen> {
        let path = self.path(name);
        let all = [path.clone()].into_iter().chain(companions(&path));
        all.map(|path| {
            let meta = std::fs::metadata(&path).ok()?;
            let modified = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
            let changed = meta.ctime() * 1_000_000_000 + meta.ctime_nsec();
            Some((std::fs::read(&path).unwrap(), modified, changed, meta.ino()))
        })
        .collect()
    }
}

/// A database whose rows all say 1, captured, and then another one whose rows all say 2.
pub fn two_contents(journal: &str) -> (Place, DatabasePart) {
    let place = Place::new();
    let open = place.open("x.db");
    open.execute_batch(&format!(
        "PRAGMA journal_mode = {journal}; CREATE TABLE t (x, pad); CREATE TABLE entry (x);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO t SELECT 1, hex(randomblob(400)) FROM n;"
    ))
    .unwrap();
    let target = place.capture("x.db", None).part;
    open.execute_batch(
        "UPDATE t SET x = 2, pad = hex(randomblob(200)); DELETE FROM t WHERE rowid > 2000",
    )
    .unwrap();
    drop(open);
    place.store.write(&place.home.join("objects"));
    std::fs::write(place.home.join("target.json"), serde_json::to_vec(&target).unwrap()).unwrap();
    (place, target)
}

pub const ROLE: &str = "RAPPEL_TEST_ROLE";
pub const DATABASE: &str = "RAPPEL_TEST_DATABASE";
pub const ABOVE: &str = "RAPPEL_TEST_ABOVE";

/// Another process that does something with a database.
pub struct Play {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Play {
    /// Its next line that begins with `@`.
    pub fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The test harness writes to the same line before.
            if let Some((_, said)) = line.trim_end().split_once('@') {
                return Some(said.into());
            }
        }
    }

    pub fn wait_for(&mut self, text: &str) {
        while let Some(line) = self.line() {
            if line == text {
                return;
            }
        }
        panic!("it ended before it said {text:?}");
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to go on, or to end.
    pub fn tell(&mut self) {
        self.child.stdin.take();
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self) -> ExitStatus {
        self.tell();
        while self.line().is_some() {}
        self.child.wait().unwrap()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tells it to end, and returns what it said until then.
    pub fn end(mut self) -> Vec<String> {
        self.tell();
        let lines: Vec<String> = std::iter::from_fn(|| self.line()).collect();
        assert!(self.child.wait().unwrap().success(), "{lines:?}");
        lines
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A store in memory, that tells how much is new.
#[derive(Default)]
pub struct Memory(std::sync::Mutex<BTreeMap<rappel_types::ObjectId, Arc<[u8]>>>);

impl Memory {
    /// Writes everything to a folder, for another process.
    pub fn write(&self, folder: &std::path::Path) {
        std::fs::create_dir_all(folder).unwrap();
        for (id, bytes) in &*self.0.lock().unwrap() {
            std::fs::write(folder.join(id.to_string()), bytes).unwrap();
        }
    }

    pub fn read(folder: &std::path::Path) -> Self {
        let store = Self::default();
        for file in std::fs::read_dir(folder).unwrap() {
            store
                .put(
                    rappel_store::sink::Role::Content,
                    &std::fs::read(file.unwrap().path()).unwrap(),
                    None,
                )
                .unwrap();
        }
        store
    }
}

impl rappel_store::sink::Source for Memory {
    fn get(&self, id: &rappel_types::ObjectId) -> rappel_store::Result<Arc<[u8]>> {
        let found = self.0.lock().unwrap().get(id).cloned();
        found.ok_or(rappel_store::Error::Missing(*id))
    }
}

impl rappel_store::sink::Sink for Memory {
    fn put(
        &self,
        _role: rappel_store::sink::Role,
        bytes: &[u8],
        _base: Option<&rappel_types::ObjectId>,
    ) -> rappel_store::Result<rappel_types::ObjectId> {
        let id = rappel_store::sink::id_of(bytes);
        self.0.lock().unwrap().insert(id, bytes.into());
        Ok(id)
    }
}
