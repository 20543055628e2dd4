//! Writing checkpoints as Lugh does.

use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use rappel_store::disk::{Disk, RealDisk};
use rappel_types::agents::{SessionStatus, state_json};
use rappel_types::database::DatabaseKind;
use rappel_types::{RelPath, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::document::{Document, first_postgres};
use super::{AGENTS, ARCHIVE, BUNDLE, DOCUMENT, KNOWLEDGE, LATEST, SNAPSHOT, archive, is_id};
use crate::form::Written;
use crate::portable::{Database, Files, Portable, Session};
use crate::reading::{Foreign, known, text};
use crate::shelf::Shelf;
use crate::{Error, Result};

/// Writes checkpoints into the folder of all.
pub fn write(checkpoints: &[Portable], place: &Path) -> Result<Written> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    write_on(&disk, checkpoints, place)
}

/// The same, every change passing `disk`.
pub fn write_on(disk: &Arc<dyn Disk>, checkpoints: &[Portable], place: &Path) -> Result<Written> {
    let shelf = Shelf::open(disk, place)?;
    let mut written = Written::default();
    for checkpoint in checkpoints {
        let folder = one(&shelf, checkpoint, place)?;
        written.paths.push(folder);
        written.left_out.extend(left_out(checkpoint));
        if is_newest(checkpoint, place) {
            shelf.link(LATEST, &checkpoint.id)?;
        }
    }
    written.left_out.sort();
    written.left_out.dedup();
    Ok(written)
}

fn one(shelf: &Shelf, from: &Portable, place: &Path) -> Result<std::path::PathBuf> {
    let path = place.join(&from.id);
    let refuse = |reason: &str| Err(Error::Refused { path: path.clone(), reason: reason.into() });
    if !is_id(&from.id) {
        return refuse("a checkpoint of this form cannot be called so");
    }
    if path.symlink_metadata().is_ok() && created_at(place, &from.id) != Some(from.created_at) {
        return refuse("another checkpoint has this name");
    }
    let staged = shelf.begin()?;
    let snapshots = snapshot_names(&from.databases);
    for (database, name) in from.databases.iter().zip(&snapshots) {
        if let (Some(dump), Some(name)) = (&database.dump, name) {
            staged.copy(Path::new(name), &**dump)?;
        }
    }
    if let Some(bundle) = from.git.as_ref().and_then(|git| git.bundle.as_ref()) {
        staged.copy(Path::new(BUNDLE), &**bundle)?;
    }
    let worktrees = from.git.iter().flat_map(|git| &git.worktrees);
    let trees: Vec<&Files> =
        from.files.iter().chain(worktrees.filter_map(|one| one.files.as_ref())).collect();
    if !trees.is_empty() {
        let file = BufWriter::with_capacity(1 << 20, staged.create(Path::new(ARCHIVE))?);
        let done = archive::write(file, &trees, from.created_at);
        let file = done.and_then(|file| Ok(file.into_inner()?));
        file.map_err(Error::io("write", &path.join(ARCHIVE)))?.end()?;
    }
    let agents: Vec<AgentState<'_>> = from.sessions.iter().map(AgentState::of).collect();
    staged.json(AGENTS, &agents)?;
    staged.json(KNOWLEDGE, &KnowledgeIndex::of(from))?;
    staged.json(DOCUMENT, &Document::of(from, &snapshots))?;
    staged.finish(&from.id)
}

/// When the checkpoint was made that has this name there.
fn created_at(place: &Path, id: &str) -> Option<Timestamp> {
    let document = Foreign::open(&place.join(id)).ok()?;
    let json = document.json(&known(DOCUMENT).ok()?, super::read::DOCUMENT_MAX).ok()??;
    text(&json, "created_at")?.parse().ok()
}

