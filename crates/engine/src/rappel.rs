//! The facade: one open workspace and its history.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rappel_capture::agents::locate::Surroundings;
use rappel_capture::files::{self, Environment, Identity};
use rappel_capture::git;
use rappel_store::ambient::{Clock, SystemClock};
use rappel_store::disk::{Disk, RealDisk};
use rappel_store::held;
use rappel_store::index::CheckpointRow;
use rappel_store::lock::Patience;
use rappel_store::operation::Operation;
use rappel_store::{Keeper, Store, document};
use rappel_types::Advice;
use rappel_types::{Config, WorkspaceId};
use rappel_types::{Remark, Remarks};

use crate::agents::{self, Connected, LiveSessions, Notice};
use crate::error::{Error, Result};
use crate::knowledge;
use crate::workspace::{self, Evidence, Recognition};

/// Advice in the words of a face.
pub type Words = Arc<dyn Fn(&rappel_types::Advice) -> String + Send + Sync>;

/// How a workspace is opened. Everything the library would otherwise have to ask the process for
/// comes in here.
#[derive(Clone)]
pub struct OpenOptions {
    /// The workspace's root folder.
    pub root: PathBuf,
    /// Where Rappel keeps its data.
    pub home: PathBuf,
    /// What of the process environment decides about files.
    pub environment: Environment,
    /// The machine or container.
    pub machine: String,
    /// The environment's name, if the process names one (`RAPPEL_ENVIRONMENT`).
    pub environment_name: Option<String>,
    /// The process's environment variables, by name: addresses of databases, and what
    /// `[variables]` keeps.
    pub variables: Variables,
    /// The hash of the one text that is allowed whatever the user said before (`RAPPEL_TRUST`).
    pub trust: Option<String>,
    /// Where agents keep their transcripts. Without it none are looked for.
    pub agents: Option<Surroundings>,
    /// The zone in which times without an offset are meant.
    pub zone: jiff::tz::TimeZone,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
    /// What lets changes to disks pass.
    pub disk: Arc<dyn Disk>,
    /// How long to wait for the store's lock.
    pub lock_limit: Duration,
    /// Told when that takes a while, and who is waited for.
    pub waiting: Option<rappel_store::lock::Told>,
    /// How a face words advice, for texts that the engine composes: what an agent is told.
    pub words: Option<Words>,
    /// Stops long work, and knows how far it is. A workspace is opened for one operation.
    pub operation: Operation,
    /// What other operations of this process share with this one. See [`crate::Home`].
    #[doc(hidden)]
    pub keeper: Option<Keeper>,
    /// The workspace that is meant, by its id or by the folder that it was last seen in, instead of
    /// the one at `root`. Where its folder is gone, its history can be read.
    pub workspace: Option<String>,
    /// Whether the first save after midnight marks the end of the day with a checkpoint of its own.
    pub ends_days: bool,
    /// There is no folder of the user's: only agents' state is kept. See [`OpenOptions::detached`].
    pub detached: bool,
}

impl OpenOptions {
    /// The workspace at `root` with its data in `home`, and nothing taken from the process.
    pub fn new(root: impl Into<PathBuf>, home: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            home: home.into(),
            environment: Environment::default(),
            machine: String::new(),
            environment_name: None,
            variables: Arc::new(|_| None),
            trust: None,
            agents: None,
            zone: jiff::tz::TimeZone::UTC,
            clock: Arc::new(SystemClock),
            disk: Arc::new(RealDisk),
            lock_limit: Duration::from_secs(30),
            waiting: None,
            words: None,
            operation: Operation::default(),
            keeper: None,
            workspace: None,
            ends_days: false,
            detached: false,
        }
    }

    /// No workspace: the sessions of a program that has no folder of files, under a name of its own.
    pub fn detached(name: &str, home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        let folder = rappel_types::path::escape(name.as_bytes()).replace('/', "_");
        Self { detached: true, ..Self::new(home.join("detached").join(folder), home) }
    }
}

/// Looks an environment variable up.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// One workspace and its history. All use cases are methods of this, spread over the modules that
/// are named after them.
pub struct Rappel {
    pub(crate) store: Store,
    pub(crate) root: PathBuf,
    pub(crate) evidence: Evidence,
    /// Which workspace this is. A save may find out; read it with [`Rappel::recognition`].
    recognition: Mutex<Arc<Recognition>>,
    pub(crate) config: Config,
    /// What is wrong with `rappel.toml`, if something is.
    pub(crate) config_problem: Option<Error>,
    pub(crate) options: OpenOptions,
    /// Whether there is no folder any more: only the history is left.
    pub(crate) is_gone: bool,
    /// What a checkpoint's `rappel.toml` says, where a restore finds none here.
    pub(crate) borrowed: Mutex<Option<Config>>,
    /// What was last known of the files, as it is on disk too.
    pub(crate) cache: Mutex<Option<files::Cache>>,
    /// Sessions that this process writes to.
    live: Mutex<LiveSessions>,
    /// Systems of the program that embeds this library.
    connected: Mutex<Vec<Arc<dyn Connected>>>,
    /// Those who want to be told what happens.
    pub(crate) listeners: Mutex<Vec<std::sync::mpsc::Sender<Notice>>>,
}

