//! The databases of a restore that was interrupted: what became of each, and carrying them on.

use rappel_capture::databases::{DatabaseDrive, Error as DatabaseError, Fate, Held, Names};
use rappel_capture::restore::Intent;
use rappel_store::sink::Scratch;
use rappel_types::database::{DatabaseKind, DatabasePlan};
use rappel_types::plan::Conflict;
use rappel_types::{Advice, Remark, Remarks};
use rappel_types::{CheckpointId, Manifest};

use super::plan::{Holding, Holdings, conflict};
use super::sources::Named;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// What became of the databases of an interrupted restore.
#[derive(Default)]
pub(crate) struct Fates {
    /// Those that are restored, or that may be and cannot tell.
    pub committed: Vec<String>,
    /// Those that are to be restored yet, with their places in the intent.
    pub open: Vec<(usize, DatabasePlan)>,
}

impl Fates {
    /// What is known of the databases of an intent without asking them, for a recovery that leaves out those
    /// that are not restored. A sentence for each of those.
    pub fn without_the_rest(intent: &Intent) -> (Self, Remarks) {
        let (mut fates, mut said) = (Self::default(), Remarks::default());
        for (place, plan) in intent.header.databases.iter().enumerate() {
            let name = &plan.name;
            let noted = |marks: &[u8]| marks.iter().any(|mark| usize::from(*mark) == place);
            match (noted(&intent.done), noted(&intent.begun)) {
                (true, _) => fates.committed.push(name.clone()),
                (false, true) => {
                    fates.committed.push(name.clone());
                    let text = format!(
                        "database {name} is left as it is, restored, in part or not at all"
                    );
                    said.push(Remark::new(text, Advice::Undo));
                }
                (false, false) => said.push(format!("database {name} is not restored")),
            }
        }
        (fates, said)
    }
}

impl Rappel {
    /// Asks what became of each database of an intent.
    pub(crate) fn fates_of(&self, intent: &Intent) -> Result<Fates> {
        let mut fates = Fates::default();
        let target = self.manifest_of(&intent.header.target)?;
        for (place, plan) in intent.header.databases.iter().enumerate() {
            let noted =
                |marks: &[u8]| marks.iter().filter(|mark| usize::from(**mark) == place).count();
            let fate = match (noted(&intent.done), noted(&intent.begun)) {
                (0, 0) => Fate::Aborted,
                (0, begun) => self.ask_fate(plan, target.as_ref(), begun > 1)?,
                _ => Fate::Committed,
            };
            match fate {
                Fate::Committed => fates.committed.push(plan.name.clone()),
                Fate::Aborted => fates.open.push((place, plan.clone())),
                // It can be done once more, but not be taken back.
                Fate::Unknown => {
                    fates.committed.push(plan.name.clone());
                    fates.open.push((place, plan.clone()));
                }
            }
        }
        Ok(fates)
    }

    /// Asks a database whose commit was begun. The ticket is of the first attempt; after `further`
    /// ones, what the database holds has to tell.
    fn ask_fate(
        &self,
        plan: &DatabasePlan,
        target: Option<&Manifest>,
        further: bool,
    ) -> Result<Fate> {
        let named = match self.database_of_plan(plan, target) {
            Some(Ok(named)) => named,
            Some(Err((name, error))) => return Err(Error::Database { name, error }),
            None => return Ok(Fate::Unknown),
        };
        let failed = |error| Error::Database { name: plan.name.clone(), error };
        let fate = named.database.fate(plan).map_err(failed)?;
        if fate != Fate::Aborted || !further {
            return Ok(fate);
        }
        let scratch = Scratch::over(self.source());
        match named.database.read(&scratch, None, &self.reading()?.watch) {
            Ok(now) if now.digest == plan.to => Ok(Fate::Committed),
            Ok(_) | Err(DatabaseError::Absent(_)) => Ok(Fate::Aborted),
            Err(error) => Err(failed(error)),
        }
    }

