//! The other work trees of a repository, in a restore: those that are gone come back, those that are
//! asked for are brought to their other state.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_capture::git::apply::path_of;
use rappel_capture::git::{State, linked};
use rappel_capture::restore::{RootProbe, Scope, Side, plan_files};
use rappel_store::beneath::Root;
use rappel_store::document::UndoWorktree;
use rappel_store::held;
use rappel_store::sink::Source;
use rappel_store::tree::{self, Change};
use rappel_types::git::{RepositoryPlan, WorktreePart, WorktreePlan};
use rappel_types::manifest::{FilesPart, PartialReason};
use rappel_types::plan::Conflict;
use rappel_types::{ActionKind, FacetState, Node, RelPath};
use rappel_types::{Advice, Remark};

use super::plan::{GitPlanned, GitWish};
use crate::destructive::{Fate, fate};
use crate::error::Result;
use crate::rappel::Rappel;
use crate::restore::RecordedRules;

/// So many files that change in a work tree are named.
const NAMED: usize = 20;

impl Rappel {
    /// The other work trees that a restore brings back: those that are gone, those that lost their
    /// link, and those asked for. Of an undo: just those that are taken back.
    pub(super) fn returning(
        (here, there): (&State, &State),
        common_dir: &Path,
        wish: &GitWish,
        planned: &mut GitPlanned,
    ) -> Vec<Returning> {
        let mut found = Vec::new();
        if there.part.linked.is_some() {
            return found;
        }
        let touched = wish.touched_at(there.path.as_ref());
        for part in &there.part.worktrees {
            let Some(files) = &part.files else { continue };
            let admin = common_dir.join("worktrees").join(path_of(&part.name));
            let stands = Stands::at(&path_of(&part.path), &admin);
            let touched =
                touched.map(|touched| touched.worktrees.iter().find(|one| one.name == part.name));
            let asked = match touched {
                // One of which nothing but the link is named was not asked for.
                Some(touched) => {
                    let only_linked = |one: &UndoWorktree| one.link || one.admin;
                    touched
                        .is_some_and(|one| one.whole || !one.paths.is_empty() || !only_linked(one))
                }
                None => wish.worktrees.iter().any(|name| name == "all" || *name == part.name),
            };
            let linked = touched.map(|touched| touched.is_some_and(|one| one.link));
            let was_admin = touched.map(|touched| touched.is_some_and(|one| one.admin));
            let own = path_of(&part.name);
            let lost_admin = !here.files.is_empty()
                && !linked::is_there(here, own.as_os_str().as_bytes())
                && was_admin.unwrap_or(true);
            let known = here.part.worktrees.iter().find(|now| now.name == part.name);
            let is_known = known.is_some_and(|now| now.path == part.path);
            // Where a folder stood empty, there is nothing to bring back to it.
            let empty = touched.is_some() && files.count == 0;
            let mut returning = Returning {
                part: part.clone(),
                files: files.clone(),
                create: false,
                relink: false,
                unlink: false,
                admin: false,
                asked,
                now: known.and_then(|now| now.files.clone()),
                paths: touched.flatten().filter(|one| !one.whole).map(|one| {
                    let paths = one.paths.iter();
                    paths.cloned().collect()
                }),
            };
            let (name, place) = (&part.name, &part.path);
            // Its HEAD and index would be those of another one.
            let elsewhere = known.filter(|now| now.path != part.path && touched.is_none());
            if let Some(now) = elsewhere {
                let reason = format!(
                    "the work tree {name} was in {place}; one of that name is in {} now",
                    now.path
                );
                match linked::folder_of(own.as_os_str().as_bytes()) {
                    Some(path) if asked => planned.conflicts.push(Conflict::of_git(path, reason)),
                    _ => planned.warnings.push(format!("{reason}, and it is left as it is")),
                }
                continue;
            }
            match stands {
                Stands::Gone => {
                    returning.create = touched.is_none() || asked;
                    returning.asked = returning.create;
                    if !returning.create || empty {
                        continue;
                    }
                }
                // Its files lead to a folder of git's that is gone: that comes back, with what is
                // staged there. The files themselves are in no safety checkpoint and stay.
                Stands::Linked if lost_admin => {
                    if asked && touched.is_none() {
                        planned.warnings.push(format!(
                            "the work tree {name} in {place} had lost git's folder of it when the \
                             restore began, so its files stay as they are; restore again to bring \
                             them back too"
                        ));
                    }
                    returning.asked = true;
                    returning.admin = true;
                    returning.paths = Some(HashSet::new());
                }
                Stands::Linked | Stands::Unlinked if is_known => {
                    let is_linked = stands == Stands::Linked;
                    returning.relink = !is_linked && linked.unwrap_or(true);
                    returning.unlink = is_linked && linked.unwrap_or(false);
                    let links = returning.relink || returning.unlink;
                    if !links && (!asked || empty) {
                        continue;
                    }
                    if !asked {
                        returning.paths = Some(HashSet::new());
                    }
                }
                Stands::Taken(what) if asked && touched.is_none() => {
                    if let Ok(path) = RelPath::new([b"worktrees/", name.as_bytes()].concat()) {
                        let reason =
                            format!("{what} stands in the place of the work tree, {place}");
                        planned.conflicts.push(Conflict::of_git(path, reason));
                    }
                    continue;
                }
                _ if touched.is_some() => continue,
                Stands::Taken(what) => {
                    planned.warnings.push(format!(
                        "the work tree {name} was in {place}, where {what} stands now; it is not brought back"
                    ));
                    continue;
                }
                // What no safety checkpoint holds is not overwritten.
                _ if asked => {
                    planned.warnings.push(format!(
                        "the work tree {name} in {place} was not linked to its repository when the restore \
                         began, so its files stay as they are; restore again to bring them back too"
                    ));
                    continue;
                }
                Stands::Unlinked => {
                    planned.warnings.push(format!(
                        "the work tree {name} was in {place}; a folder with files stands there that belongs \
                         to no repository, and it stays as it is"
                    ));
                    continue;
                }
                Stands::Linked => continue,
            }
            found.push(returning);
        }
        found
    }

