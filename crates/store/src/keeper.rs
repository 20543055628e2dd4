//! What the operations of one process share of a home, for a process that lives.
//!
//! A [`Keeper`] is cheap to clone and remembers nothing of the world but where to look, and what
//! stays true: decoded blocks and objects, which carry their hash, and connections to the index. Each
//! operation takes a [`Store`] from it, which finds the home as a new process would.
//!
//! While no operation runs, a keeper holds neither a claim nor an open pack: gc in another process
//! takes away what it likes, and the space is free at once.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::ambient::Clock;
use crate::connections::Connections;
use crate::disk::Disk;
use crate::error::Result;
use crate::home::Home;
use crate::lock::{Claim, Patience};
use crate::pack::OpenPacks;
use crate::read::{Blocks, Objects};
use crate::store::{Limits, Options, Store, held};

/// A home, shared by all operations of a process.
#[derive(Clone)]
pub struct Keeper {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    options: Options,
    /// Empty before the first operation. Replaced when the home or its index has been.
    shared: Mutex<Option<Arc<Shared>>>,
}

impl Keeper {
    /// Keeps the home at `root`, which need not be there yet: the first operation opens it. Of the
    /// options, each operation has its own patience instead.
    pub fn new(root: &Path, options: Options) -> Self {
        let inner = Inner { root: root.to_owned(), options, shared: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Where the home is.
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// The home for one operation, as it is now: everything that any process has committed is in
    /// its index. Fails as [`Store::open`] does.
    pub fn open(&self, patience: Patience) -> Result<Store> {
        let shared = held(&self.inner.shared).clone();
        if let Some(shared) = shared
            && let Some(store) = shared.open(&patience)?
        {
            return Ok(store);
        }
        let options = Options {
            lock_limit: patience.limit,
            waiting: patience.told,
            ..self.inner.options.clone()
        };
        let store = Store::open_with(&self.inner.root, options, readers())?;
        // Two operations may come here at once. Each has what it needs; the last one's is kept.
        *held(&self.inner.shared) = Some(store.shared().clone());
        Ok(store)
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("root", &self.inner.root).finish_non_exhaustive()
    }
}

/// How many connections read the index at once.
fn readers() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4)
}

/// What is shared. Operations work with it through their [`Store`].
pub struct Shared {
    pub(crate) home: Home,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) connections: Connections,
    pub(crate) packs: Mutex<OpenPacks>,
    pub(crate) blocks: Mutex<Blocks>,
    pub(crate) objects: Mutex<Objects>,
    pub(crate) limits: Limits,
    /// Why nothing can be written, if that is so.
    pub(crate) read_only: Option<String>,
    /// How many operations are under way.
    operations: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(
        home: Home,
        options: Options,
        connections: Connections,
        read_only: Option<String>,
    ) -> Self {
        Self {
            home,
            disk: options.disk,
            clock: options.clock,
            connections,
            packs: Mutex::default(),
            blocks: Mutex::default(),
            objects: Mutex::default(),
            limits: options.limits,
            read_only,
            operations: AtomicUsize::new(0),
        }
    }

    /// A view for another operation; `None` if the home has to be opened anew.
    fn open(self: &Arc<Self>, patience: &Patience) -> Result<Option<Store>> {
        let readers = self.home.readers();
        let claim = match &self.read_only {
            // It may have become writable, and a new process would find out.
            Some(_)
                if rustix::fs::access(self.home.root(), rustix::fs::Access::WRITE_OK).is_ok() =>
            {
                return Ok(None);
            }
            Some(_) => Claim::without_writing(&readers, patience.clone()),
            None => Claim::shared(&readers, patience.clone()),
        };
        let claim = match claim {
            Ok(claim) => claim,
            Err(error) if error.is_not_found() || error.is_unwritable() => return Ok(None),
            Err(error) => return Err(error),
        };
        if !self.is_current()? {
            return Ok(None);
        }
        let store = Store::of(self.clone(), claim, patience.clone());
        match store.refresh() {
            Ok(()) => Ok(Some(store)),
            Err(error) if error.is_not_found() || error.is_unwritable() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the home and its index are those that were opened: a user may have replaced either.
    fn is_current(&self) -> Result<bool> {
        match Home::look(self.home.root()) {
            Ok(found) => Ok(found.id == self.home.id && !self.connections.was_replaced()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says that an operation begins.
    pub(crate) fn enter(&self) {
        self.operations.fetch_add(1, Ordering::AcqRel);
    }

    /// Says that an operation has ended. After the last one, no pack stays open.
    pub(crate) fn leave(&self) {
        if self.operations.fetch_sub(1, Ordering::AcqRel) == 1 {
            *held(&self.packs) = OpenPacks::default();
        }
    }
}
