//! What a restore would do to repositories, and how that is said.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_capture::git::apply::{lacking, path_of};
use rappel_capture::git::folder::{Role, role};
use rappel_capture::git::plan::{Planned, Prune, Wish, plan, unborn, with_tables};
use rappel_capture::git::program::{Git, is_installed};
use rappel_capture::git::status;
use rappel_capture::git::{LACKS, Place, State, folder_of};
use rappel_store::document::UndoGit;
use rappel_store::sink::Source;
use rappel_types::git::{GitPlan, RepositoryPlan, WorktreePart};
use rappel_types::git_name::is_git;
use rappel_types::manifest::PartialReason;
use rappel_types::path::{escape, unescape};
use rappel_types::plan::Conflict;
use rappel_types::{Action, ActionKind, Facet, FacetState, Manifest, Node, RelPath};
use rappel_types::{Advice, Remark, Remarks};

use super::describe::{describe, named, short_name, shown};
use super::states_in;
use super::unread::Unread;
use crate::error::Result;
use crate::rappel::Rappel;

/// What a restore of repositories is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct GitWish {
    /// Whether refs that were made after the checkpoint are deleted.
    pub prune: bool,
    /// Other work trees to restore, by name; `all` is every one.
    pub worktrees: Vec<String>,
    /// Whether git is asked for every object even where nothing else has changed. That takes as long
    /// as the history is long.
    pub thorough: bool,
    /// If given: just what a restore did is taken back.
    pub touched: Option<Vec<UndoGit>>,
    /// How that restore left the repositories.
    pub left: Vec<State>,
}

impl GitWish {
    /// What a restore did to the repository that starts at `path`, if that is taken back.
    pub fn touched_at(&self, path: Option<&RelPath>) -> Option<&UndoGit> {
        self.touched.as_ref()?.iter().find(|one| one.path.as_ref() == path)
    }

    /// How that restore left it.
    pub fn left_at(&self, path: Option<&RelPath>) -> Option<&State> {
        self.left.iter().find(|state| state.path.as_ref() == path)
    }
}

/// The repositories before a restore.
pub(crate) struct GitPresent {
    pub state: FacetState,
    pub states: Vec<State>,
    /// What could not be looked at.
    pub partial: Vec<PartialReason>,
    /// Whether a checkpoint holds their objects; a dry run looks without storing any.
    pub stored: bool,
}

/// A plan for all repositories, and what to say about it.
#[derive(Debug, Default)]
pub(crate) struct GitPlanned {
    pub plan: GitPlan,
    pub conflicts: Vec<Conflict>,
    /// What is left as it is because it was changed since.
    pub edited: Vec<Conflict>,
    pub warnings: Remarks,
    /// In a sentence.
    pub summary: Option<String>,
    /// The same for other work trees.
    pub worktrees: Option<String>,
    /// Line by line, for people.
    pub details: Vec<String>,
    /// Files that git cannot read and that are put back, by name.
    pub(super) mended: Vec<String>,
    /// Files that git could not read before a restore that is taken back, by name.
    pub(super) spoilt: Vec<String>,
    /// For the list of actions.
    pub actions: Vec<Action>,
    /// What the target did not see of git and its work trees: there nothing is deleted.
    pub(super) blind: Vec<PartialReason>,
}

impl GitPlanned {
    /// Of a checkpoint that came from elsewhere, a restore brings back only the work trees that are
    /// asked for by name, and the plan says where each of them would be.
    fn keep_to_the_workspace(&mut self, states: &mut [State], wish: &GitWish) {
        for state in states {
            for part in std::mem::take(&mut state.part.worktrees) {
                let WorktreePart { name, path: place, .. } = &part;
                if let Some(why) = refused_worktree(state, &part) {
                    self.warnings
                        .push(format!("the work tree {name} in {place} is left out: {why}"));
                    continue;
                }
                if !wish.worktrees.iter().any(|asked| asked == name) {
                    let text = format!(
                        "the work tree {name} was in {place}, where it came from; it is left out"
                    );
                    let advice = Advice::RestoreWorktree { name: name.clone() };
                    self.warnings.push(Remark::new(text, advice));
                    continue;
                }
                let shown = RelPath::new([b"worktrees/", name.as_bytes()].concat());
                self.actions.extend(shown.ok().map(|path| Action {
                    facet: Facet::Git,
                    action: ActionKind::Create,
                    path,
                    reason: format!("it is outside of the workspace, in {place}"),
                    old: None,
                    new: None,
                }));
                state.part.worktrees.push(part);
            }
        }
    }
}

