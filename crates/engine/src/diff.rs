//! What changed between two checkpoints, or since one.

mod agents;
mod databases;
pub(crate) mod git;
mod renames;

use std::collections::HashMap;

use rappel_store::beneath::Root;
use rappel_store::content;
use rappel_store::sink::Scratch;
use rappel_store::tree::{self, Change};
use rappel_types::Advice;
use rappel_types::agents::SessionId;
use rappel_types::git::GitPart;
use rappel_types::manifest::{PartialReason, Skipped};
use rappel_types::{Facet, FacetState, Manifest, Node, ObjectId, Reference, RelPath, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::changes::{FilesDiff, summarise, take_out_unheld};
use crate::databases::{PresentDatabases, could_not_hold, not_captured};
use crate::error::{Error, Result};
use crate::git::AlsoWorktrees;
use crate::knowledge;
use crate::rappel::Rappel;
use crate::save::CapturedFiles;
use agents::Side;
pub use agents::{AgentsCompared, SessionDiff};
pub use databases::{DatabaseDiff, TableDiff};
pub use git::{GitDiff, NestedDiff, RefDiff, RepositoryDiff};
pub use renames::Renamed;

/// Files beyond this size are compared, but not line by line.
const TEXT_MAX: u64 = 1 << 20;
/// What the summary says where there was nothing of files to compare, or nobody asked.
pub const FILES_NOT_COMPARED: &str = "files were not compared";

/// How one thing was and is.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Moved<T> {
    /// In the first state.
    pub from: T,
    /// In the second.
    pub to: T,
}

impl<T: PartialEq + Clone> Moved<T> {
    fn between(from: &T, to: &T) -> Option<Self> {
        (from != to).then(|| Self { from: from.clone(), to: to.clone() })
    }
}

/// What to compare.
#[derive(Debug, Clone, Default)]
pub struct DiffOptions {
    /// Only these paths and what lies below them; empty is all.
    pub paths: Vec<RelPath>,
    /// Only these facets; empty is all. With agents alone, every checkpoint counts and not just those with files.
    pub only: Vec<Facet>,
    /// Of the agents only this session.
    pub session: Option<SessionId>,
}

impl DiffOptions {
    fn wants(&self, facet: Facet) -> bool {
        self.only.is_empty() || self.only.contains(&facet)
    }

    /// Files or knowledge, which lie in one tree.
    fn wants_files(&self) -> bool {
        self.wants(Facet::Files) || self.wants(Facet::Knowledge)
    }
}

/// What differs between two states.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Diff {
    /// The first state's checkpoint.
    pub from: String,
    /// The second state's checkpoint, or `workspace` for what is there now.
    pub to: String,
    /// From the first to the second.
    pub time_delta_ms: i64,
    /// The files.
    pub files: FilesDiff,
    /// Where git stands; `null` if it did not move.
    pub git: Option<GitDiff>,
    /// The databases that differ.
    pub databases: Vec<DatabaseDiff>,
    /// What the first holds and the second leaves out although it is there: ignored, too large,
    /// unreadable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Skipped>,
    /// What could not be compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What agents learnt; `null` if that was not compared.
    pub agents: Option<AgentsCompared>,
    /// All of it in a sentence.
    pub summary: String,
    /// Every path that differs, with what stands there on both sides.
    #[serde(skip)]
    pub changes: Vec<Change>,
    /// Whether the second side is the workspace itself.
    #[serde(skip)]
    pub against_workspace: bool,
    /// Whether files were compared.
    #[serde(skip)]
    pub files_compared: bool,
    /// How many of the paths in `files` are knowledge.
    #[serde(skip)]
    pub knowledge: usize,
}

/// How one file differs, for people.
#[derive(Debug, Clone)]
pub struct FileText {
    /// Which.
    pub path: RelPath,
    /// Where the file was before, if it was renamed.
    pub from: Option<RelPath>,
    /// The change itself; of a renamed file, from what stood at its former place.
    pub change: Change,
    /// A unified diff; `None` where there are no lines to compare.
    pub text: Option<String>,
    /// Lines added and removed, where there are lines.
    pub lines: Option<(usize, usize)>,
}

