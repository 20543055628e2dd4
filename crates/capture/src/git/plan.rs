//! What restoring a repository would do: a pure comparison of how it is with how it was.

use std::collections::{BTreeMap, BTreeSet};

use rappel_types::git::{RefMove, RepositoryPlan};
use rappel_types::plan::Conflict;
use rappel_types::{Action, ActionKind, Facet, Node, RelPath};

use super::folder::{Role, role, split};
use super::linked;
use super::refs::Target;
use super::state::State;

/// Which refs that the target does not have are deleted.
#[derive(Debug, Clone, Default)]
pub enum Prune {
    /// None: they were made after it.
    #[default]
    Nothing,
    /// All of them.
    All,
    /// Just these: a restore made them.
    Only(BTreeSet<RelPath>),
}

/// What a restore of a repository is about.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Refs to delete.
    pub prune: Prune,
    /// If given: only these refs are moved.
    pub only: Option<BTreeSet<RelPath>>,
    /// Names of linked work trees that are restored with it.
    pub worktrees: BTreeSet<Vec<u8>>,
    /// Names of linked work trees that go, because a restore made them that is taken back.
    pub leaving: BTreeSet<Vec<u8>>,
    /// Whether names that differ in nothing but case are one on this file system.
    pub ignore_case: bool,
    /// Files that git cannot read on one of the two sides: they change as files, whatever they are for.
    pub spoilt: BTreeSet<RelPath>,
}

/// A plan for one repository, and what to say about it.
#[derive(Debug, Clone, Default)]
pub struct Planned {
    /// What would be done.
    pub plan: RepositoryPlan,
    /// What forbids it.
    pub conflicts: Vec<Conflict>,
    /// Refs that stay as they are, and why.
    pub kept: Vec<(RelPath, String)>,
}

/// Compares a repository with how it was. `present` is what the safety checkpoint holds.
pub fn plan(present: &State, target: &State, wish: &Wish) -> Planned {
    let mut planned = Planned::default();
    let own = own_prefix(target);
    let elsewhere = checked_out_elsewhere(present, &own, wish);
    let concerns = |name: &RelPath| -> bool {
        match split(name.as_bytes()) {
            // HEAD and what belongs to one work tree: only for those that are restored.
            (Some(worktree), _) => {
                name.as_bytes().starts_with(&own) && !own.is_empty()
                    || wish.worktrees.contains(worktree)
            }
            (None, b"HEAD") => own.is_empty(),
            (None, _) => !is_private(name) || own.is_empty(),
        }
    };
    let asked = |name: &RelPath| wish.only.as_ref().is_none_or(|only| only.contains(name));
    let names: BTreeSet<&RelPath> = present.refs.keys().chain(target.refs.keys()).collect();
    let mut settled: BTreeSet<&RelPath> = BTreeSet::new();
    for name in names.into_iter().filter(|name| concerns(name)) {
        let (old, new) = (present.refs.get(name), target.refs.get(name));
        if old == new {
            settled.insert(name);
            continue;
        }
        // What changes as a file is not moved by git.
        if wish.spoilt.contains(name) {
            settled.insert(name);
            continue;
        }
        if !asked(name) {
            continue;
        }
        if let Some(place) = elsewhere.get(name) {
            let reason = format!("it is checked out in {place}, which is not restored");
            planned.kept.push((name.clone(), reason));
            continue;
        }
        let stays = match (&wish.prune, new) {
            // The checkpoint could not read it. A work tree without one is none.
            _ if new.is_none() && role(name.as_bytes()) == Role::Head => true,
            (_, Some(_)) | (Prune::All, None) => false,
            (Prune::Only(these), None) => !these.contains(name),
            (Prune::Nothing, None) => !is_private(name) && unborn(target).as_ref() != Some(name),
        };
        if stays {
            planned.kept.push((name.clone(), "it was made after the checkpoint".into()));
            continue;
        }
        settled.insert(name);
        planned.plan.refs.push(RefMove {
            name: name.clone(),
            old: old.map(value),
            new: new.map(value),
        });
    }
    conflicting_names(present, wish.ignore_case, &mut planned);
    files(present, target, &own, wish, &settled, &mut planned.plan);
    // An index without a file in it fits a branch that has no commit, not one that stays.
    if let Some(branch) = unborn(target)
        && planned.kept.iter().any(|(name, _)| *name == branch)
    {
        let is_index = |action: &Action| {
            action.path.as_bytes().strip_prefix(&*own) == Some(b"index".as_slice())
        };
        let stays = planned.plan.files.iter().find(|action| is_index(action));
        let reason = "its branch stays".to_owned();
        planned.kept.extend(stays.map(|action| (action.path.clone(), reason)));
        planned.plan.files.retain(|action| !is_index(action));
    }
    planned
}

