//! What can go wrong, with what the caller should do about it.

use std::path::PathBuf;

use rappel_types::advice::{Listed, NameOf};
use rappel_types::agents::Illegal;
use rappel_types::plan::Conflict;
use rappel_types::{Advice, Timestamp};

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it was: what the caller should do, not where it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// It did not work.
    Failed,
    /// The request makes no sense, or could mean several things.
    Usage,
    /// There is no such checkpoint, session or path.
    NotFound,
    /// The user has to confirm.
    Confirmation,
    /// Somebody else holds the lock.
    Busy,
    /// Stored bytes are damaged.
    Damage,
    /// Something changed under us, or a restore is unfinished.
    Conflict,
    /// The user stopped it. Nothing of it is left.
    Cancelled,
}

impl ErrorKind {
    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not-found",
            Self::Confirmation => "confirmation-needed",
            Self::Busy => "busy",
            Self::Damage => "damage",
            Self::Conflict => "conflict",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Something went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store.
    #[error(transparent)]
    Store(#[from] rappel_store::Error),
    /// A numbered file of a state folder could not be read or written.
    #[error(transparent)]
    StateFile(#[from] rappel_formats::Error),
    /// Capturing.
    #[error(transparent)]
    Capture(#[from] rappel_capture::Error),
    /// Restoring.
    #[error(transparent)]
    Restore(#[from] rappel_capture::restore::Error),
    /// A database.
    #[error("database {name}: {error}")]
    Database {
        /// Which.
        name: String,
        /// Why.
        error: rappel_capture::databases::Error,
    },
    /// Somebody else restores the same workspace and did not end in time.
    #[error("another restore of {} is under way{}; nothing was changed", root.display(), rappel_store::error::waited(*waited_ms))]
    Restoring {
        /// The workspace's folder.
        root: PathBuf,
        /// For how long we waited.
        waited_ms: u64,
    },
    /// A restore came too far to be taken back.
    #[error(
        "database {database} was restored already, or may have been: the restore can only be finished"
    )]
    PastReturn {
        /// The first that was.
        database: String,
    },
    /// `rappel.toml`.
    #[error(transparent)]
    Config(#[from] rappel_types::ConfigError),
    /// No checkpoint is meant by the reference.
    #[error("no checkpoint {reference:?} in this workspace")]
    NoCheckpoint {
        /// As it was given.
        reference: String,
        /// References that look like it; `None` if the workspace has no checkpoint at all.
        nearest: Option<Vec<String>>,
    },
    /// The checkpoint that is meant is of another workspace.
    #[error("{checkpoint} is of {root}, not of this workspace")]
    Elsewhere {
        /// Which.
        checkpoint: rappel_types::CheckpointId,
        /// Whose it is.
        workspace: rappel_types::WorkspaceId,
        /// Where that was last seen.
        root: String,
    },
    /// The workspace's folder is gone, and what was asked for needs it.
    #[error("{} does not exist any more: only its checkpoints are left", root.display())]
    NoFolder {
        /// Where it was.
        root: PathBuf,
    },
    /// The checkpoint that is meant was deleted.
    #[error("{checkpoint} was deleted")]
    Deleted {
        /// Which.
        checkpoint: rappel_types::CheckpointId,
    },
    /// The checkpoint that is meant was there, and damage has taken all of it.
    #[error("{checkpoint} is lost: the store is damaged and holds nothing of it any more")]
    Lost {
        /// Which.
        checkpoint: rappel_types::CheckpointId,
    },
    /// No deleted checkpoint is meant.
    #[error("no deleted checkpoint {reference:?} in this workspace")]
    NotDeleted {
        /// As it was given.
        reference: String,
        /// Some that were deleted.
        deleted: Vec<String>,
    },
    /// A checkpoint is to be kept for good.
    #[error("{checkpoint} is pinned: it is not deleted")]
    Pinned {
        /// Which.
        checkpoint: rappel_types::CheckpointId,
    },
    /// What was given for a checkpoint is a tag.
    #[error("no checkpoint {reference:?} in this workspace: that is a tag")]
    ATag {
        /// As it was given.
        reference: String,
        /// The newest checkpoints that have it.
        tagged: Vec<String>,
    },
    /// What was given for a checkpoint is what one was called, or a part of that.
    #[error("no checkpoint {reference:?} in this workspace: that is a message")]
    AMessage {
        /// As it was given.
        reference: String,
        /// The newest checkpoints that have it.
        checkpoints: Vec<String>,
    },
    /// What was given for a checkpoint looks like a tag.
    #[error("no checkpoint {reference:?} in this workspace")]
    AlmostATag {
        /// As it was given.
        reference: String,
        /// The tag.
        tag: String,
    },
    /// Several checkpoints are meant by the reference.
    #[error("{reference:?} could be {}", candidates.join(", "))]
    Ambiguous {
        /// As it was given.
        reference: String,
        /// What it could be.
        candidates: Vec<String>,
    },
    /// No session is meant by the id.
    #[error("no session {session:?}{}", let_go_words(*let_go))]
    NoSession {
        /// As it was given.
        session: String,
        /// The one that was most likely meant.
        nearest: Option<String>,
        /// When retention let go of the one that had this id.
        let_go: Option<Timestamp>,
    },
    /// Something cannot be recorded.
    #[error("session {session}: {illegal}")]
    IllegalEvent {
        /// The session.
        session: String,
        /// Why.
        illegal: rappel_types::agents::Illegal,
    },
    /// What is asked for is not there.
    #[error("{message}")]
    NotThere {
        /// What.
        message: String,
        /// What is.
        advice: Advice,
    },
    /// A search for the first bad checkpoint cannot begin, go on or end.
    #[error("{message}")]
    Bisect {
        /// What the caller should do.
        kind: ErrorKind,
        /// Why.
        message: String,
        /// The next step.
        advice: Vec<Advice>,
    },
    /// A question about time says nothing of the time.
    #[error("name a moment")]
    InvalidQuery,
    /// No workspace is meant by the path or id.
    #[error("no workspace is known as {old}")]
    NoWorkspace {
        /// As it was given.
        old: String,
    },
    /// A checkpoint does not hold a path.
    #[error("{checkpoint} holds no {path}")]
    NoPath {
        /// The checkpoint.
        checkpoint: String,
        /// The path.
        path: String,
    },
    /// The request makes no sense.
    #[error("{message}")]
    Usage {
        /// Why.
        message: String,
        /// What to do instead.
        advice: Vec<Advice>,
    },
    /// The plan is no longer the one that was confirmed.
    #[error("the plan is not {expected} any more")]
    PlanChanged {
        /// What was confirmed.
        expected: String,
        /// What it would be now.
        found: String,
    },
    /// The plan of a restore cannot be carried out as things are. Nothing was changed.
    #[error("{}; nothing was changed", describe(conflicts))]
    InTheWay {
        /// What is in the way, and why.
        conflicts: Vec<Conflict>,
    },
    /// A restore failed when the present was saved already.
    #[error("{cause} (what was there before is saved as {safety})")]
    AfterSaving {
        /// Why it failed.
        cause: Box<Error>,
        /// The safety checkpoint.
        safety: rappel_types::CheckpointId,
    },
    /// Another restore, undo or redo went by since an undo or redo was planned.
    #[error(
        "another restore, undo or redo of this workspace went by meanwhile; nothing was changed"
    )]
    Stepped,
    /// The folder at the workspace's path is another one than the history is of.
    #[error("{} is not the folder that this history is of", root.display())]
    ForeignWorkspace {
        /// The folder.
        root: PathBuf,
    },
    /// Paths were left as they are because somebody changed them meanwhile.
    #[error("{}", describe(conflicts))]
    Changed {
        /// Which, and why.
        conflicts: Vec<Conflict>,
    },
    /// There is nothing to do.
    #[error("{message}")]
    Nothing {
        /// Why.
        message: String,
        /// What to do instead.
        advice: Vec<Advice>,
    },
    /// Stored bytes are damaged.
    #[error("{message}")]
    Damaged {
        /// What.
        message: String,
    },
    /// What a restore of this workspace left undone cannot be told.
    #[error("a restore of this workspace was interrupted, and {} cannot be read: {reason}", path.display())]
    DamagedIntent {
        /// The intent's file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file beside the store could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
}

fn let_go_words(at: Option<Timestamp>) -> String {
    at.map(|at| format!(": [retention] let it go at {at}")).unwrap_or_default()
}

fn describe(conflicts: &[Conflict]) -> String {
    let shown: Vec<_> =
        conflicts.iter().take(5).map(|c| format!("{}: {}", c.name(), c.reason)).collect();
    match conflicts.len() {
        0 => "something changed meanwhile".into(),
        count if count > 5 => format!("{} (and {} more)", shown.join("; "), count - 5),
        _ => shown.join("; "),
    }
}

impl Error {
    /// A closure for `map_err` that keeps the action and the path.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// What is said of a database whose functions look for a name that was not found, where the error is that.
    pub(crate) fn names_missing(&self) -> Option<String> {
        use rappel_capture::databases::Error as Database;
        use rappel_capture::restore::Error as Restore;
        if let Self::AfterSaving { cause, .. } = self {
            return cause.names_missing();
        }
        // A restore that could not be taken back waits for `recover`.
        let Self::Restore(error @ (Restore::Database { .. } | Restore::RolledBack { .. })) = self
        else {
            return None;
        };
        let Database::NameMissing(words) = database_cause(error)? else { return None };
        let first = words.lines().next().unwrap_or_default();
        Some(format!(
            "a function names something without its schema ({first}); the dump was loaded with a search_path of \
             schemas where only its user and superusers may create objects"
        ))
    }

    /// The same, with where the rows of a database are that could not be loaded.
    #[must_use]
    pub(crate) fn with_rows_in(mut self, checkpoint: &rappel_types::CheckpointId) -> Self {
        let error = match &mut self {
            Self::AfterSaving { cause, .. } => &mut **cause,
            other => other,
        };
        if let Self::Restore(error) = error {
            say_where(error, checkpoint);
        }
        self
    }

    /// The same, with the checkpoint that was made before it happened.
    #[must_use]
    pub(crate) fn after_saving(self, safety: &rappel_types::CheckpointId) -> Self {
        Self::AfterSaving { cause: Box::new(self), safety: safety.clone() }
    }

    /// The path at which the system refused something.
    pub fn refused_path(&self) -> Option<&std::path::Path> {
        match self {
            Self::Io { path, .. } | Self::Store(rappel_store::Error::Io { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// What it is about, whatever was saved before.
    pub fn cause(&self) -> &Self {
        match self {
            Self::AfterSaving { cause, .. } => cause.cause(),
            other => other,
        }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) | Self::Capture(rappel_capture::Error::Store(error)) => {
                store_kind(error)
            }
            Self::Restore(error) => restore_kind(error),
            Self::AfterSaving { cause, .. } => cause.kind(),
            Self::Restoring { .. } => ErrorKind::Busy,
            Self::StateFile(rappel_formats::Error::Store(error)) => store_kind(error),
            Self::Database { error, .. } => database_kind(error),
            Self::Capture(rappel_capture::Error::Cancelled) => ErrorKind::Cancelled,
            Self::Capture(error) if error.is_conflict() => ErrorKind::Conflict,
            Self::Capture(
                rappel_capture::Error::UnsuitableRoot { .. }
                | rappel_capture::Error::BadGlob { .. },
            )
            | Self::Usage { .. }
            | Self::Ambiguous { .. }
            | Self::Pinned { .. }
            | Self::InvalidQuery
            | Self::Config(_) => ErrorKind::Usage,
            Self::NoCheckpoint { .. }
            | Self::ATag { .. }
            | Self::AMessage { .. }
            | Self::AlmostATag { .. }
            | Self::Deleted { .. }
            | Self::NotDeleted { .. }
            | Self::NoPath { .. }
            | Self::NoSession { .. }
            | Self::NotThere { .. }
            | Self::Elsewhere { .. }
            | Self::NoFolder { .. }
            | Self::NoWorkspace { .. } => ErrorKind::NotFound,
            Self::Bisect { kind, .. } => *kind,
            Self::IllegalEvent { illegal, .. } => match illegal {
                Illegal::Ended(_) => ErrorKind::Conflict,
                Illegal::Unknown { .. } => ErrorKind::NotFound,
                _ => ErrorKind::Usage,
            },
            Self::PlanChanged { .. }
            | Self::InTheWay { .. }
            | Self::Stepped
            | Self::ForeignWorkspace { .. }
            | Self::PastReturn { .. }
            | Self::Changed { .. } => ErrorKind::Conflict,
            Self::Damaged { .. } | Self::DamagedIntent { .. } | Self::Lost { .. } => {
                ErrorKind::Damage
            }
            Self::Capture(_) | Self::StateFile(_) | Self::Nothing { .. } | Self::Io { .. } => {
                ErrorKind::Failed
            }
        }
    }

    /// Whether the work stopped because it was asked to.
    pub fn is_cancelled(&self) -> bool {
        self.kind() == ErrorKind::Cancelled
    }

    /// Whether it concerns only what could not be read just now, so that whoever looks at many
    /// checkpoints can go on with the next.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.kind() == ErrorKind::Damage
            || matches!(self, Self::Store(rappel_store::Error::Newer { .. }))
    }

    /// What to do next, if there is something.
    pub fn advice(&self) -> Vec<Advice> {
        use rappel_capture::restore::Error as Restore;
        let one = match self {
            Self::NoCheckpoint { nearest, .. } => match nearest.as_deref() {
                None => Advice::SaveFirst,
                Some([]) => Advice::ListCheckpoints { filter: Listed::All },
                Some(alike) => {
                    Advice::DidYouMean { what: NameOf::Checkpoint, names: alike.to_vec() }
                }
            },
            Self::Deleted { checkpoint } => Advice::Undelete { id: checkpoint.to_string() },
            Self::Lost { checkpoint } => Advice::DeleteLost { checkpoint: checkpoint.to_string() },
            Self::NotDeleted { deleted, .. } => {
                Advice::ListCheckpoints { filter: Listed::Deleted { some: deleted.clone() } }
            }
            Self::ATag { reference, tagged } => {
                let (tag, newest) = (reference.clone(), tagged.clone());
                Advice::ListCheckpoints { filter: Listed::Tagged { tag, newest } }
            }
            Self::AMessage { checkpoints, .. } => Advice::plain(format!(
                "a checkpoint goes by its id or number; this message has {}",
                checkpoints.join(", ")
            )),
            Self::AlmostATag { tag, .. } => {
                Advice::DidYouMean { what: NameOf::Tag, names: vec![tag.clone()] }
            }
            Self::Pinned { checkpoint } => Advice::Unpin { checkpoint: checkpoint.to_string() },
            Self::Ambiguous { .. } => Advice::plain("give more letters of the id"),
            Self::NoPath { checkpoint, .. } => Advice::ShowFiles { checkpoint: checkpoint.clone() },
            Self::NoWorkspace { .. } => Advice::ListWorkspaces,
            Self::NotThere { advice, .. } => advice.clone(),
            Self::Elsewhere { workspace, .. } => {
                Advice::NameWorkspace { workspace: workspace.to_string() }
            }
            Self::NoFolder { .. } => {
                let adopt = Advice::Adopt { workspace: None };
                return vec![Advice::RestoreTo { checkpoint: None }, adopt];
            }
            Self::NoSession { session, let_go: Some(_), .. } => {
                Advice::UndeleteSession { session: session.clone() }
            }
            Self::NoSession { nearest: None, .. } => Advice::ListSessions,
            Self::NoSession { nearest: Some(nearest), .. } => {
                Advice::DidYouMean { what: NameOf::Session, names: vec![nearest.clone()] }
            }
            Self::IllegalEvent { session, illegal: Illegal::Ended(_) } => {
                Advice::ContinueSession { parent: session.clone() }
            }
            Self::IllegalEvent { session, .. } => {
                Advice::ShowSessionState { session: session.clone() }
            }
            Self::InvalidQuery => Advice::NameMoment,
            Self::Config(_) => {
                Advice::plain("correct rappel.toml, or restore it from a checkpoint")
            }
            Self::Usage { advice, .. }
            | Self::Nothing { advice, .. }
            | Self::Bisect { advice, .. } => return advice.clone(),
            Self::PlanChanged { .. } => Advice::PlanAgain,
            Self::ForeignWorkspace { .. } => Advice::Adopt { workspace: None },
            Self::Restore(Restore::Unfinished { .. } | Restore::Interrupted { .. }) => {
                Advice::Recover { finish: true, rollback: true }
            }
            Self::PastReturn { .. } | Self::Restore(Restore::MustFinish { .. }) => {
                Advice::FinishRestore
            }
            Self::Restore(Restore::NotEmpty { .. }) => {
                Advice::plain("name a folder that does not exist yet")
            }
            Self::InTheWay { conflicts } => {
                let each = advice_of(conflicts);
                return if each.is_empty() { way_out(conflicts) } else { each };
            }
            Self::Changed { conflicts } => return advice_of(conflicts),
            Self::AfterSaving { cause, .. } => return cause.advice(),
            Self::Damaged { .. } => Advice::Verify,
            Self::DamagedIntent { .. } => Advice::SetAsideIntent,
            Self::Store(error) | Self::Capture(rappel_capture::Error::Store(error)) => {
                return store_advice(error);
            }
            Self::Restore(error) if error.is_git_busy() => Advice::plain(
                "try again when git has ended; if no git is running, delete that file",
            ),
            Self::Restore(error) => {
                return match restore_cause(error) {
                    Some(cause) => store_advice(cause),
                    None => database_cause(error).map(database_advice).unwrap_or_default(),
                };
            }
            Self::Database { error, .. } => return database_advice(error),
            Self::Restoring { .. } => Advice::plain("try again when it has ended"),
            Self::Io { source, .. } if is_about_open_files(source) => more_open_files(),
            _ => return Vec::new(),
        };
        vec![one]
    }
}

/// What to do about what is in the way of a restore, for a face that has shown the conflicts of its
/// plan, each with its own advice.
pub fn way_out(conflicts: &[Conflict]) -> Vec<Advice> {
    let mut advice = advice_of(conflicts);
    // What a conflict advises is said with it, but for what this restore needs to be told at once.
    advice.retain(|one| matches!(one, Advice::AllowUnsaved { .. }));
    match conflicts.iter().all(Conflict::is_about_a_database) {
        true if advice.is_empty() => vec![Advice::SeeToEach],
        true => {
            advice.push(Advice::SkipDatabases);
            advice
        }
        false => vec![Advice::MoveAside],
    }
}

/// All that conflicts advise, each once.
fn advice_of(conflicts: &[Conflict]) -> Vec<Advice> {
    let mut all: Vec<Advice> = Vec::new();
    for advice in conflicts.iter().flat_map(|one| &one.advice) {
        if !all.contains(advice) {
            all.push(advice.clone());
        }
    }
    all
}

/// A sentence of advice where there is something to say.
pub(crate) fn plain_if(any: bool, say: impl FnOnce() -> String) -> Vec<Advice> {
    any.then(|| Advice::plain(say())).into_iter().collect()
}

fn more_open_files() -> Advice {
    Advice::plain("let the process open more files: ulimit -n 1024")
}

/// Whether the system refused because too many files are open.
fn is_about_open_files(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let limits = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| limits.contains(&code))
}

/// What made a restore fail, if that was the store.
fn restore_cause(error: &rappel_capture::restore::Error) -> Option<&rappel_store::Error> {
    use rappel_capture::restore::Error as Restore;
    match error {
        Restore::Store(error) => Some(error),
        Restore::RolledBack { cause, .. }
        | Restore::Interrupted { cause, .. }
        | Restore::MustFinish { cause, .. } => restore_cause(cause),
        Restore::Database { error: rappel_capture::databases::Error::Store(error), .. } => {
            Some(error)
        }
        _ => None,
    }
}

fn restore_kind(error: &rappel_capture::restore::Error) -> ErrorKind {
    use rappel_capture::restore::Error as Restore;
    // One that was stopped and could not be taken back is unfinished.
    let is_unfinished = matches!(error, Restore::Interrupted { .. } | Restore::MustFinish { .. });
    match restore_cause(error) {
        Some(rappel_store::Error::Cancelled) if is_unfinished => ErrorKind::Failed,
        Some(cause) => store_kind(cause),
        None if error.is_git_busy() => ErrorKind::Busy,
        None if error.is_conflict() => ErrorKind::Conflict,
        None => match database_cause(error) {
            Some(cause) => database_kind(cause),
            None => ErrorKind::Failed,
        },
    }
}

/// What made a restore fail, if that was a database.
fn database_cause(
    error: &rappel_capture::restore::Error,
) -> Option<&rappel_capture::databases::Error> {
    use rappel_capture::restore::Error as Restore;
    match error {
        Restore::Database { error, .. } => Some(error),
        Restore::RolledBack { cause, .. }
        | Restore::Interrupted { cause, .. }
        | Restore::MustFinish { cause, .. } => database_cause(cause),
        _ => None,
    }
}

/// Adds to the advice about a database that could not be loaded where its rows are.
fn say_where(error: &mut rappel_capture::restore::Error, checkpoint: &rappel_types::CheckpointId) {
    use rappel_capture::databases::Error as Database;
    use rappel_capture::restore::Error as Restore;
    match error {
        Restore::RolledBack { cause, .. } => say_where(cause, checkpoint),
        Restore::Database { error: Database::Refused { advice, .. }, .. } => {
            advice.push(Advice::WriteDump { checkpoint: checkpoint.to_string() });
        }
        _ => {}
    }
}

fn database_kind(error: &rappel_capture::databases::Error) -> ErrorKind {
    use rappel_capture::databases::Error as Database;
    match error {
        Database::Busy(_) => ErrorKind::Busy,
        Database::Conflict(_) | Database::Untrusted(_) => ErrorKind::Conflict,
        Database::Store(error) => store_kind(error),
        _ => ErrorKind::Failed,
    }
}

/// What to do about a database that cannot be had.
pub(crate) fn database_advice(error: &rappel_capture::databases::Error) -> Vec<Advice> {
    use rappel_capture::databases::Error as Database;
    match error {
        Database::Busy(_) => vec![Advice::TerminateConnections, Advice::SkipDatabases],
        Database::Refused { advice, .. } => advice.clone(),
        Database::Untrusted(_) => vec![Advice::Trust, Advice::SkipDatabases],
        Database::Store(error) => store_advice(error),
        _ => Vec::new(),
    }
}

fn store_advice(error: &rappel_store::Error) -> Vec<Advice> {
    use rappel_store::Error as Store;
    vec![match error {
        Store::Busy { .. } => Advice::TryAgain,
        Store::InTheWay { .. } => Advice::plain("move the folder away; Rappel makes the file anew"),
        Store::Newer { .. } => Advice::Update,
        Store::NoSpace { .. } => Advice::FreeSpace,
        Store::ReadOnly { .. } => Advice::MakeHomeWritable,
        Store::Unsuitable { .. } => Advice::ChooseHome,
        Store::Damaged(_) | Store::Missing(_) => Advice::Verify,
        Store::Io { source, .. } if is_about_open_files(source) => more_open_files(),
        _ => return Vec::new(),
    }]
}

fn store_kind(error: &rappel_store::Error) -> ErrorKind {
    match error {
        rappel_store::Error::Busy { .. } => ErrorKind::Busy,
        rappel_store::Error::Cancelled => ErrorKind::Cancelled,
        error if error.is_damage() => ErrorKind::Damage,
        _ => ErrorKind::Failed,
    }
}
