//! Puts the files of a place there, and takes them away again. What they hold is planned elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::place::{Hooks, Place, Servers};
use super::plan::{Text, is_the_users, made_here, new_text, own_files, text_without, wanted};
use super::{IntegrateError, Result};
use crate::caller::{Caller, NotText};
use crate::files;
use crate::hook_settings::{self, Wanted};
use crate::owned::{Owner, delimiter, delimiter_of, owner};
use crate::records::Records;
use crate::scope::Scope;

/// What changed on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Files that were written.
    pub written: Vec<PathBuf>,
    /// Files that were removed.
    pub removed: Vec<PathBuf>,
    /// Files in our places that are the user's, and were left alone.
    pub kept: Vec<PathBuf>,
    /// Files in which our server for MCP is registered, or was.
    pub servers: Vec<PathBuf>,
    /// Those of the kept files that are kept for a server of the user's with our name.
    pub other_servers: Vec<PathBuf>,
    /// Files of the project that git may list and that name a path of this machine now.
    pub exposed: Vec<PathBuf>,
    /// Files in which hooks of the user's have another place now.
    pub moved: Vec<PathBuf>,
    /// The user has a status line already, which was left alone.
    pub other_status_line: bool,
}

impl Changes {
    /// Adds what was changed elsewhere.
    pub fn extend(&mut self, other: Self) {
        self.written.extend(other.written);
        self.removed.extend(other.removed);
        self.kept.extend(other.kept);
        self.servers.extend(other.servers);
        self.other_servers.extend(other.other_servers);
        self.exposed.extend(other.exposed);
        self.moved.extend(other.moved);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.removed.is_empty()
    }

    /// Notes a server of the user's that has our name.
    pub(crate) fn keep_server(&mut self, path: PathBuf) {
        self.other_servers.push(path.clone());
        self.kept.push(path);
    }

    fn add(&mut self, path: PathBuf, before: bool, after: bool) {
        match after {
            true => self.written.push(path),
            false if before => self.removed.push(path),
            false => {}
        }
    }
}

/// What is put in place besides the hooks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras {
    /// The status line, where the agent has one.
    pub status_line: bool,
    /// The server for MCP.
    pub server: bool,
}