/// Where refs are kept in tables: if all of them will be as they were, the tables are put back as
/// they were, and with them the reflogs and what else is in there. Says whether that is so.
pub fn with_tables(present: &State, target: &State, plan: &mut RepositoryPlan) -> bool {
    let of_main = |name: &&RelPath| split(name.as_bytes()).0.is_none();
    let value_of = |name: &RelPath| {
        let step = plan.refs.iter().find(|step| step.name == *name);
        step.map_or_else(|| present.refs.get(name).map(value), |step| step.new.clone())
    };
    let mut names = present.refs.keys().chain(target.refs.keys()).filter(of_main);
    let elsewhere = plan.refs.iter().any(|step| split(step.name.as_bytes()).0.is_some());
    if elsewhere || !names.all(|name| value_of(name) == target.refs.get(name).map(value)) {
        return false;
    }
    let is_table = |path: &&RelPath| path.as_bytes().starts_with(b"reftable/");
    let paths: BTreeSet<&RelPath> =
        present.files.keys().chain(target.files.keys()).filter(is_table).collect();
    for path in paths {
        let (old, new) = (present.files.get(path), target.files.get(path));
        if old != new {
            plan.files.push(action(path, old, new));
            plan.tables = true;
        }
    }
    plan.files.sort_by(|a, b| a.path.cmp(&b.path));
    true
}

/// A file that becomes another one.
fn action(path: &RelPath, old: Option<&Node>, new: Option<&Node>) -> Action {
    Action {
        facet: Facet::Git,
        action: match (old, new) {
            (None, _) => ActionKind::Create,
            (Some(_), Some(_)) => ActionKind::Overwrite,
            (Some(_), None) => ActionKind::Delete,
        },
        path: path.clone(),
        reason: "it differs".into(),
        old: old.cloned(),
        new: new.cloned(),
    }
}

/// A ref's value as plans have it.
pub fn value(target: &Target) -> String {
    match target {
        Target::Object(oid) => oid.to_string(),
        Target::Symbolic(name) => format!("ref: {}", rappel_types::path::escape(name)),
    }
}

fn own_prefix(state: &State) -> Vec<u8> {
    match &state.part.linked {
        Some(name) => [b"worktrees/", name.as_bytes(), b"/"].concat(),
        None => Vec::new(),
    }
}

/// The branch that HEAD named before it had a commit: that it had none is how it was.
pub fn unborn(state: &State) -> Option<RelPath> {
    let head = RelPath::new([&*own_prefix(state), b"HEAD"].concat()).ok()?;
    let Target::Symbolic(branch) = state.refs.get(&head)? else { return None };
    let branch = RelPath::new(&**branch).ok()?;
    (!state.refs.contains_key(&branch)).then_some(branch)
}

/// Refs of an operation under way, which come and go with it.
fn is_private(name: &RelPath) -> bool {
    let (_, rest) = split(name.as_bytes());
    [&b"refs/bisect/"[..], b"refs/rewritten/", b"refs/worktree/"]
        .iter()
        .any(|prefix| rest.starts_with(prefix))
}