/// Why a work tree of a checkpoint that came from elsewhere is never written: its name and its place
/// are whatever somebody wrote there.
fn refused_worktree(state: &State, part: &WorktreePart) -> Option<&'static str> {
    let place = unescape(&part.path).unwrap_or_default();
    let mut names = place.split(|byte| *byte == b'/');
    let admin = RelPath::new([b"worktrees/", part.name.as_bytes(), b"/gitdir"].concat());
    match admin.ok().map(|admin| state.files.contains_key(&admin)) {
        _ if place.first() != Some(&b'/') => Some("its place is no absolute path"),
        _ if names.any(|name| name == b".." || is_git(name)) => {
            Some("its place lies in a folder of git's own")
        }
        // Lugh records `/.lugh/worktrees/NAME`, without the home in front.
        _ if !has_top_folder(&place) => {
            Some("its place would be a new folder in the root of the file system")
        }
        Some(true) if !part.name.contains('/') => None,
        _ => Some("git's own folder of it did not come along"),
    }
}

/// What becomes of objects of Git LFS. Like git's own they never change and are named by their
/// content, so a restore brings back those that are missing, and an undo leaves them there.
fn large_files((here, there): (&State, &State), left: Option<&State>) -> Option<String> {
    let objects = |state: &State| -> BTreeSet<RelPath> {
        let is_one = |(path, node): &(&RelPath, &Node)| {
            role(path.as_bytes()) == Role::LargeFile && matches!(node, Node::File { .. })
        };
        state.files.iter().filter(is_one).map(|(path, _)| path.clone()).collect()
    };
    let (here, there) = (objects(here), objects(there));
    let come = there.difference(&here).count();
    let stay = left.map_or(0, |left| {
        objects(left).intersection(&here).filter(|path| !there.contains(*path)).count()
    });
    match (come, stay) {
        (0, 0) => None,
        (0, 1) => {
            Some("1 object of Git LFS that came with the restore stays, as git's own do".into())
        }
        (0, stay) => Some(format!(
            "{stay} objects of Git LFS that came with the restore stay, as git's own do"
        )),
        (1, _) => Some("1 object of Git LFS comes back".into()),
        (come, _) => Some(format!("{come} objects of Git LFS come back")),
    }
}

/// Whether the first folder of an absolute path is there.
fn has_top_folder(place: &[u8]) -> bool {
    let mut names = place.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let top = names.next().map(|name| Path::new("/").join(std::ffi::OsStr::from_bytes(name)));
    top.is_some_and(|top| top.is_dir())
}