    /// The database that a plan is about: the very one, wherever its name leads to by now.
    fn database_of_plan(
        &self,
        plan: &DatabasePlan,
        target: Option<&Manifest>,
    ) -> Option<Result<Named, (String, DatabaseError)>> {
        let part = target?.databases.iter().find(|part| part.name == plan.name)?;
        let place = Some(plan.place.as_str()).filter(|place| !place.is_empty());
        self.database_at_place(part, place, target?)
    }

    /// Removes what the interrupted restore left beside the databases. What cannot be removed is only
    /// in the way of nobody.
    pub(crate) fn clear_databases(&self, plans: &[DatabasePlan], target: &CheckpointId) {
        let Ok(target) = self.manifest_of(target) else { return };
        for plan in plans {
            if let Some(Ok(named)) = self.database_of_plan(plan, target.as_ref()) {
                let _ = named.database.clear();
            }
        }
    }

    fn manifest_of(&self, checkpoint: &CheckpointId) -> Result<Option<Manifest>> {
        let row = self.store.checkpoint(checkpoint)?;
        Ok(row.map(|row| self.store.manifest(&row)).transpose()?)
    }

    /// The databases that a restore has not come to yet, to be held again.
    pub(crate) fn hold_again(
        &self,
        target: &CheckpointId,
        open: &[(usize, DatabasePlan)],
        terminate_connections: bool,
        names: Names,
    ) -> Result<Holdings> {
        let mut holdings = Holdings::strict(terminate_connections, names);
        let target = self.manifest_of(target)?;
        for (_, plan) in open {
            let parts = target.iter().flat_map(|target| &target.databases);
            let part = parts.into_iter().find(|part| part.name == plan.name).cloned();
            let source = self.database_of_plan(plan, target.as_ref());
            let (Some(part), Some(source)) = (part, source) else { continue };
            let named = source.map_err(|(name, error)| Error::Database { name, error })?;
            // A command that could not be saved before the restore began need not be now.
            let allow_unsaved = plan.kind == DatabaseKind::Command && plan.from.is_none();
            holdings.all.push(Holding { allow_unsaved, ..Holding::new(named, part) });
        }
        Ok(holdings)
    }

    /// What carries them on. One that somebody changed since the restore began is left and named.
    pub(crate) fn drive_again(
        &self,
        held: Holdings,
        open: &[(usize, DatabasePlan)],
        committed: bool,
        warnings: &mut Remarks,
    ) -> Result<(DatabaseDrive, Vec<Conflict>)> {
        let mut left = Vec::new();
        let mut all = Vec::new();
        let (names, mut held) = (held.names, held.all);
        for (place, plan) in open {
            let at = held.iter().position(|holding| holding.named.name == plan.name);
            let Some(holding) = at.map(|at| held.remove(at)) else {
                left.push(conflict(&plan.name, "it is not in rappel.toml any more; it is left"));
                continue;
            };
            let now = holding.now.as_ref().map(|now| now.digest.clone());
            if now.as_ref() == Some(&plan.to) {
                continue;
            }
            // What a command did in part, or gives otherwise every time, was saved before.
            let comparable = plan.kind != DatabaseKind::Command;
            if now != plan.from && now.is_some() && comparable {
                left.push(conflict(&plan.name, "it was changed since; it is left as it is"));
                continue;
            }
            let Holding { named, target, restoring, damaged, .. } = holding;
            let restoring = match restoring {
                Some(restoring) => restoring,
                // The files' part removes it first, unless somebody changed it.
                None if damaged.is_some() && plan.from.is_none() => {
                    let restoring = self.displacing(&named);
                    restoring
                        .map_err(|error| Error::Database { name: named.name.clone(), error })?
                }
                None => {
                    let made = self.made_anew(&named, &target, names, warnings);
                    made.map_err(|error| Error::Database { name: named.name.clone(), error })?.0
                }
            };
            let plan = DatabasePlan { ticket: restoring.ticket(), ..plan.clone() };
            all.push((*place, Held { plan, target, restoring }));
        }
        Ok((DatabaseDrive::new(all, committed), left))
    }
}