/// Branches that other work trees stand on, which this restore leaves alone.
fn checked_out_elsewhere(present: &State, own: &[u8], wish: &Wish) -> BTreeMap<RelPath, String> {
    let mut found = BTreeMap::new();
    for (name, target) in &present.refs {
        let (worktree, rest) = split(name.as_bytes());
        let is_own = name.as_bytes().strip_prefix(own) == Some(b"HEAD");
        let restored = worktree.is_some_and(|worktree| {
            wish.worktrees.contains(worktree) || wish.leaving.contains(worktree)
        });
        if rest != b"HEAD" || is_own || restored {
            continue;
        }
        if let Target::Symbolic(branch) = target
            && let Ok(branch) = RelPath::new(&**branch)
            // A HEAD that is put back is nowhere without its branch.
            && (present.refs.contains_key(&branch) || !wish.spoilt.contains(name))
        {
            let place = worktree.map_or("the main work tree".into(), |worktree| {
                format!("the work tree {}", rappel_types::path::escape(worktree))
            });
            found.insert(branch, place);
        }
    }
    found
}

/// A ref cannot stand where another one needs a folder, nor where names fold together beside one
/// that differs in nothing but case.
fn conflicting_names(present: &State, ignore_case: bool, planned: &mut Planned) {
    let folded = |name: &RelPath| -> Vec<u8> {
        match ignore_case {
            true => fold(name.as_bytes()),
            false => name.as_bytes().to_vec(),
        }
    };
    let gone: BTreeSet<&RelPath> =
        planned.plan.refs.iter().filter(|step| step.new.is_none()).map(|step| &step.name).collect();
    let made: Vec<&RelPath> =
        planned.plan.refs.iter().filter(|step| step.old.is_none()).map(|step| &step.name).collect();
    // By what the file system takes their names for, with those that come.
    let mut stays: BTreeMap<Vec<u8>, &RelPath> = BTreeMap::new();
    let present = present.refs.keys().filter(|name| !gone.contains(name));
    stays.extend(present.map(|name| (folded(name), name)));
    for name in made {
        let own = folded(name);
        let below = [&*own, b"/"].concat();
        let inside = stays.range(below.clone()..).next();
        let inside = inside.filter(|(path, _)| path.starts_with(&below));
        let same = stays.get(&own).or_else(|| inside.map(|(_, other)| other));
        let ends = (0..own.len()).filter(|&at| own[at] == b'/');
        let in_the_way = same.or_else(|| ends.rev().find_map(|end| stays.get(&own[..end])));
        if let Some(other) = in_the_way {
            let reason = match planned_of(&planned.plan, other) {
                true => format!("{other}, which the checkpoint holds too, is the same name here"),
                false => format!("{other}, which was made after the checkpoint, is in its way"),
            };
            planned.conflicts.push(Conflict::of_git(name.clone(), reason));
        } else {
            stays.insert(own, name);
        }
    }
}

/// Whether a plan makes a ref.
fn planned_of(plan: &RepositoryPlan, name: &RelPath) -> bool {
    plan.refs.iter().any(|step| step.name == *name && step.old.is_none())
}