impl Rappel {
    /// Opens a workspace. The home is created if it is not there; nothing is saved yet.
    pub fn open(options: OpenOptions) -> Result<Self> {
        match options.workspace.clone() {
            Some(named) => Self::open_named(&named, options),
            None => Self::open_here(options),
        }
    }

    fn open_named(named: &str, mut options: OpenOptions) -> Result<Self> {
        let store = open_store(&options)?;
        let seen = workspace::find(&store, named)?;
        let root = workspace::root_of(&seen).unwrap_or_default();
        if seen.lineage_of.is_none() && workspace::is_alive(&seen) {
            options.root.clone_from(&root);
            let rappel = Self::open_here(options.clone())?;
            // The folder may have adopted another history since.
            if rappel.workspace_id() == Some(seen.id) {
                return Ok(rappel);
            }
        }
        let evidence = Evidence::remembered(&seen, root.clone());
        let recognition = Recognition::Known(seen);
        Ok(Self { is_gone: true, ..Self::of_parts(store, root, (evidence, recognition), options) })
    }

    fn open_here(options: OpenOptions) -> Result<Self> {
        if options.detached {
            // The folder lies in the home, which has to be one first.
            drop(Store::open(&options.home, rappel_store::Options::default())?);
            std::fs::create_dir_all(&options.root).map_err(Error::io("create", &options.root))?;
        }
        let root =
            std::fs::canonicalize(&options.root).map_err(Error::io("open", &options.root))?;
        if !options.detached {
            files::check_root(&root, options.environment.home.as_deref())?;
            files::check_outside(&root, &options.home)?;
        }
        let store = open_store(&options)?;
        let evidence = Evidence::of(&root, &options.machine)?;
        let recognition = workspace::recognise(&store, &evidence)?;
        tracing::debug!(
            home = %options.home.display(),
            root = %root.display(),
            known = !matches!(recognition, Recognition::New { .. }),
            damage = store.damage().len(),
            "opened"
        );
        let mut rappel = Self::of_parts(store, root, (evidence, recognition), options);
        // An agent may have spoilt it; going back must work all the same.
        match read_config(&rappel.root) {
            Ok(config) => rappel.config = config,
            Err(error) => rappel.config_problem = Some(error),
        }
        knowledge::include(&mut rappel.config);
        agents::include_folders(&mut rappel.config, &rappel.root);
        rappel.fall_back()?;
        Ok(rappel)
    }

    fn of_parts(
        store: Store,
        root: PathBuf,
        (evidence, recognition): (Evidence, Recognition),
        options: OpenOptions,
    ) -> Self {
        Self {
            store,
            root,
            evidence,
            recognition: Mutex::new(Arc::new(recognition)),
            config: Config::default(),
            config_problem: None,
            options,
            is_gone: false,
            borrowed: Mutex::default(),
            cache: Mutex::default(),
            live: Mutex::default(),
            connected: Mutex::default(),
            listeners: Mutex::default(),
        }
    }

    /// Refuses where only the history is left.
    pub(crate) fn require_folder(&self) -> Result<()> {
        let known = self.known();
        match known.filter(|known| known.lineage_of.is_some()) {
            Some(lineage) => Err(Error::Usage {
                message: format!("{} is a lineage and no folder", lineage.root),
                advice: vec![Advice::NameInLineage],
            }),
            None if self.is_gone => Err(Error::NoFolder { root: self.root.clone() }),
            None => Ok(()),
        }
    }

    /// Without a readable `rappel.toml`, the rules of the last checkpoint go on.
    fn fall_back(&mut self) -> Result<()> {
        if self.config_problem.is_none() {
            return Ok(());
        }
        let newest = self.rows()?.into_iter().rev().find(|row| row.holds_files);
        let files = newest.and_then(|row| self.store.manifest(&row).ok()?.files);
        if let Some(files) = files {
            self.config.files.include = files.rules.include;
            self.config.files.exclude = files.rules.exclude;
            self.config.files.max_file_size = files.rules.max_file_size;
        }
        Ok(())
    }

