//! What the index keeps of a manifest. It is read leniently, so that a checkpoint which a later
//! version made, or which says something unknown, is still listed, still has its number, and is
//! named when it cannot be shown. Whoever needs the checkpoint itself reads the whole manifest.

use rappel_types::agents::{AgentsPart, SessionPosition};
use rappel_types::{CheckpointId, Manifest, Timestamp, WorkspaceId};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};
use crate::log::NUMBER_MAX;

/// What the index keeps of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The checkpoint's name.
    pub id: CheckpointId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Its number there.
    pub sequence: u64,
    /// When.
    pub created_at: Timestamp,
    /// Why, as text: it may be a reason that this build does not know.
    pub trigger: String,
    /// Whether it holds files.
    pub holds_files: bool,
    /// The checkpoint it follows.
    pub parent: Option<CheckpointId>,
    /// The user's words.
    pub description: Option<String>,
    /// The agent session.
    pub session: Option<String>,
    /// The tags that it was made with.
    pub tags: Vec<String>,
    /// Where the journals of sessions stood.
    pub positions: Vec<(String, SessionPosition)>,
}

impl Outline {
    /// The outline of a manifest.
    pub fn of(manifest: &Manifest) -> Self {
        Self {
            id: manifest.id.clone(),
            workspace: manifest.workspace.id,
            sequence: manifest.sequence,
            created_at: manifest.created_at,
            trigger: manifest.trigger.as_str().to_owned(),
            holds_files: manifest.holds_files(),
            parent: manifest.parent.clone(),
            description: manifest.description.clone(),
            session: manifest.session_id.clone(),
            tags: manifest.tags.clone(),
            positions: manifest.agents.iter().flat_map(positions).collect(),
        }
    }

    /// Reads what it can of a manifest's JSON, whatever its version.
    pub fn decode(json: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Workspace {
            id: WorkspaceId,
        }
        #[derive(Deserialize)]
        struct Lenient {
            id: CheckpointId,
            workspace: Workspace,
            sequence: u64,
            created_at: Timestamp,
            #[serde(default)]
            trigger: String,
            files: Option<IgnoredAny>,
            parent: Option<CheckpointId>,
            description: Option<String>,
            session_id: Option<String>,
            #[serde(default)]
            tags: serde_json::Value,
            #[serde(default)]
            agents: serde_json::Value,
        }
        let read: Lenient = serde_json::from_slice(json)
            .map_err(|error| Error::Damaged(format!("manifest: {error}")))?;
        let outline = Self {
            id: read.id,
            workspace: read.workspace.id,
            sequence: read.sequence,
            created_at: read.created_at,
            trigger: read.trigger,
            holds_files: read.files.is_some(),
            parent: read.parent,
            description: read.description,
            session: read.session_id,
            tags: serde_json::from_value(read.tags).unwrap_or_default(),
            positions: serde_json::from_value(read.agents)
                .ok()
                .iter()
                .flat_map(positions)
                .collect(),
        };
        if outline.sequence > NUMBER_MAX {
            return Err(Error::Damaged("manifest: its number is out of range".into()));
        }
        Ok(outline)
    }
}

fn positions(agents: &AgentsPart) -> impl Iterator<Item = (String, SessionPosition)> + use<'_> {
    agents.sessions.iter().map(|session| (session.id.to_string(), session.position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_a_later_version_has_an_outline() {
        let json = r#"{"version": 99, "id": "chk_1", "sequence": 3, "parent": null,
            "created_at": "2026-11-15T14:30:22Z", "trigger": "moon-phase", "files": {"new": 1},
            "workspace": {"id": "00000000000000ff", "elsewhere": []}, "facets": {"moon": 1}}"#;
        let outline = Outline::decode(json.as_bytes()).unwrap();
        assert_eq!((outline.id.as_str(), outline.sequence), ("chk_1", 3));
        assert_eq!((outline.workspace.0, outline.trigger.as_str()), (255, "moon-phase"));
        assert!(outline.holds_files && outline.parent.is_none());
    }

    #[test]
    fn without_a_place_in_a_history_there_is_none() {
        for json in ["{}", "[]", "", r#"{"id": "../x"}"#, r#"{"id": "chk_1", "sequence": -1}"#] {
            assert!(Outline::decode(json.as_bytes()).is_err(), "{json}");
        }
    }
}
