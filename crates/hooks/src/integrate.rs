//! `rappel integrate AGENT` on the disk: hooks, command files and skill put in place, taken away,
//! and looked for. What they are is said by each vendor's module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rappel::hook::{Switch, Trust};

use crate::Vendor;
use crate::caller::{Caller, Group, NotText, Program};
use crate::files::{self, FileError};
use crate::hook_settings::{self, Form, Present, Wanted};
use crate::json_text::{Edits, Syntax, Unfit};
use crate::owned::{self, Owner, delimiter, delimiter_of, owner};
use crate::records::{Record, Records, Settings};
use crate::scope::Scope;
use crate::servers::{Known, Registry};
use crate::skill;
use crate::typed::{SLASHES, Slash};

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum IntegrateError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A settings file is not what its vendor's documentation describes.
    #[error("{}, {unfit}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Where, and what is the matter.
        unfit: Unfit,
    },
    /// A path cannot be written to a settings file.
    #[error(transparent)]
    NotText(#[from] NotText),
    /// A link leads out of the folder.
    #[error("{} leads out of {}", path.display(), folder.display())]
    Outside {
        /// What leads out.
        path: PathBuf,
        /// Of which folder.
        folder: PathBuf,
    },
}

type Result<T, E = IntegrateError> = std::result::Result<T, E>;

/// Where an agent keeps its files, in a folder of its own.
#[derive(Debug)]
pub struct Layout {
    /// The folder's name in a project: `.claude`.
    pub project: &'static str,
    /// The file in it that makes the agent call Rappel, by scope.
    pub hooks: fn(Scope) -> &'static str,
    /// The folder in it for the skill.
    pub skill: &'static str,
    /// The files of commands, where the agent has such.
    pub commands: Option<Commands>,
    /// Other files of ours, with what they hold.
    pub others: fn(&Place, &Caller) -> Vec<(PathBuf, String)>,
}

/// Files of commands that a user types after a slash.
#[derive(Debug)]
pub struct Commands {
    /// Their folder in the agent's.
    pub folder: &'static str,
    /// What their names end with.
    pub extension: &'static str,
    /// The text of one. The last word is one that nobody can guess.
    pub text: fn(&Slash, &Caller, &str) -> String,
    /// What the user types for it.
    pub typed: fn(&str) -> String,
    /// Rappel answers them itself; otherwise the model is given the answer to repeat.
    pub answered: bool,
}

/// What makes an agent call Rappel.
#[derive(Debug)]
pub enum Hooks {
    /// Handlers in a settings file of that syntax, event by event. The text is how the user knows
    /// that file.
    Handlers(Syntax, fn(&Caller, Scope, &str) -> Vec<(&'static str, Group)>),
    /// A script that is ours alone. Its line that ends with the vendor's mark says what it calls.
    Script(fn(&Caller, Scope) -> String),
}

/// Where an agent keeps its servers for MCP.
#[derive(Debug)]
pub enum Servers {
    /// In the settings file that has the hooks: how it starts ours.
    WithHooks(fn(&Caller) -> serde_json::Value),
    /// Elsewhere.
    Apart(fn(&Place) -> Result<Registry, NotText>),
}

/// The folder of the user's own settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFolder {
    /// Where it is.
    pub path: PathBuf,
    /// The user chose it by an environment variable.
    pub is_chosen: bool,
}

/// Where the files of a scope are.
#[derive(Debug, Clone)]
pub struct Place {
    /// Whose they are.
    pub vendor: &'static Vendor,
    /// For whom they count.
    pub scope: Scope,
    /// The agent's folder.
    pub folder: PathBuf,
    /// The project's.
    pub root: PathBuf,
    /// That of the user's own settings.
    pub user: UserFolder,
}

impl Place {
    /// The place of a scope, for a workspace and the folder in which the agent keeps the user's own
    /// settings.
    pub fn new(vendor: &'static Vendor, scope: Scope, root: &Path, user: &UserFolder) -> Self {
        let folder = match scope {
            Scope::Local | Scope::Shared => root.join(vendor.layout.project),
            Scope::User => user.path.clone(),
        };
        Self { vendor, scope, folder, root: root.to_owned(), user: user.clone() }
    }

    /// The same of another scope.
    #[must_use]
    pub fn of(&self, scope: Scope) -> Self {
        Self::new(self.vendor, scope, &self.root, &self.user)
    }

    /// The file with the hooks.
    pub fn settings(&self) -> PathBuf {
        self.folder.join(self.file_name())
    }

    /// Where the files of commands are.
    pub fn commands(&self) -> Option<PathBuf> {
        let commands = self.vendor.layout.commands.as_ref()?;
        Some(self.folder.join(commands.folder))
    }

    /// Where the skill is.
    pub fn skill(&self) -> PathBuf {
        self.folder.join(self.vendor.layout.skill)
    }

    /// The folders that are ours alone.
    fn own_folders(&self) -> Vec<PathBuf> {
        self.commands().into_iter().chain([self.skill()]).collect()
    }