/// Puts hooks, commands and skill in place.
pub fn install(
    place: &Place,
    caller: &Caller,
    extras: Extras,
    records: &Records,
) -> Result<Changes> {
    if place.folder.to_str().is_none() {
        return Err(NotText(place.folder.clone()).into());
    }
    if let Some(folder) = (place.vendor.layout.elsewhere)(place) {
        return Err(IntegrateError::Elsewhere { vendor: place.vendor, folder });
    }
    // What cannot be read or merged is refused before anything is made.
    let path = place.settings();
    let text = files::read(&path)?;
    let found = place.present(text.as_deref().unwrap_or_default()).map_err(place.unfit())?;
    let mut record = records.of(&place.folder);
    record.agent = Some(place.vendor.name.to_owned());
    let hooks = wanted(place, caller, extras, &found, &record);
    new_text(text.as_deref(), place, &hooks, &record)?;
    let registry = match place.vendor.servers {
        Servers::Apart(registry) if extras.server => Some(registry(place)?),
        _ => None,
    };
    if let Some(registry) = &registry {
        registry.check(caller, found.caller.as_ref(), &record)?;
    }

    let mut folders = vec![place.folder.clone()];
    folders.extend(place.own_folders());
    folders.extend(path.parent().map(Path::to_owned));
    let others = (place.vendor.layout.others)(place, caller);
    folders.extend(others.iter().filter_map(|(path, _)| path.parent().map(Path::to_owned)));
    // The user's own folders may be links.
    if place.scope != Scope::User {
        folders.iter().try_for_each(|folder| stays_inside(place, folder))?;
    }
    for file in files_in(place).iter().chain(others.iter().map(|(path, _)| path)) {
        files::read(file)?;
    }
    // A folder that no record names would stay if this process ended here.
    for folder in &folders {
        for missing in files::missing_folders(folder)? {
            if !record.made.contains(&missing) {
                record.made.push(missing);
            }
        }
    }
    records.keep(&record)?;
    folders.iter().try_for_each(|folder| files::make_folder(folder).map(drop))?;
    let mut changes = Changes {
        other_status_line: extras.status_line && found.any_status_line && !found.status_line,
        ..Changes::default()
    };
    let mut kept = false;
    let changed = files::update(&path, files::ORDINARY, |text| {
        kept = matches!(place.vendor.hooks, Hooks::Script(_)) && is_the_users(text);
        if kept {
            return Ok(text.map(str::to_owned));
        }
        let Some((after, remembered)) = new_text(text, place, &hooks, &record)? else {
            return Ok(text.map(str::to_owned));
        };
        record.settings.insert(place.file_name().to_owned(), remembered);
        if let (Text::Settings(Wanted { server: Some(_), .. }, _), Servers::WithHooks(entry)) =
            (&hooks, &place.vendor.servers)
        {
            record.servers.insert(place.file_name().to_owned(), entry(caller));
        }
        records.keep(&record)?;
        Ok::<_, IntegrateError>(Some(after))
    })?;
    if kept {
        changes.kept.push(path.clone());
    }
    if changed {
        changes.written.push(path.clone());
    }
    if let (true, Text::Settings(wanted, Some(_))) = (extras.server, &hooks) {
        match &wanted.server {
            None => changes.keep_server(path),
            Some(_) if changed => changes.servers.push(path),
            Some(_) => {}
        }
    }
    if let Some(registry) = registry {
        changes.extend(registry.register(place, caller, found.caller.as_ref(), records)?);
    }
    let has_listing = is_rappels(&place.listing());
    let listed = made_here(place, &records.of(&place.folder), has_listing);
    let places: Vec<Place> = std::iter::once(place.clone()).chain(place.neighbour()).collect();
    put_files(place, &places, &listed, &mut changes)?;
    if place.is_shared_file() && place.scope == Scope::Local {
        let settings = place.settings();
        let is_listed = |path: &Path| listed.iter().any(|it| settings.with_file_name(it) == path);
        let hooks = changes.written.iter().filter(|path| **path == settings);
        let both: BTreeSet<PathBuf> = hooks.chain(&changes.servers).cloned().collect();
        changes.exposed.extend(both.into_iter().filter(|path| !is_listed(path)));
    }
    Ok(changes)
}

/// A repository that is not trusted must not lead us elsewhere by a link. The agent's folder itself
/// may be one.
fn stays_inside(place: &Place, folder: &Path) -> Result<()> {
    let mut inside = folder.ancestors().take_while(|above| above.starts_with(&place.folder));
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let (base, nearest) = (real(&place.folder), inside.find_map(real));
    match (base, nearest) {
        (Some(base), Some(nearest)) if !nearest.starts_with(&base) => {
            Err(IntegrateError::Outside { path: folder.to_owned(), folder: place.folder.clone() })
        }
        _ => Ok(()),
    }
}

