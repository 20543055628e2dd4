//! Finding the first checkpoint at which a command fails. The search itself is pure
//! ([`rappel_types::bisect`]); here candidates are written to a scratch folder, and answers are
//! kept.
//!
//! The workspace is never touched. Each answer is durable before the next candidate is written, so
//! that a killed search loses one answer at most.

mod culprit;
mod memo;

use std::path::{Path, PathBuf};

use rappel_store::lock::Turn;
use rappel_types::Advice;
use rappel_types::bisect::{Answer, Contradiction, Next, next};
use rappel_types::reference::Base;
use rappel_types::{CheckpointId, Manifest, ObjectId, Reference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use culprit::{Culprit, CulpritCall};
use memo::Memo;

use crate::error::{Error, ErrorKind, Result};
use crate::rappel::Rappel;
use crate::restore::RestoreOptions;

/// What to search for.
#[derive(Debug, Clone)]
pub struct BisectRequest {
    /// The checkpoint at which the command succeeds.
    pub good: Reference,
    /// The later one at which it fails.
    pub bad: Reference,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The folder in which the scratch folder is made.
    pub temporary: PathBuf,
}

/// A checkpoint that is about to be tested.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Which.
    pub checkpoint: CheckpointId,
    /// Its files, in a folder that goes afterwards.
    pub folder: PathBuf,
    /// How many may still be the first bad one.
    pub left: usize,
}

/// What came of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// An answer, with the exit code.
    Answer(Answer, i32),
    /// It says nothing of the checkpoint: the search stops, and can go on later.
    Abort(String),
}

/// A checkpoint that was tested.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Tested {
    pub checkpoint: CheckpointId,
    pub answer: Answer,
    /// `null` where the checkpoint could not be written.
    pub exit_code: Option<i32>,
}

/// The end of a search.
#[derive(Debug, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Bisected {
    pub good: CheckpointId,
    pub bad: CheckpointId,
    pub command: Vec<String>,
    /// How many checkpoints differ between the two, both included.
    pub candidates: usize,
    /// Every run of the command, in order.
    pub tested: Vec<Tested>,
    pub last_good: CheckpointId,
    pub first_bad: CheckpointId,
    /// Between the two, and cannot be tested: the fault may have come with any of them.
    pub skipped: Vec<CheckpointId>,
    /// What is known of the first bad one.
    pub culprit: Culprit,
}

impl Rappel {
    /// Searches between a checkpoint at which a command succeeds and one at which it fails. `run`
    /// runs the command.
    pub fn bisect(
        &self,
        request: &BisectRequest,
        run: &mut dyn FnMut(&Candidate) -> Ran,
    ) -> Result<Bisected> {
        let _turn = self.turn_to_bisect()?;
        if Memo::load(self)?.is_some() {
            return Err(Error::Bisect {
                kind: ErrorKind::Conflict,
                message: "a bisect of this workspace is unfinished".into(),
                advice: vec![Advice::ContinueBisect],
            });
        }
        let candidates = self.bisect_candidates(&request.good, &request.bad)?;
        let memo = Memo::new(&request.command, candidates, &request.temporary);
        memo.keep(self)?;
        self.search(memo, run)
    }

    /// Goes on with a search that was interrupted.
    pub fn continue_bisect(&self, run: &mut dyn FnMut(&Candidate) -> Ran) -> Result<Bisected> {
        let _turn = self.turn_to_bisect()?;
        self.search(self.unfinished_bisect()?, run)
    }

    /// The command of a search that was interrupted.
    pub fn bisect_command(&self) -> Result<Vec<String>> {
        Ok(self.unfinished_bisect()?.command)
    }

    /// Gives up a search, and removes what it left. Says whether there was one.
    pub fn abort_bisect(&self) -> Result<bool> {
        let _turn = self.turn_to_bisect()?;
        match Memo::load(self) {
            Ok(None) => Ok(false),
            Ok(Some(memo)) => memo.remove(self).map(|()| true),
            // What cannot be read cannot be gone on with either.
            Err(_) => Memo::forget(self).map(|()| true),
        }
    }

    fn unfinished_bisect(&self) -> Result<Memo> {
        Memo::load(self)?.ok_or_else(|| Error::NotThere {
            message: "no bisect of this workspace is unfinished".into(),
            advice: Advice::BeginBisect,
        })
    }

    fn search(&self, mut memo: Memo, run: &mut dyn FnMut(&Candidate) -> Ran) -> Result<Bisected> {
        loop {
            match next(memo.candidates.len(), &memo.answers()) {
                Next::Test(at) => self.test(&mut memo, at, run)?,
                Next::Found { last_good, first_bad } => {
                    let skipped = memo.candidates[last_good + 1..first_bad].to_vec();
                    let (last_good, first_bad) =
                        (memo.candidates[last_good].clone(), memo.candidates[first_bad].clone());
                    let culprit = self.culprit(&last_good, &first_bad)?;
                    memo.remove(self)?;
                    return Ok(Bisected {
                        good: memo.candidates[0].clone(),
                        bad: memo.candidates[memo.candidates.len() - 1].clone(),
                        command: memo.command.clone(),
                        candidates: memo.candidates.len(),
                        tested: memo.tested,
                        last_good,
                        first_bad,
                        skipped,
                        culprit,
                    });
                }
                Next::Contradiction(why) => {
                    let message = contradiction(why, &memo.candidates);
                    memo.remove(self)?;
                    return Err(Error::Bisect {
                        kind: ErrorKind::Failed,
                        message,
                        advice: Vec::new(),
                    });
                }
            }
        }
    }