impl Rappel {
    /// Compares the repositories with those of a checkpoint.
    pub(crate) fn plan_git(
        &self,
        source: &dyn Source,
        present: &GitPresent,
        target: &Manifest,
        wish: &GitWish,
    ) -> Result<GitPlanned> {
        let mut planned = GitPlanned::default();
        let part =
            target.git.as_ref().filter(|_| target.state_of(Facet::Git) == FacetState::Captured);
        if part.is_none() && wish.touched.is_none() {
            return Ok(planned);
        }
        let blind = target.partial_reasons.iter().filter(|reason| reason.facet == Facet::Git);
        planned.blind = blind
            .map(|reason| PartialReason { facet: Facet::Files, path: None, ..reason.clone() })
            .collect();
        if matches!(present.state, FacetState::Failed | FacetState::NotAsked) {
            planned.warnings.push("git could not be captured now, so it is left as it is");
            return Ok(planned);
        }
        let mut states = match part {
            Some(_) => states_in(source, target)?,
            None => Vec::new(),
        };
        if target.is_foreign() {
            planned.keep_to_the_workspace(&mut states, wish);
            planned.warnings.extend(planned.blind.iter().map(|one| format!("git: {}", one.reason)));
        }
        let lacks = present.partial.iter().filter(|one| one.reason.starts_with(LACKS));
        planned.warnings.extend(lacks.map(|one| {
            let name = named(one.path.as_ref());
            format!("{name} is not saved whole before the restore: {}; it keeps these objects as they are", one.reason)
        }));
        let memo = match self.workspace_id() {
            Some(id) => self.load_memo(id)?,
            None => None,
        };
        self.plan_removals(source, present, (target, &states), wish, &mut planned)?;
        for mut there in states {
            let here = present.states.iter().find(|state| state.path == there.path);
            if let (true, Some(here)) = (target.is_foreign(), here) {
                there.with_logs_of(here);
                there.with_index_of(here);
            }
            let path = there.path.as_ref();
            if wish.touched.is_some() && wish.touched_at(path).is_none() {
                continue;
            }
            let folder = folder_of(&self.root, path);
            let environment = &self.options.environment;
            let place = Place::find(&folder, environment)
                .or_else(|| Place::astray(&self.root, path, &there.part, environment));
            if here.is_some() && wish.touched_at(path).is_some_and(|one| one.whole) {
                let reason = format!("{} is there already; it is kept as it is", named(path));
                let shown = path.map_or_else(|| RelPath::new(".git"), |path| path.join(b".git"));
                planned.edited.extend(shown.ok().map(|path| Conflict::of_git(path, reason)));
                continue;
            }
            if let Some(conflict) = self.in_the_way(path) {
                planned.conflicts.push(conflict);
                continue;
            }
            match (here, place) {
                (Some(here), Some(place)) => {
                    let sides = (here, &there);
                    self.plan_repository(source, sides, &place, wish, &mut planned)?;
                    if wish.touched.is_none() {
                        let known = memo.as_ref().and_then(|memo| memo.repository(path));
                        planned.plan_damaged(&there, &place, known);
                    }
                }
                (None, None) => self.plan_creation(source, &there, &folder, wish, &mut planned)?,
                _ => planned.warnings.push(format!(
                    "{} could not be captured now, so it is left as it is",
                    named(there.path.as_ref())
                )),
            }
        }
        if !planned.plan.is_empty() && !is_installed() {
            let words = "the git program is not installed, so git is left as it is";
            return Ok(GitPlanned { warnings: vec![words].into(), ..GitPlanned::default() });
        }
        planned.summarise();
        Ok(planned)
    }

    /// A file or a link where the folder of a repository has to be.
    fn in_the_way(&self, path: Option<&RelPath>) -> Option<Conflict> {
        let path = path?;
        let mut folders: Vec<RelPath> = path.ancestors().collect();
        folders.push(path.clone());
        let taken = |folder: &RelPath| {
            let meta = folder_of(&self.root, Some(folder)).symlink_metadata().ok()?;
            let what = if meta.is_symlink() { "a link" } else { "a file" };
            (!meta.is_dir()).then_some(what)
        };
        let (at, what) = folders.into_iter().find_map(|at| taken(&at).map(|what| (at, what)))?;
        let reason = format!("{what} stands where {} has to be; move it aside", named(Some(path)));
        Some(Conflict::of_git(at, reason))
    }

