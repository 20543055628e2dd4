//! What a save does before it looks: which workspace it is, what agents tell, for whom it waits.

use std::time::{Duration, Instant};

use rappel_store::document;
use rappel_store::index::CheckpointRow;
use rappel_types::Remarks;
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
    pub(super) notes: Remarks,
    /// Whether nothing was known of the folder, so that `id` was drawn for it.
    pub(super) begins: bool,
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
            notes: Remarks::default(),
            begins: false,
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

/// Which workspace a save is of.
pub(crate) struct Identified {
    pub id: WorkspaceId,
    /// Whether `id` was drawn just now. Another thread may draw one too: the commit decides.
    pub begins: bool,
    pub notes: Remarks,
    pub document: Option<document::Workspace>,
}

impl Rappel {
    /// Begins a save. `distrust` says that no cache is to be believed.
    pub(crate) fn begin_save(&self, options: &SaveOptions, distrust: bool) -> Result<Begun> {
        let start = Instant::now();
        let identified = self.identify();
        let mut notes = identified.notes;
        let mut transcripts = None;
        if options.takes_transcripts() {
            transcripts = self.find_transcripts(identified.id, distrust)?;
        }
        let (mut id, mut begins, mut new_workspace) =
            (identified.id, identified.begins, identified.document);
        if let Some(found) = &mut transcripts
            && found.has_news(self.now())
        {
            // A workspace that was never saved becomes known by what transcripts tell.
            if begins {
                (id, begins, new_workspace) = (self.settle_workspace()?, false, None);
            }
            notes.extend(self.ingest(id, found));
        }
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
            begins,
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

    /// Which workspace this is; a document for it if it is new or was cloned again.
    pub(crate) fn identify(&self) -> Identified {
        let mut notes = Remarks::default();
        match &*self.recognition() {
            Recognition::Known(known) => {
                Identified { id: known.id, begins: false, notes, document: None }
            }
            Recognition::Recloned(known) => {
                notes.push(format!("{} was cloned anew; its history goes on", self.root.display()));
                Identified { id: known.id, begins: false, notes, document: Some(known.clone()) }
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
                let document = Some(self.evidence.document(id, None, self.now()));
                Identified { id, begins: true, notes, document }
            }
        }
    }
}
