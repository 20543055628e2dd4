//! A checkpoint before its commit. Everything was looked at and put into a run that does not count
//! yet. A save commits it at once; a restore plans with it first, and lets go of it if there is
//! nothing to do.

use std::time::{Duration, Instant};

use rappel_capture::files::Progress;
use rappel_store::NewRecord;
use rappel_store::document;
use rappel_store::index::CheckpointRow;
use rappel_store::record::Kind;
use rappel_store::sink::Source;
use rappel_store::threads;
use rappel_store::writer::Writer;
use rappel_types::{
    CheckpointId, Facet, FacetState, Manifest, ObjectId, RelPath, Trigger, WorkspaceId,
};

use super::look::{Captured, Look};
use super::{
    ASK_FIRST_COMMIT, CAPTURED, CapturedFiles, Overtaken, SaveOptions, Saved, manifest_base, place,
    workspace_record,
};
use crate::agents::{
    CapturedTranscripts, Live, Notice, Running, Snapshots, Transcripts, agents_part, catch_up,
};
use crate::checkpoint::Checkpoint;
use crate::databases::{self, CapturedDatabases, Found, Holding, Holdings};
use crate::error::{Error, Result};
use crate::git::{CapturedGit, Merge};
use crate::rappel::Rappel;
use crate::workspace::{self, FirstCommit, Recognition};

/// What a save knows before it looks.
pub(crate) struct Begun {
    start: Instant,
    id: WorkspaceId,
    notes: Vec<String>,
    new_workspace: Option<document::Workspace>,
    transcripts: Option<Transcripts>,
    newest: Option<CheckpointRow>,
    first_commit: Option<FirstCommit>,
    mid_operation: Vec<String>,
    waited: Duration,
    damage: Damage,
    distrust: bool,
    asking: Option<Live>,
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
}

/// Damage of the store, as far as a save has to know of it.
#[derive(Default)]
struct Damage {
    /// What is damaged; empty if nothing is.
    found: String,
    /// Whether packs are lost.
    lost: bool,
    /// Whether nothing was stored anew since it was found.
    news: bool,
}

/// What came of a look.
pub(crate) enum Prepared<'s> {
    /// A checkpoint that already says all of it.
    Existing(Box<Saved>),
    /// A new one.
    New(Box<PreparedSave<'s>>),
}

/// A checkpoint before its commit. Dropped without one, it leaves nothing behind.
pub(crate) struct PreparedSave<'s> {
    begun: Begun,
    options: SaveOptions,
    writer: Writer<'s>,
    /// The manifest, but for what is only known under the lock.
    draft: Manifest,
    parts: Parts,
    transcripts_tree: Option<ObjectId>,
    state_dirs: Vec<RelPath>,
    connected: Snapshots,
    over: Option<Over>,
    /// A merge that was found, which gets a checkpoint of its own over the same trees.
    merge: Option<Merge>,
}

/// The checkpoint whose state a checkpoint without a capture of its own holds.
pub(super) struct Over {
    pub checkpoint: CheckpointId,
    /// The newest one that holds this state. Nothing may come between.
    pub newest: CheckpointId,
}

/// What was captured, for the next save to know.
#[derive(Default)]
struct Parts {
    files: Option<CapturedFiles>,
    git: Option<CapturedGit>,
    databases: Option<CapturedDatabases>,
    transcripts: Option<CapturedTranscripts>,
    /// Databases that were noticed among the files.
    noticed: Vec<RelPath>,
}

/// A checkpoint that was just committed, and what is to be remembered of it.
pub(crate) struct Made {
    begun: Begun,
    manifest: Manifest,
    parts: Parts,
}