    /// Says which work trees lack ignored files that the checkpoint holds, and how they come back: of
    /// a work tree that stands, a restore changes only what was asked for.
    pub(super) fn say_ignored_and_missing(
        source: &dyn Source,
        (here, there): (&State, &State),
        wish: &GitWish,
        planned: &mut GitPlanned,
    ) -> Result<()> {
        let is_asked = |name: &str| wish.worktrees.iter().any(|one| one == "all" || one == name);
        if wish.touched.is_some() {
            return Ok(());
        }
        for part in there.part.worktrees.iter().filter(|part| !is_asked(&part.name)) {
            let now = worktree_of(here, &part.name).and_then(|now| now.files.as_ref());
            let (Some(now), Some(files)) = (now, &part.files) else { continue };
            if now.tree == files.tree {
                continue;
            }
            let rules = RecordedRules::of(source, files)?;
            let folder = path_of(&part.path);
            let (mut missing, mut other) = (0, 0);
            for change in tree::diff(source, &now.tree, &files.tree)? {
                let file = change
                    .new
                    .filter(|node| matches!(node, Node::File { .. } | Node::Symlink { .. }));
                let Some(file) = file.filter(|_| !rules.selects(&change.path, false)) else {
                    continue;
                };
                match fate(&folder.join(OsStr::from_bytes(change.path.as_bytes())), &file) {
                    Fate::Gone => missing += 1,
                    Fate::Overwritten => other += 1,
                    Fate::Unchanged => {}
                }
            }
            let (name, place) = (&part.name, &part.path);
            let files = |count: usize| match count {
                1 => "1 file".to_owned(),
                many => format!("{many} files"),
            };
            for (count, has) in [(missing, "lacks"), (other, "has another content of")] {
                if count > 0 {
                    let text = format!(
                        "the work tree {name} in {place} {has} {} that git ignores and this \
                         checkpoint holds",
                        files(count)
                    );
                    let advice = Advice::RestoreWorktree { name: name.clone() };
                    planned.warnings.push(Remark::new(text, advice));
                }
            }
        }
        Ok(())
    }

    pub(super) fn plan_worktree(
        &self,
        source: &dyn Source,
        returning: &Returning,
        left: Option<&State>,
        one: &mut RepositoryPlan,
        planned: &mut GitPlanned,
    ) -> Result<()> {
        let Returning { part, files, create, relink, unlink, admin, now, paths, .. } = returning;
        let mut actions = Vec::new();
        if let (false, Some(now)) = (*create, now) {
            let folder = path_of(&part.path);
            let mut changes = tree::diff(source, &now.tree, &files.tree)?;
            if let Some(paths) = paths {
                changes.retain(|change| paths.contains(&change.path));
                let left = left.and_then(|left| worktree_of(left, &part.name)?.files.as_ref());
                if let Some(left) = left {
                    keep_edited(source, left, now, part, &mut changes, &mut planned.edited)?;
                }
            }
            let sides = (now, files);
            // What an undo takes back the restore made, whatever the rules say.
            let by_rules = paths.is_none();
            let wanted = (&changes[..], by_rules);
            let plan = self.plan_worktree_files(source, &folder, sides, wanted, &planned.blind)?;
            actions = plan.actions.into_iter().filter(|a| a.action != ActionKind::Skip).collect();
            planned.conflicts.extend(plan.conflicts);
            planned.warnings.extend(plan.warnings);
        }
        let mut what = Vec::new();
        if *create {
            what.push(format!("made again with {} files", files.count));
        }
        if *admin {
            what.push("git's folder of it is put back".into());
        }
        if *relink {
            what.push("linked again to its repository".into());
        }
        if *unlink {
            what.push("not linked to its repository, as it was".into());
        }
        match actions.len() {
            0 => {}
            1 => what.push("1 file changes".into()),
            many => what.push(format!("{many} files change")),
        }
        if !what.is_empty() {
            let prefix = one.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
            let what = what.join(", ");
            planned
                .details
                .push(format!("{prefix}work tree {} in {}: {what}", part.name, part.path));
        }
        planned.details.extend(actions.iter().take(NAMED).map(|action| {
            let what = match action.action {
                ActionKind::Create => "new",
                ActionKind::Delete => "deleted",
                _ => "changed",
            };
            format!("  {}: {what}", action.path)
        }));
        if actions.len() > NAMED {
            planned.details.push(format!("  and {} more", actions.len() - NAMED));
        }
        one.worktrees.push(WorktreePlan {
            name: part.name.clone(),
            path: part.path.clone(),
            create: *create,
            remove: false,
            relink: *relink,
            unlink: *unlink,
            tree: files.tree,
            actions,
        });
        Ok(())
    }

