//! Which integrations there are, and which hooks of theirs run.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use rappel::hook::{Switch, Trust};
use serde::Deserialize;

use super::place::{Hooks, Place, UserFolder};
use crate::Vendor;
use crate::caller::{Caller, Program};
use crate::hook_settings::Present;
use crate::scope::Scope;
use crate::skill;
use crate::typed::{SLASHES, Slash};

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
        let Some(place) = Place::new(vendor, scope, root, user).read() else { continue };
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
            switched_off: (vendor.switched_off)(&place, None),
            works: program.is_there(path),
            whole: is_whole(&place),
            trust: (vendor.trust)(&place, None),
            settings,
            program,
        });
    }
    found
}

/// A hook that was called.
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    /// Whose settings it stands in.
    pub scope: Scope,
    /// The folder in which the agent works.
    pub folder: &'a Path,
    /// That of the user's own settings.
    pub user: &'a UserFolder,
    /// What it was given.
    pub payload: &'a [u8],
    /// The agent was started so that it runs hooks that its user has not confirmed.
    pub is_unasked: bool,
}

impl Called<'_> {
    /// Whether it leaves its event to another one. Agents run the hooks of all scopes, and one
    /// event is told once: by the local ones before the shared ones, and by a project's before the
    /// user's own. `path` are the folders in which a shell looks for programs.
    pub fn stands_aside(&self, vendor: &'static Vendor, path: &[PathBuf]) -> bool {
        let before = Scope::ALL.into_iter().take_while(|other| *other != self.scope);
        let mut places =
            before.flat_map(|scope| Place::read_from(vendor, scope, self.folder, self.user));
        let event = LazyCell::new(|| event_name(self.payload));
        places.any(|place| {
            let Ok(found) = place.found() else { return false };
            // Two scopes may be one file, which says for whom it is.
            found.scope.is_some_and(|scope| scope < self.scope)
                && self.is_heard(&place, &found, event.as_deref(), path)
        })
    }

    /// Whether the agent runs what a place has for an event: without a name, for every event.
    fn is_heard(
        &self,
        place: &Place,
        found: &Present,
        event: Option<&str>,
        path: &[PathBuf],
    ) -> bool {
        let vendor = place.vendor;
        let has_event = match (&vendor.hooks, event) {
            (Hooks::Handlers(..), Some(event)) => found.events.iter().any(|other| other == event),
            (Hooks::Handlers(..), None) | (Hooks::Script(_), _) => true,
        };
        let runs = || match (vendor.trust)(place, event) {
            Trust::New | Trust::Changed => self.is_unasked,
            trust => trust.runs(),
        };
        has_event
            && found.caller.as_ref().is_some_and(|caller| caller.program().is_there(path))
            && (vendor.switched_off)(place, event).is_none()
            && runs()
    }
}

/// The name of the event that a payload tells, as settings files of hooks have it.
fn event_name(payload: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        hook_event_name: String,
    }
    serde_json::from_slice::<Named>(payload).ok().map(|named| named.hook_event_name)
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
