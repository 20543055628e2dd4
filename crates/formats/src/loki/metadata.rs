//! `metadata.json` in each of its shapes, and the lines of the index, which name the same things by
//! shorter names.

use rappel_types::{Timestamp, Trigger};
use serde_json::{Value, json};

use super::{SAFETY, Writer, id_time, is_id};
use crate::portable::Portable;
use crate::reading::text;

/// What is known of a checkpoint without its state.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Metadata {
    pub id: String,
    pub created_at: Timestamp,
    pub message: Option<String>,
    pub git_sha: Option<String>,
    pub git_branch: Option<String>,
    pub iteration: Option<u64>,
    pub task_id: Option<String>,
    pub provider: Option<String>,
    pub phase: Option<String>,
    /// How many items of state it says it has.
    pub files: Option<u64>,
    pub created_by: Option<String>,
    /// What we call it, if we made it.
    pub rappel_id: Option<String>,
    /// All of it.
    pub document: Value,
}

/// A checkpoint as lists show it.
pub type Listed = Metadata;

/// The lengths to which the tool cuts what people say.
const DESCRIPTION_MAX: usize = 200;
const TASK_MAX: usize = 60;
/// What stands for git's state where there is none.
const NO_GIT: &str = "no-git";
const NO_BRANCH: &str = "unknown";

impl Metadata {
    /// Reads it from the metadata of a checkpoint, or from its line in the index. `id` is what its
    /// folder is called.
    pub(super) fn parse(json: Value, id: Option<&str>) -> Result<Self, String> {
        if !json.is_object() {
            return Err("it is no object".to_owned());
        }
        let own = text(&json, "id");
        let id = id.map(str::to_owned).or_else(|| own.clone()).ok_or("it has no id")?;
        if !is_id(&id) {
            let shown: String = id.chars().take(120).collect();
            return Err(format!("{shown:?} is no id (letters, digits, `_` and `-`, at most 100)"));
        }
        if let Some(own) = own.filter(|own| *own != id) {
            let shown: String = own.chars().take(120).collect();
            return Err(format!("it says that it is {shown:?}"));
        }
        let first = |keys: &[&str]| keys.iter().find_map(|key| text(&json, key));
        let moment =
            ["timestamp", "created_at", "ts"].iter().find_map(|key| moment(json.get(key)?));
        let created_at =
            moment.or_else(|| id_time(&id)).ok_or("it does not say when it was made")?;
        let sha = first(&["git_sha", "sha"]).filter(|sha| is_commit(sha));
        let branch = first(&["git_branch", "branch"]).filter(|name| name != NO_BRANCH);
        let number = |key: &str| match json.get(key)? {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        let count = |key: &str| match json.get(key)? {
            Value::Array(files) => Some(files.len() as u64),
            other => other.as_u64(),
        };
        Ok(Self {
            created_at,
            message: first(&["message", "task_description", "task"]),
            git_sha: sha,
            git_branch: branch,
            iteration: number("iteration").or_else(|| number("iter")),
            task_id: first(&["task_id"]),
            provider: first(&["provider"]),
            phase: first(&["phase"]),
            files: count("files").or_else(|| count("files_copied")),
            created_by: first(&["created_by"]),
            rappel_id: first(&["rappel_id"]),
            document: named(json, &id),
            id,
        })
    }

    /// Why it was made, as far as its id and message tell.
    pub(super) fn trigger(&self) -> Trigger {
        let message = self.message.as_deref().unwrap_or_default();
        match Writer::of_id(&self.id) {
            Writer::Automatic if message == SAFETY => Trigger::PreRestore,
            Writer::Automatic if message.starts_with("session end") => Trigger::SessionEnd,
            Writer::Automatic => Trigger::TaskCompleted,
            Writer::Command | Writer::Server => Trigger::Manual,
        }
    }
}

/// A document that says what it is called, where only its folder did.
fn named(mut json: Value, id: &str) -> Value {
    json["id"] = id.into();
    json
}

/// A moment as any of the writers has it: RFC 3339, the same without a zone, or seconds.
fn moment(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => {
            let zoned = text.parse().ok();
            zoned.or_else(|| format!("{}Z", text.replacen(' ', "T", 1)).parse().ok())
        }
        Value::Number(number) => {
            let seconds = number.as_f64().filter(|seconds| seconds.abs() < 1e11)?;
            Some(Timestamp::from_millis((seconds * 1000.0) as i64))
        }
        _ => None,
    }
}

