//! A checkpoint before its commit. Everything was looked at and put into a run that does not count
//! yet. A save commits it at once; a restore plans with it first, and lets go of it if there is
//! nothing to do.

use rappel_store::NewRecord;
use rappel_store::operation::Phase;
use rappel_store::record::Kind;
use rappel_store::sink::Source;
use rappel_store::writer::{Moment, Writer};
use rappel_types::{CheckpointId, Facet, Manifest, ObjectId, RelPath, Timestamp, Trigger};

use super::begin::Begun;
use super::day;
use super::draft::{manifest_base, place_all};
use super::look::Seen;
use super::{Overtaken, SaveOptions, Saved, workspace_record};
use crate::agents::{Snapshots, agents_part, catch_up};
use crate::databases::Holdings;
use crate::error::{Error, Result};
use crate::git::Merge;
use crate::rappel::Rappel;
use crate::workspace::{self, FirstCommit};

/// What came of a look.
pub(crate) enum Prepared<'s> {
    /// A checkpoint that already says all of it.
    Existing(Box<Saved>),
    /// A new one.
    New(Box<PreparedSave<'s>>),
}

/// A checkpoint before its commit. Dropped without one, it leaves nothing behind.
pub(crate) struct PreparedSave<'s> {
    writer: Writer<'s>,
    pending: Pending,
}

/// What a commit needs besides the run.
struct Pending {
    begun: Begun,
    options: SaveOptions,
    /// The manifest, but for what is only known under the lock.
    draft: Manifest,
    seen: Seen,
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

/// A checkpoint that was just committed, and what is to be remembered of it.
pub(crate) struct Made {
    pub(super) begun: Begun,
    pub(super) manifest: Manifest,
    pub(super) seen: Seen,
}

impl Rappel {
    /// Looks at everything and puts it into a run.
    pub(crate) fn prepare_save(
        &self,
        mut begun: Begun,
        options: &SaveOptions,
        holdings: &mut Holdings,
    ) -> Result<Prepared<'_>> {
        let writer = self.store.begin()?.distrusting(begun.distrust);
        let seen = self.see(&mut begun, options, holdings, &writer)?;
        if let Some(existing) = self.existing(&begun, options, &seen)? {
            return Ok(Prepared::Existing(Box::new(existing)));
        }
        let interrupted = seen.restored
            || !self.open_intents()?.is_empty()
            || self.intents().damaged_of(begun.id)?.is_some();
        let is_marked = options.trigger() == Trigger::PrMerged || seen.files.is_none();
        let git = seen.git.as_ref().filter(|_| !is_marked);
        let merge = git.and_then(|git| self.merge_in(git, &writer));
        let mut draft = self.draft(begun.id, options, &seen, interrupted);
        draft.mid_operation = std::mem::take(&mut begun.mid_operation);
        draft.mid_operation.extend(options.overtaken.iter().filter_map(Overtaken::words));
        let mut connected = match options.wants(Facet::Agents) {
            true => self.snapshot_connected(&writer)?,
            false => Snapshots::default(),
        };
        draft.partial_reasons.append(&mut connected.failed);
        draft.partial = !draft.partial_reasons.is_empty();
        let options = options.clone();
        let state_dirs = seen.files.as_ref().map(|_| self.state_dirs()).unwrap_or_default();
        let pending = Pending {
            transcripts_tree: seen.transcripts_tree(),
            begun,
            options,
            draft,
            seen,
            state_dirs,
            connected,
            over: None,
            merge,
        };
        Ok(Prepared::New(Box::new(PreparedSave { writer, pending })))
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
        let pending = Pending {
            begun,
            options,
            draft,
            seen: Seen { noticed, ..Seen::default() },
            transcripts_tree: agents.and_then(|agents| agents.transcripts),
            state_dirs: agents.map(|agents| agents.state_dirs.clone()).unwrap_or_default(),
            connected,
            over: Some(over),
            merge: None,
        };
        Self { writer, pending }
    }
}

