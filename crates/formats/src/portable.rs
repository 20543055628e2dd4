//! A checkpoint in the words that all forms share. A form's reader makes one of each of its
//! checkpoints, a form's writer takes one; the engine stands on the other side of both.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use rappel_types::agents::{SessionState, SessionStatus};
use rappel_types::{RelPath, Timestamp, Trigger};
use serde_json::Value;

/// Bytes that may be many: they are opened when somebody wants them, and never all in memory.
pub trait Content: Send + Sync {
    /// Reads them from the beginning.
    fn open(&self) -> io::Result<Box<dyn Read + '_>>;
    /// How many there are.
    fn len(&self) -> u64;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes in memory.
impl Content for Vec<u8> {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(&self[..]))
    }

    fn len(&self) -> u64 {
        Vec::len(self) as u64
    }
}

/// A checkpoint on its way from one form to another.
#[derive(Clone)]
pub struct Portable {
    /// Its id in the form that it comes from.
    pub id: String,
    /// The checkpoint it follows, by its id there.
    pub parent: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Why, in our words.
    pub trigger: Trigger,
    /// Its message.
    pub description: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// `staging`, `development` and the like.
    pub environment: Option<String>,
    /// The session that asked for it, by its id there.
    pub session: Option<String>,
    /// Why it does not hold everything that it should, a sentence each.
    pub partial: Vec<String>,
    /// The workspace's files; `None` where the form holds none.
    pub files: Option<Files>,
    /// Git's state.
    pub git: Option<Git>,
    /// Databases.
    pub databases: Vec<Database>,
    /// Sessions of agents, with what they knew.
    pub sessions: Vec<Session>,
    /// The agents' knowledge.
    pub knowledge: Option<Knowledge>,
    /// Memory of the processes: resident, and of the heap, in bytes.
    pub process: Option<(u64, u64)>,
    /// Free values, as `--meta` sets them.
    pub metadata: BTreeMap<String, Value>,
    /// What the checkpoint holds and this value does not, a sentence each.
    pub left_out: Vec<String>,
    /// The form's own document of this checkpoint, whole. Written in the same form again, what we
    /// have no words for comes back from it.
    pub document: Option<Value>,
}

impl Portable {
    /// One that holds nothing yet.
    pub fn new(id: impl Into<String>, created_at: Timestamp, trigger: Trigger) -> Self {
        Self {
            id: id.into(),
            parent: None,
            created_at,
            trigger,
            description: None,
            tags: Vec::new(),
            environment: None,
            session: None,
            partial: Vec::new(),
            files: None,
            git: None,
            databases: Vec::new(),
            sessions: Vec::new(),
            knowledge: None,
            process: None,
            metadata: BTreeMap::new(),
            left_out: Vec::new(),
            document: None,
        }
    }
}

impl fmt::Debug for Portable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Portable")
            .field("id", &self.id)
            .field("created_at", &self.created_at)
            .field("trigger", &self.trigger)
            .finish_non_exhaustive()
    }
}

/// Files of one work tree.
#[derive(Clone)]
pub struct Files {
    /// The work tree's folder where the checkpoint was made, absolute.
    pub root: String,
    /// Whether these are all of its files. If not, a restore deletes nothing.
    pub whole: bool,
    /// Folders among them that hold agents' state.
    pub state_dirs: Vec<RelPath>,
    /// The files, by path.
    pub entries: BTreeMap<RelPath, File>,
}

/// A file or a symbolic link.
#[derive(Clone)]
pub struct File {
    /// Whether it is a symbolic link: its content is where it leads.
    pub is_link: bool,
    /// Its permission bits.
    pub mode: u32,
    /// When it was changed, if that is known.
    pub modified: Option<Timestamp>,
    /// Its bytes.
    pub content: Arc<dyn Content>,
}

/// Git's state.
#[derive(Clone, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Git {
    pub branch: Option<String>,
    pub commit: Option<String>,
    pub dirty_files: Vec<RelPath>,
    pub staged: Vec<RelPath>,
    pub modified: Vec<RelPath>,
    pub untracked: Vec<RelPath>,
    /// The other work trees.
    pub worktrees: Vec<Worktree>,
    /// A git bundle with all branches.
    pub bundle: Option<Arc<dyn Content>>,
}

/// Another work tree of the repository.
#[derive(Clone)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Worktree {
    pub name: String,
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// Where it was, absolute.
    pub path: String,
    pub files: Option<Files>,
}

/// A database.
#[derive(Clone)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Database {
    pub name: String,
    pub kind: rappel_types::database::DatabaseKind,
    pub tables: Vec<String>,
    pub row_counts: BTreeMap<String, u64>,
    /// PostgreSQL: SQL that `psql` takes; SQLite: the database file; a command: what it gave.
    pub dump: Option<Arc<dyn Content>>,
}

/// A session of an agent.
#[derive(Clone)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Session {
    /// Its id in the form that it comes from.
    pub id: String,
    pub conversation_id: Option<String>,
    pub assistant_session_id: Option<String>,
    pub provider: Option<String>,
    pub task: Option<String>,
    pub status: SessionStatus,
    pub started_at: Option<Timestamp>,
    /// What it knew, its long lists filled in.
    pub state: SessionState,
}

/// The agents' knowledge.
#[derive(Clone, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Knowledge {
    pub projects: Vec<String>,
    pub document_count: u64,
    pub documents: Vec<KnowledgeDocument>,
}

/// A document of the agents' knowledge.
#[derive(Clone)]
#[allow(missing_docs, reason = "the names say it")]
pub struct KnowledgeDocument {
    pub path: RelPath,
    pub bytes: u64,
    /// The BLAKE3 hash of its content, in hexadecimal digits.
    pub hash: String,
}
