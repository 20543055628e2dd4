//! A restore's plan: a value that can be shown, hashed, compared and carried out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agents::AgentsPlan;
use crate::database::DatabasePlan;
use crate::git::GitPlan;
use crate::{Advice, Facet, Node, RelPath, Remarks};

/// What is to happen at a path.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// Nothing stands there; it will.
    Create,
    /// What stands there is replaced.
    Overwrite,
    /// What stands there goes.
    Delete,
    /// It is left as it is, for the given reason.
    Skip,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Action {
    /// Which side of the state.
    pub facet: Facet,
    /// What happens.
    pub action: ActionKind,
    /// Where, relative to the action's root.
    pub path: RelPath,
    /// Why, for people.
    pub reason: String,
    /// What stands there now, as the safety checkpoint holds it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub old: Option<Node>,
    /// What will stand there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new: Option<Node>,
}

impl Action {
    /// Whether it deletes what stands at `path`.
    pub fn deletes(&self, path: &RelPath) -> bool {
        self.action == ActionKind::Delete && self.path == *path
    }
}

/// What a conflict is about.
#[derive(
    schemars::JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A file, link or folder of the workspace.
    #[default]
    Path,
    /// Something of a repository: a ref, a work tree, a file of git's own.
    Git,
    /// A database, whose name stands in place of a path.
    Database,
    /// What an agent keeps.
    Agents,
}

/// Something that makes a plan impossible to carry out.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Conflict {
    /// Where.
    pub path: RelPath,
    /// What it is about.
    #[serde(default)]
    pub subject: Subject,
    /// Why, for people.
    pub reason: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
}

impl Conflict {
    /// One about a path of the workspace.
    pub fn at(path: RelPath, reason: impl Into<String>) -> Self {
        Self { path, subject: Subject::Path, reason: reason.into(), advice: Vec::new() }
    }

    /// One about something of a repository.
    pub fn of_git(path: RelPath, reason: impl Into<String>) -> Self {
        Self { subject: Subject::Git, ..Self::at(path, reason) }
    }

    /// One about the database of this name.
    pub fn of_database(name: RelPath, reason: impl Into<String>) -> Self {
        Self { subject: Subject::Database, ..Self::at(name, reason) }
    }

    /// One about what an agent keeps.
    pub fn of_agents(path: RelPath, reason: impl Into<String>) -> Self {
        Self { subject: Subject::Agents, ..Self::at(path, reason) }
    }

    /// The same, with what to do about it.
    #[must_use]
    pub fn with(mut self, advice: impl Into<Vec<Advice>>) -> Self {
        self.advice.extend(advice.into());
        self
    }

    /// Whether it is about a database.
    pub fn is_about_a_database(&self) -> bool {
        self.subject == Subject::Database
    }

    /// What it is about, for people.
    pub fn name(&self) -> String {
        match self.subject {
            Subject::Database => format!("database {}", self.path),
            Subject::Path | Subject::Git | Subject::Agents => self.path.to_string(),
        }
    }
}

/// Everything a restore would do, in the order in which it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Plan {
    /// The steps, by path.
    pub actions: Vec<Action>,
    /// What people should know before they confirm.
    pub warnings: Remarks,
    /// What forbids it; a plan with conflicts is shown but never applied.
    pub conflicts: Vec<Conflict>,
    /// What happens to repositories.
    #[serde(default, skip_serializing_if = "GitPlan::is_empty")]
    pub git: GitPlan,
    /// What happens to databases, in the order in which they are committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<DatabasePlan>,
    /// What happens to agents.
    #[serde(default, skip_serializing_if = "AgentsPlan::is_empty")]
    pub agents: AgentsPlan,
}

/// How many files and links a plan does each thing to. A folder counts only where nothing in it
/// tells the story.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ActionCounts {
    pub create: u64,
    pub overwrite: u64,
    pub delete: u64,
    pub skip: u64,
}

impl Action {
    /// Whether only a folder is made, removed or given another mode.
    pub fn is_about_a_folder(&self) -> bool {
        let folder = |node: &Node| matches!(node, Node::Directory { .. });
        self.new.iter().chain(&self.old).all(folder) && (self.new.is_some() || self.old.is_some())
    }
}

impl Plan {
    /// The actions on files and links, and on folders where they are all there is to say. Plans are
    /// counted and shown by these.
    pub fn told(&self) -> impl Iterator<Item = &Action> {
        self.actions.iter().enumerate().filter_map(|(at, action)| {
            let next = self.actions.get(at + 1);
            let says_more = next.is_some_and(|one| one.path.is_within(&action.path));
            (!(action.is_about_a_folder() && says_more)).then_some(action)
        })
    }

    /// How many there are of each kind.
    pub fn counts(&self) -> ActionCounts {
        let mut counts = ActionCounts::default();
        for action in self.told() {
            match action.action {
                ActionKind::Create => counts.create += 1,
                ActionKind::Overwrite => counts.overwrite += 1,
                ActionKind::Delete => counts.delete += 1,
                ActionKind::Skip => counts.skip += 1,
            }
        }
        counts
    }

    /// Whether carrying it out would change nothing.
    pub fn is_empty(&self) -> bool {
        self.actions.iter().all(|action| action.action == ActionKind::Skip)
            && self.git.is_empty()
            && self.databases.is_empty()
            && self.agents.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Content, ObjectId};

    fn action(action: ActionKind, path: &str, old: Option<Node>, new: Option<Node>) -> Action {
        let path = path.parse().unwrap();
        Action { facet: Facet::Files, action, path, reason: "it differs".into(), old, new }
    }

    #[test]
    fn a_plan_survives_json() {
        let content = Content::Chunked(ObjectId([1; 32]));
        let file = Node::File { mode: 0o644, size: 3, content };
        let link = Node::Symlink { target: b"caf\xe9".to_vec() };
        let plan = Plan {
            actions: vec![
                action(ActionKind::Create, "a", None, Some(Node::Directory { mode: 0o755 })),
                action(ActionKind::Overwrite, "b", Some(file), Some(link)),
                action(ActionKind::Skip, r"c\xff", None, None),
            ],
            warnings: vec!["b has hard links"].into(),
            conflicts: vec![Conflict::at("d".parse().unwrap(), "a mount").with(Advice::MoveAside)],
            git: GitPlan::default(),
            databases: Vec::new(),
            agents: AgentsPlan::default(),
        };
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
        let counts = plan.counts();
        assert_eq!((counts.create, counts.overwrite, counts.delete, counts.skip), (1, 1, 0, 1));
        assert!(!plan.is_empty());
    }

    #[test]
    fn a_plan_that_only_skips_changes_nothing() {
        let actions = vec![action(ActionKind::Skip, "a", None, None)];
        assert!(Plan { actions, ..Plan::default() }.is_empty());
    }
}