impl Rappel {
    /// What a save does before it looks: which workspace it is, what agents tell, whom it waits
    /// for.
    pub(crate) fn begin_save(&mut self, options: &SaveOptions, distrust: bool) -> Result<Begun> {
        let start = Instant::now();
        let (id, mut notes, new_workspace) = self.identify();
        let mut transcripts = None;
        let takes_them = options.trigger().takes_transcripts() && !is_about_agents_alone(options);
        if options.wants(Facet::Agents) && takes_them {
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
        let lost = self.lost_packs()?;
        let found = format!("{lost}{}", self.noted_hurt());
        let news = !found.is_empty() && !self.knows_of(id, &found);
        if news {
            let what = match lost.is_empty() {
                true => "the store is damaged".to_owned(),
                false => format!("{lost} is missing or cut off"),
            };
            notes.push(format!("{what}; the workspace is stored anew, see `rappel verify`"));
        }
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
            damage: Damage { found, lost: !lost.is_empty(), news },
            distrust: distrust || news,
            asking: self.asking_session(options)?,
        })
    }

    /// Looks at everything and puts it into a run.
    pub(crate) fn prepare_save(
        &self,
        mut begun: Begun,
        options: &SaveOptions,
        progress: Option<&Progress>,
        holdings: &mut Holdings,
    ) -> Result<Prepared<'_>> {
        let writer = self.store.begin()?.distrusting(begun.distrust);
        let held: Vec<RelPath> = holdings.all.iter().filter_map(Holding::path).collect();
        let look = Look {
            held: &held,
            id: begun.id,
            options,
            newest: begun.newest.as_ref(),
            progress,
            distrust: begun.distrust,
        };
        let found = begun.transcripts.take();
        let (all, transcripts) = std::thread::scope(|scope| {
            let beside = found
                .map(|found| threads::beside(scope, || self.capture_transcripts(found, &writer)));
            let look_at_all = !is_about_agents_alone(options);
            let all = look_at_all.then(|| self.capture_all(&look, &writer, holdings));
            let transcripts = beside.map(|beside| {
                beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            (all.transpose(), transcripts.transpose())
        });
        let (captured, git, databases, restored) = match all? {
            Some(Captured { files, git, databases, restored }) => {
                (Some(files), git, databases, restored)
            }
            None => (None, None, None, false),
        };
        let transcripts = transcripts?;
        let noticed =
            captured.as_ref().map(|files| files.scanned.databases.clone()).unwrap_or_default();
        let mut files = captured.filter(|_| options.wants(Facet::Files));
        if let Some(files) = &mut files {
            match self.count_changes(files, begun.id, begun.newest.as_ref(), &writer) {
                // What cannot be read is nothing to compare with.
                Err(error) if error.is_unreadable() => {}
                other => other?,
            }
        }
        let knowledge = match &files {
            Some(files) if options.wants(Facet::Knowledge) => {
                self.capture_knowledge(files, begun.newest.as_ref(), &writer)?
            }
            _ => None,
        };
        if !begun.damage.lost
            && !begun.distrust
            && let Some(existing) = self.existing(
                &look,
                files.as_ref(),
                git.as_ref(),
                databases.as_ref(),
                transcripts.as_ref(),
            )?
        {
            let mut notes = begun.notes;
            notes.extend(databases::not_restorable(&existing.manifest.databases));
            let saved = Saved { checkpoint: existing, notes, waited: begun.waited };
            return Ok(Prepared::Existing(Box::new(saved)));
        }
        let interrupted = restored
            || !self.open_intents()?.is_empty()
            || self.intents().damaged_of(begun.id)?.is_some();
        let is_marked = options.trigger() == Trigger::PrMerged || files.is_none();
        let merge = git.as_ref().filter(|_| !is_marked);
        let merge = merge.and_then(|git| self.merge_in(git, &writer));
        let parts = (files.as_ref(), git.as_ref(), databases.as_ref());
        let mut draft = self.draft(begun.id, options, parts, interrupted);
        if files.is_some() && options.wants(Facet::Knowledge) {
            let state = if knowledge.is_some() { FacetState::Captured } else { FacetState::Absent };
            draft.facets.insert(Facet::Knowledge, state);
        }
        writer.reuse(knowledge.iter().map(|knowledge| knowledge.index));
        draft.knowledge = knowledge;
        if let Some(transcripts) = &transcripts {
            draft.partial_reasons.extend(transcripts.partial.iter().cloned());
        }
        draft.mid_operation = std::mem::take(&mut begun.mid_operation);
        draft.mid_operation.extend(options.overtaken.iter().filter_map(Overtaken::words));
        let mut connected = match options.wants(Facet::Agents) {
            true => self.snapshot_connected(&writer)?,
            false => Snapshots::default(),
        };
        draft.partial_reasons.append(&mut connected.failed);
        draft.partial = !draft.partial_reasons.is_empty();
        Ok(Prepared::New(Box::new(PreparedSave {
            begun,
            options: options.clone(),
            writer,
            draft,
            transcripts_tree: transcripts.as_ref().and_then(|transcripts| transcripts.tree),
            state_dirs: files.as_ref().map(|_| self.state_dirs()).unwrap_or_default(),
            parts: Parts { files, git, databases, transcripts, noticed },
            connected,
            over: None,
            merge,
        })))
    }

    /// Remembers what a checkpoint holds, now that it is durable, and says so.
    pub(crate) fn acknowledge(&mut self, made: Made) -> Saved {
        let Made { begun, manifest, parts } = made;
        let Begun { id, mut notes, start, .. } = begun;
        if let Some(asking) = begun.asking {
            self.live.insert(asking.state.session.clone(), asking);
        }
        let (checkpoint, trigger) = (manifest.id.clone(), manifest.trigger);
        self.tell(&Notice::Checkpoint { checkpoint, trigger });
        self.recognition = Recognition::Known(match self.known() {
            Some(known) => known.clone(),
            None => self.evidence.document(id, None, self.now()),
        });
        if let Some(git) = parts.git {
            notes.extend(git.gone.as_ref().map(crate::git::gone));
            self.remember_git(id, git, parts.files.as_ref().map(|files| files.tree), &manifest.id);
        }
        if let Some(mut databases) = parts.databases {
            notes.append(&mut databases.notes);
            self.remember_databases(id, databases, &manifest.id);
        }
        if let Some(transcripts) = parts.transcripts {
            self.remember_transcripts(id, transcripts, &manifest.id);
        }
        if let Some(captured) = parts.files {
            let cache = captured.scanned.next.finish(captured.tree, Some(manifest.id.clone()));
            self.save_cache(cache, id);
            if begun.damage.news {
                self.note_lost(id, &begun.damage.found);
            }
        }
        tracing::info!(
            checkpoint = %manifest.id,
            trigger = %manifest.trigger,
            new_bytes = manifest.cost.new_bytes,
            took = ?start.elapsed(),
            "saved"
        );
        notes.extend(self.config.notes.iter().chain(&self.config.unknown).cloned());
        notes.extend(self.missing_knowledge());
        notes.extend(self.refused_variables());
        notes.extend(databases::not_restorable(&manifest.databases));
        notes.extend(self.unprotected_databases().iter().map(Found::note));
        notes.extend(self.unprotected_files(&parts.noticed).iter().map(Found::note));
        let checkpoint = Checkpoint { manifest, pinned: false, created: true };
        Saved { checkpoint, notes, waited: begun.waited }
    }
}

