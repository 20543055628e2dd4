//! What a search knows, on disk: candidates and answers. Lost, the search begins again.

use std::path::{Path, PathBuf};

use rappel_store::{ambient, disk, held};
use rappel_types::Advice;
use rappel_types::CheckpointId;
use rappel_types::bisect::{Answer, Next, next};
use serde::{Deserialize, Serialize};

use super::{Tested, remove_all};
use crate::error::{Error, ErrorKind, Result};
use crate::rappel::Rappel;

/// The version that this build writes.
const VERSION: u32 = 1;

/// A search that is under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Memo {
    version: u32,
    pub command: Vec<String>,
    /// The good one first, the bad one last.
    pub candidates: Vec<CheckpointId>,
    pub tested: Vec<Tested>,
    /// The folder that candidates are written into.
    scratch: PathBuf,
}

impl Memo {
    pub fn new(command: &[String], candidates: Vec<CheckpointId>, temporary: &Path) -> Self {
        let name = format!("rappel-bisect-{:016x}", ambient::random());
        Self {
            version: VERSION,
            command: command.to_vec(),
            candidates,
            tested: Vec::new(),
            scratch: temporary.join(name),
        }
    }

    /// Where it is kept.
    pub fn path(rappel: &Rappel) -> Result<PathBuf> {
        Ok(rappel.cache_path(rappel.require_known()?).with_extension("bisect"))
    }

    pub fn load(rappel: &Rappel) -> Result<Option<Self>> {
        let path = Self::path(rappel)?;
        let bytes = match held::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(rappel_store::Error::io("read", &path)(error).into()),
        };
        let memo = serde_json::from_slice::<Self>(&bytes).ok();
        memo.filter(|memo| memo.version == VERSION && memo.makes_sense()).map(Some).ok_or_else(
            || Error::Bisect {
                kind: ErrorKind::Damage,
                message: "what an earlier bisect left cannot be read".into(),
                advice: vec![Advice::AbortBisect],
            },
        )
    }

    fn makes_sense(&self) -> bool {
        let known = |tested: &Tested| self.candidates.contains(&tested.checkpoint);
        let name = self.scratch.file_name().and_then(|name| name.to_str());
        self.candidates.len() >= 2
            && self.tested.iter().all(known)
            && self.scratch.is_absolute()
            && name.is_some_and(|name| name.starts_with("rappel-bisect-"))
    }

    pub fn keep(&self, rappel: &Rappel) -> Result<()> {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        Ok(disk::replace(rappel.store.disk(), &Self::path(rappel)?, &bytes)?)
    }

    /// Adds an answer, durably.
    pub fn add(&mut self, rappel: &Rappel, tested: Tested) -> Result<()> {
        self.tested.push(tested);
        self.keep(rappel)
    }

    /// The answers by place.
    pub fn answers(&self) -> Vec<(usize, Answer)> {
        let place = |id: &CheckpointId| self.candidates.iter().position(|one| one == id);
        let answers = self.tested.iter();
        answers.filter_map(|one| Some((place(&one.checkpoint)?, one.answer))).collect()
    }

    /// How many may still be the first bad one.
    pub fn left(&self) -> usize {
        let answers = self.answers();
        let of = |at: usize, answer| answers.contains(&(at, answer));
        let good = (0..self.candidates.len()).rev().find(|&at| of(at, Answer::Good)).unwrap_or(0);
        let bad = (good + 1..self.candidates.len()).find(|&at| of(at, Answer::Bad));
        match next(self.candidates.len(), &answers) {
            Next::Test(_) => bad.unwrap_or(self.candidates.len() - 1).saturating_sub(good),
            _ => 0,
        }
    }

    /// An absent folder for the next candidate, in a private one; what an earlier one left is gone.
    pub fn fresh_folder(&self) -> Result<PathBuf> {
        let failed = |action| rappel_store::Error::io(action, &self.scratch);
        remove_all(&self.scratch).map_err(failed("remove"))?;
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.scratch).map_err(failed("create"))?;
        Ok(self.scratch.join("candidate"))
    }

    /// Ends the search: scratch folder and memory go.
    pub fn remove(&self, rappel: &Rappel) -> Result<()> {
        let removed = remove_all(&self.scratch);
        Self::forget(rappel)?;
        Ok(removed.map_err(rappel_store::Error::io("remove", &self.scratch))?)
    }

    /// Forgets a search.
    pub fn forget(rappel: &Rappel) -> Result<()> {
        let path = Self::path(rappel)?;
        Ok(disk::unlink(&**rappel.store.disk(), &path)?)
    }
}
