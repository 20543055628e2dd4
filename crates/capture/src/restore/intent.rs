//! The durable plan and progress of a restore: written and synced before the first change, removed
//! after the last. While one is open, nobody else restores that folder.
//!
//! An intent is decided by what it says and by what really stands at each path; its marks only
//! tell people how far it came. One that cannot be read is damage and is reported, never guessed.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rappel_store::beneath::{Identity, Root};
use rappel_store::disk::{self, Disk, DiskFile, Op};
use rappel_store::held;
use rappel_store::lock::Patience;
use rappel_store::{Error as StoreError, ambient};
use rappel_types::agents::AgentsPlan;
use rappel_types::database::DatabasePlan;
use rappel_types::git::GitPlan;
use rappel_types::path::{escape, unescape};
use rappel_types::{Action, CheckpointId, RelPath, Timestamp, WorkspaceId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::{Error, Result};
use super::record::{self, Mark};

/// The random name of an intent, as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentId(pub u64);

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for IntentId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == 16
            && text.bytes().all(hex)
            && let Ok(number) = u64::from_str_radix(text, 16)
        {
            return Ok(Self(number));
        }
        Err(format!("not a valid intent id: {text:?}"))
    }
}

impl Serialize for IntentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IntentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How long to wait for another restore that is being written down.
const PATIENCE: Duration = Duration::from_secs(10);
const STAGING_PREFIX: &[u8] = b".rappel-";

/// The intent that a name in a workspace belongs to, if it is the name of a staged or displaced
/// file of some restore.
pub fn staging_name(name: &[u8]) -> Option<IntentId> {
    let (id, rest) = name.strip_prefix(STAGING_PREFIX)?.split_at_checked(16)?;
    let digits = rest.strip_prefix(b"-")?.split(|&b| b == b'.').next()?;
    let numbered = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(id).ok()?.parse().ok().filter(|_| numbered)
}

/// How far a restore came, for people to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It is written down; new content is being staged.
    Planned,
    /// Entries are changing places.
    Swapping,
    /// Everything is in place and verified; what was displaced is being removed.
    Swapped,
    /// What was done is being taken back.
    RollingBack,
    /// It is over.
    Done,
}

impl Phase {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Planned => 0,
            Self::Swapping => 1,
            Self::Swapped => 2,
            Self::RollingBack => 3,
            Self::Done => 4,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        let all = [Self::Planned, Self::Swapping, Self::Swapped, Self::RollingBack, Self::Done];
        all.get(usize::from(code)).copied()
    }
}

/// A folder whose mode has to be opened for the work, and what it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedFolder {
    /// Which; `None` is the root.
    pub path: Option<RelPath>,
    /// Its permission bits.
    pub mode: u32,
}

/// What an intent says. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its name, and the one in the names of its staged files.
    pub id: IntentId,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whose restore this is.
    pub workspace: WorkspaceId,
    /// The folder, as an absolute path without links, escaped.
    pub root: String,
    /// The folder's device.
    pub device: u64,
    /// The folder's inode.
    pub inode: u64,
    /// The checkpoint that is restored.
    pub target: CheckpointId,
    /// The checkpoint that holds what was there before.
    pub safety: CheckpointId,
    /// The hash of the plan.
    pub plan: String,
    /// What is to be done, in order of paths, without what is skipped.
    pub actions: Vec<Action>,
    /// Folders to open up and to close again.
    pub closed: Vec<ClosedFolder>,
    /// What is to be done to repositories.
    #[serde(default, skip_serializing_if = "GitPlan::is_empty")]
    pub git: GitPlan,
    /// What is to be done to databases, in the order in which they are committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<DatabasePlan>,
    /// What is to be done to agents.
    #[serde(default, skip_serializing_if = "AgentsPlan::is_empty")]
    pub agents: AgentsPlan,
}

impl Header {
    /// The folder to restore.
    pub fn root_path(&self) -> PathBuf {
        let bytes = unescape(&self.root).unwrap_or_else(|| self.root.clone().into_bytes());
        PathBuf::from(std::ffi::OsString::from_vec(bytes))
    }
}

/// An unfinished restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// What it says.
    pub header: Header,
    /// How far it came.
    pub phase: Phase,
    /// Places of the databases whose commit was begun.
    pub begun: Vec<u8>,
    /// Places of the databases that are committed.
    pub done: Vec<u8>,
}

impl Intent {
    fn overlaps(&self, path: &Path, identity: Identity) -> bool {
        let other = self.header.root_path();
        let own = Identity { device: self.header.device, inode: self.header.inode };
        own == identity || path.starts_with(&other) || other.starts_with(path)
    }

