//! The manifest: what one checkpoint holds, as the JSON that is stored and shown.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agents::AgentsPart;
use crate::database::DatabasePart;
use crate::git::GitPart;
use crate::knowledge::KnowledgePart;
use crate::{CheckpointId, ObjectId, RelPath, Timestamp, Trigger, WorkspaceId};

/// The version that this build writes. Readers refuse a higher one and keep unknown keys out of
/// their way.
pub const MANIFEST_VERSION: u32 = 1;

/// One side of the state that a checkpoint can hold.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Facet {
    Files,
    Git,
    Databases,
    Agents,
    Knowledge,
    Process,
}

impl Facet {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 6] =
        [Self::Files, Self::Git, Self::Databases, Self::Agents, Self::Knowledge, Self::Process];

    /// The facet's name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Git => "git",
            Self::Databases => "databases",
            Self::Agents => "agents",
            Self::Knowledge => "knowledge",
            Self::Process => "process",
        }
    }
}

impl fmt::Display for Facet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Facet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|facet| facet.as_str() == text)
            .ok_or_else(|| format!("unknown facet {text:?}"))
    }
}

/// What became of a facet in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FacetState {
    /// It is in the checkpoint.
    Captured,
    /// The workspace had none.
    Absent,
    /// Nobody asked for it.
    NotAsked,
    /// It should be there and could not be taken.
    Failed,
}

/// Which workspace a checkpoint is of.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct WorkspacePart {
    /// Its random id.
    pub id: WorkspaceId,
    /// Its root folder at the time, escaped like a path.
    pub root: String,
    /// The folder's own name.
    pub name: String,
}

/// Something that should have been captured and could not be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
pub struct PartialReason {
    /// Which side of the state.
    pub facet: Facet,
    /// Where; `None` concerns the whole facet. At and below this path nothing is deleted.
    pub path: Option<RelPath>,
    /// The database that it is about.
    #[serde(default)]
    pub database: Option<String>,
    /// Why, for people.
    pub reason: String,
}

impl PartialReason {
    /// One about a facet, or about a path of it.
    pub fn new(facet: Facet, path: Option<RelPath>, reason: impl Into<String>) -> Self {
        Self { facet, path, database: None, reason: reason.into() }
    }

    /// The database that it is about. Checkpoints of earlier builds say it only at the beginning of
    /// the reason.
    pub fn database(&self) -> Option<&str> {
        let in_words = || Some(self.reason.split_once(": ")?.0);
        match self.facet {
            Facet::Databases => self.database.as_deref().or_else(in_words),
            _ => None,
        }
    }
}

/// Something that a rule left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "SkippedFile")]
pub struct Skipped {
    /// Where.
    pub path: RelPath,
    /// Why, for people.
    pub reason: String,
}

/// The rules that chose the files of a checkpoint. Together with the rule files inside the tree
/// they say of any path whether that checkpoint would have taken it.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SelectionRules {
    /// Whether git's ignore rules decided (a git work tree) or the built-in list.
    pub git: bool,
    /// `include` of `rappel.toml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// `exclude` of `rappel.toml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Larger files were left out.
    pub max_file_size: u64,
    /// Rule files that are not in the tree, lowest precedence first: git's global and private
    /// excludes, and ignore files that are themselves ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<ExtraRules>,
    /// Roots that were excluded because of what they are, not how they are called (the home of
    /// Rappel itself, foreign checkpoint stores).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_roots: Vec<RelPath>,
}

/// The text of a rule file that is not part of the tree.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ExtraRules {
    /// The folder it applies to; `None` is the root.
    pub folder: Option<RelPath>,
    /// Its lines, in git's ignore syntax.
    pub text: String,
}

/// The files of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FilesPart {
    /// The root node of the tree.
    pub tree: ObjectId,
    /// Regular files and symbolic links.
    pub count: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// Paths that the parent checkpoint did not have.
    pub added: u64,
    /// Paths whose content, kind or mode differs from the parent's.
    pub modified: u64,
    /// Paths of the parent that are gone.
    pub deleted: u64,
    /// What a rule left out.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// The rules that chose them.
    pub rules: SelectionRules,
}