/// Takes hooks, commands and skill away again. What another scope of the same folder needs stays.
pub fn remove(place: &Place, records: Option<&Records>) -> Result<Changes> {
    let mut record = records.map(|records| records.of(&place.folder));
    let remembered = record.as_mut().and_then(|one| one.settings.remove(place.file_name()));
    let server = record.as_mut().and_then(|one| one.servers.remove(place.file_name()));
    let mut changes = Changes::default();
    let path = place.settings();
    let (mut is_left, mut moves) = (false, false);
    let changed = files::update(&path, files::ORDINARY, |text| {
        let is_followed = |text: &str| hook_settings::is_followed(text, place.form());
        moves = place.vendor.counts_hooks && text.is_some_and(is_followed);
        let after = match text {
            None => None,
            Some(text) => text_without(text, place, remembered.as_ref(), server.as_ref())?,
        };
        is_left = after.is_some();
        Ok::<_, IntegrateError>(after)
    })?;
    if changed {
        changes.moved.extend(moves.then(|| path.clone()));
        changes.add(path, true, is_left);
    }
    if server.is_some() && place.found().is_ok_and(|found| found.server.is_some()) {
        changes.keep_server(place.settings());
    }
    if matches!(place.vendor.hooks, Hooks::Script(_)) && is_left {
        changes.kept.push(place.settings());
    }
    // Hooks that stay here are the user's, and need nothing of ours.
    let others: Vec<Place> =
        place.neighbour().filter(|one| one.settings() != place.settings()).into_iter().collect();
    put_files(place, &others, &[], &mut changes)?;
    let mut made = record.as_mut().map(|one| std::mem::take(&mut one.made)).unwrap_or_default();
    let ours = place.own_folders().into_iter().filter(|folder| !made.contains(folder));
    let ours: Vec<PathBuf> = ours.filter(|folder| folder.is_dir()).collect();
    made.extend(ours);
    // The innermost ones come last.
    let mut left = Vec::new();
    for folder in made.into_iter().rev() {
        if !files::remove_if_empty(&folder)? {
            left.push(folder);
        }
    }
    left.reverse();
    if let (Some(records), Some(mut record)) = (records, record) {
        // Once the user has removed what was kept, the folders go too.
        let is_done = record.settings.is_empty() && changes.kept.is_empty();
        record.made = if is_done { Vec::new() } else { left };
        records.keep(&record)?;
    }
    Ok(changes)
}

/// Takes the server for MCP out, where it does not stand with the hooks.
pub fn unregister(place: &Place, records: Option<&Records>) -> Result<Changes> {
    match place.vendor.servers {
        Servers::WithHooks(_) => Ok(Changes::default()),
        Servers::Apart(registry) => match registry(place) {
            Ok(registry) => {
                let hooks = place.found().ok().and_then(|found| found.caller);
                registry.unregister(place, hooks.as_ref(), records)
            }
            // Such a folder cannot be registered.
            Err(NotText(_)) => Ok(Changes::default()),
        },
    }
}

/// Writes the commands, the skill and all else of ours as the hooks of these places need them;
/// removes them if none do.
fn put_files(
    place: &Place,
    places: &[Place],
    listed: &[String],
    changes: &mut Changes,
) -> Result<()> {
    let mut present = BTreeMap::new();
    for one in places {
        // A neighbour that cannot be read was refused when it was integrated, or has been spoilt
        // since.
        let found = one.found().unwrap_or_default();
        if let Some(caller) = found.caller {
            present.insert(found.scope.unwrap_or(one.scope), caller);
        }
    }
    let mut wanted = own_files(place, &present, listed);
    for path in files_in(place) {
        wanted.entry(path).or_default();
    }
    let new_word = delimiter();
    for (path, content) in wanted {
        let (mut before, mut kept) = (false, false);
        let changed = files::update::<IntegrateError>(&path, files::ORDINARY, |text| {
            before = text.is_some();
            kept = is_the_users(text);
            let word = text.and_then(delimiter_of).unwrap_or(&new_word);
            Ok(match kept {
                true => text.map(str::to_owned),
                false => content.as_ref().map(|content| content.text(word)),
            })
        })?;
        let is_listing = path.file_name().is_some_and(|name| name == ".gitignore");
        if kept && (content.is_some() || present.is_empty()) {
            // The list of what git passes over may well be the user's.
            if !is_listing || content.is_some() {
                changes.kept.push(path);
            }
        } else if changed {
            changes.add(path, before, content.is_some());
        }
    }
    Ok(())
}

fn is_rappels(path: &Path) -> bool {
    let text = files::read(path).ok().flatten();
    text.is_some_and(|text| owner(&text) == Owner::Rappel)
}

/// The files in the folders that are named after us.
fn files_in(place: &Place) -> Vec<PathBuf> {
    let folders = place.own_folders().into_iter();
    let entries = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}