    /// Every name that this restore may use for staged and displaced files, relative to the folder
    /// at `root`, as far as they lie below it.
    pub fn staging_paths(&self, root: &Path) -> Vec<RelPath> {
        let own = self.header.root_path();
        let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let Ok(steps) = super::steps::steps_of(&self.header, super::steps::Way::Forward) else {
            return Vec::new();
        };
        let names = steps.into_iter().flat_map(|step| [step.slot, step.aside, step.unfinished]);
        let names = names.map(|name| own.join(std::ffi::OsStr::from_bytes(name.as_bytes())));
        let made = crate::git::create::staging_folders(&self.header.git, self.header.id);
        names
            .chain(made)
            .filter_map(|path| {
                let below = path.strip_prefix(&root).ok()?;
                RelPath::new(below.as_os_str().as_bytes()).ok()
            })
            .collect()
    }
}

/// An intent that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedIntent {
    /// Its file.
    pub path: PathBuf,
    /// Whose restore it is, if its name tells.
    pub workspace: Option<WorkspaceId>,
    /// What is wrong with it.
    pub reason: String,
}

/// All intents of a home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The unfinished ones, oldest first. One that is being carried out right now is among them.
    pub open: Vec<Intent>,
    /// Those that cannot be read.
    pub damaged: Vec<DamagedIntent>,
}

/// What is needed to write an intent down.
#[derive(Debug, Clone)]
pub struct Draft {
    /// When.
    pub created_at: Timestamp,
    /// Whose restore this is.
    pub workspace: WorkspaceId,
    /// The checkpoint that is restored.
    pub target: CheckpointId,
    /// The checkpoint that holds what was there before.
    pub safety: CheckpointId,
    /// The hash of the plan.
    pub plan: String,
    /// What is to be done.
    pub actions: Vec<Action>,
    /// Folders to open up and to close again.
    pub closed: Vec<ClosedFolder>,
    /// What is to be done to repositories.
    pub git: GitPlan,
    /// What is to be done to databases.
    pub databases: Vec<DatabasePlan>,
    /// What is to be done to agents.
    pub agents: AgentsPlan,
}

/// The folder of a home's intents.
#[derive(Debug, Clone)]
pub struct Intents {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    patience: Patience,
}

impl Intents {
    /// The intents in `folder`, which is made when it is needed.
    pub fn new(folder: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        Self { folder: folder.into(), disk, patience: PATIENCE.into() }
    }

    /// The same, waiting for others as long as told.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The file of an intent that is there.
    fn path_of(&self, id: IntentId) -> Option<PathBuf> {
        let entries = std::fs::read_dir(&self.folder).ok()?.flatten();
        entries.map(|entry| entry.path()).find(|path| {
            let named = Name::of(path);
            is_intent(path) && named.is_some_and(|name| name.id == id)
        })
    }

