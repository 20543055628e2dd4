//! The plan of a restore: a comparison that changes nothing and decides everything.
//!
//! What is deleted has to pass three questions: does the safety checkpoint hold it, would the
//! target's own rules have selected it, and did both look there. A plan says of each path what
//! happens and why; whoever applies it decides nothing any more.

use std::collections::{BTreeMap, HashMap, HashSet};

use rappel_store::beneath::{Kind, Mount};
use rappel_store::tree::Change;
use rappel_store::varint;
use rappel_types::manifest::{PartialReason, Skipped};
use rappel_types::plan::Conflict;
use rappel_types::{
    Action, ActionKind, CheckpointId, Content, Facet, FacetState, Node, Plan, RelPath,
};

use rappel_types::git_name::is_git;

use super::error::{Error, Result};
use super::fold::folded;
use super::probe::Probe;

/// What a plan has to know about one of the two checkpoints.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// What became of the files there.
    pub state: FacetState,
    /// What its rules left out.
    pub skipped: &'a [Skipped],
    /// What it could not take; reasons of other facets are passed over.
    pub partial: &'a [PartialReason],
}

/// Where a side did not look, ready to be asked about many paths.
struct BlindSpots {
    /// The whole facet is unsure.
    everywhere: Option<String>,
    spots: BTreeMap<RelPath, String>,
}

impl BlindSpots {
    fn of(side: &Side<'_>) -> Self {
        let mut found = Self { everywhere: None, spots: BTreeMap::new() };
        for skipped in side.skipped {
            found.spots.insert(skipped.path.clone(), skipped.reason.clone());
        }
        for partial in side.partial.iter().filter(|partial| partial.facet == Facet::Files) {
            match &partial.path {
                Some(path) => drop(found.spots.insert(path.clone(), partial.reason.clone())),
                None => found.everywhere = Some(partial.reason.clone()),
            }
        }
        found
    }

    /// Why the side says nothing about `path`. A folder is also covered by what lies below it.
    fn cover(&self, path: &RelPath, is_folder: bool) -> Option<String> {
        if self.everywhere.is_some() || self.spots.is_empty() {
            return self.everywhere.clone();
        }
        let above = path.ancestors().find_map(|folder| self.spots.get_key_value(&folder));
        let below = || {
            let (spot, reason) = self.spots.range(path..).next()?;
            (spot == path || (is_folder && spot.is_within(path))).then_some((spot, reason))
        };
        above.or_else(below).map(|(spot, reason)| format!("{spot} ({reason})"))
    }
}

/// Which paths a restore may touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    #[default]
    All,
    /// These, and what lies below them.
    Paths(Vec<RelPath>),
    /// All but these and what lies below them. A plan names what stays.
    Except(Vec<RelPath>),
}

impl Scope {
    /// Whether `path` is meant.
    pub fn includes(&self, path: &RelPath) -> bool {
        match self {
            Self::All => true,
            Self::Paths(paths) => paths.iter().any(|chosen| path.is_within(chosen)),
            Self::Except(paths) => !paths.iter().any(|kept| path.is_within(kept)),
        }
    }
}

/// Plans the way from the present to the target. `changes` are the differences between the two
/// trees, in order; `target_selects` answers whether the target's own rules would have taken a
/// path (the flag says that it is a folder).
pub fn plan_files(
    present: &Side<'_>,
    target: &Side<'_>,
    changes: &[Change],
    scope: &Scope,
    target_selects: &dyn Fn(&RelPath, bool) -> bool,
    probe: &dyn Probe,
) -> Result<Plan> {
    let mut planner = Planner {
        present: present.state,
        target: target.state,
        blind_now: BlindSpots::of(present),
        blind_then: BlindSpots::of(target),
        scope,
        selects: target_selects,
        probe,
        actions: BTreeMap::new(),
        gone: HashSet::new(),
        parents: HashMap::new(),
        plan: Plan::default(),
    };
    if let Some(reason) = planner.inactive() {
        planner.plan.warnings.push(reason);
        return Ok(planner.plan);
    }
    let chosen = choose(changes, scope);
    // From the last path to the first, so that a folder comes after everything in it.
    for change in chosen.iter().rev() {
        planner.decide(change)?;
    }
    planner.check_parents()?;
    planner.check_folding()?;
    planner.check_mounts()?;
    let mut plan = planner.plan;
    plan.actions = planner.actions.into_values().collect();
    plan.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(plan)
}

