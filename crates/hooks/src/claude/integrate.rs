//! `rappel integrate claude` on the disk: settings, command files and skill put in place, taken away, and looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::commands;
use super::handlers::{self, Caller, NotText, Program, Scope};
use super::settings::{self, Wanted};
use crate::files::{self, FileError};
use crate::json_text::Unfit;
use crate::owned::{Owner, owner};
use crate::records::{Record, Records, Settings, checksum};
use crate::typed::{SLASHES, Slash};

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum IntegrateError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A settings file is not what Claude's documentation describes.
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

/// Where the files of a scope are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// For whom they count.
    pub scope: Scope,
    /// Claude's folder.
    pub folder: PathBuf,
}

impl Place {
    /// The place of a scope, for a workspace and the folder in which Claude keeps the user's own
    /// settings.
    pub fn new(scope: Scope, root: &Path, user: &Path) -> Self {
        let folder = match scope {
            Scope::Local | Scope::Shared => root.join(".claude"),
            Scope::User => user.to_owned(),
        };
        Self { scope, folder }
    }

    /// The settings file.
    pub fn settings(&self) -> PathBuf {
        self.folder.join(self.file_name())
    }

    /// Where the files of `/rappel:NAME` are.
    pub fn commands(&self) -> PathBuf {
        self.folder.join("commands/rappel")
    }

    /// Where the skill is.
    pub fn skill(&self) -> PathBuf {
        self.folder.join("skills/rappel")
    }

    fn file_name(&self) -> &'static str {
        match self.scope {
            Scope::Local => "settings.local.json",
            Scope::Shared | Scope::User => "settings.json",
        }
    }

    /// The other scope whose files are in the same folder.
    fn neighbour(&self) -> Option<Self> {
        let scope = match self.scope {
            Scope::Local => Scope::Shared,
            Scope::Shared => Scope::Local,
            Scope::User => return None,
        };
        Some(Self { scope, folder: self.folder.clone() })
    }

    fn unfit(&self) -> impl FnOnce(Unfit) -> IntegrateError {
        let path = self.settings();
        |unfit| IntegrateError::Unfit { path, unfit }
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
    /// The user has a status line already, which was left alone.
    pub other_status_line: bool,
}

impl Changes {
    /// Adds what was changed elsewhere.
    pub fn extend(&mut self, other: Self) {
        self.written.extend(other.written);
        self.removed.extend(other.removed);
        self.kept.extend(other.kept);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.removed.is_empty()
    }

    fn add(&mut self, path: PathBuf, before: bool, after: bool) {
        match after {
            true => self.written.push(path),
            false if before => self.removed.push(path),
            false => {}
        }
    }
}

/// Puts hooks, commands and skill in place.
pub fn install(
    place: &Place,
    caller: &Caller,
    status_line: bool,
    records: &Records,
) -> Result<Changes> {
    if place.folder.to_str().is_none() {
        return Err(NotText(place.folder.clone()).into());
    }
    // What cannot be merged is refused before anything is made.
    let path = place.settings();
    let text = files::read(&path)?;
    let found = settings::present(text.as_deref().unwrap_or_default()).map_err(place.unfit())?;
    let wanted = Wanted {
        groups: handlers::groups(caller, place.scope, &path.display().to_string()),
        status_line: (status_line || found.status_line).then(|| caller.status_line()),
    };
    let mut record = records.of(&place.folder);
    settings_with(text.as_deref(), place, &wanted, &record)?;

    let folders = [place.folder.clone(), place.commands(), place.skill()];
    // The user's own folders may be links.
    if place.scope != Scope::User {
        folders.iter().try_for_each(|folder| stays_inside(place, folder))?;
    }
    for folder in folders {
        record.made.extend(files::make_folder(&folder)?);
    }
    records.keep(&record)?;
    let mut changes = Changes {
        other_status_line: status_line && found.any_status_line && !found.status_line,
        ..Changes::default()
    };
    let changed = files::update(&path, files::ORDINARY, |text| {
        let Some((after, remembered)) = settings_with(text, place, &wanted, &record)? else {
            return Ok(text.map(str::to_owned));
        };
        record.settings.insert(place.file_name().to_owned(), remembered);
        records.keep(&record)?;
        Ok::<_, IntegrateError>(Some(after))
    })?;
    if changed {
        changes.written.push(path);
    }
    put_files(place, &mut changes)?;
    Ok(changes)
}

