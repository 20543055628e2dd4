//! Where an agent's files are, and what they have of ours now. Everything here reads at most.

use std::path::{Path, PathBuf};

use super::{IntegrateError, Result};
use crate::Vendor;
use crate::caller::{Caller, Group, NotText};
use crate::files;
use crate::hook_settings::{self, Form, Present};
use crate::json_text::{Syntax, Unfit};
use crate::scope::Scope;
use crate::servers::Registry;
use crate::typed::Slash;

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
    /// Besides the hooks of the folder in which it works, it runs those of the folders above, up to
    /// the repository's.
    pub looks_above: bool,
    /// The agent's folder in which it reads the hooks of a place, where that is another one.
    pub elsewhere: fn(&Place) -> Option<PathBuf>,
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

    /// The places of a scope whose hooks an agent runs that works in a folder.
    pub fn read_from(
        vendor: &'static Vendor,
        scope: Scope,
        folder: &Path,
        user: &UserFolder,
    ) -> Vec<Self> {
        let has_git = |above: &&Path| above.join(".git").exists();
        let repository = folder.ancestors().find(has_git).filter(|_| vendor.layout.looks_above);
        let last = repository.filter(|_| scope != Scope::User).unwrap_or(folder);
        let folders = folder.ancestors().take_while(|above| above.starts_with(last));
        folders.filter_map(|root| Self::new(vendor, scope, root, user).read()).collect()
    }

    /// The place whose hooks the agent reads instead of this one's; nothing if it reads none. An
    /// agent that reads them elsewhere does so only where this place has its folder too.
    pub fn read(self) -> Option<Self> {
        match (self.vendor.layout.elsewhere)(&self) {
            None => Some(self),
            Some(folder) => self.folder.is_dir().then_some(Self { folder, ..self }),
        }
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
    pub(super) fn own_folders(&self) -> Vec<PathBuf> {
        self.commands().into_iter().chain([self.skill()]).collect()
    }

    pub(super) fn file_name(&self) -> &'static str {
        (self.vendor.layout.hooks)(self.scope)
    }

    /// What git passes over in the folder of the hooks.
    pub(super) fn listing(&self) -> PathBuf {
        self.settings().with_file_name(".gitignore")
    }

    /// Whether one file has the hooks of this scope and of the other one of the project.
    pub(super) fn is_shared_file(&self) -> bool {
        self.neighbour().is_some_and(|one| one.settings() == self.settings())
    }

    /// The other scope whose files are in the same folder.
    pub(super) fn neighbour(&self) -> Option<Self> {
        let scope = match self.scope {
            Scope::Local => Scope::Shared,
            Scope::Shared => Scope::Local,
            Scope::User => return None,
        };
        Some(Self { scope, ..self.clone() })
    }

    pub(super) fn unfit(&self) -> impl FnOnce(Unfit) -> IntegrateError {
        let path = self.settings();
        |unfit| IntegrateError::Unfit { path, unfit }
    }

    /// What a text of the file with the hooks has of ours.
    pub(super) fn present(&self, text: &str) -> Result<Present, Unfit> {
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

    pub(super) fn form(&self) -> Form {
        let syntax = match self.vendor.hooks {
            Hooks::Handlers(syntax, _) => syntax,
            Hooks::Script(_) => Syntax::Plain,
        };
        Form { mark: self.vendor.mark, syntax }
    }

    /// The events that the file should have hooks of ours for and has not.
    pub(super) fn missing(&self, found: &Present, caller: &Caller) -> Vec<&'static str> {
        let Hooks::Handlers(_, groups) = self.vendor.hooks else { return Vec::new() };
        let events = groups(caller, self.scope, "").into_iter().map(|(event, _)| event);
        events.filter(|event| !found.events.iter().any(|there| there == event)).collect()
    }

    /// What that file has of ours now.
    pub(super) fn found(&self) -> Result<Present> {
        let text = files::read(&self.settings())?.unwrap_or_default();
        self.present(&text).map_err(self.unfit())
    }
}