    fn plan_repository(
        &self,
        source: &dyn Source,
        (here, there): (&State, &State),
        place: &Place,
        wish: &GitWish,
        planned: &mut GitPlanned,
    ) -> Result<()> {
        let returning = Self::returning((here, there), &place.common_dir, wish, planned);
        Self::say_ignored_and_missing(source, (here, there), wish, planned)?;
        let mut own = Wish {
            prune: if wish.prune { Prune::All } else { Prune::Nothing },
            ignore_case: place.ignore_case,
            ..Wish::default()
        };
        let as_bytes = |name: &str| path_of(name).as_os_str().as_bytes().to_vec();
        let with_state = returning.iter().filter(|one| one.asked);
        own.worktrees = with_state.map(|one| as_bytes(&one.part.name)).collect();
        let left = wish.left_at(there.path.as_ref());
        let mut leaving = Vec::new();
        if let Some(touched) = wish.touched_at(there.path.as_ref()) {
            leaving = self.leaving(source, here, Some(there), (touched, left), place, planned)?;
            own.leaving = leaving.iter().map(|one| as_bytes(&one.name)).collect();
            let sides = (here, there);
            own.leaving.extend(planned.leaving_admins(sides, (touched, left), place, source));
            let mut refs: BTreeSet<RelPath> = touched.refs.iter().cloned().collect();
            if let Some(left) = left {
                let moved: Vec<RelPath> = refs
                    .iter()
                    .filter(|name| here.refs.get(*name) != left.refs.get(*name))
                    .filter(|name| here.refs.get(*name) != there.refs.get(*name))
                    .cloned()
                    .collect();
                for name in moved {
                    refs.remove(&name);
                    let reason = "it moved since, kept";
                    planned.edited.push(Conflict::of_git(name, reason));
                }
            }
            own.prune = Prune::Only(refs.clone());
            own.only = Some(refs);
        }
        let mut unread = Unread::find(source, (here, there), place, &own.worktrees, (wish, left));
        if wish.touched.is_some() && planned.blind.iter().any(|one| one.reason.starts_with(LACKS)) {
            unread.spoil_refs((here, there), left, &Git::at(&place.git_dir));
        }
        own.spoilt = unread.paths();
        let mended;
        let here = match unread.mends() {
            true => {
                mended = State { refs: unread.mend.refs.clone(), ..here.clone() };
                &mended
            }
            false => here,
        };
        let Planned { plan: mut one, conflicts, kept } = plan(here, there, &own);
        (one.mends, one.spoils, one.last) = (unread.mends(), unread.spoils(), unread.last());
        planned.say_unread(unread, there.path.as_ref());
        if wish.touched.is_none() {
            planned.say_what_stays((here, there), &own.spoilt);
        }
        // Where git only looked at the files again, that is no reason to touch anything.
        let only_looked = |action: &Action| status::is_same_index(action, place.hash, source);
        if one.refs.is_empty() && one.logs.is_empty() && one.files.iter().all(only_looked) {
            one.files.clear();
        }
        one.path.clone_from(&there.path);
        one.common_dir = escape(place.common_dir.as_os_str().as_bytes());
        one.git_dir = escape(place.git_dir.as_os_str().as_bytes());
        if here.gitfile.is_none() && there.gitfile.is_some() {
            one.relink = true;
            let name = named(there.path.as_ref());
            planned.details.push(format!("{name}: linked again to what is still there of it"));
        }
        let touched = wish.touched_at(there.path.as_ref());
        if here.gitfile.is_some() && there.gitfile.is_none() && touched.is_some_and(|one| one.link)
        {
            one.unlink = true;
        }
        planned.conflicts.extend(conflicts);
        let git = Git::at(&place.git_dir);
        let prefix = there.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
        for step in &one.refs {
            let mut said = describe(step, &git);
            if step.new.is_none() && unborn(there).as_ref() == Some(&step.name) {
                said.text = said.text.replace("deleted,", "back to before its first commit,");
            }
            planned.details.push(format!("{prefix}{}: {}", short_name(&step.name), said.text));
            planned.details.extend(said.titles.into_iter().map(|title| format!("  {title}")));
            planned.actions.push(shown(step, &said.text));
        }
        for (name, reason) in kept {
            planned.actions.push(Action {
                facet: Facet::Git,
                action: ActionKind::Skip,
                path: name,
                reason,
                old: None,
                new: None,
            });
        }
        if place.reftable && !with_tables(here, there, &mut one) && !one.refs.is_empty() {
            planned.warnings.push(
                "refs are kept in tables here, and some stay as they are: reflogs and older stash entries are not brought back",
            );
        }
        if place.reftable {
            one.logs.clear();
        }
        if one.files.iter().any(|action| action.path.name() == b"index") {
            let staged = there.part.staged.len();
            planned.details.push(match staged {
                0 => format!("{prefix}index: as it was, nothing staged"),
                1 => format!("{prefix}index: as it was, {} staged", there.part.staged[0]),
                more => format!("{prefix}index: as it was, {more} files staged"),
            });
        }
        planned
            .details
            .extend(large_files((here, there), left).map(|said| format!("{prefix}{said}")));
        match (&here.part.operation, &there.part.operation) {
            (None, Some(then)) => planned.details.push(format!("{prefix}{then}: under way again")),
            (Some(now), None) => {
                planned.details.push(format!("{prefix}{now}: no longer under way"));
            }
            (Some(now), Some(then)) if now != then => {
                planned.details.push(format!("{prefix}{then} under way instead of {now}"));
            }
            _ => {}
        }
        for returning in returning {
            self.plan_worktree(source, &returning, left, &mut one, planned)?;
        }
        planned.say_leaving(&leaving);
        one.worktrees.extend(leaving);
        if one.is_empty() && wish.thorough && wish.touched.is_none() {
            let come = match lacking(&git, there, source, true).map(|lacking| lacking.len()) {
                Ok(0) => None,
                Ok(1) => Some("1 object comes back that git lacks".to_owned()),
                Ok(many) => Some(format!("{many} objects come back that git lacks")),
                // Where git cannot even answer, something is wrong with them.
                Err(_) => Some("objects come back that git lacks or cannot read".to_owned()),
            };
            one.objects = come.is_some();
            planned.details.extend(come.map(|come| format!("{prefix}{come}")));
        }
        planned.plan.repositories.push(one);
        Ok(())
    }