/// Whether no checkpoint that `latest` leads to is newer.
fn is_newest(checkpoint: &Portable, place: &Path) -> bool {
    let target = std::fs::read_link(place.join(LATEST)).ok();
    let target = target.as_ref().and_then(|target| target.to_str()).filter(|name| is_id(name));
    let before = target.and_then(|name| created_at(place, name));
    before.is_none_or(|before| before <= checkpoint.created_at)
}

/// What the dump of each database is called: the first PostgreSQL one as in the seed, every other by
/// its name. One without a dump has no file.
fn snapshot_names(databases: &[Database]) -> Vec<Option<String>> {
    let first = first_postgres(databases);
    let mut taken = vec![SNAPSHOT.to_owned()];
    let mut names = Vec::new();
    for (at, database) in databases.iter().enumerate() {
        if database.dump.is_none() {
            names.push(None);
            continue;
        }
        if Some(at) == first {
            names.push(Some(SNAPSHOT.to_owned()));
            continue;
        }
        let ending = match database.kind {
            DatabaseKind::Postgres => "sql",
            DatabaseKind::Sqlite => "sqlite",
            DatabaseKind::Command => "dump",
        };
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let stem: String = database.name.chars().map(plain).take(100).collect();
        let mut name = format!("db_snapshot.{stem}.{ending}");
        let mut number = 2;
        while taken.contains(&name) {
            name = format!("db_snapshot.{stem}.{number}.{ending}");
            number += 1;
        }
        taken.push(name.clone());
        names.push(Some(name));
    }
    names
}

/// A session in `agent_states.json`.
#[derive(Serialize)]
struct AgentState<'a> {
    id: &'a str,
    conversation_id: Option<&'a str>,
    assistant_session_id: Option<&'a str>,
    provider: Option<&'a str>,
    task: Option<&'a str>,
    status: SessionStatus,
    started_at: Option<Timestamp>,
    state: Value,
}

impl<'a> AgentState<'a> {
    fn of(session: &'a Session) -> Self {
        Self {
            id: &session.id,
            conversation_id: session.conversation_id.as_deref(),
            assistant_session_id: session.assistant_session_id.as_deref(),
            provider: session.provider.as_deref(),
            task: session.task.as_deref(),
            status: session.status,
            started_at: session.started_at,
            state: state_json(&session.state),
        }
    }
}

/// `knowledge_index.json`.
#[derive(Serialize)]
struct KnowledgeIndex<'a> {
    projects: &'a [String],
    document_count: u64,
    documents: Vec<DocumentPart<'a>>,
}

#[derive(Serialize)]
struct DocumentPart<'a> {
    path: &'a RelPath,
    bytes: u64,
    hash: &'a str,
}

impl<'a> KnowledgeIndex<'a> {
    fn of(from: &'a Portable) -> Self {
        let known = from.knowledge.as_ref();
        let documents = known.map_or(&[][..], |known| &known.documents).iter();
        Self {
            projects: known.map_or(&[], |known| &known.projects),
            document_count: known.map_or(0, |known| known.document_count),
            documents: documents
                .map(|one| DocumentPart { path: &one.path, bytes: one.bytes, hash: &one.hash })
                .collect(),
        }
    }
}

/// What a checkpoint holds and the form has no place for.
fn left_out(from: &Portable) -> Vec<String> {
    let mut said = Vec::new();
    if from.git.as_ref().is_some_and(|git| git.bundle.is_some()) {
        said.push("git's settings, hooks and logs of refs, and what is staged".to_owned());
    }
    if !from.sessions.is_empty() {
        said.push("the journals of sessions (what each knew is there)".to_owned());
    }
    let special = |file: &crate::portable::File| !file.is_link && file.mode & !0o777 != 0;
    let trees = from
        .files
        .iter()
        .chain(from.git.iter().flat_map(|git| &git.worktrees).filter_map(|one| one.files.as_ref()));
    if trees.flat_map(|files| files.entries.values()).any(special) {
        said.push("the setuid, setgid and sticky bits of files".to_owned());
    }
    said
}
