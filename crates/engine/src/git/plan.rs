//! What a restore would do to repositories, and how that is said.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_capture::git::plan::{Planned, Prune, Wish, plan};
use rappel_capture::git::program::Git;
use rappel_capture::git::status;
use rappel_capture::git::{Place, State, apply::path_of, folder_of};
use rappel_capture::restore::{RootProbe, Scope, Side, plan_files};
use rappel_store::beneath::Root;
use rappel_store::document::UndoGit;
use rappel_store::sink::Source;
use rappel_store::tree;
use rappel_types::git::{GitPlan, RefMove, RepositoryPlan, WorktreePart, WorktreePlan};
use rappel_types::manifest::{FilesPart, PartialReason};
use rappel_types::path::escape;
use rappel_types::plan::Conflict;
use rappel_types::{Action, ActionKind, Facet, FacetState, Manifest, RelPath};

use crate::error::Result;
use crate::rappel::Rappel;
use crate::restore::recorded_selector;

/// How many commits that a branch leaves behind are named.
const TITLES: usize = 10;

/// What a restore of repositories is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct GitWish {
    /// Whether refs that were made after the checkpoint are deleted.
    pub prune: bool,
    /// Other work trees to restore, by name; `all` is every one.
    pub worktrees: Vec<String>,
    /// If given: just what a restore did is taken back.
    pub touched: Option<Vec<UndoGit>>,
    /// How that restore left the repositories.
    pub left: Vec<State>,
}

/// The repositories before a restore.
pub(crate) struct GitPresent {
    pub state: FacetState,
    pub states: Vec<State>,
}

/// A plan for all repositories, and what to say about it.
#[derive(Debug, Default)]
pub(crate) struct GitPlanned {
    pub plan: GitPlan,
    pub conflicts: Vec<Conflict>,
    /// What is left as it is because it was changed since.
    pub edited: Vec<Conflict>,
    pub warnings: Vec<String>,
    /// In a sentence.
    pub summary: Option<String>,
    /// The same for other work trees.
    pub worktrees: Option<String>,
    /// Line by line, for people.
    pub details: Vec<String>,
    /// For the list of actions.
    pub actions: Vec<Action>,
    /// What the target did not see of git and its work trees: there nothing is deleted.
    blind: Vec<PartialReason>,
}

impl Rappel {
    /// Compares the repositories with those of a checkpoint.
    pub(crate) fn plan_git(
        &self,
        present: &GitPresent,
        target: &Manifest,
        wish: &GitWish,
    ) -> Result<GitPlanned> {
        let mut planned = GitPlanned::default();
        let Some(part) =
            target.git.as_ref().filter(|_| target.state_of(Facet::Git) == FacetState::Captured)
        else {
            return Ok(planned);
        };
        let blind = target.partial_reasons.iter().filter(|reason| reason.facet == Facet::Git);
        planned.blind = blind
            .map(|reason| PartialReason { facet: Facet::Files, path: None, ..reason.clone() })
            .collect();
        if matches!(present.state, FacetState::Failed | FacetState::NotAsked) {
            planned.warnings.push("git could not be captured now, so it is left as it is".into());
            return Ok(planned);
        }
        for there in State::load(self.source(), part)? {
            if wish
                .touched
                .as_ref()
                .is_some_and(|touched| touched.iter().all(|one| one.path != there.path))
            {
                continue;
            }
            let folder = folder_of(&self.root, there.path.as_ref());
            let here = present.states.iter().find(|state| state.path == there.path);
            let place = Place::find(&folder, &self.options.environment);
            match (here, place) {
                (Some(here), Some(place)) => {
                    self.plan_repository(here, &there, &place, wish, &mut planned)?;
                }
                (None, None) => self.plan_creation(&there, &folder, wish, &mut planned)?,
                _ => planned.warnings.push(format!(
                    "{} could not be captured now, so it is left as it is",
                    named(there.path.as_ref())
                )),
            }
        }
        planned.summarise();
        Ok(planned)
    }