    /// Writes a candidate, has the command run there, and keeps the answer.
    fn test(
        &self,
        memo: &mut Memo,
        at: usize,
        run: &mut dyn FnMut(&Candidate) -> Ran,
    ) -> Result<()> {
        let checkpoint = memo.candidates[at].clone();
        let folder = memo.fresh_folder()?;
        let reference = Reference::new(Base::Id(checkpoint.clone()));
        let stopped = |message: String| Error::Bisect {
            kind: ErrorKind::Failed,
            message,
            advice: vec![Advice::ContinueBisect],
        };
        let ran = match self.restore_to(&reference, &folder, &RestoreOptions::default()) {
            Ok(_) => {
                let left = memo.left();
                run(&Candidate { checkpoint: checkpoint.clone(), folder, left })
            }
            // Damaged, or deleted since the search began.
            Err(error) if error.is_unreadable() || error.kind() == ErrorKind::NotFound => {
                memo.add(self, Tested { checkpoint, answer: Answer::Skip, exit_code: None })?;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if self.cancel().is_cancelled() {
            return Err(stopped("stopped".into()));
        }
        match ran {
            Ran::Answer(answer, code) => {
                memo.add(self, Tested { checkpoint, answer, exit_code: Some(code) })
            }
            Ran::Abort(reason) => Err(stopped(format!("at {checkpoint}: {reason}"))),
        }
    }

    /// The checkpoints from one to another, by parents, each of which differs from the one before.
    fn bisect_candidates(&self, good: &Reference, bad: &Reference) -> Result<Vec<CheckpointId>> {
        let (good, bad) = (self.resolve(good, true)?, self.resolve(bad, true)?);
        let mut rows = vec![bad.clone()];
        while rows[rows.len() - 1].id != good.id {
            match self.ancestor(&rows[rows.len() - 1], |row| row.holds_files)? {
                Some(row) if row.sequence >= good.sequence => rows.push(row),
                _ => return Err(not_before(&good.id, &bad.id)),
            }
        }
        rows.reverse();
        let mut candidates: Vec<CheckpointId> = Vec::new();
        let mut before = None;
        for row in &rows {
            // One that cannot be read is noticed when it is its turn.
            let held = self.store.manifest(row).ok().map(|manifest| content_of(&manifest));
            if held.is_none() || held != before {
                candidates.push(row.id.clone());
            }
            before = held;
        }
        if candidates.len() < 2 {
            return Err(Error::Usage {
                message: format!("{} and {} hold the same", good.id, bad.id),
                advice: Vec::new(),
            });
        }
        Ok(candidates)
    }

    /// One search of a workspace at a time.
    fn turn_to_bisect(&self) -> Result<Turn> {
        self.store.require_writable()?;
        Turn::take(&Memo::path(self)?.with_extension("bisecting"))?.ok_or_else(|| Error::Bisect {
            kind: ErrorKind::Busy,
            message: "another bisect of this workspace is running".into(),
            advice: Vec::new(),
        })
    }
}

/// What of a checkpoint a scratch folder holds.
fn content_of(manifest: &Manifest) -> (Option<ObjectId>, Option<ObjectId>, Vec<String>) {
    let files = manifest.files.as_ref().map(|files| files.tree);
    let git = manifest.git.as_ref().and_then(|git| git.tree);
    let databases =
        manifest.databases.iter().map(|part| format!("{} {:?}", part.name, part.digest));
    (files, git, databases.collect())
}

fn not_before(good: &CheckpointId, bad: &CheckpointId) -> Error {
    Error::Usage {
        message: format!("{bad} does not come from {good}"),
        advice: vec!["the good one is the older one".into(), Advice::ShowTimeline],
    }
}

fn contradiction(why: Contradiction, candidates: &[CheckpointId]) -> String {
    let (good, bad) = (&candidates[0], &candidates[candidates.len() - 1]);
    match why {
        Contradiction::GoodFails => format!("the command fails at {good} already, the good one"),
        Contradiction::BadPasses => format!("the command succeeds at {bad}, the bad one"),
        Contradiction::EndSkipped(at) => {
            format!("{} cannot be tested: the command skips it", candidates[at])
        }
        Contradiction::Flaky(at) => format!(
            "the command contradicts itself: at {} it succeeded once and failed once",
            candidates[at]
        ),
    }
}

/// Removes a folder with all that is in it; a command may have taken rights away there.
fn remove_all(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            open_up(folder);
            std::fs::remove_dir_all(folder)
        }
        other => other,
    }
}

fn open_up(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