    fn file_name(&self) -> &'static str {
        (self.vendor.layout.hooks)(self.scope)
    }

    /// What git passes over in the folder of the hooks.
    fn listing(&self) -> PathBuf {
        self.settings().with_file_name(".gitignore")
    }

    /// Whether one file has the hooks of this scope and of the other one of the project.
    fn is_shared_file(&self) -> bool {
        self.neighbour().is_some_and(|one| one.settings() == self.settings())
    }

    /// The other scope whose files are in the same folder.
    fn neighbour(&self) -> Option<Self> {
        let scope = match self.scope {
            Scope::Local => Scope::Shared,
            Scope::Shared => Scope::Local,
            Scope::User => return None,
        };
        Some(Self { scope, ..self.clone() })
    }

    fn unfit(&self) -> impl FnOnce(Unfit) -> IntegrateError {
        let path = self.settings();
        |unfit| IntegrateError::Unfit { path, unfit }
    }

    /// What a text of the file with the hooks has of ours.
    fn present(&self, text: &str) -> Result<Present, Unfit> {
        let mark = self.vendor.mark;
        match self.vendor.hooks {
            Hooks::Handlers(..) => hook_settings::present(text, self.form()),
            Hooks::Script(_) => {
                let line = text.lines().find(|line| line.ends_with(mark));
                let caller = line.and_then(|line| Caller::of_line(line, mark));
                Ok(Present { caller, scope: line.map(Scope::of_line), ..Present::default() })
            }
        }
    }

    fn form(&self) -> Form {
        let syntax = match self.vendor.hooks {
            Hooks::Handlers(syntax, _) => syntax,
            Hooks::Script(_) => Syntax::Plain,
        };
        Form { mark: self.vendor.mark, syntax }
    }

    /// The events that the file should have hooks of ours for and has not.
    fn missing(&self, found: &Present, caller: &Caller) -> Vec<&'static str> {
        let Hooks::Handlers(_, groups) = self.vendor.hooks else { return Vec::new() };
        let events = groups(caller, self.scope, "").into_iter().map(|(event, _)| event);
        events.filter(|event| !found.events.iter().any(|there| there == event)).collect()
    }

    /// What that file has of ours now.
    fn found(&self) -> Result<Present> {
        let text = files::read(&self.settings())?.unwrap_or_default();
        self.present(&text).map_err(self.unfit())
    }
}

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
    let listed = made_here(place, &records.of(&place.folder));
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

/// The names of the files beside the hooks that were made by us.
fn made_here(place: &Place, record: &Record) -> Vec<String> {
    let (folder, file) = place.file_name().rsplit_once('/').unwrap_or(("", place.file_name()));
    let made = record.settings.iter().filter(|(_, done)| !done.existed);
    let here = made.filter_map(|(name, _)| {
        let (there, name) = name.rsplit_once('/').unwrap_or(("", name));
        (there == folder).then(|| name.to_owned())
    });
    let mut here: Vec<String> = here.collect();
    // Without a record, our list says it.
    if !record.settings.contains_key(place.file_name()) && is_rappels(&place.listing()) {
        here.push(file.to_owned());
    }
    here
}

/// What the file with the hooks shall have.
enum Text {
    /// With that by which our server is known, where servers stand there too.
    Settings(Wanted, Option<Known>),
    Script(String),
}

