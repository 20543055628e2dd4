//! Making a checkpoint.

mod begin;
mod damage;
mod day;
mod draft;
mod existing;
mod files;
mod look;
mod options;
mod prepared;
mod queue;
mod remember;
mod shared;

use std::time::Duration;

use rappel_capture::files::Progress;
use rappel_capture::restore::Intent;
use rappel_store::NewRecord;
use rappel_store::document;
use rappel_store::record::Kind;
use rappel_store::sink::Source;
use rappel_types::{Facet, Trigger};

use crate::checkpoint::Checkpoint;
use crate::databases::Holdings;
use crate::error::{Error, Result};
use crate::rappel::{Rappel, read_config};
use crate::workspace;
pub(crate) use begin::Identified;
pub(crate) use draft::{manifest_base, parent_of, place};
pub(crate) use files::{Ask, CapturedFiles, Leave};
pub(crate) use look::Seen;
pub use options::{Overtaken, SaveOptions};
use prepared::Prepared;
pub(crate) use prepared::PreparedSave;

/// A workspace's first saves ask git for the repository's first commit; later ones do not.
const ASK_FIRST_COMMIT: u64 = 3;

/// The facets that this version captures.
const CAPTURED: [Facet; 5] =
    [Facet::Files, Facet::Git, Facet::Databases, Facet::Agents, Facet::Knowledge];

/// What came of a save.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The checkpoint; its `created` is false if it existed already.
    pub checkpoint: Checkpoint,
    /// What the user should know besides.
    pub notes: Vec<String>,
    /// How long it was waited for tool calls that were running.
    pub waited: Duration,
}

impl Rappel {
    /// Makes a checkpoint of the workspace, or returns the one that already says all of it.
    pub fn save(&self, options: &SaveOptions) -> Result<Saved> {
        self.save_with_progress(options, None)
    }

    /// As [`Rappel::save`], telling `progress` how far it is.
    pub fn save_with_progress(
        &self,
        options: &SaveOptions,
        progress: Option<&Progress>,
    ) -> Result<Saved> {
        let tags = self.take_boards(options)?;
        let tagged;
        let options = match tags.is_empty() {
            true => options,
            false => {
                tagged =
                    SaveOptions { tags: [&options.tags[..], &tags].concat(), ..options.clone() };
                &tagged
            }
        };
        if self.is_detached() {
            let options = SaveOptions { only: Some([Facet::Agents].into()), ..options.clone() };
            return self.save_holding(&options, progress, &mut Holdings::default());
        }
        let saved = self.save_in_turn(options, progress)?;
        self.write_new_ones_out();
        Ok(saved)
    }

    /// The same at once, taking hold of the databases that a restore may change.
    pub(crate) fn save_holding(
        &self,
        options: &SaveOptions,
        progress: Option<&Progress>,
        holdings: &mut Holdings,
    ) -> Result<Saved> {
        self.require_folder()?;
        self.check_request(options)?;
        let mut distrust_cache = options.anew;
        for _ in 0..3 {
            match self.try_save(options, progress, holdings, distrust_cache) {
                // Gc took something that the cache still believed in, or somebody else began this
                // folder's history: look at everything anew.
                Err(Error::Store(rappel_store::Error::Moved)) => {
                    tracing::debug!(
                        "the store was compacted meanwhile; looking at everything anew"
                    );
                    distrust_cache = true;
                    self.recognised(workspace::recognise(&self.store, &self.evidence)?);
                }
                // The tree that the cache is about cannot be read any more.
                Err(error) if error.is_unreadable() && !distrust_cache => distrust_cache = true,
                other => return other,
            }
        }
        Err(Error::Store(rappel_store::Error::Moved))
    }

    /// Refuses a request that cannot be carried out.
    fn check_request(&self, options: &SaveOptions) -> Result<()> {
        // What nobody waits for goes on by the rules of the last checkpoint, and says so.
        if options.trigger() == Trigger::Manual && self.config_problem.is_some() {
            read_config(&self.root)?;
            return Err(Error::Usage {
                message: "rappel.toml could not be read when the workspace was opened".into(),
                hint: Some("open the workspace again".into()),
            });
        }
        if !options.wants(Facet::Files)
            && options.only.as_ref().is_some_and(|only| only.contains(&Facet::Knowledge))
        {
            return Err(Error::Usage {
                message: "knowledge is kept together with the files".into(),
                hint: Some("--only files,knowledge".into()),
            });
        }
        if !CAPTURED.iter().any(|facet| options.wants(*facet)) {
            return Err(Error::Usage {
                message:
                    "there is nothing to capture: this version captures files, git, databases, agents and knowledge"
                        .into(),
                hint: Some("leave out --only and --skip".into()),
            });
        }
        Ok(())
    }

    fn try_save(
        &self,
        options: &SaveOptions,
        progress: Option<&Progress>,
        holdings: &mut Holdings,
        distrust_cache: bool,
    ) -> Result<Saved> {
        let begun = self.begin_save(options, distrust_cache)?;
        match self.prepare_save(begun, options, progress, holdings)? {
            Prepared::Existing(saved) => {
                self.end_day_in_turn(options);
                Ok(*saved)
            }
            Prepared::New(prepared) => Ok(self.acknowledge(prepared.commit(self)?)),
        }
    }

    /// Unfinished restores that concern this workspace.
    pub(crate) fn open_intents(&self) -> Result<Vec<Intent>> {
        Ok(self.intents().concerning(&self.root)?)
    }
}

/// A workspace's document as a record.
pub(crate) fn workspace_record(document: &document::Workspace) -> rappel_store::Result<NewRecord> {
    new_document(Kind::Workspace, document.id.to_string(), document)
}

/// A document as a record.
pub(crate) fn new_document(
    kind: Kind,
    key: String,
    document: &impl serde::Serialize,
) -> rappel_store::Result<NewRecord> {
    let json = serde_json::to_string(document)
        .map_err(|error| rappel_store::Error::Damaged(format!("document: {error}")))?;
    Ok(NewRecord::Document { kind, key, json })
}

impl Rappel {
    /// Where stored bytes come from.
    pub(crate) fn source(&self) -> &dyn Source {
        &self.store
    }
}
