//! `checkpoint.json`, key by key in the order of the seed; what we add follows.

use std::collections::BTreeMap;

use rappel_types::database::DatabaseKind;
use rappel_types::{RelPath, Timestamp, Trigger};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::portable::{Database, Git, Portable, Worktree};

/// All of it.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    id: &'a str,
    created_at: Timestamp,
    trigger: String,
    description: Option<&'a str>,
    environment: Option<&'a str>,
    git: GitPart<'a>,
    database: DatabasePart<'a>,
    agents: Agents<'a>,
    knowledge: Knowledge<'a>,
    // From here on it is ours.
    version: u64,
    rappel_trigger: Trigger,
    partial: bool,
    partial_reasons: &'a [String],
    databases: Vec<DatabasePart<'a>>,
    workspace: Option<Workspace<'a>>,
    parent: Option<&'a str>,
    tags: &'a [String],
    session_id: Option<&'a str>,
    process: Option<Process>,
    metadata: &'a BTreeMap<String, Value>,
    /// What another writer had to say.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// The keys of [`Document`].
pub(super) const KEYS: [&str; 20] = [
    "id",
    "created_at",
    "trigger",
    "description",
    "environment",
    "git",
    "database",
    "agents",
    "knowledge",
    "version",
    "rappel_trigger",
    "partial",
    "partial_reasons",
    "databases",
    "workspace",
    "parent",
    "tags",
    "session_id",
    "process",
    "metadata",
];

#[derive(Serialize)]
struct GitPart<'a> {
    branch: Option<&'a str>,
    commit: Option<&'a str>,
    dirty_files: &'a [RelPath],
    worktrees: Vec<WorktreePart<'a>>,
    staged: &'a [RelPath],
    modified: &'a [RelPath],
    untracked: &'a [RelPath],
}

#[derive(Serialize)]
struct WorktreePart<'a> {
    name: &'a str,
    branch: Option<&'a str>,
    path: &'a str,
    commit: Option<&'a str>,
    /// Whether its files are in the archive, and all of them.
    archived: bool,
    whole: bool,
}

#[derive(Serialize)]
struct DatabasePart<'a> {
    snapshot_file: Option<&'a str>,
    tables: &'a [String],
    row_counts: &'a BTreeMap<String, u64>,
    name: Option<&'a str>,
    kind: Option<DatabaseKind>,
}

#[derive(Serialize)]
struct Agents<'a> {
    active_count: u64,
    sessions: Vec<SessionPart<'a>>,
}

#[derive(Serialize)]
struct SessionPart<'a> {
    id: &'a str,
    conversation_id: Option<&'a str>,
    assistant_session_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Knowledge<'a> {
    projects: &'a [String],
    document_count: u64,
}

#[derive(Serialize)]
struct Workspace<'a> {
    root: &'a str,
    whole: bool,
    state_dirs: &'a [RelPath],
}

#[derive(Serialize)]
struct Process {
    rss: u64,
    heap_used: u64,
}

static NO_COUNTS: BTreeMap<String, u64> = BTreeMap::new();

impl<'a> Document<'a> {
    /// The document of a checkpoint. `snapshots` says where each of its databases is written.
    pub(super) fn of(from: &'a Portable, snapshots: &'a [Option<String>]) -> Self {
        let first = first_postgres(&from.databases);
        let part = |(at, database): (usize, &'a Database)| DatabasePart {
            snapshot_file: snapshots.get(at).and_then(Option::as_deref),
            tables: &database.tables,
            row_counts: &database.row_counts,
            name: Some(&database.name),
            kind: Some(database.kind),
        };
        let all = || from.databases.iter().enumerate();
        let database = all().find(|(at, _)| Some(*at) == first).map(part);
        let known = from.knowledge.as_ref();
        Self {
            id: &from.id,
            created_at: from.created_at,
            trigger: trigger_text(from),
            description: from.description.as_deref(),
            environment: from.environment.as_deref(),
            git: GitPart::of(from.git.as_ref()),
            database: database.unwrap_or(DatabasePart {
                snapshot_file: None,
                tables: &[],
                row_counts: &NO_COUNTS,
                name: None,
                kind: None,
            }),
            agents: Agents {
                active_count: from.sessions.iter().filter(|one| one.status.is_live()).count()
                    as u64,
                sessions: from.sessions.iter().map(SessionPart::of).collect(),
            },
            knowledge: Knowledge {
                projects: known.map_or(&[], |known| &known.projects),
                document_count: known.map_or(0, |known| known.document_count),
            },
            version: super::VERSION,
            rappel_trigger: from.trigger,
            partial: !from.partial.is_empty(),
            partial_reasons: &from.partial,
            databases: all().filter(|(at, _)| Some(*at) != first).map(part).collect(),
            workspace: from.files.as_ref().map(|files| Workspace {
                root: &files.root,
                whole: files.whole,
                state_dirs: &files.state_dirs,
            }),
            parent: from.parent.as_deref(),
            tags: &from.tags,
            session_id: from.session.as_deref(),
            process: from.process.map(|(rss, heap_used)| Process { rss, heap_used }),
            metadata: &from.metadata,
            unknown: unknown_of(from),
        }
    }
}

