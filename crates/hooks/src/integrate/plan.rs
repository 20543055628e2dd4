//! What the files of a place shall hold. Texts only; no disk.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Result;
use super::apply::Extras;
use super::place::{Commands, Hooks, Place, Servers};
use crate::caller::Caller;
use crate::hook_settings::{self, Present, Wanted};
use crate::json_text::Edits;
use crate::owned::{self, Owner, owner};
use crate::records::{Record, Settings};
use crate::scope::Scope;
use crate::servers::Known;
use crate::skill;
use crate::typed::{SLASHES, Slash};

/// What the file with the hooks shall have.
pub(super) enum Text {
    /// With that by which our server is known, where servers stand there too.
    Settings(Wanted, Option<Known>),
    Script(String),
}

/// What is asked for, and what was asked for before and is there.
pub(super) fn wanted(
    place: &Place,
    caller: &Caller,
    extras: Extras,
    found: &Present,
    record: &Record,
) -> Text {
    let vendor = place.vendor;
    let groups = match vendor.hooks {
        Hooks::Script(text) => return Text::Script(text(caller, place.scope)),
        Hooks::Handlers(_, groups) => groups,
    };
    let status_line = vendor.status_line.filter(|_| extras.status_line || found.status_line);
    let callers = std::iter::once(caller).chain(&found.caller);
    let known = known_server(place, record.servers.get(place.file_name()), callers);
    let server = match (&vendor.servers, &known, &found.server) {
        (Servers::WithHooks(entry), Some(known), Some(there)) => {
            known.owns(there).then(|| known.renewed(there, &entry(caller)))
        }
        (Servers::WithHooks(entry), _, None) if extras.server => Some(entry(caller)),
        _ => None,
    };
    let wanted = Wanted {
        groups: groups(caller, place.scope, &place.settings().display().to_string()),
        status_line: status_line.map(|line| line(caller)),
        server,
    };
    Text::Settings(wanted, known)
}

/// By what our server is known in the file with the hooks, if servers stand there.
fn known_server<'a>(
    place: &Place,
    written: Option<&serde_json::Value>,
    callers: impl IntoIterator<Item = &'a Caller>,
) -> Option<Known> {
    match place.vendor.servers {
        Servers::WithHooks(entry) => Some(Known::new(written, entry, callers.into_iter().cloned())),
        Servers::Apart(_) => None,
    }
}

/// The text with what is wanted, and what to remember of that; nothing if it is as it shall be.
pub(super) fn new_text(
    text: Option<&str>,
    place: &Place,
    wanted: &Text,
    record: &Record,
) -> Result<Option<(String, Settings)>> {
    match wanted {
        Text::Settings(wanted, known) => settings_with(text, place, wanted, known.as_ref(), record),
        Text::Script(script) if text == Some(script) => Ok(None),
        Text::Script(script) => {
            let scope = Some(place.scope);
            let done = Settings { scope, ..Settings::new(false, script, Edits::default()) };
            Ok(Some((script.clone(), done)))
        }
    }
}

/// Whether a file in our place was written by somebody else.
pub(super) fn is_the_users(text: Option<&str>) -> bool {
    text.is_some_and(|text| owner(text) == Owner::User)
}

/// The settings with what is wanted, and what to remember of that; nothing if they have it already.
fn settings_with(
    text: Option<&str>,
    place: &Place,
    wanted: &Wanted,
    known: Option<&Known>,
    record: &Record,
) -> Result<Option<(String, Settings)>> {
    let form = place.form();
    if text.is_some_and(|text| hook_settings::has(text, wanted, form)) {
        return Ok(None);
    }
    let remembered = record.settings.get(place.file_name());
    let before = match text.map(|text| (text, remembered.and_then(|one| one.before(text)))) {
        None => None,
        Some((_, Some(before))) => before,
        Some((text, None)) => {
            let empty = remembered.map(|one| one.empty.clone()).unwrap_or_default();
            let rest = hook_settings::strip(text, form, &empty, known).map_err(place.unfit())?;
            let was_made_by_us = is_empty(&rest) && remembered.is_some_and(|one| !one.existed);
            if rest != text && !was_made_by_us {
                let renewed = hook_settings::renew(text, wanted, form, &empty);
                let (after, empty) = renewed.map_err(place.unfit())?;
                let scope = Some(place.scope);
                let settings = Settings::new(true, &rest, Edits::default());
                return Ok(Some((after, Settings { empty, scope, ..settings })));
            }
            (!was_made_by_us).then_some(rest)
        }
    };
    let merged = hook_settings::merge(before.as_deref().unwrap_or_default(), wanted, form);
    let merged = merged.map_err(place.unfit())?;
    let remembered = Settings {
        empty: merged.empty,
        scope: Some(place.scope),
        ..Settings::new(before.is_some(), &merged.text, merged.reverse)
    };
    Ok(Some((merged.text, remembered)))
}

