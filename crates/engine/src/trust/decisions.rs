//! What the user has decided about a workspace, in the home: `trust/ID.json` (`docs/format.md`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rappel_store::disk::{self, Disk};
use rappel_store::held;
use rappel_types::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::entry::TrustEntry;
use crate::error::{Error, Result};

/// The version of the file.
const VERSION: u32 = 1;

/// What the user said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "TrustAnswer")]
pub enum Answer {
    /// It may run.
    Allowed,
    /// It may not, and the user is not asked again by a save.
    Refused,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "TrustDecision")]
pub struct Decision {
    /// What the user said.
    pub answer: Answer,
    /// When.
    pub at: Timestamp,
    /// About what, as it was shown. Its hash is what counts.
    pub about: TrustEntry,
}

/// All decisions about a workspace, by the hash of what they are about.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Decisions {
    version: u32,
    pub entries: BTreeMap<String, Decision>,
}

impl Decisions {
    /// What a file says. Where there is none, nothing was decided.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = match held::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let damaged = |error: serde_json::Error| Error::Damaged {
            message: format!("{} cannot be understood: {error}", path.display()),
        };
        let version = serde_json::from_slice::<Version>(&bytes).map_err(damaged)?.version;
        if version > VERSION {
            let what = path.display().to_string();
            return Err(
                rappel_store::Error::Newer { what, found: version, supported: VERSION }.into()
            );
        }
        serde_json::from_slice(&bytes).map_err(damaged)
    }

    /// What the user said about this.
    pub fn answer(&self, hash: &str) -> Option<Answer> {
        self.entries.get(hash).map(|decision| decision.answer)
    }

    /// Writes it down, durably.
    pub fn store(mut self, disk: &Arc<dyn Disk>, path: &Path) -> Result<()> {
        self.version = VERSION;
        let bytes = serde_json::to_vec_pretty(&self)
            .map_err(|error| Error::io("write", path)(error.into()))?;
        Ok(disk::replace(disk, path, &bytes)?)
    }
}

/// What every version of the file begins with.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What version 1 wrote is what is read today, and means the same hashes.
    #[test]
    fn decisions_of_version_1_still_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.json");
        let golden = include_str!("../../tests/fixtures/trust-1.json");
        std::fs::write(&path, golden).unwrap();
        let read = Decisions::load(&path).unwrap();
        assert_eq!(read.entries.len(), 4);
        for (hash, decision) in &read.entries {
            assert_eq!(*hash, decision.about.hash(), "{decision:?}");
        }
        let disk: Arc<dyn Disk> = Arc::new(disk::RealDisk);
        read.store(&disk, &path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), golden.trim_end());
    }
}