/// A name as a file system has it to which case means nothing.
fn fold(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

/// The files of git's folder that change with it.
fn files(
    present: &State,
    target: &State,
    own: &[u8],
    wish: &Wish,
    settled: &BTreeSet<&RelPath>,
    plan: &mut RepositoryPlan,
) {
    let paths: BTreeSet<&RelPath> = present.files.keys().chain(target.files.keys()).collect();
    for path in paths {
        let (old, new) = (present.files.get(path), target.files.get(path));
        if old == new {
            continue;
        }
        let (worktree, rest) = split(path.as_bytes());
        let returns = worktree.is_some_and(|worktree| wish.worktrees.contains(worktree));
        let is_own = match own.is_empty() {
            true => worktree.is_none(),
            false => path.as_bytes().starts_with(own),
        };
        let is_folder = |node: Option<&Node>| matches!(node, Some(Node::Directory { .. }));
        if is_folder(old) && is_folder(new) {
            continue;
        }
        let step = match role(path.as_bytes()) {
            // The folder of a work tree that is gone comes back whole, and goes whole.
            _ if returns && gone(present, worktree) => Some(false),
            _ if worktree.is_some_and(|worktree| wish.leaving.contains(worktree)) => Some(false),
            _ if rest == b"worktrees" && new.is_none() => {
                let stays = |name: &[u8]| !wish.leaving.contains(name);
                (is_folder(old) && !wish.leaving.is_empty())
                    .then_some(false)
                    .filter(|_| !linked::names(present.files.iter()).any(stays))
            }
            _ if wish.spoilt.contains(path) => Some(false),
            Role::Log => {
                let name = rest.strip_prefix(b"logs/").unwrap_or_default();
                let mut full = path.as_bytes()[..path.as_bytes().len() - rest.len()].to_vec();
                full.extend_from_slice(name);
                let shared = worktree.is_none() && name != b"HEAD";
                let of_ref = RelPath::new(full).is_ok_and(|name| settled.contains(&name));
                // A log follows its ref; what was logged for one that stays, stays.
                ((is_own || returns || shared) && of_ref && !is_folder(old) && !is_folder(new))
                    .then_some(true)
            }
            Role::Index | Role::Operation if is_own || returns => {
                let is_shared_index = rest.starts_with(b"sharedindex.");
                (!(is_shared_index && new.is_none())).then_some(false)
            }
            Role::LargeFile => (old.is_none() && new.is_some()).then_some(false),
            _ => None,
        };
        let Some(is_log) = step else { continue };
        let action = action(path, old, new);
        if is_log { plan.logs.push(action) } else { plan.files.push(action) }
    }
    with_folders(present, target, &mut plan.files);
    logs_of_comings_and_goings(present, target, plan);
    // What its folder brings back need not be moved.
    plan.refs.retain(|step| {
        let (worktree, _) = split(step.name.as_bytes());
        !(worktree.is_some() && gone(present, worktree))
    });
}

/// Git deletes a log with its ref, on the way there or on the way back: one that is the same on both
/// sides is brought back then.
fn logs_of_comings_and_goings(present: &State, target: &State, plan: &mut RepositoryPlan) {
    for step in plan.refs.iter().filter(|step| step.old.is_none() || step.new.is_none()) {
        let (_, rest) = split(step.name.as_bytes());
        let own = &step.name.as_bytes()[..step.name.as_bytes().len() - rest.len()];
        let Ok(log) = RelPath::new([own, b"logs/", rest].concat()) else { continue };
        let (old, new) = (present.files.get(&log), target.files.get(&log));
        if old == new && matches!(old, Some(Node::File { .. })) {
            plan.logs.push(action(&log, old, new));
        }
    }
    plan.logs.sort_by(|a, b| a.path.cmp(&b.path));
}

/// Whether git's folder of a linked work tree is not there, or nothing but a folder.
fn gone(present: &State, worktree: Option<&[u8]>) -> bool {
    worktree.is_some_and(|worktree| {
        let path = RelPath::new([b"worktrees/", worktree, b"/HEAD"].concat());
        path.is_ok_and(|path| !present.files.contains_key(&path))
    })
}

/// Adds the folders that new files need and that are not there.
fn with_folders(present: &State, target: &State, actions: &mut Vec<Action>) {
    let known: BTreeSet<RelPath> = actions.iter().map(|action| action.path.clone()).collect();
    let mut missing: BTreeMap<RelPath, u32> = BTreeMap::new();
    for action in actions.iter().filter(|action| action.new.is_some()) {
        for folder in action.path.ancestors() {
            let there = present.files.contains_key(&folder) || known.contains(&folder);
            // Some folders are not listed by themselves.
            let implied =
                present.files.keys().any(|path| path != &folder && path.is_within(&folder));
            if !there && !implied {
                let mode = match target.files.get(&folder) {
                    Some(Node::Directory { mode }) => *mode,
                    _ => 0o755,
                };
                missing.insert(folder, mode);
            }
        }
    }
    actions.extend(missing.into_iter().map(|(path, mode)| Action {
        facet: Facet::Git,
        action: ActionKind::Create,
        path,
        reason: "it is missing".into(),
        old: None,
        new: Some(Node::Directory { mode }),
    }));
    actions.sort_by(|a, b| a.path.cmp(&b.path));
}