fn is_empty(settings: &str) -> bool {
    settings.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n', '{', '}']).is_empty()
}

/// The text without anything of ours; nothing at all if the file was ours.
pub(super) fn text_without(
    text: &str,
    place: &Place,
    remembered: Option<&Settings>,
    server: Option<&serde_json::Value>,
) -> Result<Option<String>> {
    if matches!(place.vendor.hooks, Hooks::Script(_)) {
        return Ok(is_the_users(Some(text)).then(|| text.to_owned()));
    }
    if let Some(before) = remembered.and_then(|one| one.before(text)) {
        return Ok(before);
    }
    let empty = remembered.map(|one| one.empty.clone()).unwrap_or_default();
    let found = place.present(text).map_err(place.unfit())?;
    let known = known_server(place, server, &found.caller);
    let rest = hook_settings::strip(text, place.form(), &empty, known.as_ref());
    let rest = rest.map_err(place.unfit())?;
    let was_ours = rest != text && is_empty(&rest) && remembered.is_none_or(|one| !one.existed);
    Ok((!was_ours).then_some(rest))
}

/// What one of our files holds.
pub(super) enum Content {
    Command(&'static Commands, &'static Slash, Caller),
    Text(String),
}

impl Content {
    pub(super) fn text(&self, delimiter: &str) -> String {
        match self {
            Self::Command(commands, slash, caller) => (commands.text)(slash, caller, delimiter),
            Self::Text(text) => text.clone(),
        }
    }
}

/// The commands, the skill and all else of ours besides the hooks, as the hooks that are `present`
/// need them; nothing for a file that shall not be there. `listed` are the files beside the hooks
/// that git need not list.
pub(super) fn own_files(
    place: &Place,
    present: &BTreeMap<Scope, Caller>,
    listed: &[String],
) -> BTreeMap<PathBuf, Option<Content>> {
    // What is in the repository must not name a path of this machine.
    let shared = present.get(&Scope::Shared);
    let only_here = shared.is_none() && place.scope != Scope::User;
    let caller = shared.or_else(|| present.values().next());

    let others = (place.vendor.layout.others)(place, caller.unwrap_or(&Caller::on_path()));
    let mut wanted: BTreeMap<PathBuf, Option<Content>> = BTreeMap::new();
    // Where one file is for both scopes, and was not there before, git need not list it.
    let listing = place.is_shared_file().then(|| place.listing());
    wanted.extend(listing.clone().map(|path| (path, None)));
    let Some(caller) = caller else {
        wanted.extend(others.into_iter().map(|(path, _)| (path, None)));
        return wanted;
    };
    wanted.extend(others.into_iter().map(|(path, text)| (path, Some(Content::Text(text)))));
    if let (Some(commands), Some(folder)) = (&place.vendor.layout.commands, place.commands()) {
        for slash in SLASHES {
            let path = folder.join(format!("{}.{}", slash.name, commands.extension));
            wanted.insert(path, Some(Content::Command(commands, slash, caller.clone())));
        }
    }
    wanted.insert(place.skill().join(skill::FILE), Some(Content::Text(skill::text(caller))));
    if only_here {
        for folder in place.own_folders() {
            let path = folder.join(".gitignore");
            wanted.insert(path, Some(Content::Text(skill::git_ignore())));
        }
        if let Some(listing) = listing.filter(|_| !listed.is_empty()) {
            let names: String = listed.iter().map(|name| format!("/{name}\n")).collect();
            let text = owned::sealed("", &format!("{names}/.gitignore\n"));
            wanted.insert(listing, Some(Content::Text(text)));
        }
    }
    wanted
}

/// The names of the files beside the hooks that were made by us. `has_listing` says that a list of
/// ours is there.
pub(super) fn made_here(place: &Place, record: &Record, has_listing: bool) -> Vec<String> {
    let (folder, file) = place.file_name().rsplit_once('/').unwrap_or(("", place.file_name()));
    let made = record.settings.iter().filter(|(_, done)| !done.existed);
    let here = made.filter_map(|(name, _)| {
        let (there, name) = name.rsplit_once('/').unwrap_or(("", name));
        (there == folder).then(|| name.to_owned())
    });
    let mut here: Vec<String> = here.collect();
    // Without a record, our list says it.
    if !record.settings.contains_key(place.file_name()) && has_listing {
        here.push(file.to_owned());
    }
    here
}