/// The database that stands under `database`.
pub(super) fn first_postgres(databases: &[Database]) -> Option<usize> {
    databases.iter().position(|one| one.kind == DatabaseKind::Postgres)
}

impl<'a> GitPart<'a> {
    fn of(git: Option<&'a Git>) -> Self {
        let worktrees = git.map_or(&[][..], |git| &git.worktrees);
        Self {
            branch: git.and_then(|git| git.branch.as_deref()),
            commit: git.and_then(|git| git.commit.as_deref()),
            dirty_files: git.map_or(&[], |git| &git.dirty_files),
            worktrees: worktrees.iter().map(WorktreePart::of).collect(),
            staged: git.map_or(&[], |git| &git.staged),
            modified: git.map_or(&[], |git| &git.modified),
            untracked: git.map_or(&[], |git| &git.untracked),
        }
    }
}

impl<'a> WorktreePart<'a> {
    fn of(one: &'a Worktree) -> Self {
        Self {
            name: &one.name,
            branch: one.branch.as_deref(),
            path: &one.path,
            commit: one.commit.as_deref(),
            archived: one.files.is_some(),
            whole: one.files.as_ref().is_some_and(|files| files.whole),
        }
    }
}

impl<'a> SessionPart<'a> {
    fn of(one: &'a crate::portable::Session) -> Self {
        Self {
            id: &one.id,
            conversation_id: one.conversation_id.as_deref(),
            assistant_session_id: one.assistant_session_id.as_deref(),
        }
    }
}

/// The document that a checkpoint came with, if it came from this form.
fn own_document(from: &Portable) -> Option<&Value> {
    let has = |document: &&Value| ["git", "database"].iter().any(|key| document.get(key).is_some());
    from.document.as_ref().filter(has)
}

/// Why a checkpoint was made, in the seed's words. The word that it came with is written back.
fn trigger_text(from: &Portable) -> String {
    let given = own_document(from).and_then(|json| json.get("trigger")?.as_str());
    if let Some(given) = given
        && trigger_of(given, from.description.as_deref()) == from.trigger
    {
        return given.to_owned();
    }
    match from.trigger {
        Trigger::Manual => "manual",
        Trigger::PreOperation | Trigger::PreRestore => "pre-operation",
        _ => "auto",
    }
    .to_owned()
}

/// What one of the seed's words means. `auto` stands for several; lists tell them by their text.
pub(super) fn trigger_of(text: &str, description: Option<&str>) -> Trigger {
    let says =
        |words: &str| description.is_some_and(|text| text.to_ascii_lowercase().contains(words));
    match text {
        "manual" => Trigger::Manual,
        "pre-operation" if says("pre-restore") => Trigger::PreRestore,
        "pre-operation" => Trigger::PreOperation,
        "auto" if says("end of day") => Trigger::EndOfDay,
        "auto" if says("pr merged") => Trigger::PrMerged,
        "auto" => Trigger::Scheduled,
        other => other.parse().unwrap_or(Trigger::Imported),
    }
}

/// What the document that a checkpoint came with says and we have no words for.
fn unknown_of(from: &Portable) -> Map<String, Value> {
    let given = own_document(from).and_then(Value::as_object);
    let unknown = given.into_iter().flatten().filter(|(key, _)| !KEYS.contains(&key.as_str()));
    unknown.map(|(key, value)| (key.clone(), value.clone())).collect()
}