impl Diff {
    /// Says which checkpoints hold no files.
    fn lack_files<'m>(&mut self, of: impl IntoIterator<Item = &'m Manifest>) {
        let lacking = of.into_iter().filter(|manifest| tree_of(manifest).is_none());
        self.warnings.extend(lacking.map(|manifest| format!("{} holds no files", manifest.id)));
        self.files_compared = false;
    }

    /// Files and agents in a sentence.
    fn sentence(&self, options: &DiffOptions) -> String {
        let FilesDiff { added, modified, deleted, renamed } = &self.files;
        let learnt = self.agents.as_ref().map(|agents| agents.all.summary());
        let learnt = learnt.filter(|learnt| !learnt.is_empty());
        let files = match (added.len(), modified.len(), deleted.len()) {
            _ if !options.wants_files() && self.agents.is_some() => {
                return learnt.unwrap_or_else(|| "no difference in agents".to_owned());
            }
            _ if !self.files_compared => FILES_NOT_COMPARED.to_owned(),
            (0, 0, 0) if !options.wants(Facet::Files) => "no difference in knowledge".to_owned(),
            (0, 0, 0) => "no difference in files".to_owned(),
            (added, modified, deleted) => {
                let counts = format!("{added} new, {modified} changed, {deleted} deleted");
                match renamed.len() {
                    0 => counts,
                    renamed => format!("{counts} ({renamed} renamed)"),
                }
            }
        };
        match learnt {
            Some(learnt) => format!("{files}; agents: {learnt}"),
            None => files,
        }
    }
}

impl Rappel {
    /// Compares two checkpoints in everything that both hold.
    pub fn compare(&self, from: &Reference, to: &Reference) -> Result<Diff> {
        self.diff(from, Some(to), &DiffOptions::default())
    }

    /// Compares a checkpoint with another, or with the workspace as it is now.
    pub fn diff(
        &self,
        from: &Reference,
        to: Option<&Reference>,
        options: &DiffOptions,
    ) -> Result<Diff> {
        if options.only.contains(&Facet::Process) {
            return Err(Error::Usage {
                message: "what a process used is kept with a checkpoint, and not compared".into(),
                advice: vec![Advice::ShowProcess],
            });
        }
        let files_only = options.only != [Facet::Agents];
        let from = self.view(&self.resolve(from, files_only)?)?.manifest;
        let to = match to {
            Some(to) => Some(self.view(&self.resolve(to, files_only)?)?.manifest),
            None => None,
        };
        self.diff_manifests(&from, to.as_ref(), options)
    }

    /// The same, where both are read already.
    pub(crate) fn diff_manifests(
        &self,
        from: &Manifest,
        to: Option<&Manifest>,
        options: &DiffOptions,
    ) -> Result<Diff> {
        let at = to.map_or_else(|| self.now(), |to| to.created_at);
        let mut diff = Diff {
            from: from.id.to_string(),
            to: to.map_or_else(|| "workspace".to_owned(), |to| to.id.to_string()),
            time_delta_ms: at.millis_since(from.created_at),
            files: FilesDiff::default(),
            git: None,
            databases: Vec::new(),
            left_out: Vec::new(),
            warnings: Vec::new(),
            agents: None,
            summary: String::new(),
            changes: Vec::new(),
            against_workspace: to.is_none(),
            files_compared: options.wants_files(),
            knowledge: 0,
        };
        match to {
            Some(to) => self.diff_stored(from, to, options, &mut diff)?,
            None => self.diff_present(from, options, &mut diff)?,
        }
        if options.wants(Facet::Agents) {
            self.diff_agents(from, to, at, options, &mut diff)?;
        }
        let meant = |path: &RelPath| {
            options.paths.is_empty() || options.paths.iter().any(|chosen| path.is_within(chosen))
        };
        diff.changes.retain(|change| meant(&change.path));
        diff.left_out.retain(|one| meant(&one.path));
        self.check_diff_paths(from, to, options, &diff)?;
        self.choose_facets(from, to, options, &mut diff);
        diff.files.renamed = self.find_renames(&diff)?;
        diff.summary = diff.sentence(options);
        Ok(diff)
    }

