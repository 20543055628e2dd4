//! Making a checkpoint.

mod look;
mod options;
mod prepared;
mod queue;
mod shared;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rappel_capture::files::Progress;
use rappel_capture::restore::Intent;
use rappel_store::disk::DiskFile;
use rappel_store::document::{self, Undo};
use rappel_store::held;
use rappel_store::index::{CheckpointRow, Index};
use rappel_store::record::Kind;
use rappel_store::sink::Source;
use rappel_store::verify::Hurt;
use rappel_store::{NewRecord, ambient};
use rappel_types::manifest::{Cost, MANIFEST_VERSION, PartialReason, WorkspacePart};
use rappel_types::path::escape_bytes;
use rappel_types::{
    CheckpointId, Facet, FacetState, Manifest, ObjectId, Trigger, WorkspaceId, secret,
};

use crate::agents::{CapturedTranscripts, Transcripts, agents_part};
use crate::checkpoint::Checkpoint;
use crate::databases::{CapturedDatabases, Holdings};
use crate::error::{Error, Result};
use crate::git::CapturedGit;
use crate::rappel::{Rappel, read_config};
use crate::workspace::{self, Recognition};
use look::Look;
pub(crate) use look::{CapturedFiles, Leave};
pub use options::{Overtaken, SaveOptions};
use prepared::Prepared;
pub(crate) use prepared::PreparedSave;

/// An existing checkpoint is returned instead of a new one only if it is younger than this.
const FRESH_MS: i64 = 60_000;
/// Every so many checkpoints the manifest is stored whole, so that chains stay short.
const MANIFEST_CHAIN: u64 = 8;
/// A workspace's first saves ask git for the repository's first commit; later ones do not.
const ASK_FIRST_COMMIT: u64 = 3;

