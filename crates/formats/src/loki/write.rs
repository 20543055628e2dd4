//! Writing checkpoints as Loki Mode does.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_store::disk::{Disk, RealDisk};
use rappel_types::RelPath;
use serde_json::Value;

use super::index::{INDEX_MAX, Index};
use super::metadata::{Metadata, Writing, own_document};
use super::read::METADATA_MAX;
use super::{FOLDER, INDEX, METADATA, Writer, is_id};
use crate::form::Written;
use crate::portable::{File, Files, Portable};
use crate::reading::{Foreign, known};
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
    let mut lines = Vec::new();
    for checkpoint in checkpoints {
        let (path, line) = one(&shelf, checkpoint, place)?;
        written.paths.push(path);
        lines.push(line);
        written.left_out.extend(left_out(checkpoint));
    }
    append(&shelf, place, &lines)?;
    written.left_out.sort();
    written.left_out.dedup();
    Ok(written)
}

fn iteration_of(from: &Portable) -> u64 {
    from.metadata.get("iteration").and_then(Value::as_u64).unwrap_or(0)
}

fn writer_of(from: &Portable) -> Writer {
    let created_by = from.metadata.get("created_by").and_then(Value::as_str);
    Writer::of(from.trigger, created_by)
}

/// Writes one checkpoint; the answer is its folder, and its line.
fn one(shelf: &Shelf, from: &Portable, place: &Path) -> Result<(PathBuf, Value)> {
    let (id, writer) = name(from, place)?;
    let state = state_of(from, writer);
    let items = items(&state);
    let iteration = iteration_of(from);
    let writing = Writing { from, writer, id: &id, iteration, items: &items };
    let metadata = writing.metadata();
    let staged = shelf.begin()?;
    for (path, file) in &state {
        staged.copy(Path::new(OsStr::from_bytes(path)), &*file.content)?;
    }
    staged.json(METADATA, &metadata)?;
    Ok((staged.finish(&id)?, Writing::line(&metadata, writer)))
}

/// What a checkpoint is called there, and by which writer. One that came from there keeps its id.
/// Two of one second, or of one iteration and second, are told apart by a number at the end.
fn name(from: &Portable, place: &Path) -> Result<(String, Writer)> {
    if own_document(from).is_some() {
        if !is_id(&from.id) {
            let reason = "its id is none (letters, digits, `_` and `-`, at most 100)".to_owned();
            return Err(Error::Refused { path: place.join(METADATA), reason });
        }
        return Ok((from.id.clone(), Writer::of_id(&from.id)));
    }
    let writer = writer_of(from);
    let plain = writer.id(from.created_at, iteration_of(from));
    let mut id = plain.clone();
    let mut number = 2;
    loop {
        let there = metadata_of(place, &id);
        let is_own = there.as_ref().is_some_and(|one| one.rappel_id.as_ref() == Some(&from.id));
        if is_own || place.join(&id).symlink_metadata().is_err() {
            return Ok((id, writer));
        }
        id = format!("{plain}-{number}");
        number += 1;
    }
}

fn metadata_of(place: &Path, id: &str) -> Option<Metadata> {
    let folder = Foreign::open(&place.join(id)).ok()?;
    let json = folder.json(&known(METADATA).ok()?, METADATA_MAX).ok()??;
    Metadata::parse(json, Some(id)).ok()
}

/// The files that a writer copies, by their path in the checkpoint's folder.
fn state_of(from: &Portable, writer: Writer) -> Vec<(Vec<u8>, &File)> {
    let files = from.files.iter().flat_map(own);
    let wanted = |path: &[u8]| {
        let held = |item: &&str| {
            let rest = path.strip_prefix(item.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        own_document(from).is_some() || writer.state().iter().any(held)
    };
    files.filter(|(path, file)| !file.is_link && wanted(path)).collect()
}

/// The files of the tool's folder, by their path in it.
fn own(files: &Files) -> impl Iterator<Item = (Vec<u8>, &File)> {
    let prefix = format!("{FOLDER}/");
    files.entries.iter().filter_map(move |(path, file): (&RelPath, &File)| {
        Some((path.as_bytes().strip_prefix(prefix.as_bytes())?.to_vec(), file))
    })
}

/// The items of state among these paths, as the tool counts them: what lies in one of its folders
/// is one.
pub fn items<T>(state: &[(Vec<u8>, T)]) -> Vec<String> {
    let first = |path: &[u8]| {
        let top = path.split(|&byte| byte == b'/').next().unwrap_or_default();
        rappel_types::path::escape(top)
    };
    let items: BTreeSet<String> = state.iter().map(|(path, _)| first(path)).collect();
    items.into_iter().collect()
}

/// Adds lines to the index. It is written anew, without its broken lines, and renamed.
fn append(shelf: &Shelf, place: &Path, lines: &[Value]) -> Result<()> {
    let folder = Foreign::open(place)?;
    let refused = |reason| Error::Refused { path: place.join(INDEX), reason };
    let before = folder.bytes(&known(INDEX)?, INDEX_MAX).map_err(refused)?;
    let before = Index::parse(&before.unwrap_or_default()).entries;
    let own = |one: &Metadata| lines.iter().any(|line| line["id"] == one.id.as_str());
    let kept = before.into_iter().filter(|one| !own(one)).map(|one| one.document);
    let mut text = String::new();
    for line in kept.chain(lines.iter().cloned()) {
        text.push_str(&line.to_string());
        text.push('\n');
    }
    shelf.file(INDEX, text.as_bytes())
}

/// What a checkpoint holds and the form has no place for.
fn left_out(from: &Portable) -> Vec<String> {
    let mut said = Vec::new();
    let files = from.files.as_ref();
    let state = state_of(from, writer_of(from));
    if files.is_some_and(|files| files.entries.len() > state.len()) {
        said.push("files, other than a few of the state in .loki".to_owned());
    }
    if from.git.as_ref().is_some_and(|git| git.bundle.is_some()) {
        said.push("git's history and state, other than the commit and the branch".to_owned());
    }
    if !from.databases.is_empty() {
        said.push("databases".to_owned());
    }
    if !from.sessions.is_empty() {
        said.push("what the sessions knew".to_owned());
    }
    if from.knowledge.is_some() {
        said.push("the index of the knowledge".to_owned());
    }
    if !from.tags.is_empty() || from.parent.is_some() || from.environment.is_some() {
        said.push("tags, the environment and the checkpoint before".to_owned());
    }
    said
}