    fn plan_worktree_files(
        &self,
        source: &dyn Source,
        folder: &Path,
        (now, then): (&FilesPart, &FilesPart),
        (changes, by_rules): (&[Change], bool),
        blind: &[PartialReason],
    ) -> Result<rappel_types::Plan> {
        let rules = RecordedRules::of(source, then)?;
        let root = Root::open(folder, self.options.disk.clone())?;
        let here = Side { state: FacetState::Captured, skipped: &now.skipped, partial: &[] };
        let there = Side { state: FacetState::Captured, skipped: &then.skipped, partial: blind };
        let selects = |path: &RelPath, is_folder: bool| !by_rules || rules.selects(path, is_folder);
        let root = RootProbe(&root);
        let mut plan = plan_files(&here, &there, changes, &Scope::All, &selects, &root)?;
        plan.warnings.extend(rules.warning());
        Ok(plan)
    }
}

/// What stands where another work tree was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// Nothing, or an empty folder.
    Gone,
    /// A folder that leads to its repository.
    Linked,
    /// A folder with files that leads nowhere.
    Unlinked,
    /// Something else, in words.
    Taken(&'static str),
}

impl Stands {
    fn at(folder: &Path, admin: &Path) -> Self {
        use std::io::ErrorKind::NotFound;
        let here = match folder.symlink_metadata() {
            Ok(here) => here,
            Err(error) if error.kind() == NotFound => return Self::Gone,
            Err(_) => return Self::Taken("something that is no folder"),
        };
        if here.is_symlink() {
            return Self::Taken("a link");
        }
        if !here.is_dir() {
            return Self::Taken("a file");
        }
        match std::fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
            Ok(true) => return Self::Gone,
            Ok(false) => {}
            Err(_) => return Self::Taken("a folder that cannot be read"),
        }
        match held::read(folder.join(".git")) {
            Err(error) if error.kind() == NotFound => Self::Unlinked,
            Ok(text) => {
                let leads = text.strip_prefix(b"gitdir: ").unwrap_or_default().trim_ascii_end();
                let leads = folder.join(OsStr::from_bytes(leads));
                let real = |path: &Path| path.canonicalize().ok();
                let is_ours =
                    leads == admin || real(&leads).is_some_and(|at| Some(at) == real(admin));
                match is_ours {
                    true => Self::Linked,
                    false if !text.starts_with(b"gitdir: ") => {
                        Self::Taken("a folder whose .git file leads nowhere (move that file aside)")
                    }
                    false => Self::Taken("another repository's work tree"),
                }
            }
            Err(_) => Self::Taken("another repository"),
        }
    }
}

/// Another work tree that a restore brings back.
#[allow(clippy::struct_excessive_bools, reason = "each is a step of its own")]
pub(super) struct Returning {
    pub part: WorktreePart,
    files: FilesPart,
    create: bool,
    relink: bool,
    unlink: bool,
    /// Whether git's own folder of it comes back.
    admin: bool,
    /// Whether HEAD, index and files come with it.
    pub asked: bool,
    now: Option<FilesPart>,
    /// If given: only these paths.
    paths: Option<HashSet<RelPath>>,
}

/// A work tree of a repository, by name.
pub(super) fn worktree_of<'a>(state: &'a State, name: &str) -> Option<&'a WorktreePart> {
    state.part.worktrees.iter().find(|part| part.name == name)
}

/// Takes out what was edited since a restore left it, and is not as it would be made anyway.
fn keep_edited(
    source: &dyn Source,
    left: &FilesPart,
    now: &FilesPart,
    part: &WorktreePart,
    changes: &mut Vec<Change>,
    edited: &mut Vec<Conflict>,
) -> Result<()> {
    let since = tree::diff(source, &left.tree, &now.tree)?;
    let since: HashSet<&RelPath> = since.iter().map(|change| &change.path).collect();
    changes.retain(|change| {
        let kept = since.contains(&change.path);
        if kept {
            let reason = format!("edited since in the work tree {}, kept", part.name);
            edited.push(Conflict::of_git(change.path.clone(), reason));
        }
        !kept
    });
    Ok(())
}
