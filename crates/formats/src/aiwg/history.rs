//! A state folder as a history of checkpoints.
//!
//! The form holds what was known of git, of `.aiwg` and of memory at a moment, and no content. It
//! tells no trigger: its checkpoints are made at regular times.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_store::disk::{Disk, RealDisk};
use rappel_types::agents::{SessionState, legal};
use rappel_types::{RelPath, Timestamp, Trigger};

use super::folder::{self, checkpoints_dir, number_of, numbered, read_one};
use super::{AiwgState, CheckpointData, Extra, GitStatus, Memory};
use crate::form::{Found, Reading, Written};
use crate::portable::{Git, Portable};
use crate::sessions::UNKNOWN;
use crate::{Error, Form, Result, files, sessions};

/// A session remembers so many files as touched.
const FILES_MAX: usize = 500;

/// What a checkpoint carries in this form.
const CARRIED: [&str; 1] = ["memory"];

/// Whether what lies here is a state folder, the folder of its numbered files, or one of those.
pub fn is_here(path: &Path) -> bool {
    let below = || {
        let mut below = Vec::new();
        state_folders(path, DEPTH_MAX, &mut below);
        !below.is_empty()
    };
    // Elsewhere such folders may be anything's.
    place_of(path).is_some() || (path.file_name().is_some_and(|name| name == ".aiwg") && below())
}

/// The folder of the numbered files, and the only one that is meant.
fn place_of(path: &Path) -> Option<(PathBuf, Option<String>)> {
    if path.is_file() {
        let name = path.file_name()?.to_str().filter(|name| number_of(name).is_some())?;
        return Some((path.parent()?.to_owned(), Some(name.to_owned())));
    }
    let folders = [checkpoints_dir(path), path.to_owned()];
    let found = folders.into_iter().find(|folder| has_numbered(folder));
    found.map(|folder| (folder, None))
}

fn has_numbered(folder: &Path) -> bool {
    numbered(folder).is_ok_and(|names| !names.is_empty())
}

/// The state folders below `path`: aiwg keeps one for each iteration of a run.
fn state_folders(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.filter_map(std::result::Result::ok) {
        if found.len() == FOLDERS_MAX || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let folder = entry.path();
        if has_numbered(&checkpoints_dir(&folder)) {
            found.push(folder);
        } else if depth > 0 {
            state_folders(&folder, depth - 1, found);
        }
    }
}

/// How deep below `.aiwg` a state folder may lie, and how many are named.
const DEPTH_MAX: usize = 3;
const FOLDERS_MAX: usize = 20;

/// What to say where there are no checkpoints, but state folders further down.
fn not_here(path: &Path) -> Error {
    let mut below = Vec::new();
    state_folders(path, DEPTH_MAX, &mut below);
    if below.is_empty() {
        return Error::NotThisForm { path: path.to_owned(), form: Form::Aiwg };
    }
    below.sort();
    let names: Vec<String> = below.iter().map(|folder| folder.display().to_string()).collect();
    let reason = format!("there is a history in each of these; import one: {}", names.join(", "));
    Error::Refused { path: path.to_owned(), reason }
}

/// Reads all checkpoints. A file that cannot be read is skipped.
pub fn read_all(path: &Path, reading: &mut Reading<'_>) -> Result<Found> {
    let path = path.canonicalize().map_err(Error::io("read", path))?;
    let (folder, only) = place_of(&path).ok_or_else(|| not_here(&path))?;
    let names = match &only {
        Some(name) => vec![name.clone()],
        None => numbered(&folder)?,
    };
    let mut found = Found { place: folder.clone(), ..Found::default() };
    let mut all = Vec::new();
    for name in names {
        let Some(number) = number_of(&name) else { continue };
        let file = folder.join(name);
        match read_one(&file, number) {
            Ok(data) => all.push(data),
            Err(reason) if only.is_some() => return Err(Error::Refused { path: file, reason }),
            Err(reason) => found.skipped.push(files::skipped(&file, reason)),
        }
        (reading.progress)(all.len() as u64)?;
    }
    // Numbers go up with time, unless a clock was set back.
    all.sort_by_key(|data| (data.timestamp, data.number));
    let mut before = None;
    for data in all {
        let mut checkpoint = portable(&data);
        checkpoint.parent = before.replace(checkpoint.id.clone());
        found.checkpoints.push(checkpoint);
    }
    Ok(found)
}

