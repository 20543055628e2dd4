//! An agent's hooks that a restore takes away: the settings file goes back to before `integrate`.
//! Nothing would be saved by itself any more, so both the plan and the answer say so.

use rappel::{Rappel, RestoreReport};
use rappel_hooks::VENDORS;
use rappel_hooks::integrate::{self, Installed};
use rappel_types::{ActionKind, RelPath};

use super::restore::exactly;
use crate::process::{self, Context};

/// The integrations whose settings are files of this workspace.
pub fn present(rappel: &Rappel, context: &Context) -> Vec<Installed> {
    let path = process::path_folders();
    let of = |vendor| {
        let user = context.agent_folder(vendor).ok();
        user.map(|user| integrate::installed(vendor, rappel.root(), &user, &path))
    };
    let mut found: Vec<Installed> = VENDORS.into_iter().filter_map(of).flatten().collect();
    found.retain(|one| path_of(one, rappel).is_some());
    found
}

/// Warnings about the hooks that a planned restore would take away.
pub fn foreseen(report: &RestoreReport, rappel: &Rappel, context: &Context) -> Vec<String> {
    let is_lost = |one: &&Installed| {
        let path = path_of(one, rappel);
        let action =
            report.full_plan.actions.iter().find(|action| Some(&action.path) == path.as_ref());
        match action.map(|action| (action.action, &action.path)) {
            Some((ActionKind::Delete, _)) => true,
            Some((ActionKind::Overwrite, path)) => !has_hooks(one, report, path, rappel),
            Some((ActionKind::Create | ActionKind::Skip, _)) | None => false,
        }
    };
    present(rappel, context).iter().filter(is_lost).map(|one| warning(one, context)).collect()
}

/// Warnings about the hooks that were there before a restore and are not there after it.
pub fn lost(before: &[Installed], rappel: &Rappel, context: &Context) -> Vec<String> {
    let after = present(rappel, context);
    let is_lost = |one: &&Installed| !after.iter().any(|other| other.settings == one.settings);
    before.iter().filter(is_lost).map(|one| warning(one, context)).collect()
}

/// Whether the checkpoint's version of a settings file has hooks of ours.
fn has_hooks(one: &Installed, report: &RestoreReport, path: &RelPath, rappel: &Rappel) -> bool {
    let mut text = Vec::new();
    let read = rappel.cat(&exactly(&report.checkpoint), path, &mut text);
    read.is_ok() && String::from_utf8_lossy(&text).contains(one.vendor.mark)
}

fn path_of(one: &Installed, rappel: &Rappel) -> Option<RelPath> {
    let inside = one.settings.strip_prefix(rappel.root()).ok()?;
    RelPath::new(inside.as_os_str().as_encoded_bytes()).ok()
}

fn warning(one: &Installed, context: &Context) -> String {
    let again = context.suggest(&format!("integrate {}{}", one.vendor.name, one.scope.flag()));
    format!(
        "this restore takes Rappel's hooks out of {}; without them nothing is saved by itself. To \
         put them back: {again}",
        one.settings.display()
    )
}
