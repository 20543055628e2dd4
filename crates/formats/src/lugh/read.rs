//! Reading checkpoints that Lugh wrote, or that we wrote as it does.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_store::beneath::Kind;
use rappel_types::agents::{SessionId, SessionState, state_from_json};
use rappel_types::database::DatabaseKind;
use rappel_types::path::unescape;
use rappel_types::{RelPath, Timestamp, Trigger};
use serde_json::Value;

use super::archive::{self, Tree, Unpacked};
use super::document::trigger_of;
use super::{AGENTS, ARCHIVE, BUNDLE, DOCUMENT, KNOWLEDGE, SNAPSHOT, VERSION, is_here, is_id};
use crate::form::{Found, Reading, Skipped};
use crate::portable::{
    Content, Database, Files, Git, Knowledge, KnowledgeDocument, Portable, Session, Worktree,
};
use crate::reading::{Foreign, known, paths, text, texts};
use crate::spool::Spool;
use crate::{Error, Form, Result};

/// A document is no longer.
pub(super) const DOCUMENT_MAX: u64 = 64 << 20;
/// Nor is what the agents knew.
const AGENTS_MAX: u64 = 512 << 20;
/// A checkpoint has no more work trees, databases or sessions.
const MANY: usize = 10_000;

/// Reads the folder of all checkpoints, or the folder of one.
pub fn read(path: &Path, reading: &mut Reading<'_>) -> Result<Found> {
    if !is_here(path) {
        return Err(Error::NotThisForm { path: path.to_owned(), form: Form::Lugh });
    }
    let path = path.canonicalize().map_err(Error::io("open", path))?;
    let is_one = path.join(DOCUMENT).is_file();
    let place = match (is_one, path.parent()) {
        (true, Some(above)) => above.to_owned(),
        _ => path.clone(),
    };
    let mut found = Found { place, ..Found::default() };
    let mut spool = Spool::new(reading.scratch);
    let mut ids = HashSet::new();
    for folder in folders(&path, is_one)? {
        let shown = rappel_types::path::escape(folder.as_os_str().as_encoded_bytes());
        let one = Foreign::open(&folder).map_err(|error| error.to_string());
        let one = one.and_then(|folder| checkpoint(&folder, &mut spool));
        let one = one.and_then(|one| match ids.insert(one.id.clone()) {
            true => Ok(one),
            false => Err(format!("another checkpoint is called {} too", one.id)),
        });
        match one {
            Ok(one) => found.checkpoints.push(one),
            Err(reason) => found.skipped.push(Skipped { path: shown, reason }),
        }
        (reading.progress)(found.checkpoints.len() as u64)?;
    }
    found.checkpoints.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(found)
}

/// The folders of checkpoints. A link, `latest` above all, is none.
fn folders(path: &Path, is_one: bool) -> Result<Vec<PathBuf>> {
    if is_one {
        return Ok(vec![path.to_owned()]);
    }
    let entries = Foreign::open(path)?.list(None)?;
    let names = entries.into_iter().filter(|(_, kind)| *kind == Kind::Directory);
    let names = names.filter_map(|(name, _)| String::from_utf8(name).ok());
    let folders = names.filter(|name| !name.starts_with('.')).map(|name| path.join(name));
    Ok(folders.filter(|folder| folder.join(DOCUMENT).symlink_metadata().is_ok()).collect())
}

