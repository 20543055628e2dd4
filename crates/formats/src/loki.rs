//! The form of Loki Mode: `.loki/state/checkpoints/` with a folder for each checkpoint and
//! `index.jsonl`, a line for each. A checkpoint is a copy of a few of the session's state files, the
//! commit that git stood at, and `metadata.json`.
//!
//! Three writers of that tool made three shapes of ids, metadata and lines; all of them are read.
//! `docs/formats.md` lists each rule that this relies on.

mod index;
mod metadata;
mod read;
mod write;

use std::path::{Path, PathBuf};

use rappel_types::{Timestamp, Trigger};

pub use metadata::{Listed, Metadata};
pub use read::{list, read};
pub use write::{items, write, write_on};

/// The metadata in a checkpoint's folder.
const METADATA: &str = "metadata.json";
/// The list of all checkpoints.
const INDEX: &str = "index.jsonl";
/// What another writer leaves beside the state: it is no state.
const SNAPSHOT: &str = "worktree-snapshot.txt";
/// The folder of the tool in a project.
pub const FOLDER: &str = ".loki";
/// Where checkpoints lie in it.
pub const CHECKPOINTS: &str = "state/checkpoints";
/// The message of a checkpoint that is made before a rollback.
pub const SAFETY: &str = "pre-rollback snapshot";
/// How an id looks like that people may give.
const ID_MAX: usize = 100;

/// Whether a checkpoint may be called so.
pub fn is_id(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=ID_MAX).contains(&text.len()) && text.bytes().all(legal)
}

/// Whether what lies here is of this form: the folder of checkpoints, `.loki`, or a project with it.
pub fn is_here(path: &Path) -> bool {
    place_of(path).is_some()
}

/// The folder of checkpoints that is meant by a path.
fn place_of(path: &Path) -> Option<PathBuf> {
    let inner = Path::new(FOLDER).join(CHECKPOINTS);
    let candidates = [path.to_owned(), path.join(CHECKPOINTS), path.join(inner)];
    candidates.into_iter().find(|place| is_place(place))
}

fn is_place(place: &Path) -> bool {
    let is_file = |path: PathBuf| path.symlink_metadata().is_ok_and(|meta| meta.is_file());
    if is_file(place.join(INDEX)) {
        return true;
    }
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).any(|entry| {
        entry.file_name().to_str().is_some_and(|name| id_time(name).is_some())
            && is_file(entry.path().join(METADATA))
    })
}

/// Which of the tool's writers makes such a checkpoint. That decides about its id, about its shape and
/// about which state it copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// `loki checkpoint create`: `cp-YYYYMMDD-HHMMSS`.
    Command,
    /// The runner, by itself: `cp-ITERATION-EPOCH`.
    Automatic,
    /// The dashboard's server: `chk-YYYYMMDD-HHMMSS`.
    Server,
}

impl Writer {
    /// The one that would have made a checkpoint with this trigger. `created_by` says where it was
    /// asked for.
    pub fn of(trigger: Trigger, created_by: Option<&str>) -> Self {
        match (trigger, created_by) {
            (_, Some("http" | "api" | "dashboard")) => Self::Server,
            (Trigger::Manual | Trigger::Imported, _) => Self::Command,
            _ => Self::Automatic,
        }
    }

    /// The one whose ids look like this; the last one to be asked takes all others.
    fn of_id(id: &str) -> Self {
        if id.starts_with("chk-") {
            return Self::Server;
        }
        let rest = id.strip_prefix("cp-").unwrap_or_default();
        match rest.split_once('-') {
            Some((date, time)) if date.len() == 8 && time.len() == 6 => Self::Command,
            Some(_) => Self::Automatic,
            None => Self::Command,
        }
    }

    /// A new id.
    fn id(self, at: Timestamp, iteration: u64) -> String {
        let seconds = at.as_millis().div_euclid(1000);
        let compact = at.compact().replace('_', "-");
        match self {
            Self::Command => format!("cp-{compact}"),
            Self::Automatic => format!("cp-{iteration}-{seconds}"),
            Self::Server => format!("chk-{compact}"),
        }
    }

    /// The state that it copies, below the tool's folder.
    fn state(self) -> &'static [&'static str] {
        match self {
            Self::Command => {
                &["session.json", "dashboard-state.json", "queue", "memory", "metrics", "council"]
            }
            Self::Server => &["session.json", "dashboard-state.json", "queue"],
            Self::Automatic => &[
                "state/orchestrator.json",
                "queue/pending.json",
                "queue/completed.json",
                "queue/in-progress.json",
                "queue/current-task.json",
            ],
        }
    }
}

/// The moment that an id tells, if it is one of the three forms.
fn id_time(id: &str) -> Option<Timestamp> {
    let rest = id.strip_prefix("chk-").or_else(|| id.strip_prefix("cp-"))?;
    let (first, second) = rest.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(first) || !digits(second) {
        return None;
    }
    if first.len() == 8 && second.len() == 6 {
        let (date, time) = (first, second);
        let text = format!(
            "{}-{}-{}T{}:{}:{}Z",
            &date[..4],
            &date[4..6],
            &date[6..],
            &time[..2],
            &time[2..4],
            &time[4..]
        );
        return text.parse().ok();
    }
    let seconds: i64 = second.parse().ok()?;
    Some(Timestamp::from_millis(seconds.checked_mul(1000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_their_moment_and_their_writer() {
        for (id, writer, at) in [
            ("cp-20260212-143022", Writer::Command, Some("2026-02-12T14:30:22Z")),
            ("cp-12-1739345422", Writer::Automatic, Some("2025-02-12T07:30:22Z")),
            ("chk-20260212-150105", Writer::Server, Some("2026-02-12T15:01:05Z")),
            ("cp-20261399-143022", Writer::Command, None),
            ("by-hand", Writer::Command, None),
        ] {
            assert_eq!(Writer::of_id(id), writer, "{id}");
            assert_eq!(id_time(id), at.map(|at| at.parse().unwrap()), "{id}");
        }
    }

    #[test]
    fn an_id_is_never_a_path() {
        for bad in ["", "..", "a/b", "a b", "é", "a.b", &"a".repeat(101)] {
            assert!(!is_id(bad), "{bad:?}");
        }
        assert!(is_id("cp-20260212-143022") && is_id(&"a".repeat(100)));
    }
}