    fn plan_repository(
        &self,
        here: &State,
        there: &State,
        place: &Place,
        wish: &GitWish,
        planned: &mut GitPlanned,
    ) -> Result<()> {
        let returning = Self::returning(here, there, wish);
        let mut own = Wish {
            prune: if wish.prune { Prune::All } else { Prune::Nothing },
            only: None,
            worktrees: returning
                .iter()
                .map(|one| path_of(&one.part.name).as_os_str().as_bytes().to_vec())
                .collect(),
        };
        if let Some(touched) =
            wish.touched.as_ref().and_then(|all| all.iter().find(|one| one.path == there.path))
        {
            let mut refs: BTreeSet<RelPath> = touched.refs.iter().cloned().collect();
            if let Some(left) = wish.left.iter().find(|state| state.path == there.path) {
                let moved: Vec<RelPath> = refs
                    .iter()
                    .filter(|name| here.refs.get(*name) != left.refs.get(*name))
                    .filter(|name| here.refs.get(*name) != there.refs.get(*name))
                    .cloned()
                    .collect();
                for name in moved {
                    refs.remove(&name);
                    let reason = "it moved since, kept".into();
                    planned.edited.push(Conflict { path: name, reason });
                }
            }
            own.prune = Prune::Only(refs.clone());
            own.only = Some(refs);
        }
        let Planned { plan: mut one, conflicts, kept } = plan(here, there, &own);
        // Where git only looked at the files again, that is no reason to touch anything.
        let only_looked =
            |action: &Action| status::is_same_index(action, place.hash, self.source());
        if one.refs.is_empty() && one.logs.is_empty() && one.files.iter().all(only_looked) {
            one.files.clear();
        }
        one.path.clone_from(&there.path);
        one.common_dir = escape(place.common_dir.as_os_str().as_bytes());
        one.git_dir = escape(place.git_dir.as_os_str().as_bytes());
        planned.conflicts.extend(conflicts);
        let git = Git::at(&place.git_dir);
        for step in &one.refs {
            let said = describe(step, &git);
            let prefix = there.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
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
        if place.reftable && !one.refs.is_empty() {
            planned.warnings.push(
                "refs are kept in tables here: reflogs and older stash entries are not brought back".into(),
            );
            one.logs.clear();
        }
        if one.files.iter().any(|action| action.path.name() == b"index") {
            let staged = there.part.staged.len();
            planned.details.push(match staged {
                0 => "index: as it was, nothing staged".to_owned(),
                1 => format!("index: as it was, {} staged", there.part.staged[0]),
                more => format!("index: as it was, {more} files staged"),
            });
        }
        match (&here.part.operation, &there.part.operation) {
            (None, Some(then)) => planned.details.push(format!("{then}: under way again")),
            (Some(now), None) => planned.details.push(format!("{now}: no longer under way")),
            (Some(now), Some(then)) if now != then => {
                planned.details.push(format!("{then} under way instead of {now}"));
            }
            _ => {}
        }
        for returning in returning {
            self.plan_worktree(&returning, &mut one, planned)?;
        }
        planned.plan.repositories.push(one);
        Ok(())
    }

    /// The other work trees that a restore brings back: those that are gone, and those asked for.
    fn returning(here: &State, there: &State, wish: &GitWish) -> Vec<Returning> {
        let mut found = Vec::new();
        if there.part.linked.is_some() || wish.touched.is_some() {
            return found;
        }
        for part in &there.part.worktrees {
            let Some(files) = &part.files else { continue };
            let folder = path_of(&part.path);
            let is_gone = match std::fs::read_dir(&folder) {
                Ok(mut entries) => entries.next().is_none(),
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            };
            let asked = wish.worktrees.iter().any(|name| name == "all" || *name == part.name);
            let known = here.part.worktrees.iter().find(|now| now.name == part.name);
            let is_there = known.is_some_and(|now| now.path == part.path) && !is_gone;
            if is_gone || (asked && is_there) {
                let (part, files) = (part.clone(), files.clone());
                let now = known.and_then(|now| now.files.clone());
                found.push(Returning { part, files, create: is_gone, now });
            }
        }
        found
    }

    fn plan_worktree(
        &self,
        returning: &Returning,
        one: &mut RepositoryPlan,
        planned: &mut GitPlanned,
    ) -> Result<()> {
        let Returning { part, files, create, now } = returning;
        let mut actions = Vec::new();
        if let (false, Some(now)) = (*create, now) {
            let folder = path_of(&part.path);
            let plan = self.plan_worktree_files(&folder, now, files, &planned.blind)?;
            actions = plan.actions.into_iter().filter(|a| a.action != ActionKind::Skip).collect();
            planned.conflicts.extend(plan.conflicts);
            planned.warnings.extend(plan.warnings);
        }
        let what = match create {
            true => format!("made again with {} files", files.count),
            false => format!("{} files change", actions.len()),
        };
        planned.details.push(format!("work tree {} in {}: {what}", part.name, part.path));
        one.worktrees.push(WorktreePlan {
            name: part.name.clone(),
            path: part.path.clone(),
            create: *create,
            tree: files.tree,
            actions,
        });
        Ok(())
    }

    fn plan_worktree_files(
        &self,
        folder: &Path,
        now: &FilesPart,
        then: &FilesPart,
        blind: &[PartialReason],
    ) -> Result<rappel_types::Plan> {
        let source: &dyn Source = self.source();
        let changes = tree::diff(source, &now.tree, &then.tree)?;
        let selector = recorded_selector(source, then)?;
        let root = Root::open(folder, self.options.disk.clone())?;
        let here = Side { state: FacetState::Captured, skipped: &now.skipped, partial: &[] };
        let there = Side { state: FacetState::Captured, skipped: &then.skipped, partial: blind };
        let selects = |path: &RelPath, is_folder: bool| selector.selects(path, is_folder);
        Ok(plan_files(&here, &there, &changes, &Scope::All, &selects, &RootProbe(&root))?)
    }

    /// A repository that is gone is made again.
    fn plan_creation(
        &self,
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
        if common.join("HEAD").exists() && there.gitfile.is_some() && link.is_err() {
            planned.details.push(format!("{name}: linked again to what is still there of it"));
            planned.warnings.push(format!(
                "{name} is still in {}: its refs and its index are left as they are",
                common.display()
            ));
            planned.plan.repositories.push(RepositoryPlan {
                path: there.path.clone(),
                common_dir: escape(common.as_os_str().as_bytes()),
                git_dir: escape(common.as_os_str().as_bytes()),
                relink: true,
                ..RepositoryPlan::default()
            });
            return Ok(());
        }
        // A file that leads to what is gone leads there again.
        let leads_there =
            there.gitfile.is_some() && link.as_ref().is_ok_and(std::fs::Metadata::is_file);
        if common.exists() || (link.is_ok() && !leads_there) {
            planned.warnings.push(format!(
                "{name} cannot be read any more, so it is left as it is; move {} aside to have it back",
                common.display()
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
            ..RepositoryPlan::default()
        };
        let nothing = State::default();
        for returning in Self::returning(&nothing, there, wish) {
            self.plan_worktree(&returning, &mut one, planned)?;
        }
        planned.plan.repositories.push(one);
        Ok(())
    }
}

/// Another work tree that a restore brings back.
struct Returning {
    part: WorktreePart,
    files: FilesPart,
    create: bool,
    now: Option<FilesPart>,
}

impl GitPlanned {
    fn summarise(&mut self) {
        if self.plan.is_empty() {
            return;
        }
        let is_ref = |one: &Action| one.path.name() != b".git";
        let count = |kind: ActionKind| {
            self.actions.iter().filter(|one| one.action == kind && is_ref(one)).count()
        };
        let mut parts = Vec::new();
        match self.plan.repositories.iter().filter(|one| one.create).count() {
            0 => {}
            1 => parts.push("1 repository made again".to_owned()),
            many => parts.push(format!("{many} repositories made again")),
        }
        for (kind, what) in [
            (ActionKind::Create, "created"),
            (ActionKind::Overwrite, "moved"),
            (ActionKind::Delete, "deleted"),
        ] {
            match count(kind) {
                0 => {}
                1 => parts.push(format!("1 ref {what}")),
                many => parts.push(format!("{many} refs {what}")),
            }
        }
        if parts.is_empty() {
            parts.push("index and operations as they were".into());
        }
        self.summary = Some(parts.join(", "));
        let worktrees = self.plan.repositories.iter().map(|one| one.worktrees.len()).sum::<usize>();
        if worktrees > 0 {
            self.worktrees = Some(format!("{worktrees} brought back"));
        }
    }
}

struct Said {
    text: String,
    titles: Vec<String>,
}

/// What moving a ref means: `back 3 commits to abc123d`.
fn describe(step: &RefMove, git: &Git<'_>) -> Said {
    let plain = |text: String| Said { text, titles: Vec::new() };
    let (old, new) = match (&step.old, &step.new) {
        (Some(old), Some(new)) => (old, new),
        (None, Some(new)) => return plain(format!("created at {}", short(new))),
        (Some(old), None) => return plain(format!("deleted, it was at {}", short(old))),
        (None, None) => return plain("unchanged".into()),
    };
    if new.starts_with("ref: ") || old.starts_with("ref: ") {
        return plain(format!("from {} to {}", short(old), short(new)));
    }
    let range = format!("{old}...{new}");
    let counted = git.ask(&["rev-list", "--left-right", "--count", &range], b"").ok();
    let counted = counted.and_then(|text| {
        let text = String::from_utf8(text).ok()?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    let commits =
        |number: u64| if number == 1 { "1 commit".into() } else { format!("{number} commits") };
    let to = short(new);
    let text = match counted {
        Some((0, 0)) => format!("to {to}"),
        Some((lost, 0)) => format!("back {} to {to}", commits(lost)),
        Some((0, gained)) => format!("forward {} to {to}", commits(gained)),
        Some((lost, gained)) => {
            format!("to {to}, leaving {} and regaining {}", commits(lost), commits(gained))
        }
        None => format!("from {} to {to}", short(old)),
    };
    let limit = format!("--max-count={TITLES}");
    let left = git.ask(&["log", "--format=%h %s", &limit, &format!("{new}..{old}")], b"");
    let titles = left.map(|text| {
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().map(str::to_owned).collect()
    });
    Said { text, titles: titles.unwrap_or_default() }
}

fn shown(step: &RefMove, said: &str) -> Action {
    let action = match (&step.old, &step.new) {
        (None, _) => ActionKind::Create,
        (_, None) => ActionKind::Delete,
        _ => ActionKind::Overwrite,
    };
    let (path, reason) = (step.name.clone(), said.to_owned());
    Action { facet: Facet::Git, action, path, reason, old: None, new: None }
}

/// A value as people read it.
fn short(value: &str) -> String {
    match value.strip_prefix("ref: ") {
        Some(name) => name.strip_prefix("refs/heads/").unwrap_or(name).to_owned(),
        None => value.get(..7).unwrap_or(value).to_owned(),
    }
}

fn short_name(name: &RelPath) -> String {
    let text = name.to_string();
    for prefix in ["refs/heads/", "refs/tags/", "refs/remotes/", "refs/"] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return rest.to_owned();
        }
    }
    text
}

fn named(path: Option<&RelPath>) -> String {
    match path {
        Some(path) => format!("the repository {path}"),
        None => "the repository".to_owned(),
    }
}