impl PreparedSave<'_> {
    /// What the manifest will say, but for its name and place.
    pub fn draft(&self) -> &Manifest {
        &self.pending.draft
    }

    /// Gives back what the run holds, and what the store does.
    pub fn source(&self) -> &dyn Source {
        &self.writer
    }

    /// Makes it a checkpoint. When this returns, it is durable.
    pub fn commit(self: Box<Self>, rappel: &Rappel) -> Result<Made> {
        let Self { writer, mut pending } = *self;
        rappel.progress().begin(Phase::Committing, None);
        writer.reuse(pending.seen.trees());
        let mut bases = pending.seen.bases();
        bases.extend(pending.over.as_ref().map(|over| over.checkpoint.clone()));
        let evidence = &rappel.evidence;
        let begins = pending.begun.begins;
        let now = rappel.now();
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
            if let Some(over) = &pending.over {
                let newest = index.newest_with_files(pending.begun.id)?;
                if newest.is_none_or(|row| row.id != over.newest) {
                    return Err(rappel_store::Error::Moved);
                }
            }
            // A safety checkpoint is a step of its restore, which can still be stopped.
            match pending.options.trigger() {
                Trigger::PreRestore => rappel.cancel().check()?,
                _ => rappel.cancel().close()?,
            }
            pending.records(rappel, moment, now)
        })?;
        let Pending { begun, draft, seen, .. } = pending;
        Ok(Made { begun, manifest: draft, seen })
    }
}

impl Pending {
    /// The records of the checkpoint; the draft becomes its manifest. Under the lock.
    fn records(
        &mut self,
        rappel: &Rappel,
        moment: &mut Moment<'_>,
        now: Timestamp,
    ) -> rappel_store::Result<Vec<NewRecord>> {
        let Self { begun, options, draft: manifest, .. } = self;
        let (index, id) = (&mut *moment.index, begun.id);
        if let Some(asking) = &mut begun.asking {
            catch_up(asking, index)?;
        }
        let newest = index.newest_with_files(id)?;
        let is_over = || newest.as_ref().is_some_and(|row| rappel.day_is_over(row, now));
        if options.once_a_day && !is_over() {
            return Err(rappel_store::Error::Moved);
        }
        // Marks come first: the newest checkpoint is the one that was asked for.
        let mut marks = Vec::new();
        let ends_day = newest.as_ref().is_some_and(|row| rappel.ends_day(row, now));
        if ends_day && manifest.files.is_some() && manifest.trigger != Trigger::EndOfDay {
            let mut mark = manifest.clone();
            day::mark(&mut mark);
            marks.push(mark);
        }
        if let Some(merge) = &self.merge {
            let mut mark = manifest.clone();
            merge.mark(&mut mark);
            marks.push(mark);
        }
        place_all(marks.iter_mut().chain([&mut *manifest]), index, id, now)?;
        if let (Some(Merge { branch, subject, .. }), Some(mark)) = (&self.merge, marks.last()) {
            begun.notes.push(format!("{branch} was merged: {subject} ({})", mark.id));
        }
        let asking = begun.asking.as_mut();
        let event = asking.map(|asking| asking.note_checkpoint(manifest, now));
        if options.wants(Facet::Agents) {
            let asking = begun.asking.as_ref();
            let mut part = agents_part(index, id, &options.also_sessions, asking)?;
            part.state_dirs = std::mem::take(&mut self.state_dirs);
            part.transcripts = self.transcripts_tree;
            part.connected = std::mem::take(&mut self.connected.taken);
            for mark in &mut marks {
                mark.set_agents(part.clone());
            }
            manifest.set_agents(part);
        }
        manifest.cost.new_bytes = moment.new_bytes;
        manifest.cost.wall_ms = begun.start.elapsed().as_micros() as f64 / 1000.0;
        let base = manifest_base(index, id, manifest.sequence)?;
        let all = marks.iter().chain([&*manifest]);
        let all = all.map(|one| NewRecord::Manifest { manifest: Box::new(one.clone()), base });
        let mut records: Vec<NewRecord> = all.collect();
        records.extend(begun.workspace_record(rappel, now)?);
        records.extend(event.map(|(session, event)| NewRecord::Document {
            kind: Kind::Event,
            key: session.to_string(),
            json: event.to_json(),
        }));
        Ok(records)
    }
}

impl Begun {
    /// The workspace's document, if it is new or more is known of it now.
    fn workspace_record(
        &mut self,
        rappel: &Rappel,
        now: Timestamp,
    ) -> rappel_store::Result<Option<NewRecord>> {
        let first_commit = self.first_commit.take().and_then(FirstCommit::if_ready);
        if self.new_workspace.is_none() && first_commit.is_none() {
            return Ok(None);
        }
        let known = self.new_workspace.as_ref().and_then(|known| known.first_commit.clone());
        let document = rappel.evidence.document(self.id, first_commit.or(known), now);
        workspace_record(&document).map(Some)
    }
}
