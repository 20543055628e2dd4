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

use rappel_capture::restore::Intent;
use rappel_store::NewRecord;
use rappel_store::document;
use rappel_store::record::Kind;
use rappel_store::sink::Source;
use rappel_types::Advice;
use rappel_types::Remarks;
use rappel_types::{Facet, Trigger};

use crate::checkpoint::Checkpoint;
use crate::databases::Holdings;
use crate::error::{Error, Result};
use crate::labels::check_tags;
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

/// How long a save by hand waits for tool calls that are running.
const WAIT: Duration = Duration::from_secs(2);

/// What came of a save.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The checkpoint; its `created` is false if it existed already.
    pub checkpoint: Checkpoint,
    /// What the user should know besides.
    pub notes: Remarks,
    /// What to do about what the checkpoint lacks.
    pub advice: Vec<Advice>,
    /// How long it was waited for tool calls that were running.
    pub waited: Duration,
}

impl Rappel {
    /// A save that a person or a program asks for. Tags must be writable, the session must be known,
    /// and a save by hand waits a moment for tool calls that are running.
    pub fn save_asked_for(&self, options: &SaveOptions) -> Result<Saved> {
        check_tags(&options.tags)?;
        let mut session = None;
        if let Some(named) = &options.session {
            let id = named.parse().map_err(|_| self.no_session(named))?;
            session = Some(self.find_session(&id)?.to_string());
        }
        let by_hand = (options.trigger() == Trigger::Manual).then_some(WAIT);
        let wait = options.wait.or(by_hand);
        let options = SaveOptions { session, wait, ..options.clone() };
        self.save(&options)
    }

    /// Makes a checkpoint of the workspace, or returns the one that already says all of it.
    pub fn save(&self, options: &SaveOptions) -> Result<Saved> {
        self.cancel().reopen();
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
            return self.save_holding(&options, &mut Holdings::default());
        }
        let saved = self.save_in_turn(options)?;
        if !options.export_later {
            self.write_new_ones_out();
        }
        Ok(saved)
    }

    /// The same at once, taking hold of the databases that a restore may change.
    pub(crate) fn save_holding(
        &self,
        options: &SaveOptions,
        holdings: &mut Holdings,
    ) -> Result<Saved> {
        self.require_folder()?;
        self.check_request(options)?;
        let mut distrust_cache = options.anew;
        for _ in 0..3 {
            match self.try_save(options, holdings, distrust_cache) {
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
                advice: vec![Advice::OpenAgain],
            });
        }
        if !options.wants(Facet::Files)
            && options.only.as_ref().is_some_and(|only| only.contains(&Facet::Knowledge))
        {
            return Err(Error::Usage {
                message: "knowledge is kept together with the files".into(),
                advice: vec![Advice::AlsoCapture {
                    facets: vec![Facet::Files.to_string(), Facet::Knowledge.to_string()],
                }],
            });
        }
        if !CAPTURED.iter().any(|facet| options.wants(*facet)) {
            return Err(Error::Usage {
                message:
                    "there is nothing to capture: this version captures files, git, databases, agents and knowledge"
                        .into(),
                advice: vec![Advice::AskForAllFacets],
            });
        }
        Ok(())
    }

    fn try_save(
        &self,
        options: &SaveOptions,
        holdings: &mut Holdings,
        distrust_cache: bool,
    ) -> Result<Saved> {
        let begun = self.begin_save(options, distrust_cache)?;
        match self.prepare_save(begun, options, holdings)? {
            Prepared::Existing(saved) => {
                self.cancel().check()?;
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

    /// Those of them that nobody is at work on.
    pub(crate) fn interrupted(&self) -> Result<Vec<Intent>> {
        let mut open = self.open_intents()?;
        open.retain(|intent| !self.intents().is_running(intent.header.id));
        Ok(open)
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