/// Whether a text names a commit, be it in short.
fn is_commit(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The document that a checkpoint came with, if it came from this form.
pub(super) fn own_document(from: &Portable) -> Option<&Value> {
    let document = from.document.as_ref()?;
    let is_own = text(document, "id").as_ref() == Some(&from.id)
        && ["git", "database", "agents"].iter().all(|key| document.get(key).is_none());
    is_own.then_some(document)
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// What is written of a checkpoint: the metadata, and its line.
pub(super) struct Writing<'a> {
    pub(super) from: &'a Portable,
    pub(super) writer: Writer,
    pub(super) id: &'a str,
    pub(super) iteration: u64,
    /// The names of the items of state that are copied.
    pub(super) items: &'a [String],
}

impl Writing<'_> {
    fn message(&self) -> String {
        let own = self.from.description.clone();
        match (self.from.trigger, own) {
            (Trigger::PreRestore, _) => SAFETY.to_owned(),
            (_, Some(own)) => own,
            (Trigger::SessionEnd, None) => format!("session end (iterations={})", self.iteration),
            (other, None) => other.label().to_owned(),
        }
    }

    fn value(&self, key: &str) -> Value {
        self.from.metadata.get(key).cloned().unwrap_or(Value::Null)
    }

    fn provider(&self) -> Value {
        let own = self.value("provider");
        let session =
            self.from.sessions.iter().find(|one| Some(&one.id) == self.from.session.as_ref());
        let session = session.or(self.from.sessions.first());
        match (own, session.and_then(|one| one.provider.clone())) {
            (Value::Null, Some(provider)) => provider.into(),
            (own, _) => own,
        }
    }

    /// `metadata.json`: as it came, or in the shape of its writer.
    pub(super) fn metadata(&self) -> Value {
        if let Some(given) = self.given() {
            return given;
        }
        let git = self.from.git.as_ref();
        let sha = git.and_then(|git| git.commit.clone()).unwrap_or_else(|| NO_GIT.to_owned());
        let branch = git.and_then(|git| git.branch.clone()).unwrap_or_else(|| NO_BRANCH.to_owned());
        let message = self.message();
        let at = self.from.created_at;
        let own = match self.writer {
            Writer::Automatic => json!({
                "id": self.id,
                "timestamp": whole_second(at),
                "iteration": self.iteration,
                "task_id": self.value("task_id"),
                "task_description": cut(&message, DESCRIPTION_MAX),
                "git_sha": sha,
                "git_branch": branch,
                "provider": self.provider(),
                "phase": self.value("phase"),
            }),
            Writer::Command => json!({
                "id": self.id,
                "timestamp": whole_second(at),
                "iteration": self.iteration,
                "message": message,
                "git_sha": sha,
                "git_branch": branch,
                "provider": self.provider(),
                "phase": self.value("phase"),
                "files_copied": self.items.len(),
                "created_by": self.created_by(),
            }),
            Writer::Server => json!({
                "id": self.id,
                "created_at": with_offset(at),
                "git_sha": sha,
                "git_branch": branch,
                "message": message,
                "files": self.files(),
                "created_by": self.created_by(),
            }),
        };
        let mut all = own.as_object().cloned().unwrap_or_default();
        all.insert("rappel_id".to_owned(), self.from.id.clone().into());
        all.insert("rappel_trigger".to_owned(), self.from.trigger.as_str().into());
        Value::Object(all)
    }

    /// The document that it came with, with the message that it has by now.
    fn given(&self) -> Option<Value> {
        let mut given = own_document(self.from)?.clone();
        let known = Metadata::parse(given.clone(), Some(self.id)).ok()?;
        if known.message != self.from.description {
            given["message"] = self.from.description.clone().into();
        }
        Some(given)
    }

    fn created_by(&self) -> Value {
        match self.value("created_by") {
            Value::Null => "rappel".into(),
            own => own,
        }
    }

    fn files(&self) -> Vec<&str> {
        let items = self.items.iter().map(String::as_str);
        std::iter::once(super::METADATA).chain(items).collect()
    }

    /// Its line in the index.
    pub(super) fn line(metadata: &Value, writer: Writer) -> Value {
        let names: &[&str] = match writer {
            Writer::Automatic => &["timestamp", "iteration", "task_description", "git_sha"],
            Writer::Command => &["timestamp", "git_sha", "message", "files_copied"],
            Writer::Server => &["created_at", "git_sha", "message", "files"],
        };
        if names.iter().any(|name| metadata.get(name).is_none()) {
            // It came in another shape, which says the same.
            return metadata.clone();
        }
        let of = |key: &str| metadata.get(key).cloned().unwrap_or(Value::Null);
        let task = of("task_description");
        match writer {
            Writer::Automatic => json!({
                "id": of("id"),
                "ts": of("timestamp"),
                "iter": of("iteration"),
                "task": cut(task.as_str().unwrap_or_default(), TASK_MAX),
                "sha": of("git_sha"),
            }),
            Writer::Command => json!({
                "id": of("id"),
                "timestamp": of("timestamp"),
                "git_sha": of("git_sha"),
                "message": of("message"),
                "files_copied": of("files_copied"),
            }),
            Writer::Server => json!({
                "id": of("id"),
                "created_at": of("created_at"),
                "git_sha": of("git_sha"),
                "message": of("message"),
                "files": of("files"),
            }),
        }
    }
}

/// `2026-02-12T14:30:22Z`.
fn whole_second(at: Timestamp) -> String {
    at.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-02-12T14:30:22+00:00`.
fn with_offset(at: Timestamp) -> String {
    at.0.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}