    /// A path that neither side knows is a mistake of the caller.
    fn check_diff_paths(
        &self,
        from: &Manifest,
        to: Option<&Manifest>,
        options: &DiffOptions,
        diff: &Diff,
    ) -> Result<()> {
        // Two checkpoints can be compared without the folder that they are of.
        let root = match to {
            Some(_) => None,
            None => Some(Root::open(&self.root, self.options.disk.clone())?),
        };
        for path in &options.paths {
            let mut known = diff.changes.iter().any(|change| change.path.is_within(path));
            if let Some(root) = &root {
                known = known || root.stat(path)?.is_some();
            }
            for tree in [Some(from), to].into_iter().flatten().filter_map(tree_of) {
                known = known || tree::lookup(self.source(), &tree, path)?.is_some();
            }
            let place = path.to_string();
            let databases = [Some(from), to].into_iter().flatten().flat_map(|one| &one.databases);
            let mut places = databases.filter_map(|part| part.location.as_ref());
            if !known && !places.any(|location| *location == place) {
                let checkpoint = from.id.to_string();
                return Err(Error::NoPath { checkpoint, path: place });
            }
        }
        Ok(())
    }

    /// Leaves what was asked for of files and knowledge, and sums it up.
    fn choose_facets(
        &self,
        from: &Manifest,
        to: Option<&Manifest>,
        options: &DiffOptions,
        diff: &mut Diff,
    ) {
        let paths_of = |manifest: &Manifest| {
            manifest.knowledge.as_ref().map(|part| part.paths.clone()).unwrap_or_default()
        };
        let mut knowledge = paths_of(from);
        knowledge.extend(to.map_or_else(|| self.config.knowledge.paths.clone(), paths_of));
        let is_knowledge = |path: &RelPath| knowledge::holds(&knowledge, path);
        diff.changes.retain(|change| match is_knowledge(&change.path) {
            true => options.wants(Facet::Knowledge),
            false => options.wants(Facet::Files),
        });
        diff.files = summarise(&diff.changes);
        let FilesDiff { added, modified, deleted, .. } = &diff.files;
        let told = added.iter().chain(modified).chain(deleted);
        diff.knowledge = told.filter(|path| is_knowledge(path)).count();
    }

    /// Two checkpoints, agents apart.
    fn diff_stored(
        &self,
        from: &Manifest,
        to: &Manifest,
        options: &DiffOptions,
        diff: &mut Diff,
    ) -> Result<()> {
        if options.wants(Facet::Databases) {
            match (holds(from, Facet::Databases), holds(to, Facet::Databases)) {
                (true, true) => {
                    diff.databases = databases::compare(&from.databases, &to.databases);
                    // What could not be read is no difference either.
                    diff.databases.retain(|database| {
                        let name = &database.name;
                        let failed = [from, to].into_iter().find(|one| could_not_hold(one, name));
                        diff.warnings.extend(failed.map(|one| not_captured(one, name)));
                        failed.is_none()
                    });
                }
                (false, false) => {}
                _ if from.databases.is_empty() && to.databases.is_empty() => {}
                // What one of them did not look at is no difference.
                (_, held) => {
                    let id = if held { &from.id } else { &to.id };
                    diff.warnings.push(format!("{id} holds no databases; they are not compared"));
                }
            }
        }
        if options.wants(Facet::Git) {
            diff.git = match (holds(from, Facet::Git), holds(to, Facet::Git)) {
                (true, true) => {
                    let then = git::states(self.source(), from.git.as_ref())?;
                    let now = git::states(self.source(), to.git.as_ref())?;
                    git::compare(self.source(), &then, &now)
                }
                _ => None,
            };
        }
        if options.wants_files() {
            match (tree_of(from), tree_of(to)) {
                (Some(old), Some(new)) => {
                    diff.changes = tree::diff(self.source(), &old, &new)?;
                    diff.left_out = take_out_unheld(&mut diff.changes, to);
                }
                _ => diff.lack_files([from, to]),
            }
        }
        Ok(())
    }

