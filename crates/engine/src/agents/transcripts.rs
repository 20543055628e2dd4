//! Transcripts of agents in a checkpoint: finding those of the workspace, keeping their bytes, and what is remembered of
//! both so that a save that finds nothing new only looks. What they tell goes into the journals by [`ingest`](super::ingest).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rappel_capture::agents::Provider;
use rappel_capture::agents::locate::{self, Located, Surroundings};
use rappel_capture::agents::opencode::Database;
use rappel_capture::agents::raw::{self, Care};
use rappel_capture::files::stamp::Stamp;
use rappel_store::disk;
use rappel_store::held;
use rappel_store::sink::Sink;
use rappel_store::tree;
use rappel_types::agents::SessionId;
use rappel_types::manifest::PartialReason;
use rappel_types::{CheckpointId, Facet, Manifest, Node, ObjectId, Timestamp, WorkspaceId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::opencode::Opencode;
use crate::error::Result;
use crate::rappel::Rappel;

/// One of another version is as good as none.
const VERSION: u32 = 1;

/// What is remembered of a workspace's transcripts. A view: without it they are searched for and read anew.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memo {
    version: u32,
    /// Which files belong to the workspace.
    located: locate::Memo,
    /// Their bytes, as a checkpoint has them.
    raw: Option<raw::Memo>,
    /// How far each was read into a journal.
    pub(super) read: BTreeMap<String, Known>,
    /// What opencode's database looked like before it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) opencode: Option<String>,
}

/// A transcript that was read. Its reader is in a file of its own, which is only needed when there is more to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    /// The session it belongs to, if it says so.
    pub session: Option<SessionId>,
    /// What it looked like before it was read.
    pub stamp: Option<Stamp>,
    /// When the last thing in it happened.
    pub latest_at: Option<Timestamp>,
    /// Whether that is so long ago that the session was ended.
    pub over: bool,
    /// The hook events that its newest prompts were matched to.
    #[serde(default)]
    pub matched: Vec<String>,
}

impl Memo {
    fn load(path: &Path) -> Self {
        let read = held::read(path).ok();
        let memo = read.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        memo.filter(|memo| memo.version == VERSION).unwrap_or_default()
    }
}

/// The transcripts that a save found.
#[derive(Debug)]
pub(crate) struct Transcripts {
    pub(super) located: Located,
    /// The user's database of opencode.
    pub(super) opencode: Option<Opencode>,
    pub(crate) memo: Memo,
}

/// Their bytes, on the way into a checkpoint.
#[derive(Debug)]
pub(crate) struct CapturedTranscripts {
    /// Nothing if there are none.
    pub tree: Option<ObjectId>,
    /// The checkpoint that holds what was not read again.
    pub base: Option<CheckpointId>,
    pub partial: Vec<PartialReason>,
    memo: Memo,
}

impl Rappel {
    /// Looks for the transcripts of this workspace's agents. `distrust` says that the store may not hold what it held.
    pub(crate) fn find_transcripts(
        &self,
        id: WorkspaceId,
        distrust: bool,
    ) -> Result<Option<Transcripts>> {
        let Some(surroundings) = &self.options.agents else { return Ok(None) };
        let database = Database::of(surroundings);
        if database.is_none() && !any_home(surroundings) {
            return Ok(None);
        }
        let mut memo = Memo::load(&self.transcripts_path(id));
        if distrust || !self.is_held(memo.raw.as_ref())? {
            memo.raw = None;
        }
        let roots = self.root_paths();
        let before = memo.located.clone();
        let located = locate::locate(surroundings, &roots, &mut memo.located);
        // Whose the others are is worth remembering even if none is this workspace's.
        if memo.located != before && self.known().is_some() {
            self.save_transcripts_memo(id, memo.clone());
        }
        let opencode = database.map(|database| Opencode::look(database, &memo));
        let any = !located.transcripts.is_empty() || !located.troubles.is_empty();
        let any = any || opencode.as_ref().is_some_and(Opencode::may_have_news);
        Ok((any || !memo.read.is_empty()).then_some(Transcripts { located, opencode, memo }))
    }

    /// The workspace's root by all the paths that it has.
    pub(super) fn root_paths(&self) -> Vec<&Path> {
        let mut roots = vec![self.root.as_path()];
        if self.options.root.is_absolute() && self.options.root != self.root {
            roots.push(&self.options.root);
        }
        roots
    }