    /// A repository that is gone is made again.
    fn plan_creation(
        &self,
        source: &dyn Source,
        there: &State,
        folder: &Path,
        wish: &GitWish,
        planned: &mut GitPlanned,
    ) -> Result<()> {
        let name = named(there.path.as_ref());
        let common = match &there.part.git_dir {
            None => folder.join(".git"),
            Some(inside) if !inside.starts_with('/') => self.root.join(path_of(inside)),
            Some(elsewhere) => {
                planned.warnings.push(format!("{name} was in {elsewhere}, which is not restored"));
                return Ok(());
            }
        };
        let link = folder.join(".git").symlink_metadata();
        // A file that leads to what is gone leads there again.
        let leads_there =
            there.gitfile.is_some() && link.as_ref().is_ok_and(std::fs::Metadata::is_file);
        if common.exists() || (link.is_ok() && !leads_there) {
            // A link that leads nowhere is in the way of the one that leads to what is still there.
            let in_the_way = match link.is_ok() && there.gitfile.is_some() {
                true => folder.join(".git"),
                false => common,
            };
            planned.warnings.push(format!(
                "{name} cannot be read any more, so it is left as it is; move {} aside to have it back",
                in_the_way.display()
            ));
            return Ok(());
        }
        let refs = there.refs.len();
        planned.details.push(format!("{name}: made again with its history and {refs} refs"));
        if let Ok(path) =
            there.path.as_ref().map_or_else(|| RelPath::new(".git"), |path| path.join(b".git"))
        {
            planned.actions.push(Action {
                facet: Facet::Git,
                action: ActionKind::Create,
                path,
                reason: "it is gone".into(),
                old: None,
                new: None,
            });
        }
        let mut one = RepositoryPlan {
            path: there.path.clone(),
            common_dir: escape(common.as_os_str().as_bytes()),
            git_dir: escape(common.as_os_str().as_bytes()),
            create: true,
            relink: there.gitfile.is_some() && !leads_there,
            ..RepositoryPlan::default()
        };
        let nothing = State::default();
        for returning in Self::returning((&nothing, there), &common, wish, planned) {
            self.plan_worktree(source, &returning, None, &mut one, planned)?;
        }
        planned.plan.repositories.push(one);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_tree_of_others_is_never_written_into_gits_own_folders() {
        let gitdir = RelPath::new("worktrees/a/gitdir").unwrap();
        let node = rappel_types::Node::Directory { mode: 0o755 };
        let state = State { files: [(gitdir, node)].into(), ..State::default() };
        let refused = |name: &str, path: &str| {
            let part = WorktreePart {
                name: name.into(),
                branch: None,
                path: path.into(),
                commit: None,
                files: None,
            };
            refused_worktree(&state, &part).is_some()
        };
        assert!(!refused("a", "/tmp/a"));
        for path in [".git/hooks", "a", "", "/tmp/.git/hooks", "/tmp/.GIT/x", "/tmp/../etc"] {
            assert!(refused("a", path), "{path:?}");
        }
        // Git knows nothing of it: no undo would take it away.
        assert!(refused("b", "/tmp/b") && refused("../../y", "/tmp/y"));
        // Lugh leaves out the home in front.
        assert!(refused("a", "/.no-such-lugh/worktrees/a") && refused("a", "/"));
    }
}
