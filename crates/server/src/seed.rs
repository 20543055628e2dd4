//! A checkpoint as Loki Mode's API has it, with ours beside it.

use rappel::Checkpoint;
use schemars::JsonSchema;
use serde::Serialize;

/// So many items are named.
const ITEMS_MAX: usize = 100;

/// A checkpoint. The keys beside `checkpoint` are those of Loki Mode's API; none is ever `null`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CheckpointEntry {
    /// Its id.
    pub id: String,
    /// When it was made, with its offset: `2026-02-12T14:30:22+00:00`.
    pub created_at: String,
    /// The first eight digits of the commit that was checked out; empty without git.
    pub git_sha: String,
    /// The message, or what made it.
    pub message: String,
    /// The names of what it captured, a hundred at most: facets, databases, sessions.
    pub files: Vec<String>,
    /// Everything about it.
    pub checkpoint: Checkpoint,
}

impl From<Checkpoint> for CheckpointEntry {
    fn from(checkpoint: Checkpoint) -> Self {
        let manifest = &checkpoint.manifest;
        let commit = manifest.git.as_ref().and_then(|git| git.root.commit.as_deref());
        let created_at = manifest.created_at.0.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string();
        Self {
            id: manifest.id.to_string(),
            created_at,
            git_sha: commit.unwrap_or_default().chars().take(8).collect(),
            message: checkpoint.title().to_owned(),
            files: items(&checkpoint),
            checkpoint,
        }
    }
}

fn items(checkpoint: &Checkpoint) -> Vec<String> {
    let manifest = &checkpoint.manifest;
    let facets = rappel_types::Facet::ALL.into_iter();
    let captured = facets
        .filter(|facet| manifest.state_of(*facet) == rappel_types::FacetState::Captured)
        .map(|facet| facet.as_str().to_owned());
    let databases = manifest.databases.iter().map(|one| format!("database {}", one.name));
    let sessions = manifest.agents.iter().flat_map(|agents| &agents.sessions);
    let sessions = sessions.map(|one| format!("session {}", one.id));
    captured.chain(databases).chain(sessions).take(ITEMS_MAX).collect()
}
