//! What searches learned, so that a transcript is opened once and then only looked at. A view: losing
//! it costs time.

use std::collections::BTreeMap;
use std::path::Path;

use rappel_types::RelPath;
use rappel_types::path::escape;
use serde::{Deserialize, Serialize};

use crate::agents::Provider;
use crate::files::stamp::Stamp;

/// Raised when a memo means something else than before.
const VERSION: u32 = 1;

/// Which transcripts belong to a workspace, as far as was learned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memo {
    version: u32,
    /// The workspace that the answers are about.
    workspace: Vec<String>,
    answers: BTreeMap<Provider, BTreeMap<RelPath, Answer>>,
}

/// An answer is about a file, whatever is put in its place later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Answer {
    #[serde(rename = "d")]
    device: u64,
    #[serde(rename = "i")]
    inode: u64,
    #[serde(rename = "b")]
    belongs: bool,
}

impl Memo {
    pub(super) fn new(workspace: &[&Path]) -> Self {
        Self { version: VERSION, workspace: names(workspace), answers: BTreeMap::new() }
    }

    /// The same, or an empty one if it is about something else.
    pub(super) fn for_workspace(self, workspace: &[&Path]) -> Self {
        match self.version == VERSION && self.workspace == names(workspace) {
            true => self,
            false => Self::new(workspace),
        }
    }

    pub(super) fn answer(&self, provider: Provider, path: &RelPath, stamp: &Stamp) -> Option<bool> {
        let answer = self.answers.get(&provider)?.get(path)?;
        let same = answer.device == stamp.device && answer.inode == stamp.inode;
        same.then_some(answer.belongs)
    }

    pub(super) fn remember(
        &mut self,
        provider: Provider,
        path: &RelPath,
        stamp: &Stamp,
        belongs: bool,
    ) {
        let answer = Answer { device: stamp.device, inode: stamp.inode, belongs };
        self.answers.entry(provider).or_default().insert(path.clone(), answer);
    }
}

fn names(workspace: &[&Path]) -> Vec<String> {
    use std::os::unix::ffi::OsStrExt;
    workspace.iter().map(|path| escape(path.as_os_str().as_bytes())).collect()
}
