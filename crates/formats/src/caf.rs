//! The form of CAF: one JSON file for each checkpoint, `{id}.json`, and optionally four tables of
//! SQLite ([`sqlite`]).
//!
//! Read are the shape that CAF documents and the one that its code writes ([`migrate`]); written
//! is the documented one. Its own document stays with a checkpoint that was read, so that fields
//! which we do not know are written back.

pub mod document;
pub mod migrate;
pub mod sqlite;
mod state;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rappel_types::agents::SessionState;
use rappel_types::path::escape_bytes;
use rappel_types::{Timestamp, Trigger};
use serde_json::Value;

use crate::form::{Found, Reading, Written};
use crate::portable::Portable;
use crate::sessions::UNKNOWN;
use crate::{Error, Form, Result, files, sessions, triggers};

use document::Snapshot;
pub use document::{Checkpoint, VERSION};
use state::Times;

/// A file that is larger is no checkpoint of this form.
const FILE_MAX: u64 = 64 << 20;
/// A checkpoint with more thoughts, messages and calls is not read.
const ITEMS_MAX: usize = 100_000;
/// So many files of a folder are looked at to learn its form.
const LOOKED_AT: usize = 64;

/// What a checkpoint carries in this form, besides thoughts and progress.
const CARRIED: [&str; 4] = ["thoughts", "tool calls", "context", "prompts"];

/// Whether what lies here is of this form.
pub fn is_here(path: &Path) -> bool {
    if !path.is_dir() {
        return is_one(path);
    }
    folder(path).is_some()
}

fn is_one(path: &Path) -> bool {
    let text = files::beginning(path);
    let has = |name: &[u8]| text.windows(name.len()).any(|part| part == name);
    text.trim_ascii_start().starts_with(b"{") && has(b"\"snapshot\"") && has(b"\"execution_id\"")
}

/// The folder of the files: the one that is named, or `checkpoints` in it.
fn folder(path: &Path) -> Option<PathBuf> {
    [path.to_owned(), path.join("checkpoints")].into_iter().find(|folder| {
        let names = files::names(folder, is_name).unwrap_or_default();
        names.iter().take(LOOKED_AT).any(|name| is_one(&folder.join(name)))
    })
}

fn is_name(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "json") && !name.starts_with('.')
}

/// Why a file gives no checkpoint.
pub(crate) enum Bad {
    Version(String),
    Other(String),
}

impl Bad {
    fn reason(self) -> String {
        match self {
            Self::Version(found) => {
                format!("it is of version {found}; this build reads {VERSION}")
            }
            Self::Other(reason) => reason,
        }
    }
}

/// Reads all checkpoints. A file that cannot be read is skipped, unless it is the only one.
pub fn read(path: &Path, reading: &mut Reading<'_>) -> Result<Found> {
    let path = path.canonicalize().map_err(Error::io("read", path))?;
    let (place, names, alone) = match (path.is_dir(), path.parent(), path.file_name()) {
        (false, Some(place), Some(name)) => {
            let name = escape_bytes(name.as_encoded_bytes());
            (place.to_owned(), vec![name], true)
        }
        _ => {
            let missing = || Error::NotThisForm { path: path.clone(), form: Form::Caf };
            let place = folder(&path).ok_or_else(missing)?;
            let names = files::names(&place, is_name)?;
            (place, names, false)
        }
    };
    let mut found = Found { place: place.clone(), ..Found::default() };
    let mut documents = Vec::new();
    let mut ids = HashSet::new();
    let mut newer = None;
    for name in names {
        let file = if alone { path.clone() } else { place.join(name) };
        match read_one(&file) {
            Ok((document, _)) if !ids.insert(document.id.clone()) => {
                let reason = format!("another file has the id {:?} already", document.id);
                found.skipped.push(files::skipped(&file, reason));
            }
            Ok(read) => documents.push(read),
            Err(bad) => {
                if let Bad::Version(version) = &bad {
                    newer = newer.or(Some((file.clone(), version.clone())));
                }
                found.skipped.push(files::skipped(&file, bad.reason()));
            }
        }
        (reading.progress)(documents.len() as u64)?;
    }
    match (documents.is_empty(), newer) {
        (true, Some((path, found))) => {
            return Err(Error::Version { path, found, supported: VERSION });
        }
        (true, None) if alone => {
            let reason = found.skipped.pop().map(|skipped| skipped.reason).unwrap_or_default();
            return Err(Error::Refused { path, reason });
        }
        _ => {}
    }
    documents.sort_by(|(a, _), (b, _)| (a.timestamp, &a.id).cmp(&(b.timestamp, &b.id)));
    found.checkpoints = portables(documents);
    Ok(found)
}

fn read_one(file: &Path) -> Result<(Checkpoint, Value), Bad> {
    let bytes = files::read(file, FILE_MAX).map_err(Bad::Other)?;
    from_bytes(&bytes)
}