/// What is asked for, and what was asked for before and is there.
fn wanted(
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
fn new_text(
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
fn is_the_users(text: Option<&str>) -> bool {
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
    let mut is_left = false;
    let changed = files::update(&path, files::ORDINARY, |text| {
        let after = match text {
            None => None,
            Some(text) => text_without(text, place, remembered.as_ref(), server.as_ref())?,
        };
        is_left = after.is_some();
        Ok::<_, IntegrateError>(after)
    })?;
    if changed {
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

/// The text without anything of ours; nothing at all if the file was ours.
fn text_without(
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

/// Writes the commands, the skill and all else of ours as the hooks of these places need them;
/// removes them if none do. `listed` are the files beside the hooks that git need not list.
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
    // What is in the repository must not name a path of this machine.
    let caller = present.remove(&Scope::Shared);
    let only_here = caller.is_none() && place.scope != Scope::User;
    let caller = caller.or_else(|| present.into_values().next());

    let others = (place.vendor.layout.others)(place, caller.as_ref().unwrap_or(&Caller::on_path()));
    let mut wanted = BTreeMap::new();
    let mut paths: BTreeSet<PathBuf> = others.iter().map(|(path, _)| path.clone()).collect();
    if let Some(caller) = &caller {
        wanted.extend(others.into_iter().map(|(path, text)| (path, Content::Text(text))));
        if let (Some(commands), Some(folder)) = (&place.vendor.layout.commands, place.commands()) {
            for slash in SLASHES {
                let path = folder.join(format!("{}.{}", slash.name, commands.extension));
                wanted.insert(path, Content::Command(commands, slash));
            }
        }
        wanted.insert(place.skill().join(skill::FILE), Content::Text(skill::text(caller)));
    }
    // Where one file is for both scopes, and was not there before, git need not list it.
    let listing = place.listing();
    if place.is_shared_file() {
        paths.insert(listing.clone());
    }
    if caller.is_some() && only_here {
        for folder in place.own_folders() {
            wanted.insert(folder.join(".gitignore"), Content::Text(skill::git_ignore()));
        }
        if place.is_shared_file() && !listed.is_empty() {
            let names: String = listed.iter().map(|name| format!("/{name}\n")).collect();
            let text = owned::sealed("", &format!("{names}/.gitignore\n"));
            wanted.insert(listing, Content::Text(text));
        }
    }
    paths.extend(wanted.keys().cloned().chain(files_in(place)));
    let new_word = delimiter();
    for path in paths {
        let (mut before, mut kept) = (false, false);
        let content = wanted.get(&path).zip(caller.as_ref());
        let changed = files::update::<IntegrateError>(&path, files::ORDINARY, |text| {
            before = text.is_some();
            kept = is_the_users(text);
            let word = text.and_then(delimiter_of).unwrap_or(&new_word);
            Ok(match kept {
                true => text.map(str::to_owned),
                false => content.map(|(content, caller)| content.text(caller, word)),
            })
        })?;
        let is_listing = path.file_name().is_some_and(|name| name == ".gitignore");
        if kept && (content.is_some() || caller.is_none()) {
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

/// What one of our files holds.
enum Content {
    Command(&'static Commands, &'static Slash),
    Text(String),
}

impl Content {
    fn text(&self, caller: &Caller, delimiter: &str) -> String {
        match self {
            Self::Command(commands, slash) => (commands.text)(slash, caller, delimiter),
            Self::Text(text) => text.clone(),
        }
    }
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

/// An integration that was found.
#[derive(Debug, Clone)]
pub struct Installed {
    /// Whose.
    pub vendor: &'static Vendor,
    /// For whom.
    pub scope: Scope,
    /// The file with the hooks.
    pub settings: PathBuf,
    /// The program that its hooks call.
    pub program: Program,
    /// That program is there and may be run.
    pub works: bool,
    /// The files of all commands and of the skill are there, whoever wrote them.
    pub whole: bool,
    /// The events whose hooks are not there.
    pub missing: Vec<&'static str>,
    /// What keeps the agent from running the hooks, or one of them.
    pub switched_off: Option<Switch>,
    /// Whether the agent runs the hooks, as far as it asks its user.
    pub trust: Trust,
}

/// Which integrations of an agent there are for a workspace. `user` is the folder of the user's own
/// settings, `path` the folders in which a shell looks for programs. A file that cannot be read has
/// none.
pub fn installed(
    vendor: &'static Vendor,
    root: &Path,
    user: &UserFolder,
    path: &[PathBuf],
) -> Vec<Installed> {
    let mut found: Vec<Installed> = Vec::new();
    for scope in Scope::ALL {
        let place = Place::new(vendor, scope, root, user);
        let settings = place.settings();
        // Two scopes may be one file.
        if found.iter().any(|other| other.settings == settings) {
            continue;
        }
        let Ok(present) = place.found() else { continue };
        let Some(caller) = &present.caller else { continue };
        let program = caller.program().clone();
        found.push(Installed {
            vendor,
            scope: present.scope.unwrap_or(scope),
            missing: place.missing(&present, caller),
            switched_off: (vendor.switched_off)(&place),
            works: program.is_there(path),
            whole: is_whole(&place),
            trust: (vendor.trust)(&place),
            settings,
            program,
        });
    }
    found
}

/// Whether a hook of this scope leaves its events to another one. Agents run the hooks of all
/// scopes, and one event is told once: by the local ones before the shared ones, and by a project's
/// before the user's own.
pub fn stands_aside(
    vendor: &'static Vendor,
    scope: Scope,
    project: &Path,
    user: &UserFolder,
    path: &[PathBuf],
) -> bool {
    let own = Place::new(vendor, scope, project, user).settings();
    let before = Scope::ALL.into_iter().take_while(|other| *other != scope);
    before.map(|scope| Place::new(vendor, scope, project, user)).any(|place| {
        let caller = || place.found().ok().and_then(|found| found.caller);
        // Two scopes may be one file.
        place.settings() != own
            && caller().is_some_and(|it| it.program().is_there(path))
            && (vendor.trust)(&place).runs()
    })
}

fn is_whole(place: &Place) -> bool {
    let commands = place.vendor.layout.commands.as_ref().zip(place.commands());
    let commands = commands.into_iter().flat_map(|(commands, folder)| {
        let name = |slash: &Slash| format!("{}.{}", slash.name, commands.extension);
        SLASHES.iter().map(move |slash| folder.join(name(slash)))
    });
    let others = (place.vendor.layout.others)(place, &Caller::on_path());
    let others = others.into_iter().map(|(path, _)| path);
    commands.chain(others).chain([place.skill().join(skill::FILE)]).all(|file| file.is_file())
}