    /// Whether a memo is of a checkpoint that is still there.
    fn is_held(&self, memo: Option<&raw::Memo>) -> Result<bool> {
        let checkpoint =
            memo.filter(|memo| memo.is_current()).and_then(|memo| memo.checkpoint.as_ref());
        match checkpoint {
            Some(checkpoint) => Ok(self.store.checkpoint(checkpoint)?.is_some()),
            None => Ok(false),
        }
    }

    /// What the newest capture knew, for a restore to compare with.
    pub(super) fn raw_memo(&self) -> Result<Option<raw::Memo>> {
        let Some(id) = self.workspace_id() else { return Ok(None) };
        let memo = Memo::load(&self.transcripts_path(id)).raw;
        Ok(if self.is_held(memo.as_ref())? { memo } else { None })
    }

    /// Takes their bytes. `care` says what is believed of one that grew.
    pub(crate) fn capture_transcripts(
        &self,
        found: Transcripts,
        care: Care,
        sink: &dyn Sink,
    ) -> Result<CapturedTranscripts> {
        let Transcripts { located, mut memo, .. } = found;
        let reason = |path, reason| PartialReason::new(Facet::Agents, path, reason);
        let mut partial: Vec<PartialReason> =
            located.troubles.into_iter().map(|trouble| reason(None, trouble)).collect();
        if located.transcripts.is_empty() {
            memo.raw = None;
            return Ok(CapturedTranscripts { tree: None, base: None, partial, memo });
        }
        let base = memo.raw.as_ref().and_then(|memo| memo.checkpoint.clone());
        let cancel = self.cancel();
        let captured = raw::capture(sink, &located.transcripts, memo.raw.as_ref(), care, cancel)?;
        partial.extend(captured.troubles.into_iter().map(|(path, why)| reason(Some(path), why)));
        memo.raw = Some(captured.memo);
        let tree = (captured.files > 0).then_some(captured.tree);
        Ok(CapturedTranscripts { tree, base, partial, memo })
    }

    /// How many transcripts a checkpoint holds, and how long they are together.
    pub fn transcripts_in(&self, manifest: &Manifest) -> Result<(u64, u64)> {
        let tree = manifest.agents.as_ref().and_then(|agents| agents.transcripts);
        let Some(tree) = tree else { return Ok((0, 0)) };
        let entries = tree::read(self.source(), &tree)?;
        let sizes = entries.iter().filter_map(|entry| match &entry.node {
            Node::File { size, .. } => Some(*size),
            _ => None,
        });
        Ok(sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size)))
    }

    /// Remembers what was captured, now that a checkpoint holds it.
    pub(crate) fn remember_transcripts(
        &self,
        id: WorkspaceId,
        captured: CapturedTranscripts,
        made: &CheckpointId,
    ) {
        let mut memo = captured.memo;
        if let Some(raw) = &mut memo.raw {
            raw.checkpoint = Some(made.clone());
        }
        self.save_transcripts_memo(id, memo);
    }

    /// Writes it down. Where that fails, the next save reads everything again.
    pub(crate) fn save_transcripts_memo(&self, id: WorkspaceId, mut memo: Memo) {
        memo.version = VERSION;
        let path = self.transcripts_path(id);
        if let Ok(bytes) = serde_json::to_vec(&memo)
            && disk::create_dir(&**self.store.disk(), &self.store.home().cache()).is_ok()
        {
            disk::replace_view(self.store.disk(), &path, &bytes);
        }
    }

    fn transcripts_path(&self, id: WorkspaceId) -> PathBuf {
        self.cache_path(id).with_extension("transcripts")
    }

    pub(super) fn reader_path(&self, id: WorkspaceId, key: &str) -> PathBuf {
        let name = blake3::hash(key.as_bytes()).to_hex();
        self.cache_path(id).with_extension("readers").join(&name[..32])
    }

    /// The reader of a transcript, where it left off.
    pub(super) fn load_reader<T: DeserializeOwned>(&self, id: WorkspaceId, key: &str) -> Option<T> {
        let bytes = held::read(self.reader_path(id, key)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Keeps it for the next time.
    pub(super) fn save_reader<T: Serialize>(&self, id: WorkspaceId, key: &str, reader: &T) {
        let path = self.reader_path(id, key);
        let disk = self.store.disk();
        if let (Some(folder), Ok(bytes)) = (path.parent(), serde_json::to_vec(reader))
            && disk::create_dir(&**disk, folder).is_ok()
        {
            disk::replace_view(disk, &path, &bytes);
        }
    }
}

/// Whether there is an agent's home at all.
fn any_home(surroundings: &Surroundings) -> bool {
    Provider::ALL.into_iter().any(|provider| surroundings.root(provider).is_dir())
}
