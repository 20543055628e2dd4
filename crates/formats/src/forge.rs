//! The form of forge: one JSON file with a session's checkpoints, each whole (`Full`) or as what
//! changed since another one (`Delta`). A name that ends in `.zst` is compressed.
//!
//! We write whole states: a delta tells neither times nor notes, gaps, branches and commands. A
//! delta that was read is written back as it was where its base is in the file too.

mod delta;
pub mod document;
mod state;

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use rappel_types::agents::SessionState;
use rappel_types::path::escape_bytes;
use serde_json::{Map, Value, json};

pub use delta::apply;
use document::{Full, Head, Record, Snapshot};

use crate::form::{Found, Reading, Skipped, Written};
use crate::portable::{Git, Portable};
use crate::sessions::UNKNOWN;
use crate::{Error, Form, Result, files, sessions, triggers};

/// A larger file, or one that unpacks to more, is not read.
const FILE_MAX: u64 = 256 << 20;
/// What a compressed file begins with.
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// So much memory may a compressed file ask for.
const WINDOW_LOG_MAX: u32 = 27;
/// Fast, and small enough.
const LEVEL: i32 = 3;

/// What a checkpoint carries in this form.
const CARRIED: [&str; 9] = [
    "messages",
    "tags",
    "hypotheses and evidence",
    "beliefs",
    "gaps",
    "verifications",
    "approaches",
    "notes",
    "commands",
];

impl Record {
    /// What both kinds have.
    pub fn head(&self) -> &Head {
        match self {
            Self::Full(full) => &full.head,
            Self::Delta(changed) => &changed.head,
        }
    }
}

/// Whether what lies here is of this form.
pub fn is_here(path: &Path) -> bool {
    let mut text = files::beginning(path);
    if text.starts_with(&ZSTD) {
        // The end is cut off; what came before counts.
        let mut unpacked = Vec::new();
        if let Ok(reader) = unpacking(&text) {
            _ = reader.take(64 << 10).read_to_end(&mut unpacked);
        }
        text = unpacked;
    }
    let has = |name: &str| text.windows(name.len()).any(|part| part == name.as_bytes());
    text.trim_ascii_start().starts_with(b"{")
        && has("\"checkpoints\"")
        && (has("\"Full\"") || has("\"Delta\"") || has("\"session_id\""))
}

fn unpacking(bytes: &[u8]) -> std::io::Result<impl Read + '_> {
    let mut reader = zstd::stream::read::Decoder::new(bytes)?;
    reader.window_log_max(WINDOW_LOG_MAX)?;
    Ok(reader)
}

/// The file's document.
fn load(path: &Path) -> Result<document::File> {
    let refused = |reason: String| Error::Refused { path: path.to_owned(), reason };
    from_bytes(files::read(path, FILE_MAX).map_err(refused)?, path)
}

pub(crate) fn from_bytes(bytes: Vec<u8>, path: &Path) -> Result<document::File> {
    let refused = |reason: String| Error::Refused { path: path.to_owned(), reason };
    let bytes = unpacked(bytes).map_err(refused)?;
    let value = files::parse(&bytes).map_err(refused)?;
    if value.get("checkpoints").is_none_or(|list| !list.is_array()) {
        return Err(Error::NotThisForm { path: path.to_owned(), form: Form::Forge });
    }
    serde_json::from_value(value).map_err(|error| refused(error.to_string()))
}

fn unpacked(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(&ZSTD) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    let reader = unpacking(&bytes).map_err(|error| error.to_string())?;
    let read = reader.take(FILE_MAX + 1).read_to_end(&mut unpacked);
    read.map_err(|error| format!("it cannot be unpacked: {error}"))?;
    if unpacked.len() as u64 > FILE_MAX {
        let limit = rappel_types::size::format_size(FILE_MAX);
        return Err(format!("it unpacks to more than {limit}"));
    }
    Ok(unpacked)
}

/// Reads all checkpoints.
pub fn read(path: &Path, reading: &mut Reading<'_>) -> Result<Found> {
    let path = path.canonicalize().map_err(Error::io("read", path))?;
    checkpoints_of(load(&path)?, path, reading.progress)
}