/// The settings with what is wanted, and what to remember of that; nothing if they have it already.
fn settings_with(
    text: Option<&str>,
    place: &Place,
    wanted: &Wanted,
    record: &Record,
) -> Result<Option<(String, Settings)>> {
    if text.is_some_and(|text| settings::has(text, wanted)) {
        return Ok(None);
    }
    let remembered = record.settings.get(place.file_name());
    let before = match text.map(|text| (text, remembered.and_then(|one| one.before(text)))) {
        None => None,
        Some((_, Some(before))) => before,
        Some((text, None)) => {
            let rest = settings::strip(text).map_err(place.unfit())?;
            let was_made_by_us = is_empty(&rest) && remembered.is_some_and(|one| !one.existed);
            (!was_made_by_us).then_some(rest)
        }
    };
    let merged = settings::merge(before.as_deref().unwrap_or_default(), wanted);
    let merged = merged.map_err(place.unfit())?;
    let remembered = Settings {
        existed: before.is_some(),
        checksum: checksum(&merged.text),
        reverse: merged.reverse,
    };
    Ok(Some((merged.text, remembered)))
}

fn is_empty(settings: &str) -> bool {
    settings.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n', '{', '}']).is_empty()
}

/// A repository that is not trusted must not lead us elsewhere by a link. `.claude` itself may be
/// one.
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
    let mut changes = Changes::default();
    let path = place.settings();
    let mut is_left = false;
    let changed = files::update(&path, files::ORDINARY, |text| {
        let after = match text {
            None => None,
            Some(text) => settings_without(text, place, remembered.as_ref())?,
        };
        is_left = after.is_some();
        Ok::<_, IntegrateError>(after)
    })?;
    if changed {
        changes.add(path, true, is_left);
    }
    put_files(place, &mut changes)?;
    let mut made = record.as_mut().map(|one| std::mem::take(&mut one.made)).unwrap_or_default();
    let ours =
        [place.commands(), place.skill()].into_iter().filter(|folder| !made.contains(folder));
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
        // Nothing of ours is left that the folders could be kept for.
        record.made = if record.settings.is_empty() { Vec::new() } else { left };
        records.keep(&record)?;
    }
    Ok(changes)
}

/// The settings without anything of ours; nothing at all if the file was ours.
fn settings_without(
    text: &str,
    place: &Place,
    remembered: Option<&Settings>,
) -> Result<Option<String>> {
    if let Some(before) = remembered.and_then(|one| one.before(text)) {
        return Ok(before);
    }
    let rest = settings::strip(text).map_err(place.unfit())?;
    let was_ours = rest != text && is_empty(&rest) && remembered.is_none_or(|one| !one.existed);
    Ok((!was_ours).then_some(rest))
}

/// Writes the commands and the skill as the settings that are there now need them; removes them if
/// none do.
fn put_files(place: &Place, changes: &mut Changes) -> Result<()> {
    let mut present = BTreeMap::new();
    for one in std::iter::once(place.clone()).chain(place.neighbour()) {
        // A neighbour that cannot be read was refused when it was integrated, or has been spoilt
        // since.
        if let Some(caller) = caller(&one).unwrap_or_default() {
            present.insert(one.scope, caller);
        }
    }
    // What is in the repository must not name a path of this machine.
    let caller = present.remove(&Scope::Shared);
    let only_here = caller.is_none();
    let caller = caller.or_else(|| present.into_values().next());

    let mut wanted = BTreeMap::new();
    if caller.is_some() {
        for slash in SLASHES {
            let path = place.commands().join(format!("{}.md", slash.name));
            wanted.insert(path, Content::Command(slash));
        }
        wanted.insert(place.skill().join("SKILL.md"), Content::Skill);
        if only_here && place.scope != Scope::User {
            for folder in [place.commands(), place.skill()] {
                wanted.insert(folder.join(".gitignore"), Content::GitIgnore);
            }
        }
    }
    let paths: BTreeSet<PathBuf> = wanted.keys().cloned().chain(files_in(place)).collect();
    let new_word = commands::delimiter();
    for path in paths {
        let (mut before, mut kept) = (false, false);
        let content = wanted.get(&path).zip(caller.as_ref());
        let changed = files::update::<IntegrateError>(&path, files::ORDINARY, |text| {
            before = text.is_some();
            kept = text.is_some_and(|text| owner(text) == Owner::User);
            let word = text.and_then(commands::delimiter_of).unwrap_or(&new_word);
            Ok(match kept {
                true => text.map(str::to_owned),
                false => content.map(|(content, caller)| content.text(caller, word)),
            })
        })?;
        if kept && (content.is_some() || caller.is_none()) {
            changes.kept.push(path);
        } else if changed {
            changes.add(path, before, content.is_some());
        }
    }
    Ok(())
}

