//! What Loki Mode prints about checkpoints: the same information in the same order.

use std::path::Path;

pub use rappel::LokiListed as Listed;
use rappel::{Checkpoint, LokiWritten};
use rappel_types::Timestamp;

use crate::output::{Paint, clean};

/// How much of a commit's name is shown.
const SHA: usize = 8;
/// What stands for a commit where there is none.
const NO_GIT: &str = "no-git";

/// A checkpoint in the list.
pub struct Row {
    pub id: String,
    pub created_at: Timestamp,
    sha: Option<String>,
    message: String,
}

impl Row {
    /// One of the tool's folder.
    pub fn theirs(one: &Listed) -> Self {
        Self {
            id: one.id.clone(),
            created_at: one.created_at,
            sha: one.git_sha.clone(),
            message: one.message.clone().unwrap_or_default(),
        }
    }

    /// One that only we have.
    pub fn ours(one: &Checkpoint) -> Self {
        let git = one.manifest.git.as_ref();
        Self {
            id: one.manifest.id.to_string(),
            created_at: one.manifest.created_at,
            sha: git.and_then(|git| git.root.commit.clone()),
            message: one.title().to_owned(),
        }
    }
}

fn sha(text: Option<&str>) -> &str {
    text.map_or(NO_GIT, |text| text.get(..SHA).unwrap_or(text))
}

/// `2026-02-12 14:30:22`, in the zone that the ids are in.
fn moment(at: Timestamp) -> String {
    at.0.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A message on one line.
fn line(text: &str) -> String {
    clean(text.lines().next().unwrap_or_default())
}

/// The list, oldest first.
pub fn list(rows: &[Row], total: usize, first: &str, paint: Paint) -> String {
    let mut text = format!("{}\n\n", paint.strong("Checkpoints"));
    if rows.is_empty() {
        text.push_str(&format!("  No checkpoints yet\n\n  Make one with: {first}\n"));
        return text;
    }
    let width = rows.iter().map(|row| row.id.len()).max().unwrap_or(0);
    for row in rows {
        let id = paint.id(&format!("{:width$}", row.id));
        let (at, commit) = (moment(row.created_at), sha(row.sha.as_deref()));
        let said = format!("  {id}  {at}  {commit:SHA$}  {}", line(&row.message));
        text.push_str(said.trim_end());
        text.push('\n');
    }
    text.push_str(&format!("\n  Showing {} of {total} checkpoints\n", rows.len()));
    text
}

/// A path as people write it: from the workspace, if it lies there.
fn place(path: &Path, root: &Path) -> String {
    clean(&path.strip_prefix(root).unwrap_or(path).to_string_lossy())
}

fn items(count: u64) -> String {
    match count {
        1 => "1 state item copied".to_owned(),
        count => format!("{count} state items copied"),
    }
}

/// A checkpoint that was just made.
pub fn created(
    checkpoint: &Checkpoint,
    written: &LokiWritten,
    root: &Path,
    back: &str,
    paint: Paint,
) -> String {
    let git = checkpoint.manifest.git.as_ref();
    let commit = git.and_then(|git| git.root.commit.as_deref());
    let rows = [
        ("Checkpoint:", paint.id(&written.id)),
        ("Git SHA:", sha(commit).to_owned()),
        ("Message:", line(checkpoint.title())),
        ("Files:", items(written.items)),
        ("Location:", place(&written.location, root)),
        ("Rappel:", paint.id(checkpoint.manifest.id.as_str())),
    ];
    let mut text = "Creating checkpoint...\n\n".to_owned();
    for (label, value) in rows {
        text.push_str(&format!("  {label:12}{value}\n"));
    }
    text.push_str(&format!("\n  {}\n", paint.faint(&format!("Restore with: {back}"))));
    text
}

/// What the tool's folder says of a checkpoint.
pub fn shown(found: &Listed, location: &Path, root: &Path, back: &str, paint: Paint) -> String {
    let iteration = found.iteration.map(|number| number.to_string());
    let files = found.files.map(|count| count.to_string());
    let rows = [
        ("Checkpoint:", Some(paint.id(&found.id))),
        ("Created:", Some(moment(found.created_at))),
        ("Git SHA:", Some(found.git_sha.clone().unwrap_or_else(|| NO_GIT.to_owned()))),
        ("Git branch:", found.git_branch.as_deref().map(clean)),
        ("Message:", found.message.as_deref().map(line)),
        ("Iteration:", iteration),
        ("Task:", found.task_id.as_deref().map(clean)),
        ("Provider:", found.provider.as_deref().map(clean)),
        ("Phase:", found.phase.as_deref().map(clean)),
        ("Files:", files),
        ("Created by:", found.created_by.as_deref().map(clean)),
        ("Location:", Some(place(location, root))),
        ("Rappel:", found.rappel_id.as_deref().map(clean)),
    ];
    let mut text = String::new();
    for (label, value) in rows {
        if let Some(value) = value {
            text.push_str(&format!("  {label:12}{value}\n"));
        }
    }
    text.push_str(&format!("\n  {}\n", paint.faint(&format!("Restore with: {back}"))));
    text
}