pub(crate) fn checkpoints_of(
    file: document::File,
    path: PathBuf,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Found> {
    if file.checkpoints.len() > files::COUNT_MAX {
        return Err(files::too_many(&path));
    }
    let mut found = Found { place: path.clone(), ..Found::default() };
    let (mut records, mut originals) = (Vec::new(), Vec::new());
    let mut ids = HashSet::new();
    for (place, value) in file.checkpoints.into_iter().enumerate() {
        let record = match serde_json::from_value::<Record>(value.clone()) {
            Ok(record) if record.head().id.is_empty() => Err("its id is empty".to_owned()),
            other => other.map_err(|error| format!("not a checkpoint: {error}")),
        };
        match record {
            Ok(record) if !ids.insert(record.head().id.clone()) => {
                let reason = format!("two of its checkpoints are called {:?}", record.head().id);
                return Err(Error::Refused { path, reason });
            }
            Ok(record) => {
                records.push(record);
                originals.push(value);
            }
            Err(reason) => {
                let name = escape_bytes(path.as_os_str().as_encoded_bytes());
                let path = format!("{name} (checkpoint {})", place + 1);
                found.skipped.push(Skipped { path, reason });
            }
        }
    }
    let rest = Value::Object(file.extra);
    let mut known: HashMap<String, SessionState> = HashMap::new();
    let mut checkpoints = Vec::with_capacity(records.len());
    delta::fold(&records, &path, |place, snapshot| {
        let mut snapshot = snapshot.clone();
        if snapshot.session_id.is_empty() {
            snapshot.session_id.clone_from(&file.session_id);
        }
        let record = &records[place];
        let mut checkpoint = portable(record, &snapshot);
        if let Some(session) = checkpoint.sessions.last_mut() {
            if let Some(before) = known.get(&session.id) {
                sessions::share(before, &mut session.state);
            }
            known.insert(session.id.clone(), session.state.clone());
        }
        let record = std::mem::take(&mut originals[place]);
        checkpoint.document = Some(json!({"record": record, "file": rest}));
        checkpoints.push((records[place].head().sequence, checkpoint));
        progress(checkpoints.len() as u64)
    })?;
    checkpoints.sort_by_key(|(sequence, one)| (one.created_at, *sequence));
    let mut last: HashMap<String, String> = HashMap::new();
    for (_, mut checkpoint) in checkpoints {
        let session = checkpoint.session.clone().unwrap_or_default();
        let before = last.insert(session, checkpoint.id.clone());
        checkpoint.parent = checkpoint.parent.or(before);
        found.checkpoints.push(checkpoint);
    }
    Ok(found)
}

fn portable(record: &Record, snapshot: &Snapshot) -> Portable {
    let head = record.head();
    let own = head.rappel_trigger.as_deref().and_then(|word| word.parse().ok());
    let trigger = own.unwrap_or_else(|| triggers::from_forge(&head.trigger));
    let mut checkpoint = Portable::new(head.id.clone(), head.timestamp, trigger);
    if let Record::Delta(changed) = record {
        checkpoint.parent = Some(changed.from.clone());
    }
    checkpoint.description = Some(head.message.clone()).filter(|message| !message.is_empty());
    checkpoint.tags.clone_from(&head.tags);
    let text = |name: &str| snapshot.code_changes.as_ref()?.get(name)?.as_str().map(str::to_owned);
    if let Some(commit) = text("commit_hash") {
        checkpoint.git =
            Some(Git { commit: Some(commit), branch: text("branch"), ..Git::default() });
    }
    let state = state::state_of(snapshot, head.timestamp);
    let lost = [
        (snapshot.evidence.len() as u64, state.evidence.len(), "evidence"),
        (
            snapshot.verification_results.len() as u64,
            state.verification_results.len(),
            "verifications",
        ),
        (
            snapshot.belief_dependencies.len() as u64,
            state.belief_dependencies.len() as u64,
            "links between beliefs",
        ),
    ];
    for (all, kept, what) in lost.into_iter().filter(|(all, kept, _)| kept < all) {
        let count = all - kept;
        checkpoint
            .partial
            .push(format!("{count} of its {what} are about something that it does not hold"));
    }
    if snapshot.session_id != UNKNOWN && !snapshot.session_id.is_empty() {
        checkpoint.session = Some(snapshot.session_id.clone());
    }
    let session = if snapshot.session_id.is_empty() { UNKNOWN } else { &snapshot.session_id };
    checkpoint.sessions.push(sessions::session(session, state));
    checkpoint
}

/// Writes checkpoints to a file of this form, `forge.json` if `place` is a folder. What is in it
/// stays; a checkpoint with the same id is replaced.
pub fn write(checkpoints: &[Portable], place: &Path) -> Result<Written> {
    let path = if place.is_dir() { place.join("forge.json") } else { place.to_owned() };
    let there = path.symlink_metadata().is_ok().then(|| load(&path)).transpose()?;
    let file = added(there, checkpoints, &path)?;
    let mut bytes = files::pretty(&file, &path)?;
    if is_compressed(&path) {
        bytes = zstd::encode_all(&bytes[..], LEVEL).map_err(Error::io("compress", &path))?;
    }
    let paths: Vec<PathBuf> = vec![files::replace(&path, &bytes)?];
    Ok(Written { paths, left_out: sessions::left_out(Form::Forge, checkpoints, &CARRIED) })
}

/// A file with checkpoints added to those that are there.
pub(crate) fn added(
    there: Option<document::File>,
    checkpoints: &[Portable],
    path: &Path,
) -> Result<document::File> {
    let mut file = there.unwrap_or_else(|| {
        let newest = checkpoints.iter().rev().find_map(sessions::told);
        let session_id = newest.map_or(UNKNOWN, |session| &session.id).to_owned();
        document::File { session_id, checkpoints: Vec::new(), extra: Map::new() }
    });
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut next = 0;
    for (place, record) in file.checkpoints.iter().enumerate() {
        let fields = record.as_object().and_then(|record| record.values().next());
        if let Some(id) = fields.and_then(|fields| fields.get("id")).and_then(Value::as_str) {
            places.insert(id.to_owned(), place);
        }
        let sequence = fields.and_then(|fields| fields.get("sequence")).and_then(Value::as_u64);
        next = next.max(sequence.map_or(0, |sequence| sequence.saturating_add(1)));
    }
    for checkpoint in checkpoints {
        let (id, record) = record_of(checkpoint, next, &places, path, &mut file.extra)?;
        match places.get(&id) {
            Some(place) => {
                // It keeps its number.
                let mut record = record;
                let number = |of: &Value| of.as_object()?.values().next()?.get("sequence").cloned();
                let there = number(&file.checkpoints[*place]);
                let fields = record.as_object_mut().and_then(|record| record.values_mut().next());
                if let (Some(there), Some(fields)) = (there, fields) {
                    fields["sequence"] = there;
                }
                file.checkpoints[*place] = record;
            }
            None => {
                places.insert(id, file.checkpoints.len());
                let fields = record.as_object().and_then(|record| record.values().next());
                let sequence = fields.and_then(|fields| fields["sequence"].as_u64());
                next = next.max(sequence.unwrap_or(next).saturating_add(1));
                file.checkpoints.push(record);
            }
        }
    }
    Ok(file)
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// The record of a checkpoint: its own if it came in this form, and its base is there.
fn record_of(
    checkpoint: &Portable,
    next: u64,
    known: &HashMap<String, usize>,
    path: &Path,
    rest: &mut Map<String, Value>,
) -> Result<(String, Value)> {
    if let Some(document) = &checkpoint.document
        && let Some(value) = document.get("record")
        && let Ok(record) = serde_json::from_value::<Record>(value.clone())
        && record.head().timestamp.as_millis() == checkpoint.created_at.as_millis()
    {
        for (name, value) in document.get("file").and_then(Value::as_object).into_iter().flatten() {
            rest.entry(name).or_insert_with(|| value.clone());
        }
        let id = record.head().id.clone();
        match &record {
            Record::Delta(changed) if !known.contains_key(&changed.from) => {
                let full = Full {
                    head: changed.head.clone(),
                    state: snapshot(checkpoint),
                    extra: changed.extra.clone(),
                };
                return Ok((id, value_of(&Record::Full(full.into()), path)?));
            }
            _ => return Ok((id, value.clone())),
        }
    }
    let exact = triggers::is_exact_in_forge(checkpoint.trigger);
    let head = Head {
        id: checkpoint.id.clone(),
        timestamp: checkpoint.created_at,
        sequence: next,
        message: checkpoint.description.clone().unwrap_or_default(),
        tags: checkpoint.tags.clone(),
        trigger: triggers::to_forge(checkpoint.trigger),
        rappel_trigger: (!exact).then(|| checkpoint.trigger.to_string()),
    };
    let full = Full { head, state: snapshot(checkpoint), extra: Map::new() };
    Ok((checkpoint.id.clone(), value_of(&Record::Full(full.into()), path)?))
}

fn value_of(record: &Record, path: &Path) -> Result<Value> {
    serde_json::to_value(record)
        .map_err(|error| Error::Json { path: path.to_owned(), reason: error.to_string() })
}

fn snapshot(checkpoint: &Portable) -> Snapshot {
    let session = sessions::told(checkpoint);
    let mut snapshot = session.map(state::snapshot_of).unwrap_or_default();
    if session.is_none() {
        UNKNOWN.clone_into(&mut snapshot.session_id);
    }
    if let Some(git) = &checkpoint.git
        && let Some(commit) = &git.commit
    {
        snapshot.code_changes = Some(json!({"commit_hash": commit, "branch": git.branch}));
    }
    snapshot
}
