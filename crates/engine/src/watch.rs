//! What needs a clock: the end of each day, checkpoints at intervals, retention.
//!
//! One process per home keeps the clock. It holds a lock on a file in the home, which the kernel
//! lets go of whatever ends the process. It only waits: each piece of work is a process of its own.

use std::fs::OpenOptions as FileOptions;
use std::io::{Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rappel_store::held::{self, Handle};
use rappel_types::{Timestamp, Trigger};
use rustix::fs::{FlockOperation, flock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rappel::{OpenOptions, Rappel, open_store, read_config};
use crate::save::SaveOptions;
use crate::workspace;

/// Whoever asks who keeps the clock holds the lock for a moment: so often it is tried again.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// The process that keeps a home's clock.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Watch {
    /// Its process.
    pub pid: u32,
    /// Since when.
    pub since: Timestamp,
}

/// That this process keeps a home's clock, as long as this lives.
#[derive(Debug)]
pub struct Clock {
    _locked: Handle,
}

/// A workspace that the clock is kept for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Its folder.
    pub root: PathBuf,
    /// How often it is saved while something changes.
    pub every: Option<Duration>,
}

impl Clock {
    /// Begins to keep a home's clock; `Err` inside if another process does.
    pub fn keep(home: &Path, now: Timestamp) -> Result<Result<Self, Option<Watch>>> {
        let path = place(home);
        let mut options = FileOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = Handle::open(&options, &path).map_err(Error::io("open", &path))?;
        let is_locked = || flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let is_mine = (0..ATTEMPTS).any(|attempt| {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            is_locked()
        });
        if !is_mine {
            return Ok(Err(noted(home)));
        }
        let note = Watch { pid: std::process::id(), since: now };
        let write = || -> std::io::Result<()> {
            let mut file: &std::fs::File = &file;
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&serde_json::to_vec(&note)?)
        };
        write().map_err(Error::io("write", &path))?;
        Ok(Ok(Self { _locked: file }))
    }
}

/// Who keeps a home's clock, if anybody does.
pub fn watch_of(home: &Path) -> Option<Watch> {
    let file = held::open(place(home)).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => None,
        Err(_) => noted(home),
    }
}

fn place(home: &Path) -> PathBuf {
    home.join("watch")
}

fn noted(home: &Path) -> Option<Watch> {
    serde_json::from_slice(&held::read(place(home)).ok()?).ok()
}

/// The workspaces of a home whose folders are there. The home is left alone but for that.
pub fn watched(options: &OpenOptions) -> Result<Vec<Watched>> {
    let store = open_store(options)?;
    let alive = workspace::all(&store)?.into_iter().filter(workspace::is_alive);
    let watched = alive.filter_map(|one| {
        let root = workspace::root_of(&one)?;
        let every = read_config(&root).ok().and_then(|config| config.auto.every);
        Some(Watched { root, every })
    });
    Ok(watched.collect())
}

impl Rappel {
    /// Does what the clock asks for: marks the end of a day, saves what changed if `[auto] every`
    /// has passed, applies retention and frees space.
    pub fn tick(&self) -> Result<()> {
        self.end_day()?;
        let passed = |every: Duration, saved: Timestamp| {
            self.now().millis_since(saved) >= every.as_millis() as i64
        };
        if let (Some(every), Some(last)) = (self.config.auto.every, self.last_saved()?)
            && passed(every, last.at)
        {
            let trigger = Trigger::Scheduled;
            self.save(&SaveOptions {
                trigger: Some(trigger),
                tags: trigger.automatic_tags(),
                if_changed: true,
                ..SaveOptions::default()
            })?;
        }
        self.tend(self.upkeep_due().gc)
    }
}