/// A document in the documented shape, and as it was.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(Checkpoint, Value), Bad> {
    let original = files::parse(bytes).map_err(Bad::Other)?;
    let document = checkpoint_of(&original)?;
    Ok((document, original))
}

fn checkpoint_of(original: &Value) -> Result<Checkpoint, Bad> {
    match original.get("version") {
        Some(Value::String(version)) if version == VERSION => {}
        Some(Value::String(version)) => {
            return Err(Bad::Version(version.chars().take(40).collect()));
        }
        Some(other) => return Err(Bad::Version(other.to_string().chars().take(40).collect())),
        None => return Err(Bad::Other("it tells no version".into())),
    }
    let document: Checkpoint = serde_json::from_value(migrate::documented(original.clone()))
        .map_err(|error| Bad::Other(format!("not a checkpoint: {error}")))?;
    if document.id.is_empty() {
        return Err(Bad::Other("its id is empty".into()));
    }
    let Snapshot { thought_chain, context, tool_state, .. } = &document.snapshot;
    if thought_chain.len() + context.history.len() + tool_state.calls.len() > ITEMS_MAX {
        let reason = format!("it has more than {ITEMS_MAX} thoughts, messages and calls");
        return Err(Bad::Other(reason));
    }
    Ok(document)
}

/// The checkpoints of documents, oldest first.
pub(crate) fn portables(documents: Vec<(Checkpoint, Value)>) -> Vec<Portable> {
    let mut times = Times::default();
    let mut known: HashMap<String, SessionState> = HashMap::new();
    let mut last: HashMap<String, String> = HashMap::new();
    let mut checkpoints = Vec::with_capacity(documents.len());
    for (document, original) in documents {
        let trigger = triggers::from_caf(&document.metadata.checkpoint_reason);
        let mut state = state::state_of(&document, trigger, &mut times);
        if let Some(before) = known.get(&document.execution_id) {
            sessions::share(before, &mut state);
        }
        let at = Timestamp::from_millis(document.timestamp);
        let mut checkpoint = Portable::new(document.id.clone(), at, trigger);
        let text = |name: &str| document.extra.get(name)?.as_str().map(str::to_owned);
        let before = last.insert(document.execution_id.clone(), document.id.clone());
        checkpoint.parent = text("parent").or(before);
        checkpoint.description = text("name");
        if document.execution_id != UNKNOWN {
            checkpoint.session = Some(document.execution_id.clone());
        }
        known.insert(document.execution_id.clone(), state.clone());
        checkpoint.sessions.push(sessions::session(&document.execution_id, state));
        checkpoint.document = Some(original);
        checkpoints.push(checkpoint);
    }
    checkpoints
}

/// The document of a checkpoint: its own if it came in this form.
pub(crate) fn written(checkpoint: &Portable) -> Checkpoint {
    let own = checkpoint.document.as_ref().and_then(|document| checkpoint_of(document).ok());
    let own = own.filter(|document| document.timestamp == checkpoint.created_at.as_millis());
    own.unwrap_or_else(|| state::document_of(checkpoint))
}

/// Writes each checkpoint to its file in the folder `place`. A file with its id is replaced.
pub fn write(checkpoints: &[Portable], place: &Path) -> Result<Written> {
    let documents: Vec<Checkpoint> = checkpoints.iter().map(written).collect();
    let names: Result<Vec<String>> =
        documents.iter().map(|one| files::file_name_of(&one.id, place)).collect();
    let mut paths = Vec::with_capacity(documents.len());
    for (document, name) in documents.iter().zip(names?) {
        let path = place.join(name);
        check_target(&path, &document.id)?;
        let json = files::pretty(document, &path)?;
        paths.push(files::replace(&path, &json)?);
    }
    Ok(Written { paths, left_out: left_out(checkpoints) })
}

/// A file of that name is replaced only if it is the same checkpoint: it may be anybody's.
fn check_target(path: &Path, id: &str) -> Result<()> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let is_same = files::read(path, FILE_MAX)
        .ok()
        .and_then(|bytes| from_bytes(&bytes).ok())
        .is_some_and(|(known, _)| known.id == id);
    if is_same {
        return Ok(());
    }
    let reason = "it is there, and is no checkpoint of this id; it is not replaced".to_owned();
    Err(Error::Refused { path: path.to_owned(), reason })
}

fn left_out(checkpoints: &[Portable]) -> Vec<String> {
    sessions::left_out(Form::Caf, checkpoints, &CARRIED)
}

/// What a checkpoint was made for, as a status of its run.
fn status(trigger: Trigger, state: &SessionState) -> &'static str {
    match trigger {
        Trigger::Paused => "paused",
        Trigger::ExecutionCompleted => "completed",
        _ => state.status.as_str(),
    }
}