/// One checkpoint; the error is why it cannot be taken.
fn checkpoint(folder: &Foreign, spool: &mut Spool) -> Result<Portable, String> {
    let at = |name: &str| known(name).map_err(|error| error.to_string());
    let json = folder.json(&at(DOCUMENT)?, DOCUMENT_MAX)?;
    let json = json.filter(Value::is_object).ok_or_else(|| format!("{DOCUMENT} is no object"))?;
    match json.get("version").map(Value::as_u64) {
        None | Some(Some(0..=VERSION)) => {}
        Some(found) => {
            let found = found.map_or("unknown".to_owned(), |found| found.to_string());
            return Err(format!("it is of version {found}; this build reads {VERSION}"));
        }
    }
    let id = text(&json, "id").ok_or("it has no id")?;
    if !is_id(&id) {
        let shown: String = id.chars().take(100).collect();
        return Err(format!("{shown:?} is no id of a checkpoint"));
    }
    let created_at = text(&json, "created_at").ok_or("it does not say when it was made")?;
    let created_at: Timestamp =
        created_at.parse().map_err(|_| format!("{created_at:?} is no time"))?;
    let description = text(&json, "description");
    let own = text(&json, "rappel_trigger").and_then(|text| text.parse::<Trigger>().ok());
    let told = text(&json, "trigger").unwrap_or_default();
    let trigger = own.unwrap_or_else(|| trigger_of(&told, description.as_deref()));
    let mut one = Portable::new(id, created_at, trigger);
    one.description = description;
    one.environment = text(&json, "environment");
    one.parent = text(&json, "parent");
    one.tags = texts(&json, "tags");
    one.session = text(&json, "session_id");
    one.partial = texts(&json, "partial_reasons");
    if one.partial.is_empty() && json.get("partial").and_then(Value::as_bool) == Some(true) {
        one.partial.push("it was made while agents were at work".to_owned());
    }
    one.process = json.get("process").and_then(|process| {
        Some((process.get("rss")?.as_u64()?, process.get("heap_used")?.as_u64()?))
    });
    if let Some(Value::Object(metadata)) = json.get("metadata") {
        one.metadata = metadata.clone().into_iter().collect();
    }
    one.git = git(&json, folder)?;
    if one.git.as_ref().is_some_and(|git| git.commit.is_some() && git.bundle.is_none()) {
        one.partial.push(format!("git's history: there is no {BUNDLE}"));
    }
    files(&json, folder, &mut one, spool)?;
    one.databases = databases(&json, folder, &mut one.partial)?;
    one.sessions = sessions(&json, folder, &mut one.partial)?;
    one.knowledge = knowledge(&json, folder, &mut one.partial)?;
    one.document = Some(json);
    Ok(one)
}

/// Git's state, still without files.
fn git(json: &Value, folder: &Foreign) -> Result<Option<Git>, String> {
    let bundle = content(folder, BUNDLE)?;
    let Some(part) = json.get("git").filter(|part| part.is_object()) else {
        return Ok(bundle.map(|bundle| Git { bundle: Some(bundle), ..Git::default() }));
    };
    let list = part.get("worktrees").and_then(Value::as_array);
    let list = list.map_or(&[][..], Vec::as_slice);
    if list.len() > MANY {
        return Err(format!("it has more than {MANY} work trees"));
    }
    let mut worktrees: Vec<Worktree> = Vec::new();
    for one in list {
        let (Some(name), Some(path)) = (text(one, "name"), text(one, "path")) else { continue };
        let usable = RelPath::new(name.as_bytes()).is_ok_and(|path| path.components().count() == 1);
        if !usable || !path.starts_with('/') || worktrees.iter().any(|other| other.path == path) {
            return Err(format!("its work tree {name:?} in {path:?} cannot be used"));
        }
        let (branch, commit) = (text(one, "branch"), text(one, "commit"));
        worktrees.push(Worktree { name, branch, commit, path, files: None });
    }
    let git = Git {
        branch: text(part, "branch"),
        commit: text(part, "commit"),
        dirty_files: paths(part, "dirty_files"),
        staged: paths(part, "staged"),
        modified: paths(part, "modified"),
        untracked: paths(part, "untracked"),
        worktrees,
        bundle,
    };
    let says = git.branch.is_some() || git.commit.is_some() || git.bundle.is_some();
    Ok((says || !git.worktrees.is_empty()).then_some(git))
}

/// The files of the workspace and of its other work trees.
fn files(
    json: &Value,
    folder: &Foreign,
    one: &mut Portable,
    spool: &mut Spool,
) -> Result<(), String> {
    let workspace = json.get("workspace").filter(|part| part.is_object());
    let root = workspace.and_then(|part| text(part, "root"));
    if root.as_ref().is_some_and(|root| !root.starts_with('/')) {
        return Err("the root of its workspace is no absolute path".to_owned());
    }
    let archive = content(folder, ARCHIVE)?;
    let listed = json.get("git").and_then(|git| git.get("worktrees")).and_then(Value::as_array);
    let listed = listed.map_or(&[][..], Vec::as_slice);
    let flag = |path: &str, key: &str| {
        let entry = listed.iter().find(|one| text(one, "path").as_deref() == Some(path));
        entry.and_then(|entry| entry.get(key)?.as_bool())
    };
    let worktrees = one.git.as_ref().map_or(&[][..], |git| &git.worktrees);
    let roots = root.iter().chain(worktrees.iter().map(|one| &one.path));
    let loose = workspace.is_none();
    let bytes = |path: &String| unescape(path).unwrap_or_else(|| path.clone().into_bytes());
    let trees: Vec<Tree> = roots.map(|path| Tree { path: trimmed(bytes(path)), loose }).collect();
    let mut found = match &archive {
        Some(archive) => {
            let read = archive::read(&**archive, &trees, spool);
            read.map_err(|reason| format!("{ARCHIVE}: {reason}"))?
        }
        None => archive::Found {
            trees: trees.iter().map(|_| Unpacked::default()).collect(),
            left_out: Vec::new(),
        },
    };
    let left_out = found.left_out.iter().map(|said| format!("{ARCHIVE}: {said}"));
    one.partial.extend(left_out);
    let mut unpacked = found.trees.drain(..);
    if let (Some(root), Some(part)) = (root, workspace)
        && let Some(Unpacked { entries, lacks, .. }) = unpacked.next()
        && archive.is_some()
    {
        let whole = part.get("whole").and_then(Value::as_bool).unwrap_or(false) && !lacks;
        let state_dirs = paths(part, "state_dirs");
        one.files = Some(Files { root, whole, state_dirs, entries });
    }
    let worktrees = one.git.iter_mut().flat_map(|git| &mut git.worktrees);
    for (worktree, Unpacked { entries, lacks, is_there }) in worktrees.zip(unpacked) {
        let archived = flag(&worktree.path, "archived").unwrap_or(is_there);
        if archived && archive.is_some() {
            let whole = flag(&worktree.path, "whole").unwrap_or(true) && !lacks;
            let root = worktree.path.clone();
            worktree.files = Some(Files { root, whole, state_dirs: Vec::new(), entries });
        }
    }
    Ok(())
}

