//! The store as a whole: opening a home, and what all of its parts share.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rappel_types::manifest::MANIFEST_VERSION;
use rappel_types::{CheckpointId, Manifest};

use crate::ambient::Clock;
use crate::connections::{self, Connections};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::index::{CheckpointRow, Index};
use crate::keeper::Shared;
use crate::lock::{Claim, Lock, Look, Patience, Told};
use crate::log;
use crate::pack::{OpenPacks, PackId, PackReader};
use crate::read::{Blocks, Objects};
use crate::sink::Source;

/// How much of a record is read at once when its length is not known.
pub(crate) const GUESS: u64 = 16 << 10;

/// How often an index is built anew that is found spoilt again: another process may have had a
/// hand in it meanwhile.
const RENEWALS: usize = 3;

/// An open home, for one operation: it has its own claim on the packs and its own patience. What it
/// shares with other operations of the process is in a [`Keeper`](crate::Keeper).
pub struct Store {
    shared: Arc<Shared>,
    /// What was found damaged while this operation read the log.
    pub(crate) damage: Mutex<Vec<String>>,
    patience: Patience,
    pub(crate) claim: Claim,
}

impl std::ops::Deref for Store {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

/// How much goes where. Tests make these small.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A run up to this length is appended to the log's open pack; a longer one goes to packs of
    /// its own first.
    pub run_max: usize,
    /// A pack is sealed when it reaches this length.
    pub pack_target: u64,
    /// The home has a reserve from this size on.
    pub reserve_from: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { run_max: 8 << 20, pack_target: 64 << 20, reserve_from: 256 << 20 }
    }
}

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// What lets changes pass.
    pub disk: Arc<dyn Disk>,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
    /// How long to wait for the lock.
    pub lock_limit: Duration,
    /// Told when that takes a while, and who is waited for.
    pub waiting: Option<Told>,
    /// How much goes where.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            disk: Arc::new(crate::disk::RealDisk),
            clock: Arc::new(crate::ambient::SystemClock),
            lock_limit: Duration::from_secs(30),
            waiting: None,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// How long an operation waits for locks, and who is told.
    pub fn patience(&self) -> Patience {
        Patience { limit: self.lock_limit, told: self.waiting.clone() }
    }
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens the home at `root`, creating it if needed, and brings the index up to date. A home
    /// that cannot be written to can still be read.
    pub fn open(root: &Path, options: Options) -> Result<Self> {
        Self::open_with(root, options, 0)
    }

    /// The same, with so many connections that read the index beside the one that writes to it.
    pub(crate) fn open_with(root: &Path, options: Options, readers: usize) -> Result<Self> {
        match Self::open_writable(root, options.clone(), readers) {
            Err(error) if error.is_unwritable() && root.join("format").exists() => {
                Self::open_read_only(root, options, &error)
            }
            other => other,
        }
    }

    fn open_writable(root: &Path, options: Options, readers: usize) -> Result<Self> {
        let home = Home::open(root, &options.disk, options.clock.now())?;
        let claim = Claim::shared(&home.readers(), options.patience())?;
        let (index, old) = open_index(&home, &options)?;
        let patience = options.patience();
        let shared = Shared::new(home, options, Connections::new(index, readers), None);
        let store = Self::of(Arc::new(shared), claim, patience);
        if old || store.log_has_grown()? {
            let mut lock = store.lock()?;
            store.catch_up(&mut lock)?;
        }
        Ok(store)
    }

    /// The view is in memory, so that all who read it find it as they are used to.
    fn open_read_only(root: &Path, options: Options, why: &Error) -> Result<Self> {
        let home = Home::look(root)?;
        let claim = Claim::without_writing(&home.readers(), options.patience())?;
        let index = Index::in_memory(&home.index())?;
        let reason = match why {
            Error::Io { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        let patience = options.patience();
        let shared = Shared::new(home, options, Connections::new(index, 0), Some(reason));
        let store = Self::of(Arc::new(shared), claim, patience);
        if store.log_has_grown()? {
            store.catch_up_to_read()?;
        }
        Ok(store)
    }

    /// One operation's view of what is shared.
    pub(crate) fn of(shared: Arc<Shared>, claim: Claim, patience: Patience) -> Self {
        shared.enter();
        Self { shared, damage: Mutex::default(), patience, claim }
    }

    /// What it shares with other operations.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Refuses where nothing can be written.
    pub fn require_writable(&self) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let Some(reason) = self.read_only.clone() else { return Ok(()) };
        let path = self.home.root().to_owned();
        let owner = std::fs::metadata(&path).map_err(Error::io("read", &path))?.uid();
        Err(Error::ReadOnly { path, owner, reason })
    }

    /// How long this store's users wait for locks.
    pub fn patience(&self) -> &Patience {
        &self.patience
    }

    /// The home.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The gate to the disk.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Whether damage was seen and no check has found everything whole since.
    pub fn damage_seen(&self) -> bool {
        !held(&self.damage).is_empty()
            || self.read_index(|index| index.note("damage")).is_ok_and(|note| note == Some(1))
    }

    /// What was found damaged while the log was read.
    pub fn damage(&self) -> Vec<String> {
        held(&self.damage).clone()
    }

    /// Works with the index, one operation at a time. One that turns out to be spoilt is built anew,
    /// and the work begins again.
    pub fn with_index<T>(&self, mut work: impl FnMut(&mut Index) -> Result<T>) -> Result<T> {
        self.unless_spoilt(|| work(&mut *self.connections.writing()?))
    }

    /// As [`Store::with_index`] for work that only reads: several operations do so at once.
    pub(crate) fn read_index<T>(&self, mut work: impl FnMut(&mut Index) -> Result<T>) -> Result<T> {
        self.unless_spoilt(|| work(&mut *self.connections.reading()?))
    }

    fn unless_spoilt<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..RENEWALS {
            let incarnation = self.connections.incarnation();
            match work() {
                Err(error) if error.is_spoilt_index() => self.renew_index(incarnation, error)?,
                other => return other,
            }
        }
        work()
    }

    /// As [`Store::with_index`] for work that cannot begin again: if the index had to be built anew,
    /// the whole run has to be done again.
    pub(crate) fn with_index_once<T>(
        &self,
        work: impl FnOnce(&mut Index) -> Result<T>,
    ) -> Result<T> {
        let incarnation = self.connections.incarnation();
        match self.connections.writing().and_then(|mut index| work(&mut index)) {
            Err(error) if error.is_spoilt_index() => {
                self.renew_index(incarnation, error)?;
                Err(Error::Moved)
            }
            other => other,
        }
    }

    /// Puts a new index in the place of one that is spoilt, and fills it. `why` is what it was found
    /// spoilt by; it is given back if nothing can be done.
    fn renew_index(&self, incarnation: u64, why: Error) -> Result<()> {
        let path = self.home.lock();
        let here = Lock::is_held_here(&path);
        let again = here && self.connections.renewing.load(Ordering::Acquire);
        if self.read_only.is_some() || again {
            return Err(why);
        }
        let _lock = if here { None } else { Some(self.lock()?) };
        let look = Look::beside_the_lock(&path)?;
        // Another thread may have done it meanwhile, or another process.
        if self.connections.incarnation() != incarnation {
            return Ok(());
        }
        self.connections.renewing.store(true, Ordering::Release);
        let renew = || self.replace_index().and_then(|()| self.take_in_log(&look));
        let mut renewed = renew();
        for _ in 1..RENEWALS {
            if renewed.as_ref().is_err_and(Error::is_spoilt_index) {
                renewed = renew();
            }
        }
        self.connections.renewing.store(false, Ordering::Release);
        renewed.map(drop)
    }

    fn replace_index(&self) -> Result<()> {
        let path = self.home.index();
        self.connections.replace(|present| {
            let other = match present.was_replaced() && path.exists() {
                true => Index::open(&path)?,
                false => None,
            };
            other.map_or_else(|| create_index(&path), Ok)
        })
    }

    /// Asks the index something. While somebody is taking something in that comes in several steps
    /// (gc's copies before what they replace is gone), it is waited for: nothing is ever missing.
    pub fn look_up<T>(&self, work: impl Fn(&mut Index) -> Result<T>) -> Result<T> {
        let (found, whole) = self.read_index(|index| index.at_one_moment(&work))?;
        if whole {
            return Ok(found);
        }
        self.catch_up_to_read()?;
        self.with_index(work)
    }

    /// Waits for the append lock.
    pub(crate) fn lock(&self) -> Result<Lock> {
        self.lock_for(&self.patience)
    }

    fn lock_for(&self, patience: &Patience) -> Result<Lock> {
        self.require_writable()?;
        let lock = Lock::acquire(&self.home.lock(), patience, self.clock.now())?;
        self.home.check_format()?;
        Ok(lock)
    }

    /// Waits until nobody appends, in a home that cannot be written to.
    fn look(&self) -> Result<Look> {
        Look::take(&self.home.lock(), &self.patience)
    }

    /// As [`Store::catch_up`], by somebody who only reads.
    pub(crate) fn catch_up_to_read(&self) -> Result<log::Tail> {
        match self.read_only {
            Some(_) => self.take_in_log(&self.look()?),
            None => self.catch_up(&mut self.lock()?),
        }
    }

    /// Whether the log shows something else than the index knows, or the last writer knew more than
    /// both. Only looks at lengths and names; what it is, is found out under the lock.
    fn log_has_grown(&self) -> Result<bool> {
        let position = self.read_index(|index| index.position())?;
        let noted = self.reached()?.and_then(|reached| reached.commit);
        let sequence = |position: &Option<log::Position>| position.as_ref().map(|it| it.sequence);
        if sequence(&noted) > sequence(&position) {
            return Ok(true);
        }
        let newest = log::numbers(&self.home.packs())?.pop();
        let (Some(position), Some(newest)) = (&position, newest) else {
            return Ok(position.is_some() != newest.is_some());
        };
        if newest != position.pack {
            return Ok(true);
        }
        let path = PackId::Log(newest).path(&self.home.packs());
        let length = std::fs::metadata(&path).map_err(Error::io("read", &path))?.len();
        // A shorter log is what `confirm` finds under the lock.
        Ok(length != position.end)
    }

    /// Takes in what others have written since. Where another index has taken the place of this one,
    /// that one counts from now on: what other processes do is in it alone.
    pub fn refresh(&self) -> Result<()> {
        let incarnation = self.connections.incarnation();
        if self.connections.was_replaced() {
            self.renew_index(incarnation, connections::replaced(&self.home.index()))?;
        }
        if !self.log_has_grown()? {
            return Ok(());
        }
        // A writer notes how far it came before it acknowledges anything. If the index is as far,
        // only a run that nobody was told of yet can be missing: no reader waits for its sync.
        if self.read_only.is_some() || !self.is_all_acknowledged_known()? {
            return self.catch_up_to_read().map(drop);
        }
        match self.lock_for(&Duration::ZERO.into()) {
            Ok(mut lock) => self.catch_up(&mut lock).map(drop),
            Err(Error::Busy { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the index is as far as the note of the last writer.
    fn is_all_acknowledged_known(&self) -> Result<bool> {
        let Some(noted) = self.reached()?.and_then(|reached| reached.commit) else {
            return Ok(false);
        };
        let position = self.read_index(|index| index.position())?;
        Ok(position.is_some_and(|position| position == noted))
    }

    pub(crate) fn pack(&self, id: PackId) -> Result<Arc<PackReader>> {
        if let Some(reader) = held(&self.packs).get(id) {
            return Ok(reader);
        }
        let reader = Arc::new(PackReader::open(&self.home.packs(), id)?);
        held(&self.packs).keep(reader.clone());
        Ok(reader)
    }

    /// Forgets open files, decoded blocks and objects, so that the next look is at the disk.
    pub fn forget_open_packs(&self) {
        *held(&self.packs) = OpenPacks::default();
        *held(&self.blocks) = Blocks::default();
        *held(&self.objects) = Objects::default();
    }

    /// Packs that the log needs and that are not there, or are shorter than they were. Only names and
    /// lengths are looked at; what is damaged inside is for `verify` to find.
    pub fn lost_packs(&self) -> Result<Vec<PackId>> {
        let packs = self.home.packs();
        let lost = |row: &crate::index::PackRow| {
            let length = std::fs::metadata(row.pack.path(&packs)).map(|meta| meta.len());
            row.retired_at.is_none() && length.map_or(true, |length| length < row.length)
        };
        let rows = self.read_index(|index| index.packs())?;
        Ok(rows.into_iter().filter(lost).map(|row| row.pack).collect())
    }

    /// A checkpoint's manifest.
    pub fn manifest(&self, row: &CheckpointRow) -> Result<Manifest> {
        decode_manifest(&self.get(&row.manifest)?)
    }

    /// The row of a checkpoint that was not deleted.
    pub fn checkpoint(&self, id: &CheckpointId) -> Result<Option<CheckpointRow>> {
        let found = self.look_up(|index| index.checkpoint(id))?;
        Ok(found.and_then(|(row, deleted)| (!deleted).then_some(row)))
    }
}

/// Opens the index; true if it has to be filled. It is created and replaced under the lock alone:
/// whoever removed one that another process is just creating would pull it from under its feet.
fn open_index(home: &Home, options: &Options) -> Result<(Index, bool)> {
    let path = home.index();
    // Without the lock, another process may just be replacing it: whatever fails is tried again.
    if path.is_file()
        && let Ok(Some(index)) = Index::open(&path)
    {
        return Ok((index, false));
    }
    let _lock = Lock::acquire(&home.lock(), &options.patience(), options.clock.now())?;
    if path.is_file()
        && let Some(index) = Index::open(&path)?
    {
        return Ok((index, false));
    }
    Ok((create_index(&path)?, true))
}

/// An empty index in the place of one that may be there. Only under the lock.
fn create_index(path: &Path) -> Result<Index> {
    // Also without a database: SQLite would take a log that was left behind for that of a new one.
    remove_index(path)?;
    Index::create(path)?
        .ok_or_else(|| Error::Damaged(format!("{} cannot be rebuilt", path.display())))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_index(path: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let name = beside(path, suffix);
        // Nothing of ours is a folder there: a user's may hold anything, and is not removed.
        if name.is_dir() {
            return Err(Error::InTheWay { path: name });
        }
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &name)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads a manifest from JSON that may be anything.
pub fn decode_manifest(json: &[u8]) -> Result<Manifest> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let bad = |error: serde_json::Error| Error::Damaged(format!("manifest: {error}"));
    let Version { version } = serde_json::from_slice(json).map_err(bad)?;
    if version > MANIFEST_VERSION {
        let what = "a manifest".into();
        return Err(Error::Newer { what, found: version, supported: MANIFEST_VERSION });
    }
    serde_json::from_slice(json).map_err(bad)
}

/// A document's record is a JSON array of what it is about and the document itself.
pub(crate) fn encode_document(key: &str, json: &str) -> Vec<u8> {
    let key = serde_json::Value::from(key);
    format!("[{key},{json}]").into_bytes()
}

pub(crate) fn decode_document(payload: &[u8]) -> Result<(String, String)> {
    let (key, body): (String, Box<serde_json::value::RawValue>) =
        serde_json::from_slice(payload)
            .map_err(|error| Error::Damaged(format!("document: {error}")))?;
    Ok((key, body.get().to_owned()))
}