    /// Every intent there is.
    pub fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            other => other.map_err(StoreError::io("list", &self.folder))?,
        };
        for entry in entries {
            let path = entry.map_err(StoreError::io("list", &self.folder))?.path();
            if !is_intent(&path) {
                continue;
            }
            match read(&path) {
                Ok(Some(intent)) if intent.phase == Phase::Done => {}
                Ok(Some(intent)) => listing.open.push(intent),
                Ok(None) => {}
                Err(StoreError::Damaged(reason)) => {
                    let workspace = Name::of(&path).and_then(|name| name.workspace);
                    listing.damaged.push(DamagedIntent { path, workspace, reason });
                }
                Err(error) => return Err(error.into()),
            }
        }
        listing.open.sort_by_key(|intent| (intent.header.created_at, intent.header.id));
        listing.damaged.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// What changes whenever an intent is begun or closed.
    pub fn mark(&self) -> impl PartialEq + use<> {
        let modified = std::fs::metadata(&self.folder).and_then(|meta| meta.modified()).ok();
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort_unstable();
        (modified, names)
    }

    /// A damaged intent of a workspace: nobody knows what it left undone there.
    pub fn damaged_of(&self, workspace: WorkspaceId) -> Result<Option<DamagedIntent>> {
        let mut damaged = self.list()?.damaged.into_iter();
        Ok(damaged.find(|damaged| damaged.workspace == Some(workspace)))
    }

    /// Takes a damaged intent out of the way, so that it bars nobody any more. Its file stays, under
    /// another name, for whoever wants to look at it; that name is returned.
    pub fn set_aside(&self, damaged: &DamagedIntent) -> Result<PathBuf> {
        let file = held::open(&damaged.path).map_err(StoreError::io("open", &damaged.path))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            let holder = format!("{} is held by a restore", damaged.path.display());
            return Err(StoreError::Busy { holder, waited_ms: 0 }.into());
        }
        let aside = damaged.path.with_extension("damaged");
        self.rename(&damaged.path, &aside)?;
        disk::sync_dir(&*self.disk, &self.folder)?;
        Ok(aside)
    }

    /// The open intents that concern the folder at `root`, or one above or below it. Damaged ones
    /// are not among them: nobody knows which folders they concern.
    pub fn concerning(&self, root: &Path) -> Result<Vec<Intent>> {
        let mut open = self.list()?.open;
        if !open.is_empty() {
            let real = std::fs::canonicalize(root);
            let path = real.map_err(StoreError::io("look at", root))?;
            let identity = Identity::of(&path)?;
            open.retain(|intent| intent.overlaps(&path, identity));
        }
        Ok(open)
    }

    /// Writes an intent down, durably; refused while another one concerns the same files, or a
    /// damaged one is of the same workspace.
    pub fn begin(&self, root: &Root, draft: Draft) -> Result<OpenIntent> {
        disk::create_dir(&*self.disk, &self.folder)?;
        let guard = held::open(&self.folder).map_err(StoreError::io("open", &self.folder))?;
        wait_for(&guard, &self.folder, &self.patience)?;
        self.sweep()?;
        if let Some(damaged) = self.damaged_of(draft.workspace)? {
            let reason = format!("{}: {}", damaged.path.display(), damaged.reason);
            return Err(StoreError::Damaged(reason).into());
        }
        if let Some(other) = self.concerning(root.path())?.first() {
            let (intent, root) = (other.header.id, other.header.root_path());
            return Err(if self.is_running(intent) {
                Error::Running { intent, root }
            } else {
                Error::Unfinished { intent, root }
            });
        }
        let header = Header {
            id: IntentId(ambient::random()),
            created_at: draft.created_at,
            workspace: draft.workspace,
            root: escape(real_path(root)?.as_os_str().as_bytes()),
            device: root.identity().device,
            inode: root.identity().inode,
            target: draft.target,
            safety: draft.safety,
            plan: draft.plan,
            actions: draft.actions,
            closed: draft.closed,
            git: draft.git,
            databases: draft.databases,
            agents: draft.agents,
        };
        let bytes = record::encode(&header)?;
        let path = self.folder.join(Name::of_header(&header).to_string());
        // The name is given only to a complete file, so that whatever bears it and cannot be read
        // was damaged, not interrupted.
        let unfinished = path.with_extension("tmp");
        let file = DiskFile::create_new(&self.disk, &unfinished)?;
        let written = (|| {
            file.file().lock().map_err(StoreError::io("lock", &unfinished))?;
            file.write_at(&bytes, 0)?;
            file.sync()?;
            self.rename(&unfinished, &path)
        })();
        if let Err(error) = written {
            let _ = disk::unlink(&*self.disk, &unfinished);
            return Err(error.into());
        }
        let open = OpenIntent {
            intent: Intent { header, phase: Phase::Planned, begun: Vec::new(), done: Vec::new() },
            file,
            path,
            folder: self.folder.clone(),
            disk: self.disk.clone(),
            end: bytes.len() as u64,
            marks: 0,
        };
        if let Err(error) = disk::sync_dir(&*self.disk, &self.folder) {
            let _ = open.close();
            return Err(error.into());
        }
        Ok(open)
    }

    /// Removes what is left of intents that were never begun, or that are over. Only under the
    /// lock: outside it such a file may be one that is being written.
    fn sweep(&self) -> Result<()> {
        let entries = std::fs::read_dir(&self.folder);
        for entry in entries.map_err(StoreError::io("list", &self.folder))?.flatten() {
            let path = entry.path();
            let is = |wanted: &str| path.extension().is_some_and(|extension| extension == wanted);
            let over = || {
                let intent = read(&path);
                matches!(intent, Ok(Some(intent)) if intent.phase == Phase::Done)
            };
            if is("tmp") || (is("intent") && over()) {
                disk::unlink(&*self.disk, &path)?;
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let rename = || {
            self.disk.gate(&Op::Rename { from, to })?;
            std::fs::rename(from, to)
        };
        rename().map_err(StoreError::io("rename", from))
    }

    /// Whether a process is at work on an intent right now.
    pub fn is_running(&self, id: IntentId) -> bool {
        let Some(Ok(file)) = self.path_of(id).map(held::open) else { return false };
        matches!(file.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Takes over an intent that nobody is at work on.
    pub fn take(&self, id: IntentId) -> Result<OpenIntent> {
        let Some(path) = self.path_of(id) else { return Err(Error::NoSuchIntent(id)) };
        let file = match DiskFile::open(&self.disk, &path) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NoSuchIntent(id));
            }
            other => other?,
        };
        let locked = file.file().try_lock();
        let bytes = held::read(&path).map_err(StoreError::io("read", &path))?;
        let decoded = record::decode(id, &bytes)?;
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Running { intent: id, root: decoded.header.root_path() });
            }
            Err(TryLockError::Error(error)) => {
                return Err(StoreError::io("lock", &path)(error).into());
            }
        }
        Ok(OpenIntent {
            intent: Intent {
                header: decoded.header,
                phase: decoded.phase,
                begun: decoded.begun,
                done: decoded.done,
            },
            file,
            path,
            folder: self.folder.clone(),
            disk: self.disk.clone(),
            end: decoded.end,
            marks: decoded.marks,
        })
    }
}