    /// What differs in the repositories since they were like that (`None` if nothing does), and
    /// what could not be looked at.
    pub(crate) fn git_since(
        &self,
        then: Option<&GitPart>,
        files: &CapturedFiles,
        scratch: &Scratch<'_>,
    ) -> Result<(Option<GitDiff>, Vec<PartialReason>)> {
        let now = self.look_at_git(files, None, &AlsoWorktrees::new(), scratch)?;
        // What cannot be read now is no difference.
        let diff = match now.state {
            FacetState::Failed => None,
            _ => git::compare(scratch, &git::states(scratch, then)?, &now.states),
        };
        Ok((diff, now.partial))
    }

    /// A checkpoint and what is there now, agents apart.
    fn diff_present(&self, from: &Manifest, options: &DiffOptions, diff: &mut Diff) -> Result<()> {
        let id = self.require_known()?;
        let scratch = Scratch::over(self.source());
        let asked = [Facet::Git, Facet::Databases].into_iter().any(|facet| options.wants(facet));
        let mut noticed = Vec::new();
        if options.wants_files() || asked {
            let mut now = self.scan(&scratch, self.load_cache(id)?, &[])?;
            noticed = std::mem::take(&mut now.scanned.databases);
            if options.wants(Facet::Git) && holds(from, Facet::Git) {
                diff.git = self.git_since(from.git.as_ref(), &now, &scratch)?.0;
            }
            match tree_of(from) {
                _ if !options.wants_files() => {}
                Some(old) => {
                    diff.changes = tree::diff(&scratch, &old, &now.tree)?;
                    now.scanned.databases.clone_from(&noticed);
                    diff.left_out = self.take_out_left_out(&mut diff.changes, &now.scanned)?;
                }
                None => diff.lack_files([from]),
            }
        }
        if options.wants(Facet::Databases) {
            let now = self.present_databases(&from.databases, &scratch)?;
            let any = !(self.config.databases.is_empty() && self.config.commands.is_empty());
            let new = match from.state_of(Facet::Databases) {
                FacetState::NotAsked => {
                    if any || !noticed.is_empty() {
                        let id = &from.id;
                        let reason = format!("{id} holds no databases; they are not compared");
                        diff.warnings.push(reason);
                    }
                    PresentDatabases::default()
                }
                FacetState::Captured | FacetState::Absent | FacetState::Failed => {
                    self.new_databases(from, &noticed, &scratch)?
                }
            };
            diff.warnings.extend([now.unknown, new.unknown].concat());
            diff.databases = databases::compare(&from.databases, &[now.parts, new.parts].concat());
        }
        Ok(())
    }

    fn diff_agents(
        &self,
        from: &Manifest,
        to: Option<&Manifest>,
        now: Timestamp,
        options: &DiffOptions,
        diff: &mut Diff,
    ) -> Result<()> {
        let old = Side::of(from);
        let new = match to {
            Some(to) => Side::of(to),
            None => Some(Side::now(now)),
        };
        match (old, new) {
            (Some(old), Some(new)) => {
                diff.agents = Some(self.compare_agents(&old, &new, options.session.as_ref())?);
            }
            (None, Some(held)) if !held.is_empty() || !options.only.is_empty() => {
                diff.warnings.push(format!("{} holds no agents; they are not compared", from.id));
            }
            (Some(held), None) if !held.is_empty() || !options.only.is_empty() => {
                diff.warnings.push(format!("{} holds no agents; they are not compared", diff.to));
            }
            _ => {}
        }
        Ok(())
    }

