//! Which integrations there are, and which hooks of theirs run.

use std::path::{Path, PathBuf};

use rappel::hook::{Switch, Trust};

use super::place::{Place, UserFolder};
use crate::Vendor;
use crate::caller::{Caller, Program};
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