/// What the name of an intent's file says, so that it is known whose restore it is even if nothing
/// in it can be read.
struct Name {
    id: IntentId,
    /// Names without it are read too, and block nobody if they are damaged.
    workspace: Option<WorkspaceId>,
}

impl Name {
    fn of(path: &Path) -> Option<Self> {
        let stem = path.file_stem()?.to_str()?;
        let (id, workspace) = match stem.split_once('-') {
            Some((id, workspace)) => (id, Some(workspace.parse().ok()?)),
            None => (stem, None),
        };
        Some(Self { id: id.parse().ok()?, workspace })
    }

    fn of_header(header: &Header) -> Self {
        Self { id: header.id, workspace: Some(header.workspace) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.workspace {
            Some(workspace) => write!(f, "{}-{workspace}.intent", self.id),
            None => write!(f, "{}.intent", self.id),
        }
    }
}

fn is_intent(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "intent")
}

/// The intent in a file; `None` if it is gone by now.
fn read(path: &Path) -> Result<Option<Intent>, StoreError> {
    let Some(Name { id, workspace }) = Name::of(path) else {
        return Err(StoreError::Damaged("intent: its name is no intent's".into()));
    };
    let bytes = match held::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(StoreError::io("read", path))?,
    };
    let decoded = record::decode(id, &bytes)?;
    if workspace.is_some_and(|workspace| workspace != decoded.header.workspace) {
        return Err(StoreError::Damaged("intent: it belongs under another name".into()));
    }
    let record::Decoded { header, phase, begun, done, .. } = decoded;
    Ok(Some(Intent { header, phase, begun, done }))
}

/// Waits for the lock on the folder of intents, which is held only to write one down.
fn wait_for(guard: &File, folder: &Path, patience: &Patience) -> Result<(), StoreError> {
    let try_once = || match guard.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(StoreError::io("lock", folder)(error)),
    };
    let who = || format!("{} is held by another restore", folder.display());
    let waited = patience.wait(try_once, who)?;
    waited.map_err(|waited_ms| StoreError::Busy { holder: who(), waited_ms })
}

fn real_path(root: &Root) -> Result<PathBuf> {
    let real = std::fs::canonicalize(root.path());
    Ok(real.map_err(StoreError::io("look at", root.path()))?)
}

/// An intent that this process holds.
#[derive(Debug)]
pub struct OpenIntent {
    intent: Intent,
    file: DiskFile,
    path: PathBuf,
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    end: u64,
    marks: u64,
}

impl OpenIntent {
    /// What it says.
    pub fn header(&self) -> &Header {
        &self.intent.header
    }

    /// Its name.
    pub fn id(&self) -> IntentId {
        self.intent.header.id
    }

    /// How far it came.
    pub fn phase(&self) -> Phase {
        self.intent.phase
    }

    /// Notes how far the work came. Neither synced nor checked, since recovery goes by what it
    /// finds; a mark that was cut short is overwritten by the next.
    pub(super) fn note(&mut self, phase: Phase) {
        if self.mark(Mark::Phase(phase)).is_ok() {
            self.intent.phase = phase;
        }
    }

    /// Notes, durably, that a database is about to be committed.
    pub(crate) fn begin_database(&mut self, place: usize) -> Result<()> {
        let place = u8::try_from(place).unwrap_or(u8::MAX);
        self.mark(Mark::Begun(place))?;
        self.file.sync()?;
        self.intent.begun.push(place);
        Ok(())
    }

    /// Notes that it is committed. Without the note, the database itself is asked.
    pub(crate) fn end_database(&mut self, place: usize) {
        let place = u8::try_from(place).unwrap_or(u8::MAX);
        if self.mark(Mark::Done(place)).is_ok() {
            self.intent.done.push(place);
        }
    }

    fn mark(&mut self, mark: Mark) -> Result<()> {
        let bytes = record::encode_mark(self.id(), self.marks + 1, mark);
        self.file.write_at(&bytes, self.end)?;
        self.end += bytes.len() as u64;
        self.marks += 1;
        Ok(())
    }

    /// Removes it: everything it said is done, or undone.
    pub(super) fn close(mut self) -> Result<()> {
        // A file that cannot be removed says by itself that it is over, and is swept up later.
        self.note(Phase::Done);
        match disk::unlink(&*self.disk, &self.path) {
            Err(_) if self.phase() == Phase::Done && self.file.sync().is_ok() => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(disk::sync_dir(&*self.disk, &self.folder)?),
        }
    }
}