impl<'s> Prepared<'s> {
    /// The new one, where none that exists will do.
    pub fn into_new(self) -> Result<Box<PreparedSave<'s>>> {
        match self {
            Self::New(prepared) => Ok(prepared),
            Self::Existing(saved) => {
                let id = &saved.checkpoint.manifest.id;
                Err(Error::Damaged { message: format!("{id} is no safety checkpoint") })
            }
        }
    }
}

impl<'s> PreparedSave<'s> {
    /// One over the state that `captured` holds.
    pub(super) fn over(
        (begun, options, writer, draft): (Begun, SaveOptions, Writer<'s>, Manifest),
        captured: &Manifest,
        connected: Snapshots,
        over: Over,
        noticed: Vec<RelPath>,
    ) -> Self {
        let agents = captured.agents.as_ref();
        Self {
            begun,
            options,
            writer,
            draft,
            parts: Parts { noticed, ..Parts::default() },
            transcripts_tree: agents.and_then(|agents| agents.transcripts),
            state_dirs: agents.map(|agents| agents.state_dirs.clone()).unwrap_or_default(),
            connected,
            over: Some(over),
            merge: None,
        }
    }
}

impl PreparedSave<'_> {
    /// What the manifest will say, but for its name and place.
    pub fn draft(&self) -> &Manifest {
        &self.draft
    }

    /// Gives back what the run holds, and what the store does.
    pub fn source(&self) -> &dyn Source {
        &self.writer
    }