    /// What people should be warned of before anything else: a `rappel.toml` that cannot be read,
    /// damage in the store.
    pub fn warnings(&self) -> Remarks {
        let mut warnings = Remarks::default();
        if let Some(problem) = &self.config_problem {
            warnings.push(format!("{problem} (the rules of the last checkpoint are used)"));
        }
        warnings.extend(self.config.unknown.iter().cloned());
        if let Err(problem) = self.store.require_writable() {
            warnings.push(format!("{problem}; nothing can be saved"));
        }
        if self.store.damage_seen() {
            warnings.push(Remark::new("the store is damaged", Advice::Verify));
        }
        warnings
    }

    /// The workspace's root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The configuration, as `rappel.toml` has it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The workspace's id, if it has a history.
    pub fn workspace_id(&self) -> Option<WorkspaceId> {
        self.recognition().known().map(|workspace| workspace.id)
    }

    pub(crate) fn known(&self) -> Option<document::Workspace> {
        self.recognition().known().cloned()
    }

    /// Which workspace this is, as far as this process knows at this moment.
    pub(crate) fn recognition(&self) -> Arc<Recognition> {
        locked(&self.recognition).clone()
    }

    pub(crate) fn recognised(&self, recognition: Recognition) {
        *locked(&self.recognition) = Arc::new(recognition);
    }

    /// Sessions that this process writes to. Hold the guard for one access only: a capture or a callback may come back
    /// here.
    pub(crate) fn live(&self) -> MutexGuard<'_, LiveSessions> {
        locked(&self.live)
    }

    /// The connected systems. This is a copy: they are called while no lock is held.
    pub(crate) fn connected(&self) -> Vec<Arc<dyn Connected>> {
        locked(&self.connected).clone()
    }

    pub(crate) fn add_connected(&self, system: Arc<dyn Connected>) {
        locked(&self.connected).push(system);
    }

    /// The workspace's id, for what must not happen to another folder's history.
    pub(crate) fn require_known(&self) -> Result<WorkspaceId> {
        match &*self.recognition() {
            Recognition::Known(known) | Recognition::Recloned(known) => Ok(known.id),
            Recognition::New { replaced: None, moved_from: None } => {
                Err(Error::NoCheckpoint { reference: "latest".into(), nearest: None })
            }
            Recognition::New { .. } => Err(Error::ForeignWorkspace { root: self.root.clone() }),
        }
    }

    /// The workspace's checkpoints, oldest first.
    pub(crate) fn rows(&self) -> Result<Vec<CheckpointRow>> {
        match self.workspace_id() {
            Some(id) => Ok(self.store.look_up(|index| index.checkpoints(Some(id)))?),
            None => Ok(Vec::new()),
        }
    }

    /// Folders that are never captured with the files because of what they are: our own home, folders
    /// that we write for other tools, and the linked work trees of the repository, which are
    /// captured by themselves.
    pub(crate) fn excluded(&self) -> Vec<Identity> {
        let linked = git::linked_folders(&self.root, &self.options.environment);
        let written = self.written_folders();
        let folders = std::iter::once(self.store.home().root())
            .chain(linked.iter().chain(&written).map(|path| &**path));
        folders.filter_map(|folder| Identity::of(folder).ok()).collect()
    }

    pub(crate) fn cache_path(&self, id: WorkspaceId) -> PathBuf {
        self.store.home().cache().join(format!("{id}.files"))
    }

    /// Whether there is no folder: only agents' state is kept.
    pub(crate) fn is_detached(&self) -> bool {
        self.options.detached
    }

    /// The present time.
    pub fn now(&self) -> rappel_types::Timestamp {
        self.options.clock.now()
    }

    /// The zone in which times without an offset are meant.
    pub fn zone(&self) -> &jiff::tz::TimeZone {
        &self.options.zone
    }
}

/// A lock on a value that is whole at every moment, so that a thread that panicked spoils nothing.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn open_store(options: &OpenOptions) -> Result<Store> {
    if let Some(keeper) = &options.keeper {
        let (limit, told) = (options.lock_limit, options.waiting.clone());
        return Ok(keeper.open(Patience { limit, told })?);
    }
    Ok(Store::open(&options.home, store_options(options))?)
}

pub(crate) fn store_options(options: &OpenOptions) -> rappel_store::Options {
    rappel_store::Options {
        disk: options.disk.clone(),
        clock: options.clock.clone(),
        lock_limit: options.lock_limit,
        waiting: options.waiting.clone(),
        ..Default::default()
    }
}

pub(crate) fn read_config(root: &Path) -> Result<Config> {
    let path = root.join("rappel.toml");
    // A pipe would be waited for without end, and a device has no end.
    if std::fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
        let source = std::io::Error::other("it is not a file");
        return Err(Error::io("read", path)(source));
    }
    match held::read_to_string(&path) {
        Ok(text) => Ok(Config::parse(&text, "rappel.toml")?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}