fn trimmed(mut path: Vec<u8>) -> Vec<u8> {
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    path
}

fn content(folder: &Foreign, name: &str) -> Result<Option<Arc<dyn Content>>, String> {
    let path = known(name).map_err(|error| error.to_string())?;
    Ok(folder.content(&path)?.map(|file| Arc::new(file) as Arc<dyn Content>))
}

/// The databases: the seed's one, and those that we add.
fn databases(
    json: &Value,
    folder: &Foreign,
    partial: &mut Vec<String>,
) -> Result<Vec<Database>, String> {
    let mut found: Vec<Database> = Vec::new();
    let first = json.get("database").filter(|part| part.is_object());
    let more = json.get("databases").and_then(Value::as_array);
    let more = more.map_or(&[][..], Vec::as_slice);
    if more.len() > MANY {
        return Err(format!("it has more than {MANY} databases"));
    }
    for (part, is_first) in
        first.map(|part| (part, true)).into_iter().chain(more.iter().map(|part| (part, false)))
    {
        let file = text(part, "snapshot_file");
        let tables = texts(part, "tables");
        let name = text(part, "name");
        if is_first && file.is_none() && tables.is_empty() && name.is_none() {
            continue;
        }
        let kind = part.get("kind").and_then(|kind| serde_json::from_value(kind.clone()).ok());
        let name = name.unwrap_or_else(|| "database".to_owned());
        let dump = match &file {
            Some(file) => {
                let plain = RelPath::new(file.as_bytes());
                let plain = plain.ok().filter(|path| path.components().count() == 1);
                let plain = plain.ok_or_else(|| format!("{file:?} is no name of a dump"))?;
                content(folder, &plain.to_string())?
            }
            None => None,
        };
        if let (None, Some(file)) = (&dump, &file) {
            partial.push(format!("the database {name}: there is no {file}"));
        }
        let counts = part.get("row_counts").and_then(Value::as_object);
        let counts = counts.into_iter().flatten();
        let row_counts: BTreeMap<String, u64> =
            counts.filter_map(|(table, rows)| Some((table.clone(), rows.as_u64()?))).collect();
        let kind = kind.unwrap_or(DatabaseKind::Postgres);
        found.push(Database { name, kind, tables, row_counts, dump });
    }
    // A folder of the seed's own may have the dump and say nothing of it.
    if first.is_none()
        && let Some(dump) = content(folder, SNAPSHOT)?
    {
        let (name, kind) = ("database".to_owned(), DatabaseKind::Postgres);
        let (tables, row_counts) = (Vec::new(), BTreeMap::new());
        found.insert(0, Database { name, kind, tables, row_counts, dump: Some(dump) });
    }
    Ok(found)
}