/// The changes within the scope, and the folders that those need to exist.
fn choose<'c>(changes: &'c [Change], scope: &Scope) -> Vec<&'c Change> {
    if !matches!(scope, Scope::Paths(_)) {
        return changes.iter().collect();
    }
    let mut needed = HashSet::new();
    for change in changes.iter().filter(|change| change.new.is_some()) {
        if scope.includes(&change.path) {
            needed.extend(change.path.ancestors());
        }
    }
    let makes_folder =
        |change: &Change| is_folder(change.new.as_ref()) && !is_folder(change.old.as_ref());
    changes
        .iter()
        .filter(|change| {
            scope.includes(&change.path) || (makes_folder(change) && needed.contains(&change.path))
        })
        .collect()
}

fn is_folder(node: Option<&Node>) -> bool {
    matches!(node, Some(Node::Directory { .. }))
}

/// Whether a path has a component that only git may write.
pub fn is_git_path(path: &RelPath) -> bool {
    path.components().any(is_git)
}

struct Planner<'a> {
    present: FacetState,
    target: FacetState,
    blind_now: BlindSpots,
    blind_then: BlindSpots,
    scope: &'a Scope,
    selects: &'a dyn Fn(&RelPath, bool) -> bool,
    probe: &'a dyn Probe,
    actions: BTreeMap<RelPath, Action>,
    /// What the plan deletes so far.
    gone: HashSet<RelPath>,
    /// What stands at a folder's path; asked once.
    parents: HashMap<RelPath, Option<Kind>>,
    plan: Plan,
}

