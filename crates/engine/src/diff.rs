//! What changed between two checkpoints, or since one.

mod others;

use rappel_store::beneath::Root;
use rappel_store::content;
use rappel_store::sink::Scratch;
use rappel_store::tree::{self, Change};
use rappel_types::{CheckpointId, Facet, FacetState, Manifest, Node, ObjectId, Reference, RelPath};
use serde::Serialize;
use serde_json::Value;

use crate::databases::PresentDatabases;
use crate::error::Result;
use crate::rappel::Rappel;
pub use others::{DatabaseDiff, GitDiff, Moved, TableDiff};

/// Files beyond this size are compared, but not line by line.
const TEXT_MAX: u64 = 1 << 20;
/// What the summary says where there was nothing of files to compare, or nobody asked.
pub const FILES_NOT_COMPARED: &str = "files were not compared";

/// What to compare.
#[derive(Debug, Clone, Default)]
pub struct DiffOptions {
    /// Only these paths and what lies below them; empty is all.
    pub paths: Vec<RelPath>,
}

/// Paths that differ. Folders count only where nothing in them tells the story.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FilesDiff {
    /// Only in the second.
    pub added: Vec<RelPath>,
    /// In both, with other content, kind or mode.
    pub modified: Vec<RelPath>,
    /// Only in the first.
    pub deleted: Vec<RelPath>,
}

/// What differs between two states.
#[derive(Debug, Clone, Serialize)]
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
    /// What could not be compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The agents facet; not built yet.
    pub agents: Option<Value>,
    /// All of it in a sentence.
    pub summary: String,
    /// Every path that differs, with what stands there on both sides.
    #[serde(skip)]
    pub changes: Vec<Change>,
    /// Whether the second side is the workspace itself.
    #[serde(skip)]
    pub against_workspace: bool,
}

/// How one file differs, for people.
#[derive(Debug, Clone)]
pub struct FileText {
    /// Which.
    pub path: RelPath,
    /// The change itself.
    pub change: Change,
    /// A unified diff; `None` where there are no lines to compare.
    pub text: Option<String>,
    /// Lines added and removed, where there are lines.
    pub lines: Option<(usize, usize)>,
}

impl Rappel {
    /// Compares a checkpoint with another, or with the workspace as it is now.
    pub fn diff(
        &self,
        from: &Reference,
        to: Option<&Reference>,
        options: &DiffOptions,
    ) -> Result<Diff> {
        let from = self.view(&self.resolve(from, true)?)?;
        let old = tree_of(&from.manifest);
        let mut unknown: Vec<String> = Vec::new();
        let mut lacking: Vec<CheckpointId> = Vec::new();
        let mut note = |manifest: &Manifest| {
            lacking.extend(tree_of(manifest).is_none().then(|| manifest.id.clone()));
        };
        note(&from.manifest);
        let (name, at, changes, git, databases) = match to {
            Some(to) => {
                let to = self.view(&self.resolve(to, true)?)?.manifest;
                note(&to);
                if holds_databases(&from.manifest) != holds_databases(&to) {
                    let id = if holds_databases(&to) { &from.manifest.id } else { &to.id };
                    unknown.push(format!("{id} holds no databases; they are not compared"));
                }
                let changes = match (old, tree_of(&to)) {
                    (Some(old), Some(new)) => tree::diff(self.source(), &old, &new)?,
                    _ => Vec::new(),
                };
                // What one of them did not look at is no difference.
                let databases = match holds_databases(&to) {
                    true => to.databases,
                    false => from.manifest.databases.clone(),
                };
                let Manifest { id, created_at, git, .. } = to;
                (id.to_string(), created_at, changes, git, databases)
            }
            None => {
                let id = self.require_known()?;
                let scratch = Scratch::over(self.source());
                let now = self.scan(&scratch, self.load_cache(id)?, &[], None)?;
                let changes = match old {
                    Some(old) => tree::diff(&scratch, &old, &now.tree)?,
                    None => Vec::new(),
                };
                let git = self.look_at_git(&now, None, &scratch)?.root_part();
                let PresentDatabases { parts: databases, unknown: not_compared } =
                    self.present_databases(&from.manifest.databases, &scratch)?;
                unknown.extend(not_compared);
                ("workspace".to_owned(), self.now(), changes, git, databases)
            }
        };
        let meant = |path: &RelPath| {
            options.paths.is_empty() || options.paths.iter().any(|chosen| path.is_within(chosen))
        };
        let changes: Vec<Change> =
            changes.into_iter().filter(|change| meant(&change.path)).collect();
        let compared = match holds_databases(&from.manifest) {
            true => &from.manifest.databases,
            false => &databases,
        };
        let databases = others::databases(compared, &databases);
        let files = summarise(&changes);
        unknown.extend(lacking.iter().map(|id| format!("{id} holds no files")));
        let summary = match (files.added.len(), files.modified.len(), files.deleted.len()) {
            _ if !lacking.is_empty() => FILES_NOT_COMPARED.to_owned(),
            (0, 0, 0) => "no difference in files".to_owned(),
            (added, modified, deleted) => {
                format!("{added} added, {modified} modified, {deleted} deleted")
            }
        };
        Ok(Diff {
            from: from.manifest.id.to_string(),
            to: name,
            time_delta_ms: at.millis_since(from.manifest.created_at),
            files,
            git: others::git(from.manifest.git.as_ref(), git.as_ref()),
            databases,
            warnings: unknown,
            agents: None,
            summary,
            changes,
            against_workspace: to.is_none(),
        })
    }

