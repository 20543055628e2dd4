//! Reading the checkpoints of Loki Mode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_store::beneath::Kind;
use rappel_types::git_name::is_git;
use rappel_types::path::escape;
use rappel_types::{RelPath, Trigger};
use serde_json::Value;

use super::index::{INDEX_MAX, Index};
use super::metadata::{Listed, Metadata};
use super::{CHECKPOINTS, FOLDER, INDEX, METADATA, SNAPSHOT, is_id, place_of};
use crate::form::{Found, Reading, Skipped};
use crate::portable::{File, Files, Git, Portable};
use crate::reading::{Foreign, known, text};
use crate::{Error, Form, Result};

/// Metadata is no longer.
pub(super) const METADATA_MAX: u64 = 16 << 20;
/// A checkpoint has no more files, and they no more bytes.
const FILES_MAX: usize = 100_000;
const BYTES_MAX: u64 = 4 << 30;
/// Folders in it go no deeper.
const DEPTH_MAX: usize = 32;

/// What lies in a folder of checkpoints, still without their state.
struct Looked {
    folder: Foreign,
    place: PathBuf,
    /// The checkpoints that have a folder, oldest first.
    found: Vec<Metadata>,
    /// Lines of the index without a folder.
    gone: Vec<Metadata>,
    skipped: Vec<Skipped>,
}

/// The checkpoints in a folder, oldest first, and what could not be read.
pub fn list(path: &Path) -> Result<(Vec<Listed>, Vec<Skipped>)> {
    let Looked { found, skipped, .. } = look(path)?;
    Ok((found, skipped))
}

/// Reads all of them: the folder of checkpoints, `.loki`, or a project with it.
pub fn read(path: &Path, reading: &mut Reading<'_>) -> Result<Found> {
    let Looked { folder, place, found: all, gone, mut skipped } = look(path)?;
    let shown = |name: &str| escape(place.join(name).as_os_str().as_encoded_bytes());
    for one in gone {
        let reason = format!("{}: its folder is gone", one.id);
        skipped.push(Skipped { path: shown(INDEX), reason });
    }
    let mut found = Found { place: place.clone(), ..Found::default() };
    for one in all {
        let path = shown(&one.id);
        match portable(&folder, &place, one) {
            Ok(one) => found.checkpoints.push(one),
            Err(reason) => skipped.push(Skipped { path, reason }),
        }
        (reading.progress)(found.checkpoints.len() as u64)?;
    }
    found.skipped = skipped;
    Ok(found)
}

fn look(path: &Path) -> Result<Looked> {
    let place = place_of(path)
        .ok_or_else(|| Error::NotThisForm { path: path.to_owned(), form: Form::Loki })?;
    let place = place.canonicalize().map_err(Error::io("open", &place))?;
    let folder = Foreign::open(&place)?;
    let shown = |name: &[u8]| {
        let place = place.as_os_str().as_encoded_bytes();
        escape(&[place, b"/", name].concat())
    };
    let mut skipped = Vec::new();
    let index = match folder.bytes(&known(INDEX)?, INDEX_MAX) {
        Ok(bytes) => Index::parse(&bytes.unwrap_or_default()),
        Err(reason) => {
            skipped.push(Skipped { path: shown(INDEX.as_bytes()), reason });
            Index::default()
        }
    };
    for (line, reason) in index.broken {
        let path = format!("{}:{line}", shown(INDEX.as_bytes()));
        skipped.push(Skipped { path, reason });
    }
    if index.more > 0 {
        let reason = format!("{} more broken lines", index.more);
        skipped.push(Skipped { path: shown(INDEX.as_bytes()), reason });
    }
    let mut lines: BTreeMap<String, Metadata> =
        index.entries.into_iter().map(|one| (one.id.clone(), one)).collect();
    let mut found = Vec::new();
    for (name, kind) in folder.list(None)? {
        if kind != Kind::Directory || name.starts_with(b".") {
            continue;
        }
        let id = std::str::from_utf8(&name).ok().filter(|name| is_id(name));
        let Some(id) = id else {
            let reason = "its name is no id (letters, digits, `_` and `-`, at most 100)".to_owned();
            skipped.push(Skipped { path: shown(&name), reason });
            continue;
        };
        let line = lines.remove(id);
        let path = RelPath::new(format!("{id}/{METADATA}"));
        let json = path.map_err(|error| error.to_string());
        let json = json.and_then(|path| folder.json(&path, METADATA_MAX));
        let one = match json {
            Ok(Some(json)) => Metadata::parse(json, Some(id)),
            Ok(None) => Err(format!("it has no {METADATA}")),
            Err(reason) => Err(reason),
        };
        // The line may know what the file has lost.
        match one.or_else(|reason| line.ok_or(reason)) {
            Ok(one) => found.push(one),
            Err(reason) => skipped.push(Skipped { path: shown(&name), reason }),
        }
    }
    found.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(Looked { folder, place, found, gone: lines.into_values().collect(), skipped })
}

