//! Git at work in a repository while a restore would change its files.

use std::path::PathBuf;

use rappel_capture::git::apply::path_of;
use rappel_capture::git::{Place, State, folder_of};
use rappel_types::{ActionKind, Plan};

use crate::error::{Error, Result};
use crate::rappel::Rappel;

impl Rappel {
    /// A command of git that changes index or files holds `index.lock`. Whatever it is about to write
    /// would mix with what a restore writes, so nothing is changed while it does.
    pub(crate) fn refuse_while_git_works(&self, plan: &Plan, present: &[State]) -> Result<()> {
        let changes = |state: &&State| {
            let own = plan.git.repositories.iter().find(|one| one.path == state.path);
            let mut actions = plan.actions.iter().filter(|one| one.action != ActionKind::Skip);
            own.is_some_and(|one| !one.is_empty())
                || actions.any(|one| state.path.as_ref().is_none_or(|at| one.path.is_within(at)))
        };
        let places = present.iter().filter(changes).filter_map(|state| {
            let folder = folder_of(&self.root, state.path.as_ref());
            Some(Place::find(&folder, &self.options.environment)?.git_dir)
        });
        let worktrees = plan.git.repositories.iter().flat_map(|one| {
            let admin = path_of(&one.common_dir).join("worktrees");
            let changed = one.worktrees.iter().filter(|worktree| !worktree.actions.is_empty());
            changed.map(move |worktree| admin.join(path_of(&worktree.name)))
        });
        let mut locks = places.chain(worktrees).map(|folder: PathBuf| folder.join("index.lock"));
        match locks.find(|lock| lock.symlink_metadata().is_ok()) {
            None => Ok(()),
            Some(lock) => Err(Error::Restore(rappel_capture::restore::Error::index_locked(&lock))),
        }
    }
}
