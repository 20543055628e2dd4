//! What a save does before it looks: which workspace it is, what agents tell, for whom it waits.

use std::time::{Duration, Instant};

use rappel_store::document;
use rappel_store::index::CheckpointRow;
use rappel_types::WorkspaceId;

use super::damage::Damage;
use super::{ASK_FIRST_COMMIT, SaveOptions};
use crate::agents::{Live, Running, Transcripts};
use crate::error::Result;
use crate::rappel::Rappel;
use crate::workspace::{self, FirstCommit, Recognition};

/// What a save knows before it looks.
pub(crate) struct Begun {
    pub(super) start: Instant,
    pub(super) id: WorkspaceId,
    pub(super) notes: Vec<String>,
    pub(super) new_workspace: Option<document::Workspace>,
    pub(super) transcripts: Option<Transcripts>,
    pub(super) newest: Option<CheckpointRow>,
    pub(super) first_commit: Option<FirstCommit>,
    pub(super) mid_operation: Vec<String>,
    pub(super) waited: Duration,
    pub(super) damage: Damage,
    pub(super) distrust: bool,
    pub(super) asking: Option<Live>,
}

impl Begun {
    /// What a save knows that uses what another one has captured.
    pub(super) fn over(id: WorkspaceId, asking: Option<Live>) -> Self {
        Self {
            start: Instant::now(),
            id,
            notes: Vec::new(),
            new_workspace: None,
            transcripts: None,
            newest: None,
            first_commit: None,
            mid_operation: Vec::new(),
            waited: Duration::ZERO,
            damage: Damage::default(),
            distrust: false,
            asking,
        }
    }

    /// Whether a new checkpoint is made in any case, because what is stored may not be readable.
    pub(super) fn takes_nothing_over(&self) -> bool {
        self.damage.lost || self.distrust
    }
}

impl Rappel {
    /// Begins a save. `distrust` says that no cache is to be believed.
    pub(crate) fn begin_save(&mut self, options: &SaveOptions, distrust: bool) -> Result<Begun> {
        let start = Instant::now();
        let (id, mut notes, new_workspace) = self.identify();
        let mut transcripts = None;
        if options.takes_transcripts() {
            transcripts = self.find_transcripts(id, distrust)?;
        }
        let (id, new_workspace) = match &mut transcripts {
            Some(found) => self.hear(found, id, new_workspace, &mut notes)?,
            None => (id, new_workspace),
        };
        let newest = self.store.look_up(|index| index.newest_with_files(id))?;
        let ask_first_commit = new_workspace.is_some()
            || (self.known().is_some_and(|known| known.first_commit.is_none())
                && newest.as_ref().is_none_or(|row| row.sequence < ASK_FIRST_COMMIT));
        let first_commit = ask_first_commit.then(|| FirstCommit::ask(&self.root)).flatten();
        let Running { named: mid_operation, waited, .. } = match options.wait {
            Some(limit) => self.wait_for_calls(options.session.as_deref(), limit)?,
            None => Running::default(),
        };
        let damage = self.known_damage(id, &mut notes)?;
        Ok(Begun {
            start,
            id,
            notes,
            new_workspace,
            transcripts,
            newest,
            first_commit,
            mid_operation,
            waited,
            distrust: distrust || damage.news,
            damage,
            asking: self.asking_session(options)?,
        })
    }

    /// Takes in what transcripts tell; a workspace that was never saved becomes known by it. Returns which one it is.
    fn hear(
        &mut self,
        found: &mut Transcripts,
        id: WorkspaceId,
        new: Option<document::Workspace>,
        notes: &mut Vec<String>,
    ) -> Result<(WorkspaceId, Option<document::Workspace>)> {
        if !found.has_news(self.now()) {
            return Ok((id, new));
        }
        let (id, new) = match self.known() {
            Some(known) => (known.id, new),
            None => (self.settle_workspace()?, None),
        };
        notes.extend(self.ingest(id, found));
        Ok((id, new))
    }

    /// Which workspace this is; a document for it if it is new or was cloned again.
    pub(crate) fn identify(&self) -> (WorkspaceId, Vec<String>, Option<document::Workspace>) {
        let mut notes = Vec::new();
        match &self.recognition {
            Recognition::Known(known) => (known.id, notes, None),
            Recognition::Recloned(known) => {
                notes.push(format!("{} was cloned anew; its history goes on", self.root.display()));
                (known.id, notes, Some(known.clone()))
            }
            Recognition::New { replaced, moved_from } => {
                if replaced.is_some() && moved_from.is_none() {
                    notes.push(format!(
                        "{} is another folder than before; a new history begins",
                        self.root.display()
                    ));
                }
                notes.extend(self.other_history());
                let id = workspace::new_id();
                (id, notes, Some(self.evidence.document(id, None, self.now())))
            }
        }
    }
}