/// The agents: the document names them, the file says what they knew. The seed's file has the shape of
/// its document's `agents`, or a list of whatever its agents gave.
fn sessions(
    json: &Value,
    folder: &Foreign,
    partial: &mut Vec<String>,
) -> Result<Vec<Session>, String> {
    let list = |from: Option<&Value>| -> Vec<Value> {
        let from = from.map(|from| from.get("sessions").unwrap_or(from));
        from.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let path = known(AGENTS).map_err(|error| error.to_string())?;
    let file = match folder.json(&path, AGENTS_MAX) {
        Ok(file) => file,
        Err(reason) => {
            partial.push(reason);
            None
        }
    };
    let (named, told) = (list(json.get("agents")), list(file.as_ref()));
    if named.len().max(told.len()) > MANY {
        return Err(format!("it has more than {MANY} sessions"));
    }
    let id_of = |one: &Value| text(one, "id").or_else(|| text(one, "session_id"));
    let mut sessions: Vec<Session> = Vec::new();
    for one in named.iter().chain(&told) {
        let Some(id) = id_of(one) else {
            partial.push(format!("{AGENTS}: a session has no id"));
            continue;
        };
        let place = sessions.iter().position(|known| known.id == id);
        let place = place.unwrap_or_else(|| {
            sessions.push(session(id.clone()));
            sessions.len() - 1
        });
        let unread = fill(&mut sessions[place], one);
        if !unread.is_empty() {
            let keys = unread.join(", ");
            partial.push(format!("{AGENTS}: of session {id} this makes no sense: {keys}"));
        }
    }
    Ok(sessions)
}

/// A session of which nothing is known yet.
fn session(id: String) -> Session {
    Session {
        conversation_id: None,
        assistant_session_id: None,
        provider: None,
        task: None,
        status: rappel_types::agents::SessionStatus::default(),
        started_at: None,
        state: SessionState::new(session_id(&id)),
        id,
    }
}

/// An id as a journal may have it.
fn session_id(text: &str) -> SessionId {
    let legal = |c: char| if c.is_ascii_alphanumeric() || "_-.:".contains(c) { c } else { '_' };
    let legal: String = text.chars().map(legal).take(128).collect();
    let parsed = legal.parse().or_else(|_| format!("s{legal}")[..legal.len().min(128)].parse());
    parsed.unwrap_or_else(|_| SessionId::new(Timestamp::from_millis(0), 0))
}

/// Takes in what is told of a session; the answer are the keys that make no sense.
fn fill(session: &mut Session, told: &Value) -> Vec<String> {
    let mut unread = Vec::new();
    if let Some(state) = told.get("state").filter(|state| state.is_object()) {
        (session.state, unread) = state_from_json(session.state.session.clone(), state);
    }
    let or = |slot: &mut Option<String>, key: &str| {
        if let Some(text) = text(told, key) {
            *slot = Some(text);
        }
    };
    or(&mut session.conversation_id, "conversation_id");
    or(&mut session.assistant_session_id, "assistant_session_id");
    or(&mut session.provider, "provider");
    or(&mut session.task, "task");
    if let Some(status) = told.get("status").filter(|status| !status.is_null()) {
        match serde_json::from_value(status.clone()) {
            Ok(status) => session.status = status,
            Err(_) => unread.push("status".to_owned()),
        }
    }
    let started = text(told, "started_at").and_then(|text| text.parse().ok());
    session.started_at = started.or(session.started_at).or(session.state.started_at);
    session.state.conversation_id.clone_from(&session.conversation_id);
    session.state.assistant_session_id.clone_from(&session.assistant_session_id);
    let state = &mut session.state;
    state.provider = state.provider.take().or_else(|| session.provider.clone());
    state.task = state.task.take().or_else(|| session.task.clone());
    state.started_at = state.started_at.or(session.started_at);
    state.status = session.status;
    unread
}

/// The agents' knowledge.
fn knowledge(
    json: &Value,
    folder: &Foreign,
    partial: &mut Vec<String>,
) -> Result<Option<Knowledge>, String> {
    let path = known(KNOWLEDGE).map_err(|error| error.to_string())?;
    let file = match folder.json(&path, AGENTS_MAX) {
        Ok(file) => file,
        Err(reason) => {
            partial.push(reason);
            None
        }
    };
    let part = json.get("knowledge").filter(|part| part.is_object());
    let count = |from: Option<&Value>| from.and_then(|from| from.get("document_count")?.as_u64());
    let list = file.as_ref().and_then(|file| file.get("documents")?.as_array());
    let documents = list.into_iter().flatten().filter_map(|one| {
        let path = text(one, "path")?.parse().ok()?;
        let hash = text(one, "hash").unwrap_or_default();
        Some(KnowledgeDocument { path, bytes: one.get("bytes")?.as_u64()?, hash })
    });
    let documents: Vec<KnowledgeDocument> = documents.collect();
    let known = Knowledge {
        projects: part.map(|part| texts(part, "projects")).unwrap_or_default(),
        document_count: count(part).or(count(file.as_ref())).unwrap_or(documents.len() as u64),
        documents,
    };
    let is_empty = known.projects.is_empty() && known.document_count == 0;
    Ok((!is_empty || !known.documents.is_empty()).then_some(known))
}