/// What making the checkpoint cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Cost {
    /// Wall time up to the commit, in milliseconds.
    pub wall_ms: f64,
    /// Bytes that it added to the packs, without its own manifest and commit record.
    pub new_bytes: u64,
}

/// What a checkpoint holds. Immutable once committed: tags, pins and metadata added later are
/// labels beside it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Manifest {
    /// See [`MANIFEST_VERSION`].
    pub version: u32,
    /// The checkpoint's name.
    pub id: CheckpointId,
    /// Its number in its workspace, from 1.
    pub sequence: u64,
    /// The checkpoint it follows: the one before it, or the restored one after a restore.
    pub parent: Option<CheckpointId>,
    /// When; never before the parent.
    pub created_at: Timestamp,
    /// Why.
    pub trigger: Trigger,
    /// The user's words.
    pub description: Option<String>,
    /// Tags given when it was made.
    #[serde(default)]
    pub tags: Vec<String>,
    /// `staging`, `development` and the like.
    pub environment: Option<String>,
    /// Captured environment variables.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// The agent session that asked for it.
    pub session_id: Option<String>,
    /// Which workspace.
    pub workspace: WorkspacePart,
    /// What became of each facet.
    pub facets: BTreeMap<Facet, FacetState>,
    /// Whether something is missing.
    pub partial: bool,
    /// What is missing.
    #[serde(default)]
    pub partial_reasons: Vec<PartialReason>,
    /// Tool calls that were running.
    #[serde(default)]
    pub mid_operation: Vec<String>,
    /// Whether a restore was unfinished in this workspace, or went by while this was made.
    #[serde(default)]
    pub interrupted_restore: bool,
    /// The files facet.
    pub files: Option<FilesPart>,
    /// The git facet.
    pub git: Option<GitPart>,
    /// The databases facet.
    #[serde(default)]
    pub databases: Vec<DatabasePart>,
    /// The agents facet.
    pub agents: Option<AgentsPart>,
    /// The knowledge facet.
    pub knowledge: Option<KnowledgePart>,
    /// Memory of the processes that `rappel run` or a program watched: `rss` and `heap_used`.
    pub process: Option<Value>,
    /// Free values from `--meta`.
    #[serde(default)]
    pub metadata: BTreeMap<String, Value>,
    /// Of a checkpoint that was imported: what it was where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginPart>,
    /// What it cost.
    pub cost: Cost,
}

/// What an imported checkpoint was where it came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct OriginPart {
    /// The form that it had there: `lugh`, `loki` and the like.
    pub format: String,
    /// Its id there; `FORMAT:ID` finds the checkpoint by it.
    pub id: String,
    /// The checkpoint that it followed there, by its id there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The session that asked for it, by its id there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The work tree's folder there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// A digest of all that was read. An import of the same checkpoint knows it by this.
    pub digest: String,
    /// The form's own document, whole, as an object of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<ObjectId>,
}

impl Manifest {
    /// Whether it was made by itself, and nobody has called it anything else since.
    pub fn is_automatic(&self) -> bool {
        self.description.as_deref().is_some_and(|words| self.trigger.names_itself(words))
    }

    /// Whether the checkpoint holds files, which `latest`, `~N` and `restore` ask for.
    pub fn holds_files(&self) -> bool {
        self.files.is_some()
    }

    /// Sets the agents' part; one that holds nothing is absent.
    pub fn set_agents(&mut self, part: AgentsPart) {
        let absent = part == AgentsPart::default();
        let state = if absent { FacetState::Absent } else { FacetState::Captured };
        self.facets.insert(Facet::Agents, state);
        self.agents = (!absent).then_some(part);
    }