    /// The changed files of a comparison one after the other, with their lines where they have any.
    pub fn diff_text(&self, diff: &Diff, visit: &mut dyn FnMut(FileText)) -> Result<()> {
        let root = Root::open(&self.root, self.options.disk.clone())?;
        for change in &diff.changes {
            if is_folder(change.old.as_ref()) && is_folder(change.new.as_ref()) {
                continue;
            }
            let old = self.stored_text(change.old.as_ref())?;
            let new = match diff.against_workspace {
                true => present_text(&root, &change.path, change.new.as_ref()),
                false => self.stored_text(change.new.as_ref())?,
            };
            let (text, lines) = match (old, new) {
                (Some(old), Some(new)) if old != new => {
                    let (text, lines) = unified(&change.path, change, &old, &new);
                    (Some(text), Some(lines))
                }
                _ => (None, None),
            };
            visit(FileText { path: change.path.clone(), change: change.clone(), text, lines });
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

/// Whether it is known which databases there were.
fn holds_databases(manifest: &Manifest) -> bool {
    matches!(manifest.state_of(Facet::Databases), FacetState::Captured | FacetState::Absent)
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

fn unified(path: &RelPath, change: &Change, old: &str, new: &str) -> (String, (usize, usize)) {
    let name = path.to_string();
    let side = |node: &Option<Node>, prefix: &str| match node {
        Some(Node::Directory { .. }) | None => "/dev/null".to_owned(),
        Some(_) => format!("{prefix}/{name}"),
    };
    let diff = similar::TextDiff::from_lines(old, new);
    let count = |tag| diff.iter_all_changes().filter(|line| line.tag() == tag).count();
    let lines = (count(similar::ChangeTag::Insert), count(similar::ChangeTag::Delete));
    let text =
        diff.unified_diff().header(&side(&change.old, "a"), &side(&change.new, "b")).to_string();
    (text, lines)
}

/// Files and links by what became of them; folders only where they are all there is to say.
pub(crate) fn summarise(changes: &[Change]) -> FilesDiff {
    let mut files = FilesDiff::default();
    for (at, change) in changes.iter().enumerate() {
        let (old, new) = (is_folder(change.old.as_ref()), is_folder(change.new.as_ref()));
        let only_folder = (old || change.old.is_none()) && (new || change.new.is_none());
        let told_below = changes.get(at + 1).is_some_and(|next| next.path.is_within(&change.path));
        if only_folder && told_below {
            continue;
        }
        let list = match (&change.old, &change.new) {
            (None, _) => &mut files.added,
            (_, None) => &mut files.deleted,
            _ => &mut files.modified,
        };
        list.push(change.path.clone());
    }
    files
}