    /// Makes it a checkpoint. When this returns, it is durable.
    pub fn commit(self: Box<Self>, rappel: &Rappel) -> Result<Made> {
        let Self { mut begun, options, writer, draft, parts, connected, over, merge, .. } = *self;
        let (transcripts_tree, state_dirs) = (self.transcripts_tree, self.state_dirs);
        let Parts { files, git, databases, transcripts, .. } = &parts;
        writer.reuse(files.iter().map(|captured| captured.tree));
        writer.reuse(git.iter().flat_map(CapturedGit::trees));
        writer.reuse(databases.iter().flat_map(CapturedDatabases::trees));
        writer.reuse(transcripts_tree);
        let mut bases: Vec<CheckpointId> = Vec::new();
        bases.extend(files.as_ref().and_then(|captured| captured.base_checkpoint.clone()));
        bases.extend(git.as_ref().and_then(|git| git.base_checkpoint.clone()));
        bases.extend(databases.iter().flat_map(|databases| databases.bases.iter().cloned()));
        bases.extend(transcripts.as_ref().and_then(|transcripts| transcripts.base.clone()));
        bases.extend(over.as_ref().map(|over| over.checkpoint.clone()));
        let evidence = &rappel.evidence;
        let begins = matches!(rappel.recognition, Recognition::New { .. });
        let (id, now, trigger) = (begun.id, rappel.now(), options.trigger());
        let (asking, new_workspace) = (&mut begun.asking, &begun.new_workspace);
        let (start, first_commit) = (begun.start, begun.first_commit.take());
        let (mut made, mut marked) = (None, None);
        writer.commit(|moment| {
            let index = &mut *moment.index;
            if begins && workspace::is_known_by_now(index, evidence)? {
                return Err(rappel_store::Error::Moved);
            }
            for base in &bases {
                if index.checkpoint(base)?.is_none_or(|(_, deleted)| deleted) {
                    return Err(rappel_store::Error::Moved);
                }
            }
            let newest = index.newest_with_files(id)?.map(|row| row.id);
            if over.is_some_and(|over| Some(over.newest) != newest) {
                return Err(rappel_store::Error::Moved);
            }
            let mut manifest = draft;
            if let Some(asking) = asking {
                catch_up(asking, index)?;
            }
            // The mark comes first: the newest checkpoint is the one that was asked for.
            let mut mark = None;
            if let Some(merge) = &merge {
                let mut manifest = manifest.clone();
                place(&mut manifest, index, id, Trigger::PrMerged, now)?;
                merge.mark(&mut manifest);
                mark = Some(manifest);
            }
            place(&mut manifest, index, id, trigger, now)?;
            if let Some(mark) = &mark {
                while manifest.id == mark.id {
                    place(&mut manifest, index, id, trigger, now)?;
                }
                manifest.sequence = mark.sequence + 1;
                manifest.parent = Some(mark.id.clone());
            }
            let event = asking.as_mut().map(|asking| asking.note_checkpoint(&mut manifest, now));
            if options.wants(Facet::Agents) {
                let mut part = agents_part(index, id, &options.also_sessions, asking.as_ref())?;
                part.state_dirs = state_dirs;
                part.transcripts = transcripts_tree;
                part.connected = connected.taken;
                if let Some(mark) = &mut mark {
                    mark.set_agents(part.clone());
                }
                manifest.set_agents(part);
            }
            manifest.cost.new_bytes = moment.new_bytes;
            manifest.cost.wall_ms = start.elapsed().as_micros() as f64 / 1000.0;
            let base = manifest_base(index, id, manifest.sequence)?;
            let mut records: Vec<NewRecord> = mark
                .iter()
                .chain([&manifest])
                .map(|one| NewRecord::Manifest { manifest: Box::new(one.clone()), base })
                .collect();
            marked = mark.map(|mark| mark.id);
            let first_commit = first_commit.and_then(FirstCommit::if_ready);
            if new_workspace.is_some() || first_commit.is_some() {
                let known = new_workspace.as_ref().and_then(|known| known.first_commit.clone());
                let document = evidence.document(id, first_commit.or(known), now);
                records.push(workspace_record(&document)?);
            }
            records.extend(event.map(|(session, event)| NewRecord::Document {
                kind: Kind::Event,
                key: session.to_string(),
                json: event.to_json(),
            }));
            made = Some(manifest);
            Ok(records)
        })?;
        let Some(manifest) = made else {
            return Err(Error::Damaged { message: "a commit without its manifest".into() });
        };
        begun.notes.extend(merge.zip(marked).map(|(merge, mark)| {
            format!("{} was merged: {} ({mark})", merge.branch, merge.subject)
        }));
        Ok(Made { begun, manifest, parts })
    }
}

/// Whether nothing but the state of agents is asked for.
fn is_about_agents_alone(options: &SaveOptions) -> bool {
    CAPTURED.iter().all(|one| *one == Facet::Agents || !options.wants(*one))
}