    /// Whether the checkpoint came from elsewhere. A restore does not trust what it holds.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_some()
    }

    /// What became of `facet`.
    pub fn state_of(&self, facet: Facet) -> FacetState {
        self.facets.get(&facet).copied().unwrap_or(FacetState::NotAsked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let path = |text: &str| text.parse::<RelPath>().unwrap();
        Manifest {
            version: MANIFEST_VERSION,
            id: "chk_20261115_143022_k7f3".parse().unwrap(),
            sequence: 42,
            parent: Some("chk_20261115_120000_0000".parse().unwrap()),
            created_at: "2026-11-15T14:30:22.123Z".parse().unwrap(),
            trigger: Trigger::Manual,
            description: Some("Before adding Stripe".into()),
            tags: vec!["stripe".into()],
            environment: Some("staging".into()),
            variables: BTreeMap::from([("NODE_ENV".into(), "development".into())]),
            session_id: None,
            workspace: WorkspacePart {
                id: WorkspaceId(7),
                root: "/home/me/my-app".into(),
                name: "my-app".into(),
            },
            facets: BTreeMap::from([
                (Facet::Files, FacetState::Captured),
                (Facet::Agents, FacetState::NotAsked),
            ]),
            partial: true,
            partial_reasons: vec![PartialReason {
                facet: Facet::Files,
                path: Some(path(r"caf\xe9")),
                database: None,
                reason: "permission denied".into(),
            }],
            mid_operation: Vec::new(),
            interrupted_restore: false,
            files: Some(FilesPart {
                tree: ObjectId([0xab; 32]),
                count: 812,
                bytes: 1_234_567,
                added: 2,
                modified: 10,
                deleted: 0,
                skipped: vec![Skipped { path: path("big.bin"), reason: "oversize".into() }],
                rules: SelectionRules {
                    git: true,
                    include: vec![".env".into()],
                    max_file_size: 256 << 20,
                    extra: vec![ExtraRules { folder: None, text: "*.log\n".into() }],
                    excluded_roots: vec![path(".loki")],
                    ..SelectionRules::default()
                },
            }),
            git: None,
            databases: Vec::new(),
            agents: None,
            knowledge: None,
            process: None,
            metadata: BTreeMap::from([("step_number".into(), 1.into())]),
            origin: Some(OriginPart {
                format: "aiwg".into(),
                id: "003".into(),
                document: Some(ObjectId([0xcd; 32])),
                ..OriginPart::default()
            }),
            cost: Cost { wall_ms: 12.25, new_bytes: 3456 },
        }
    }

    #[test]
    fn a_manifest_survives_json() {
        let text = serde_json::to_string(&manifest()).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest());
    }

    #[test]
    fn json_has_the_names_of_the_contract() {
        let json = serde_json::to_value(manifest()).unwrap();
        assert_eq!(json["created_at"], "2026-11-15T14:30:22.123Z");
        assert_eq!(json["facets"]["files"], "captured");
        assert_eq!(json["facets"]["agents"], "not-asked");
        assert_eq!(json["files"]["skipped"][0]["path"], "big.bin");
        assert_eq!(json["partial_reasons"][0]["path"], r"caf\xe9");
        assert_eq!(json["session_id"], Value::Null);
        assert_eq!(json["databases"], Value::Array(Vec::new()));
    }

    #[test]
    fn unknown_keys_are_passed_over_at_every_depth() {
        let mut json = serde_json::to_value(manifest()).unwrap();
        json["invented_later"] = "x".into();
        json["files"]["rules"]["invented_later"] = 1.into();
        json["workspace"]["invented_later"] = Value::Null;
        assert_eq!(serde_json::from_value::<Manifest>(json).unwrap(), manifest());
    }

    #[test]
    fn a_path_that_leaves_the_root_is_no_manifest() {
        let mut json = serde_json::to_value(manifest()).unwrap();
        json["files"]["skipped"][0]["path"] = "../x".into();
        assert!(serde_json::from_value::<Manifest>(json).is_err());
    }

    #[test]
    fn a_facet_that_is_not_listed_was_not_asked_for() {
        assert_eq!(manifest().state_of(Facet::Files), FacetState::Captured);
        assert_eq!(manifest().state_of(Facet::Git), FacetState::NotAsked);
    }
}
