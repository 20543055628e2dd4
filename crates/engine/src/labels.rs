//! Messages, tags, pins and metadata, given to checkpoints after they were made.

use rappel_store::document::{DOCUMENT_VERSION, Label};
use rappel_store::record::Kind;
use rappel_types::Advice;
use rappel_types::{Reference, slip};
use serde_json::Value;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::save::new_document;

/// The longest tag.
const TAG_MAX: usize = 100;

impl Rappel {
    /// Gives tags to a checkpoint.
    pub fn tag(&self, reference: &Reference, tags: &[String]) -> Result<Checkpoint> {
        check_tags(tags)?;
        self.label(reference, &Label { add: tags.to_vec(), ..Label::default() })
    }

    /// Gives tags, metadata and a message to a checkpoint, takes tags away and pins it, all in one.
    /// A value of `null` takes that value away. A tag to take away that it does not have is an error:
    /// it was perhaps meant for another checkpoint.
    pub fn relabel(&self, reference: &Reference, label: &Label) -> Result<Checkpoint> {
        let Label { add, remove, metadata, .. } = label;
        check_tags(add)?;
        let checkpoint = self.view(&self.resolve(reference, false)?)?;
        let has = &checkpoint.manifest.tags;
        if let Some(missing) = remove.iter().find(|tag| !has.contains(tag)) {
            let advice = match slip::nearest(missing, has.iter().map(String::as_str)) {
                Some(meant) => Advice::did_you_mean(meant),
                None if has.is_empty() => "it has no tags".into(),
                None => format!("its tags are {}", has.join(", ")).into(),
            };
            let message = format!("{} has no tag {missing:?}", checkpoint.manifest.id);
            return Err(Error::NotThere { message, advice });
        }
        let values = &checkpoint.manifest.metadata;
        let gone = |(key, value): &(&String, &Value)| value.is_null() && !values.contains_key(*key);
        if let Some((missing, _)) = metadata.iter().find(gone) {
            let advice = match slip::nearest(missing, values.keys().map(String::as_str)) {
                Some(meant) => Advice::did_you_mean(meant),
                None => Advice::ShowValues { checkpoint: checkpoint.manifest.id.to_string() },
            };
            let message = format!("{} has no value {missing:?}", checkpoint.manifest.id);
            return Err(Error::NotThere { message, advice });
        }
        self.label(reference, label)
    }

    /// Gives a checkpoint another message. An empty message takes the present one away.
    pub fn describe(&self, reference: &Reference, message: &str) -> Result<Checkpoint> {
        let description = Some(message.trim().to_owned());
        self.label(reference, &Label { description, ..Label::default() })
    }

    /// Keeps a checkpoint from being pruned, or no longer.
    pub fn pin(&self, reference: &Reference, pinned: bool) -> Result<Checkpoint> {
        self.label(reference, &Label { pinned: Some(pinned), ..Label::default() })
    }

    /// Adds a label to a checkpoint.
    pub fn label(&self, reference: &Reference, label: &Label) -> Result<Checkpoint> {
        let row = self.resolve(reference, false)?;
        let label = Label { version: DOCUMENT_VERSION, ..label.clone() };
        let key = row.id.to_string();
        self.store.begin()?.commit(|_| Ok(vec![new_document(Kind::Label, key, &label)?]))?;
        self.view(&row)
    }
}

/// Refuses tags that could not be written on a command line again.
pub fn check_tags(tags: &[String]) -> Result<()> {
    for tag in tags {
        let odd = tag.is_empty()
            || tag.len() > TAG_MAX
            || tag.chars().any(|c| c.is_control() || c == ',' || c.is_whitespace());
        if odd {
            return Err(Error::Usage {
                message: format!("{tag:?} cannot be a tag"),
                advice: vec!["a tag has no spaces or commas and at most 100 letters".into()],
            });
        }
    }
    Ok(())
}
