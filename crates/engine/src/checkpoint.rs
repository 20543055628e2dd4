//! A checkpoint as people and programs see it: its manifest, and the labels given since.

use std::collections::BTreeMap;

use rappel_store::document::Label;
use rappel_store::index::{CheckpointRow, DocumentRow};
use rappel_store::record::Kind;
use rappel_types::Manifest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Result;
use crate::lineage::LineageView;
use crate::rappel::Rappel;

/// A checkpoint with everything known about it. Its JSON is the one of `save` and `show`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Checkpoint {
    /// What it holds; message, tags and metadata include the labels given since.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// Whether it cannot be deleted.
    pub pinned: bool,
    /// False where an existing checkpoint was returned instead of making a new one.
    pub created: bool,
    /// Where it came from, if it was not made here.
    #[serde(default)]
    pub lineage: Option<LineageView>,
}

impl Checkpoint {
    /// What lists show as its title: the user's words, or what made it.
    pub fn title(&self) -> &str {
        self.manifest.description.as_deref().unwrap_or(self.manifest.trigger.label())
    }
}

impl Rappel {
    /// A checkpoint by its row.
    pub(crate) fn view(&self, row: &CheckpointRow) -> Result<Checkpoint> {
        let labels =
            self.store.look_up(|index| index.documents(Kind::Label, Some(row.id.as_str())))?;
        self.view_labelled(row, &labels)
    }

    /// The same with labels that were looked up before.
    pub(crate) fn view_labelled(
        &self,
        row: &CheckpointRow,
        labels: &[DocumentRow],
    ) -> Result<Checkpoint> {
        let manifest = self.store.manifest(row)?;
        let lineage = self.lineage_view(&manifest)?;
        let mut checkpoint = Checkpoint { manifest, pinned: false, created: true, lineage };
        for row in labels {
            // A label of a later version that cannot be read changes nothing.
            if let Ok(label) = serde_json::from_str::<Label>(&row.json) {
                checkpoint.apply(label);
            }
        }
        Ok(checkpoint)
    }
}

impl Checkpoint {
    fn apply(&mut self, label: Label) {
        let tags = &mut self.manifest.tags;
        tags.retain(|tag| !label.remove.contains(tag));
        for tag in label.add {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        self.pinned = label.pinned.unwrap_or(self.pinned);
        if let Some(description) = label.description {
            self.manifest.description = Some(description).filter(|text| !text.is_empty());
        }
        let metadata: &mut BTreeMap<String, Value> = &mut self.manifest.metadata;
        for (key, value) in label.metadata {
            if value.is_null() {
                metadata.remove(&key);
            } else {
                metadata.insert(key, value);
            }
        }
    }
}