pub(crate) fn portable(data: &CheckpointData) -> Portable {
    let mut checkpoint = Portable::new(data.number.to_string(), data.timestamp, Trigger::Scheduled);
    let status = &data.git_status;
    let paths = |names: &[String]| {
        names.iter().filter_map(|name| name.parse().ok()).collect::<Vec<RelPath>>()
    };
    let (modified, untracked, staged) =
        (paths(&status.modified), paths(&status.untracked), paths(&status.staged));
    let dirty: BTreeSet<&RelPath> = modified.iter().chain(&untracked).chain(&staged).collect();
    checkpoint.git = Some(Git {
        branch: Some(status.branch.clone()).filter(|branch| !branch.is_empty()),
        dirty_files: dirty.into_iter().cloned().collect(),
        modified,
        untracked,
        staged,
        ..Git::default()
    });
    let errors = [("git", &status.error), (".aiwg", &data.aiwg_state.error)];
    for (what, error) in errors {
        checkpoint.partial.extend(error.iter().map(|error| format!("{what}: {error}")));
    }
    checkpoint.process = Some((data.memory.rss, data.memory.heap_used));
    if data.session_id != UNKNOWN && !data.session_id.is_empty() {
        let mut state = SessionState::new(sessions::name(&data.session_id));
        let began = i64::try_from(data.duration).ok();
        let began = began.and_then(|duration| data.timestamp.as_millis().checked_sub(duration));
        state.started_at = began.and_then(|began| files::moment(&began.into()));
        state.latest_at = Some(Timestamp::from_millis(data.timestamp.as_millis()));
        state.assistant_session_id = Some(data.session_id.clone());
        let newest = data.files_modified.len().saturating_sub(FILES_MAX);
        state.files_touched = data.files_modified[newest..].to_vec();
        checkpoint.session = Some(data.session_id.clone());
        checkpoint.sessions.push(sessions::session(&data.session_id, legal(&state)));
    }
    checkpoint.document = serde_json::to_value(data).ok();
    checkpoint
}

/// Writes checkpoints to numbered files of the state folder `place`. Numbers go on from what is
/// there; a checkpoint that is there already keeps its number.
pub fn write_all(checkpoints: &[Portable], place: &Path) -> Result<Written> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let there = folder::read(place)?;
    let mut last = there.last_number;
    let key = |data: &CheckpointData| (data.timestamp.as_millis(), data.session_id.clone());
    let mut known: BTreeMap<(i64, String), u64> =
        there.checkpoints.iter().map(|data| (key(data), data.number)).collect();
    let mut modified: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for data in &there.checkpoints {
        modified.entry(data.session_id.clone()).or_default().extend(data.files_modified.clone());
    }
    let mut written = Written::default();
    for checkpoint in checkpoints {
        let mut data = own(checkpoint).unwrap_or_else(|| data_of(checkpoint, &mut modified));
        data.number = match known.get(&key(&data)) {
            Some(number) => *number,
            None => data.number.max(last.saturating_add(1)),
        };
        last = last.max(data.number);
        known.insert(key(&data), data.number);
        written.paths.push(folder::write(&disk, place, &data)?);
    }
    written.left_out = sessions::left_out(Form::Aiwg, checkpoints, &CARRIED);
    // Names of files are carried, their content is not.
    written.left_out.retain(|sentence| !sentence.ends_with("for git"));
    if checkpoints.iter().any(|one| one.git.as_ref().is_some_and(|git| git.commit.is_some())) {
        written.left_out.push("aiwg has no place for git's commits, only for names".into());
    }
    Ok(written)
}

/// The document of a checkpoint that came in this form.
pub(crate) fn own(checkpoint: &Portable) -> Option<CheckpointData> {
    let data: CheckpointData = serde_json::from_value(checkpoint.document.clone()?).ok()?;
    (data.timestamp.as_millis() == checkpoint.created_at.as_millis()).then_some(data)
}

fn data_of(
    checkpoint: &Portable,
    modified: &mut BTreeMap<String, BTreeSet<String>>,
) -> CheckpointData {
    let session = sessions::told(checkpoint);
    let session_id = session.map_or(UNKNOWN, |session| &session.id).to_owned();
    let began = session.and_then(|session| session.started_at.or(session.state.started_at));
    let duration = began.map_or(0, |began| checkpoint.created_at.millis_since(began));
    let names = |paths: &[RelPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    let git_status = match &checkpoint.git {
        Some(git) => GitStatus {
            branch: git.branch.clone().unwrap_or_else(|| "HEAD".into()),
            modified: names(&git.modified),
            untracked: names(&git.untracked),
            staged: names(&git.staged),
            ..GitStatus::default()
        },
        None => GitStatus {
            error: Some("the checkpoint holds nothing of git".into()),
            ..GitStatus::default()
        },
    };
    let so_far = modified.entry(session_id.clone()).or_default();
    so_far.extend(checkpoint.git.iter().flat_map(|git| names(&git.dirty_files)));
    so_far.extend(session.iter().flat_map(|session| session.state.files_touched.clone()));
    let (rss, heap_used) = checkpoint.process.unwrap_or_default();
    CheckpointData {
        number: 0,
        timestamp: checkpoint.created_at,
        duration: u64::try_from(duration).unwrap_or_default(),
        session_id,
        git_status,
        aiwg_state: aiwg_state(checkpoint),
        files_modified: so_far.iter().cloned().collect(),
        memory: Memory { heap_used, rss, extra: Extra::new() },
        extra: Extra::new(),
    }
}

fn aiwg_state(checkpoint: &Portable) -> AiwgState {
    let Some(files) = &checkpoint.files else {
        let error = Some("the checkpoint holds no files".into());
        return AiwgState { error, ..AiwgState::default() };
    };
    let below = files.entries.iter().filter_map(|(path, file)| {
        let name = path.to_string();
        Some((name.strip_prefix(".aiwg/")?.to_owned(), file.content.len()))
    });
    let sizes: BTreeMap<String, u64> = below.collect();
    AiwgState { files: sizes.keys().cloned().collect(), sizes, ..AiwgState::default() }
}
