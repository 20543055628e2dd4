//! Rappel's MCP server among those of opencode: `mcp.rappel` in a configuration file, which may have
//! comments.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::jsonc;
use crate::caller::Caller;
use crate::files;
use crate::integrate::{Changes, IntegrateError, Place};
use crate::json_text::{Edits, Unfit};
use crate::records::{Records, Settings, checksum};
use crate::scope::Scope;
use crate::servers;

const SERVERS: &str = "mcp";
const SCHEMA: &str = "https://opencode.ai/config.json";

/// The configuration of a scope. A project's own folder has one for the user's own things; that of
/// the project itself is for everyone.
fn file(place: &Place) -> PathBuf {
    let folder = match place.scope {
        Scope::Shared => &place.root,
        Scope::Local | Scope::User => &place.folder,
    };
    // Of the two names, the one that the user has.
    let with_comments = folder.join("opencode.jsonc");
    if with_comments.exists() { with_comments } else { folder.join("opencode.json") }
}

/// How opencode starts the server.
fn entry(caller: &Caller) -> Value {
    let mut command = vec![caller.program().as_text()];
    command.extend(servers::arguments(caller));
    json!({"type": "local", "command": command})
}

/// Registers the server. An entry of the user's own that has the same name is kept.
pub fn register(
    place: &Place,
    caller: &Caller,
    records: &Records,
) -> Result<Changes, IntegrateError> {
    let path = file(place);
    let wanted = entry(caller);
    let (name, mut record) = recorded(place, &path, records);
    let (mut changes, mut kept) = (Changes::default(), false);
    let changed = files::update(&path, files::ORDINARY, |text| {
        let found = match text {
            Some(text) => jsonc::get(text, SERVERS, servers::NAME).map_err(unfit(&path))?,
            None => None,
        };
        kept = found.as_ref().is_some_and(|found| !servers::is_ours(found));
        if kept || found.as_ref() == Some(&wanted) {
            return Ok::<_, IntegrateError>(text.map(str::to_owned));
        }
        let known = record.settings.get(&name);
        let before = match text.map(|text| (text, known.and_then(|known| known.before(text)))) {
            None => None,
            Some((_, Some(before))) => before,
            Some((text, None)) => {
                let rest = jsonc::remove(text, SERVERS, servers::NAME).map_err(unfit(&path))?;
                Some(rest)
            }
        };
        let (text, reverse) = match &before {
            Some(before) => {
                jsonc::add(before, SERVERS, servers::NAME, &wanted).map_err(unfit(&path))?
            }
            None => {
                let new = json!({"$schema": SCHEMA, SERVERS: {(servers::NAME): wanted}});
                let new = serde_json::to_string_pretty(&new).unwrap_or_default();
                (format!("{new}\n"), Edits::default())
            }
        };
        let done = Settings { existed: before.is_some(), checksum: checksum(&text), reverse };
        record.settings.insert(name.clone(), done);
        records.keep(&record)?;
        Ok(Some(text))
    })?;
    if changed {
        changes.written.push(path.clone());
    }
    if kept {
        changes.kept.push(path);
    }
    Ok(changes)
}

/// Takes the server out. A file that was made for it goes too.
pub fn unregister(place: &Place, records: Option<&Records>) -> Result<Changes, IntegrateError> {
    let path = file(place);
    let known = records.map(|records| recorded(place, &path, records));
    let (mut changes, mut is_left) = (Changes::default(), false);
    let changed = files::update(&path, files::ORDINARY, |text| {
        let Some(text) = text else { return Ok::<_, IntegrateError>(None) };
        let found = jsonc::get(text, SERVERS, servers::NAME).map_err(unfit(&path))?;
        is_left = true;
        if !found.is_some_and(|found| servers::is_ours(&found)) {
            return Ok(Some(text.to_owned()));
        }
        let done = known.as_ref().and_then(|(name, record)| record.settings.get(name));
        if let Some(before) = done.and_then(|done| done.before(text)) {
            is_left = before.is_some();
            return Ok(before);
        }
        let rest = jsonc::remove(text, SERVERS, servers::NAME).map_err(unfit(&path))?;
        Ok(Some(rest))
    })?;
    if let (Some(records), Some((name, mut record))) = (records, known)
        && record.settings.remove(&name).is_some()
    {
        records.keep(&record)?;
    }
    match (changed, is_left) {
        (true, true) => changes.written.push(path),
        (true, false) => changes.removed.push(path),
        (false, _) => {}
    }
    Ok(changes)
}

/// What is remembered of a file: under which name, and in which record.
fn recorded(
    place: &Place,
    path: &std::path::Path,
    records: &Records,
) -> (String, crate::records::Record) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The project's own folder is no agent's, so its record is filed with the agent's.
    let name = if place.scope == Scope::Shared { format!("../{name}") } else { name };
    (name, records.of(&place.folder))
}

fn unfit(path: &std::path::Path) -> impl Fn(Unfit) -> IntegrateError {
    let path = path.to_owned();
    move |unfit| IntegrateError::Unfit { path: path.clone(), unfit }
}