impl Planner<'_> {
    /// Why nothing is to be done at all.
    fn inactive(&self) -> Option<String> {
        let reason = match (self.present, self.target) {
            (_, FacetState::NotAsked) => {
                "the checkpoint was made without files: they are left alone"
            }
            (_, FacetState::Failed) => {
                "the checkpoint's files could not be captured: they are left alone"
            }
            (_, FacetState::Absent) => {
                "the checkpoint had no files: what is there now is left alone"
            }
            (FacetState::NotAsked | FacetState::Failed, _) => {
                "the present files could not be captured: they are left alone"
            }
            (FacetState::Captured | FacetState::Absent, FacetState::Captured) => return None,
        };
        Some(reason.into())
    }

    fn decide(&mut self, change: &Change) -> Result<()> {
        let Change { path, old, new } = change;
        if is_git_path(path) {
            self.add(change, ActionKind::Skip, "only git writes to a `.git` folder");
            return Ok(());
        }
        if matches!(self.scope, Scope::Except(_)) && !self.scope.includes(path) {
            self.add(change, ActionKind::Skip, "you asked to keep it as it is");
            return Ok(());
        }
        match (old, new) {
            (None, None) => Ok(()),
            (None, Some(new)) => self.create(change, new),
            (Some(old), Some(new)) => self.overwrite(change, old, new),
            (Some(old), None) => self.delete(change, old),
        }
    }

    fn create(&mut self, change: &Change, new: &Node) -> Result<()> {
        let Some(found) = self.seen(&change.path, self.probe.kind(&change.path))? else {
            self.add(change, ActionKind::Create, "it is missing, or cannot be seen");
            return Ok(());
        };
        match found {
            None => self.add(change, ActionKind::Create, "it is missing"),
            Some(Kind::Directory) if is_folder(Some(new)) => {
                self.add(change, ActionKind::Skip, "the folder is already there");
            }
            Some(_) => {
                self.add(change, ActionKind::Create, "it is missing");
                self.conflict(
                    &change.path,
                    "something stands there that could not be captured and would be lost",
                );
            }
        }
        Ok(())
    }

    fn overwrite(&mut self, change: &Change, old: &Node, new: &Node) -> Result<()> {
        if self.present != FacetState::Captured {
            self.add(change, ActionKind::Skip, "the present files were not captured");
            return Ok(());
        }
        let reason = match (old, new) {
            (Node::Directory { .. }, Node::Directory { .. }) => "its mode differs",
            (Node::Directory { .. }, _) => "a folder stands in its place",
            (_, Node::Directory { .. }) => "it was a folder",
            (Node::File { content: a, .. }, Node::File { content: b, .. }) if a == b => {
                "its mode differs"
            }
            (Node::File { .. }, Node::File { .. }) => "its content differs",
            (Node::Symlink { .. }, Node::Symlink { .. }) => "it points elsewhere",
            (Node::Symlink { .. }, _) => "a link stands in its place",
            (_, Node::Symlink { .. }) => "it was a link",
        };
        self.add(change, ActionKind::Overwrite, reason);
        if is_folder(Some(old))
            && !is_folder(Some(new))
            && let Some(Some(stays)) = self.seen(&change.path, self.left_in(&change.path))?
        {
            self.conflict(
                &change.path,
                format!("the folder that stands in its place holds {stays}, which would be lost"),
            );
        }
        Ok(())
    }

    fn delete(&mut self, change: &Change, old: &Node) -> Result<()> {
        let folder = is_folder(Some(old));
        let path = &change.path;
        let keep = if self.present != FacetState::Captured {
            Some("the present files were not captured".to_owned())
        } else if let Some(spot) = self.blind_now.cover(path, folder) {
            Some(format!("not everything there was captured now: {spot}"))
        } else if let Some(spot) = self.blind_then.cover(path, folder) {
            Some(format!("the checkpoint did not look there: {spot}"))
        } else if !(self.selects)(path, folder) {
            Some("the checkpoint's rules would not have taken it".to_owned())
        } else if folder {
            match self.left_in(path) {
                Err(error) if is_denied(&error) => {
                    Some(format!("what it holds is hidden: {error}"))
                }
                other => other?.map(|stays| format!("it holds {stays}, which stays")),
            }
        } else {
            None
        };
        if let Some(reason) = keep {
            self.add(change, ActionKind::Skip, reason);
        } else {
            self.gone.insert(path.clone());
            self.add(change, ActionKind::Delete, "the checkpoint does not have it");
        }
        Ok(())
    }

    /// Something in a folder that the plan does not delete.
    fn left_in(&self, folder: &RelPath) -> Result<Option<RelPath>> {
        Ok(self.probe.list(folder)?.into_iter().find(|path| !self.gone.contains(path)))
    }

    /// The answer to a question about `path`; `None`, and a conflict, where we may not look.
    fn seen<T>(&mut self, path: &RelPath, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Err(error) if is_denied(&error) => {
                self.conflict(path, format!("what stands there cannot be seen: {error}"));
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn add(&mut self, change: &Change, action: ActionKind, reason: impl Into<String>) {
        let Change { path, old, new } = change.clone();
        let reason = reason.into();
        let action = Action { facet: Facet::Files, action, path: path.clone(), reason, old, new };
        self.actions.insert(path, action);
    }

    fn conflict(&mut self, path: &RelPath, reason: impl Into<String>) {
        if !self.plan.conflicts.iter().any(|known| known.path == *path) {
            self.plan.conflicts.push(Conflict::at(path.clone(), reason));
        }
    }

    /// Whatever is written needs a real folder to be written into: one that is there, one that
    /// the plan creates, or one that neither tree mentions and that is added here.
    fn check_parents(&mut self) -> Result<()> {
        let written: Vec<RelPath> = self.written().map(|action| action.path.clone()).collect();
        for path in written {
            for folder in path.ancestors() {
                let planned = self.actions.get(&folder).map(|action| match action.action {
                    ActionKind::Create | ActionKind::Overwrite => is_folder(action.new.as_ref()),
                    ActionKind::Delete => false,
                    ActionKind::Skip => {
                        is_folder(action.old.as_ref()) || is_folder(action.new.as_ref())
                    }
                });
                match planned {
                    Some(true) => continue,
                    Some(false) => {
                        self.conflict(&path, format!("{folder} would be no folder"));
                        break;
                    }
                    None => {}
                }
                let kind = match self.parents.get(&folder) {
                    Some(kind) => *kind,
                    None => match self.seen(&path, self.probe.kind(&folder))? {
                        Some(kind) => kind,
                        None => break,
                    },
                };
                self.parents.insert(folder.clone(), kind);
                match kind {
                    Some(Kind::Directory) => {}
                    None => {
                        let new = Some(Node::Directory { mode: 0o755 });
                        let change = Change { path: folder, old: None, new };
                        self.add(&change, ActionKind::Create, "its content needs it");
                    }
                    Some(_) => {
                        self.conflict(
                            &path,
                            format!("{folder} is no folder, and no checkpoint holds what it is"),
                        );
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn written(&self) -> impl Iterator<Item = &Action> {
        self.actions
            .values()
            .filter(|action| matches!(action.action, ActionKind::Create | ActionKind::Overwrite))
    }

    fn check_folding(&mut self) -> Result<()> {
        let mut names: BTreeMap<(Option<RelPath>, Vec<u8>), Vec<RelPath>> = BTreeMap::new();
        for action in self.written() {
            let key = (action.path.parent(), folded(action.path.name()));
            names.entry(key).or_default().push(action.path.clone());
        }
        for ((folder, _), paths) in names.into_iter().filter(|(_, paths)| paths.len() > 1) {
            let first = &paths[0];
            if self.seen(first, self.probe.folds(folder.as_ref()))? == Some(true) {
                for path in &paths[1..] {
                    self.conflict(path, format!("on this file system it is the same as {first}"));
                }
            }
        }
        Ok(())
    }

    fn check_mounts(&mut self) -> Result<()> {
        let touched: Vec<RelPath> = self
            .actions
            .values()
            .filter(|action| action.action != ActionKind::Skip)
            .map(|action| action.path.clone())
            .collect();
        for path in touched {
            match self.seen(&path, self.probe.mount(&path))? {
                Some(Mount::Ours) | None => {}
                Some(Mount::Foreign) => {
                    self.conflict(&path, "another file system is mounted there");
                }
                Some(Mount::ReadOnly) => {
                    self.conflict(&path, "its file system is mounted read-only");
                }
            }
        }
        Ok(())
    }
}

/// Whether we were not allowed to look.
fn is_denied(error: &Error) -> bool {
    let Error::Store(rappel_store::Error::Io { source, .. }) = error else { return false };
    source.kind() == std::io::ErrorKind::PermissionDenied
}

/// The name of a plan: the hash of the checkpoint it leads to and of everything it would do.
pub fn plan_hash(target: &CheckpointId, plan: &Plan) -> String {
    let mut bytes = b"rappel plan 1\n".to_vec();
    text(&mut bytes, target.as_str().as_bytes());
    for action in plan.actions.iter().filter(|action| action.action != ActionKind::Skip) {
        text(&mut bytes, action.facet.as_str().as_bytes());
        bytes.push(action.action as u8);
        text(&mut bytes, action.path.as_bytes());
        node(&mut bytes, action.old.as_ref());
        node(&mut bytes, action.new.as_ref());
    }
    if !plan.git.is_empty() {
        text(&mut bytes, b"git");
        text(&mut bytes, &serde_json::to_vec(&plan.git).unwrap_or_default());
    }
    for database in &plan.databases {
        text(&mut bytes, b"database");
        text(&mut bytes, database.name.as_bytes());
        text(&mut bytes, database.place.as_bytes());
        // A database that others go on writing to is saved under a lock, whatever it then holds.
        bytes.push(u8::from(database.from.is_some()));
        text(&mut bytes, database.to.to_string().as_bytes());
    }
    // Not which sessions are set back: agents go on meanwhile, and a fork takes nothing away.
    if let Some(transcripts) = &plan.agents.transcripts {
        text(&mut bytes, b"transcripts");
        text(&mut bytes, &transcripts.0);
    }
    blake3::hash(&bytes).to_hex().to_string()
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::write(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn node(out: &mut Vec<u8>, node: Option<&Node>) {
    match node {
        None => out.push(0),
        Some(Node::Directory { mode }) => {
            out.push(1);
            varint::write(out, u64::from(*mode));
        }
        Some(Node::File { mode, size, content }) => {
            out.push(if matches!(content, Content::Whole(_)) { 2 } else { 3 });
            varint::write(out, u64::from(*mode));
            varint::write(out, *size);
            out.extend_from_slice(&content.id().0);
        }
        Some(Node::Symlink { target }) => {
            out.push(4);
            text(out, target);
        }
    }
}

#[cfg(test)]
mod tests;