/// The file of the cache in which a check notes that checkpoints cannot be read.
const HURT: &str = "hurt";

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
    pub fn save(&mut self, options: &SaveOptions) -> Result<Saved> {
        self.save_with_progress(options, None)
    }

    /// As [`Rappel::save`], telling `progress` how far it is.
    pub fn save_with_progress(
        &mut self,
        options: &SaveOptions,
        progress: Option<&Progress>,
    ) -> Result<Saved> {
        if self.is_detached() {
            let options = SaveOptions { only: Some([Facet::Agents].into()), ..options.clone() };
            return self.save_holding(&options, progress, &mut Holdings::default());
        }
        self.save_in_turn(options, progress)
    }

    /// The same at once, taking hold of the databases that a restore may change.
    pub(crate) fn save_holding(
        &mut self,
        options: &SaveOptions,
        progress: Option<&Progress>,
        holdings: &mut Holdings,
    ) -> Result<Saved> {
        self.require_sense(options)?;
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
                    self.recognition = workspace::recognise(&self.store, &self.evidence)?;
                }
                // The tree that the cache is about cannot be read any more.
                Err(error) if error.is_unreadable() && !distrust_cache => distrust_cache = true,
                other => return other,
            }
        }
        Err(Error::Store(rappel_store::Error::Moved))
    }

    /// Refuses what cannot be saved.
    fn require_sense(&self, options: &SaveOptions) -> Result<()> {
        self.require_folder()?;
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
        &mut self,
        options: &SaveOptions,
        progress: Option<&Progress>,
        holdings: &mut Holdings,
        distrust_cache: bool,
    ) -> Result<Saved> {
        let begun = self.begin_save(options, distrust_cache)?;
        let made = match self.prepare_save(begun, options, progress, holdings)? {
            Prepared::Existing(saved) => return Ok(*saved),
            Prepared::New(prepared) => prepared.commit(self)?,
        };
        Ok(self.acknowledge(made))
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

    /// What of the store is damaged; empty if nothing is.
    fn damage(&self) -> Result<String> {
        Ok(format!("{}{}", self.lost_packs()?, self.noted_hurt()))
    }

    /// The names of packs that are needed and not there.
    pub(crate) fn lost_packs(&self) -> Result<String> {
        let lost = self.store.lost_packs()?;
        Ok(lost.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }

    /// Notes which checkpoints cannot be read, for the next save of each workspace.
    pub(crate) fn note_hurt(&self, hurt: &[Hurt]) {
        let (disk, cache) = (self.store.disk(), self.store.home().cache());
        let path = cache.join(HURT);
        if hurt.is_empty() {
            let _ = rappel_store::disk::unlink(&**disk, &path);
            return;
        }
        let all: Vec<&str> = hurt.iter().map(|one| one.checkpoint.as_str()).collect();
        let text = format!("hurt {}", blake3::hash(all.join(" ").as_bytes()).to_hex());
        if rappel_store::disk::create_dir(&**disk, &cache).is_ok() {
            rappel_store::disk::replace_view(disk, &path, text.as_bytes());
        }
    }

    /// What the last check noted of that; empty where every checkpoint could be read.
    fn noted_hurt(&self) -> String {
        held::read_to_string(self.store.home().cache().join(HURT)).unwrap_or_default()
    }

    /// Whether everything was stored anew since this damage was found. Otherwise the cache would go
    /// on believing in what they held.
    fn knows_of(&self, id: WorkspaceId, lost: &str) -> bool {
        held::read(self.lost_path(id)).is_ok_and(|known| known == lost.as_bytes())
    }

    /// Remembers that. Where it cannot be written, the next save stores everything anew again.
    fn note_lost(&self, id: WorkspaceId, lost: &str) {
        let (disk, path) = (self.store.disk(), self.lost_path(id));
        let _ = rappel_store::disk::unlink(&**disk, &path);
        if let Ok(file) = DiskFile::create_new(disk, &path) {
            let _ = file.write_at(lost.as_bytes(), 0);
        }
    }

    fn lost_path(&self, id: WorkspaceId) -> std::path::PathBuf {
        self.cache_path(id).with_extension("lost")
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

    /// The checkpoint that already says everything this request would.
    fn existing(
        &self,
        Look { options, newest, .. }: &Look<'_>,
        files: Option<&CapturedFiles>,
        git: Option<&CapturedGit>,
        databases: Option<&CapturedDatabases>,
        transcripts: Option<&CapturedTranscripts>,
    ) -> Result<Option<Checkpoint>> {
        let (Some(newest), Some(files), Some(git), Some(databases)) =
            (newest, files, git, databases)
        else {
            return Ok(None);
        };
        if options.if_changed {
            return self.unchanged(newest, files, git, databases);
        }
        // `undo` goes by the checkpoints that restores make: each has its own.
        if options.trigger() == Trigger::PreRestore || options.adds_something() {
            return Ok(None);
        }
        let age = self.now().as_millis() - newest.created_at;
        let partial = self.config_problem.is_some()
            || !files.scanned.partial.is_empty()
            || !git.captured.partial.is_empty()
            || !databases.partial.is_empty()
            || transcripts.is_some_and(|transcripts| !transcripts.partial.is_empty())
            || !self.connected.is_empty();
        if !newest.holds_files || !(0..FRESH_MS).contains(&age) || partial {
            return Ok(None);
        }
        let mut existing = match self.view(newest) {
            Err(error) if error.is_unreadable() => return Ok(None),
            other => other?,
        };
        let manifest = &existing.manifest;
        let part =
            self.store.look_up(|index| agents_part(index, manifest.workspace.id, &[], None))?;
        let held = manifest.agents.clone().unwrap_or_default();
        // A file that is too large is news as well: this checkpoint does not say that it is left
        // out.
        let same = manifest.files.as_ref().is_some_and(|part| {
            part.tree == files.tree
                && part.rules == files.scanned.rules
                && part.skipped == files.scanned.skipped
        });
        if !same
            || manifest.git != git.captured.part
            || manifest.databases != databases.parts
            || manifest.variables != self.variables()
            || manifest.partial
            || manifest.interrupted_restore
            || held.sessions != part.sessions
            || held.transcripts != transcripts.and_then(|transcripts| transcripts.tree)
            || options.adds_to(manifest, self.environment(options).as_deref())
        {
            return Ok(None);
        }
        existing.created = false;
        Ok(Some(existing))
    }

    /// The newest checkpoint, if it holds what was looked at just now. Databases that were not
    /// asked are not looked at.
    fn unchanged(
        &self,
        newest: &CheckpointRow,
        files: &CapturedFiles,
        git: &CapturedGit,
        databases: &CapturedDatabases,
    ) -> Result<Option<Checkpoint>> {
        let mut existing = match self.view(newest) {
            Err(error) if error.is_unreadable() => return Ok(None),
            other => other?,
        };
        let manifest = &existing.manifest;
        let held = manifest.files.as_ref();
        let same_files =
            held.is_some_and(|part| part.tree == files.tree && part.rules == files.scanned.rules);
        let same_databases = databases.parts.iter().filter(|part| !part.stale).all(|part| {
            let held = manifest.databases.iter().find(|held| held.name == part.name);
            held.is_some_and(|held| held.digest == part.digest)
        });
        let partial = files.scanned.partial.iter().chain(&git.captured.partial);
        let same_reasons = partial
            .chain(&databases.partial)
            .all(|reason| manifest.partial_reasons.contains(reason));
        let same = same_files && same_databases && same_reasons;
        if !same || manifest.git != git.captured.part || manifest.interrupted_restore {
            return Ok(None);
        }
        existing.created = false;
        Ok(Some(existing))
    }

    /// The environment's name: asked for, else the process's, else the configuration's.
    fn environment(&self, options: &SaveOptions) -> Option<String> {
        let named = options.environment.clone();
        named
            .or_else(|| self.options.environment_name.clone())
            .or_else(|| self.config.environment.clone())
    }

    /// The environment variables that `[variables]` names, but for what looks like a secret.
    fn variables(&self) -> BTreeMap<String, String> {
        let names = self.config.variables.capture.iter();
        names
            .filter_map(|name| Some((name.clone(), (self.options.variables)(name)?)))
            .filter(|(name, value)| secret::of_variable(name, value).is_none())
            .collect()
    }

    /// A sentence for each of those that is not set, or looks like a secret.
    fn refused_variables(&self) -> Vec<String> {
        let names = self.config.variables.capture.iter();
        names
            .filter_map(|name| {
                let Some(value) = (self.options.variables)(name) else {
                    return Some(format!("the variable {name} is not kept: it is not set"));
                };
                let kind = secret::of_variable(name, &value)?;
                Some(format!("the variable {name} is not kept: it looks like a secret ({kind})"))
            })
            .collect()
    }

    /// The manifest, but for what is only known under the lock.
    pub(crate) fn draft(
        &self,
        id: WorkspaceId,
        options: &SaveOptions,
        (files, git, databases): (
            Option<&CapturedFiles>,
            Option<&CapturedGit>,
            Option<&CapturedDatabases>,
        ),
        interrupted_restore: bool,
    ) -> Manifest {
        let files_state = if files.is_some() { FacetState::Captured } else { FacetState::NotAsked };
        let mut facets: BTreeMap<Facet, FacetState> =
            Facet::ALL.into_iter().map(|facet| (facet, FacetState::NotAsked)).collect();
        facets.insert(Facet::Files, files_state);
        let mut partial_reasons = files.map(|f| f.scanned.partial.clone()).unwrap_or_default();
        if let Some(git) = git {
            facets.insert(Facet::Git, git.captured.state);
            partial_reasons.extend(git.captured.partial.iter().cloned());
        }
        if let Some(databases) = databases {
            facets.insert(Facet::Databases, databases.state());
            partial_reasons.extend(databases.partial.iter().cloned());
        }
        if let (Some(problem), true) = (&self.config_problem, files.is_some()) {
            partial_reasons.push(PartialReason {
                facet: Facet::Databases,
                path: None,
                reason: format!(
                    "rappel.toml: {problem}; the rules of the last checkpoint were used, and nothing \
                     that rappel.toml names was read or run"
                ),
            });
        }
        let root = escape_bytes(self.root.as_os_str().as_bytes());
        let name = self.root.file_name().map(|name| escape_bytes(name.as_bytes()));
        let name = name.unwrap_or_default();
        let mut tags = options.tags.clone();
        tags.dedup();
        Manifest {
            version: MANIFEST_VERSION,
            id: CheckpointId::new(self.now(), 0),
            sequence: 0,
            parent: None,
            created_at: self.now(),
            trigger: options.trigger(),
            description: options.message().map(str::to_owned),
            tags,
            environment: self.environment(options),
            variables: self.variables(),
            session_id: options.session.clone(),
            workspace: WorkspacePart { id, root, name },
            facets,
            partial: !partial_reasons.is_empty(),
            partial_reasons,
            mid_operation: Vec::new(),
            interrupted_restore,
            files: files.map(CapturedFiles::part),
            git: git.and_then(|git| git.captured.part.clone()),
            databases: databases.map(|found| found.parts.clone()).unwrap_or_default(),
            agents: None,
            knowledge: None,
            process: None,
            metadata: options.metadata.clone(),
            cost: Cost::default(),
        }
    }

    /// Unfinished restores that concern this workspace.
    pub(crate) fn open_intents(&self) -> Result<Vec<Intent>> {
        Ok(self.intents().concerning(&self.root)?)
    }
}

/// Gives a manifest its place in the workspace's history. Under the lock.
pub(crate) fn place(
    manifest: &mut Manifest,
    index: &mut Index,
    id: WorkspaceId,
    trigger: Trigger,
    now: rappel_types::Timestamp,
) -> rappel_store::Result<()> {
    let newest = index.newest(id)?;
    manifest.sequence = index.last_sequence(id)? + 1;
    let parent = parent_of(index, id, newest.as_ref())?;
    let not_before = newest.as_ref().map_or(i64::MIN, |row| row.created_at);
    manifest.created_at = now.max(rappel_types::Timestamp::from_millis(not_before.max(0)));
    manifest.parent = parent;
    manifest.trigger = trigger;
    loop {
        let random = (ambient::random() & 0xf_ffff) as u32;
        manifest.id = CheckpointId::new(manifest.created_at, random);
        if index.checkpoint(&manifest.id)?.is_none() {
            for database in &mut manifest.databases {
                database.as_of.get_or_insert_with(|| manifest.id.clone());
            }
            return Ok(());
        }
    }
}

/// The manifest that one with this number is stored against.
pub(crate) fn manifest_base(
    index: &Index,
    id: WorkspaceId,
    sequence: u64,
) -> rappel_store::Result<Option<ObjectId>> {
    if sequence % MANIFEST_CHAIN == 1 {
        return Ok(None);
    }
    Ok(index.newest(id)?.map(|row| row.manifest))
}

/// What the next checkpoint follows: the newest one, or what was restored since.
pub(crate) fn parent_of(
    index: &mut Index,
    id: WorkspaceId,
    newest: Option<&CheckpointRow>,
) -> rappel_store::Result<Option<CheckpointId>> {
    let restored = index
        .newest_document(Kind::Undo, &id.to_string())?
        .filter(|row| newest.is_none_or(|newest| row.birth > newest.birth))
        .and_then(|row| serde_json::from_str::<Undo>(&row.json).ok())
        .map(|undo| undo.to);
    Ok(restored.or_else(|| newest.map(|row| row.id.clone())))
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