/// A checkpoint with its state; the error is why it cannot be taken.
fn portable(folder: &Foreign, place: &Path, from: Metadata) -> Result<Portable, String> {
    let own = text(&from.document, "rappel_trigger").and_then(|text| text.parse::<Trigger>().ok());
    let trigger = own.unwrap_or_else(|| from.trigger());
    let mut one = Portable::new(from.id.clone(), from.created_at, trigger);
    one.description = from.message;
    one.git = (from.git_sha.is_some() || from.git_branch.is_some()).then(|| Git {
        branch: from.git_branch,
        commit: from.git_sha,
        ..Git::default()
    });
    let free = [
        ("task_id", from.task_id),
        ("provider", from.provider),
        ("phase", from.phase),
        ("created_by", from.created_by),
        ("rappel_id", from.rappel_id),
    ];
    let free = free.into_iter().filter_map(|(key, text)| Some((key, Value::from(text?))));
    let iteration = from.iteration.map(|number| ("iteration", Value::from(number)));
    one.metadata = free.chain(iteration).map(|(key, value)| (key.to_owned(), value)).collect();
    let own = RelPath::new(from.id.as_bytes()).map_err(|error| error.to_string())?;
    let mut state =
        State { folder, own: &own, entries: BTreeMap::new(), bytes: 0, left_out: vec![] };
    state.take(None, 0)?;
    one.partial = state.left_out;
    let state_dir = known(FOLDER).map_err(|error| error.to_string())?;
    one.files = Some(Files {
        root: escape(project_of(place).as_os_str().as_encoded_bytes()),
        whole: false,
        state_dirs: vec![state_dir],
        entries: state.entries,
    });
    one.document = Some(from.document);
    Ok(one)
}

/// The project whose state this is.
fn project_of(place: &Path) -> PathBuf {
    let inner = Path::new(FOLDER).join(CHECKPOINTS);
    let above = place.ancestors().nth(inner.components().count());
    match above {
        Some(above) if place.ends_with(&inner) => above.to_owned(),
        _ => place.to_owned(),
    }
}

/// The files of a checkpoint's folder, as they would be in the project.
struct State<'a> {
    folder: &'a Foreign,
    own: &'a RelPath,
    entries: BTreeMap<RelPath, File>,
    bytes: u64,
    left_out: Vec<String>,
}

impl State<'_> {
    fn take(&mut self, below: Option<&RelPath>, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("its folders are deeper than {DEPTH_MAX}"));
        }
        let here = below.unwrap_or(self.own);
        for (name, kind) in self.folder.list(Some(here)).map_err(|error| error.to_string())? {
            let is_own = [METADATA, SNAPSHOT].iter().any(|own| own.as_bytes() == name);
            if below.is_none() && is_own || is_git(&name) {
                continue;
            }
            let path = here.join(&name).map_err(|error| error.to_string())?;
            match kind {
                Kind::Directory => self.take(Some(&path), depth + 1)?,
                Kind::File => self.file(&path)?,
                _ => self.left_out.push(format!("{path} is a link or a device")),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &RelPath) -> Result<(), String> {
        let Some(file) = self.folder.content(path)? else { return Ok(()) };
        let (mode, content) = (file.mode & 0o777, Arc::new(file));
        self.bytes = self.bytes.saturating_add(crate::portable::Content::len(&*content));
        if self.bytes > BYTES_MAX || self.entries.len() >= FILES_MAX {
            return Err(format!("it has more than {FILES_MAX} files or {BYTES_MAX} bytes"));
        }
        let rest = &path.as_bytes()[self.own.as_bytes().len()..];
        let at = RelPath::new([FOLDER.as_bytes(), rest].concat());
        let at = at.map_err(|error| error.to_string())?;
        self.entries.insert(at, File { is_link: false, mode, modified: None, content });
        Ok(())
    }
}