    /// The changed files of a comparison one after the other, with their lines where they have any.
    pub fn diff_text(&self, diff: &Diff, visit: &mut dyn FnMut(FileText)) -> Result<()> {
        let now = match diff.against_workspace {
            true => Some(Root::open(&self.root, self.options.disk.clone())?),
            false => None,
        };
        let renamed = &diff.files.renamed;
        let came: HashMap<_, _> = renamed.iter().map(|one| (&one.to, &one.from)).collect();
        let mut former: HashMap<&RelPath, Option<Node>> =
            renamed.iter().map(|one| (&one.from, None)).collect();
        for change in &diff.changes {
            if let Some(node) = former.get_mut(&change.path) {
                node.clone_from(&change.old);
            }
        }
        for change in &diff.changes {
            if is_folder(change.old.as_ref()) && is_folder(change.new.as_ref()) {
                continue;
            }
            // Told with the place where its file is now.
            if former.contains_key(&change.path) {
                continue;
            }
            let from = came.get(&change.path).copied();
            let mut change = change.clone();
            if let Some(node) = from.and_then(|from| former.get(from)) {
                change.old.clone_from(node);
            }
            let old = self.stored_text(change.old.as_ref())?;
            let new = match &now {
                Some(root) => present_text(root, &change.path, change.new.as_ref()),
                None => self.stored_text(change.new.as_ref())?,
            };
            let (text, lines) = match (old, new) {
                (Some(old), Some(new)) if old != new => {
                    let (text, lines) = unified(from.unwrap_or(&change.path), &change, &old, &new);
                    (Some(text), Some(lines))
                }
                _ => (None, None),
            };
            visit(FileText { path: change.path.clone(), from: from.cloned(), change, text, lines });
        }
        Ok(())
    }

    /// A stored file as text; `None` if it is not text. A path without a file is empty text.
    pub(crate) fn stored_text(&self, node: Option<&Node>) -> Result<Option<String>> {
        match node {
            Some(Node::File { size, content, .. }) if *size <= TEXT_MAX => {
                Ok(as_text(content::read(self.source(), content, *size, TEXT_MAX)?))
            }
            Some(Node::File { .. }) => Ok(None),
            Some(Node::Symlink { target }) => Ok(as_text(target.clone())),
            Some(Node::Directory { .. }) | None => Ok(Some(String::new())),
        }
    }
}

fn tree_of(manifest: &Manifest) -> Option<ObjectId> {
    manifest.files.as_ref().map(|files| files.tree)
}

/// Whether it is known what there was of a facet.
pub(crate) fn holds(manifest: &Manifest, facet: Facet) -> bool {
    matches!(manifest.state_of(facet), FacetState::Captured | FacetState::Absent)
}

/// A file of the workspace as text, as [`Rappel::stored_text`] gives stored ones.
pub(crate) fn present_text(root: &Root, path: &RelPath, node: Option<&Node>) -> Option<String> {
    match node {
        Some(Node::File { size, .. }) if *size <= TEXT_MAX => {
            use std::io::Read;
            let mut bytes = Vec::new();
            // Gone or replaced since it was compared: there is nothing to show any more.
            root.open_file(path).ok()?.take(TEXT_MAX + 1).read_to_end(&mut bytes).ok()?;
            as_text(bytes)
        }
        Some(Node::File { .. }) => None,
        Some(Node::Symlink { target }) => as_text(target.clone()),
        Some(Node::Directory { .. }) | None => Some(String::new()),
    }
}

fn is_folder(node: Option<&Node>) -> bool {
    matches!(node, Some(Node::Directory { .. }))
}

fn as_text(bytes: Vec<u8>) -> Option<String> {
    if bytes.contains(&0) { None } else { String::from_utf8(bytes).ok() }
}

fn unified(from: &RelPath, change: &Change, old: &str, new: &str) -> (String, (usize, usize)) {
    let side = |node: &Option<Node>, path: &RelPath, prefix: &str| match node {
        Some(Node::Directory { .. }) | None => "/dev/null".to_owned(),
        Some(_) => format!("{prefix}/{path}"),
    };
    let diff = similar::TextDiff::from_lines(old, new);
    let count = |tag| diff.iter_all_changes().filter(|line| line.tag() == tag).count();
    let lines = (count(similar::ChangeTag::Insert), count(similar::ChangeTag::Delete));
    let (before, after) = (side(&change.old, from, "a"), side(&change.new, &change.path, "b"));
    let text = diff.unified_diff().header(&before, &after).to_string();
    (text, lines)
}