/// What one of our files holds.
enum Content {
    Command(&'static Slash),
    Skill,
    GitIgnore,
}

impl Content {
    fn text(&self, caller: &Caller, delimiter: &str) -> String {
        match self {
            Self::Command(slash) => commands::file(slash, caller, delimiter),
            Self::Skill => commands::skill(caller),
            Self::GitIgnore => commands::git_ignore(),
        }
    }
}

/// The files in the folders that are named after us.
fn files_in(place: &Place) -> Vec<PathBuf> {
    let folders = [place.commands(), place.skill()].into_iter();
    let entries = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

/// How the hooks of a settings file call Rappel.
fn caller(place: &Place) -> Result<Option<Caller>> {
    let text = files::read(&place.settings())?.unwrap_or_default();
    Ok(settings::present(&text).map_err(place.unfit())?.caller)
}

/// The settings file that keeps Claude from running any hooks, if there is one.
pub fn hooks_disabled(root: &Path, user: &Path) -> Option<PathBuf> {
    let files = [Scope::Local, Scope::Shared, Scope::User]
        .map(|scope| Place::new(scope, root, user).settings());
    files.into_iter().find(|path| {
        let text = files::read(path).ok().flatten().unwrap_or_default();
        settings::present(&text).is_ok_and(|found| found.hooks_disabled)
    })
}

/// An integration that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// For whom.
    pub scope: Scope,
    /// The settings file.
    pub settings: PathBuf,
    /// The program that its hooks call.
    pub program: Program,
    /// That program is there and may be run.
    pub works: bool,
    /// The files of all commands and of the skill are there, whoever wrote them.
    pub whole: bool,
}

/// Which integrations there are for a workspace. `user` is the folder of the user's own settings, `path` the folders in
/// which a shell looks for programs. A file that cannot be read has none.
pub fn installed(root: &Path, user: &Path, path: &[PathBuf]) -> Vec<Installed> {
    let mut found: Vec<Installed> = Vec::new();
    for scope in [Scope::Local, Scope::Shared, Scope::User] {
        let place = Place::new(scope, root, user);
        let settings = place.settings();
        // In the user's home folder, two scopes are one file.
        if found.iter().any(|other| other.settings == settings) {
            continue;
        }
        if let Ok(Some(caller)) = caller(&place) {
            let program = caller.program().clone();
            let works = is_there(&program, path);
            let whole = is_whole(&place);
            found.push(Installed { scope, settings, program, works, whole });
        }
    }
    found
}

/// Whether a hook of this scope leaves its events to another one. Claude runs the hooks of all
/// scopes, and one event is told once: by the local ones before the shared ones, and by a project's
/// before the user's own.
pub fn stands_aside(scope: Scope, project: &Path, user: &Path, path: &[PathBuf]) -> bool {
    let own = Place::new(scope, project, user).settings();
    let before = match scope {
        Scope::Local => &[][..],
        Scope::Shared => &[Scope::Local],
        Scope::User => &[Scope::Local, Scope::Shared],
    };
    before.iter().map(|scope| Place::new(*scope, project, user)).any(|place| {
        let caller = || caller(&place).ok().flatten();
        // In the user's home folder, two scopes are one file.
        place.settings() != own && caller().is_some_and(|it| is_there(it.program(), path))
    })
}

fn is_whole(place: &Place) -> bool {
    let commands = SLASHES.iter().map(|slash| place.commands().join(format!("{}.md", slash.name)));
    commands.chain([place.skill().join("SKILL.md")]).all(|file| file.is_file())
}

fn is_there(program: &Program, path: &[PathBuf]) -> bool {
    match program {
        Program::At(program) => is_executable(program),
        Program::OnPath => path.iter().any(|folder| is_executable(&folder.join("rappel"))),
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
