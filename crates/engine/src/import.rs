//! Bringing in checkpoints that another tool made. They become a lineage of the workspace, in one
//! commit: all of them are there, or none is. Nothing in the workspace changes.
//!
//! Crate `formats` reads them; this module makes manifests of what was read.

mod bundle;
mod databases;
mod from_bundle;
mod git;
mod names;
mod order;
mod scratch;
mod take;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rappel_formats::form::{Reading, Skipped};
use rappel_formats::portable::Files;
use rappel_formats::{Form, Portable};
use rappel_store::bundle::Bundle;
use rappel_store::index::Index;
use rappel_store::operation::Phase;
use rappel_store::record::Kind;
use rappel_store::{NewRecord, Writer};
use rappel_types::Advice;
use rappel_types::agents::AgentsPart;
use rappel_types::path::escape_bytes;
use rappel_types::{CheckpointId, Manifest, ObjectId, Timestamp, WorkspaceId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::{ImportedSession, session_name};
use crate::error::{Error, Result};
use crate::lineage::{Lineage, lineages_in};
use crate::rappel::Rappel;
use crate::save::{Identified, workspace_record};
use crate::workspace::{self, Recognition};
pub(crate) use git::Bundles;
use order::in_order;
use scratch::Scratch;
use take::{Failed, Taken};

/// How often an import begins again because another process was faster.
const ATTEMPTS: usize = 5;

/// What to import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The folder or file with the checkpoints.
    pub path: PathBuf,
    /// Their form; it is found out otherwise.
    pub form: Option<Form>,
}

/// What came of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Imported {
    /// How many checkpoints are new.
    pub imported: u64,
    /// How many were imported before.
    pub known: u64,
    /// What could not be imported, and why.
    pub skipped: Vec<Skipped>,
    /// The lineage that they belong to; none if nothing was there to import.
    pub lineage: Option<Lineage>,
}

/// Checkpoints of another tool, on their way in.
#[derive(Debug, Clone)]
pub struct Arrivals {
    /// The form that they had.
    pub form: Form,
    /// The folder or file that they were read from.
    pub place: PathBuf,
    /// The checkpoints. The order among those of the same time counts.
    pub checkpoints: Vec<Portable>,
}

impl Rappel {
    /// Imports the checkpoints of another tool as a lineage of this workspace. A failure leaves
    /// nothing behind.
    pub fn import(&self, options: &ImportOptions) -> Result<Imported> {
        self.require_folder()?;
        self.store.require_writable()?;
        let path = match std::fs::canonicalize(&options.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NotThere {
                    message: format!("{} does not exist", options.path.display()),
                    advice: Advice::NameImport,
                });
            }
            other => other.map_err(Error::io("open", &options.path))?,
        };
        let ours = || Bundle::is_one(&path).then_some(Form::Rappel);
        let form = options.form.or_else(ours).or_else(|| rappel_formats::detect(&path));
        let form = form.ok_or_else(|| unrecognised(&path))?;
        if form == Form::Rappel {
            return self.import_bundle(&path);
        }
        let scratch = Scratch::new(self.store.home())?;
        self.progress().begin(Phase::ReadingCheckpoints, None);
        let mut progress = |count: u64| {
            self.progress().reach(Phase::ReadingCheckpoints, count);
            match self.cancel().is_cancelled() {
                true => Err(rappel_formats::Error::Stopped),
                false => Ok(()),
            }
        };
        let mut reading = Reading { scratch: scratch.path(), progress: &mut progress };
        let found = match rappel_formats::read(form, &path, &mut reading) {
            Err(rappel_formats::Error::Stopped) => return Err(cancelled()),
            other => other?,
        };
        let (place, checkpoints) = (found.place, found.checkpoints);
        let arrivals = Arrivals { form, place, checkpoints };
        let mut imported = self.take_arrivals(&arrivals, scratch.path())?;
        imported.skipped.splice(..0, found.skipped);
        Ok(imported)
    }

    /// Imports checkpoints that were read already: by a program that knows a form of its own.
    pub fn import_checkpoints(&self, arrivals: &Arrivals) -> Result<Imported> {
        self.require_folder()?;
        self.store.require_writable()?;
        let scratch = Scratch::new(self.store.home())?;
        self.take_arrivals(arrivals, scratch.path())
    }

    fn take_arrivals(&self, arrivals: &Arrivals, scratch: &Path) -> Result<Imported> {
        self.again_if_moved(|| self.try_arrivals(arrivals, scratch))
    }

    /// Begins again where gc took something, or another process imported or saved for the first time.
    fn again_if_moved(&self, mut import: impl FnMut() -> Result<Imported>) -> Result<Imported> {
        for _ in 0..ATTEMPTS {
            match import() {
                Err(Error::Store(rappel_store::Error::Moved)) => {
                    self.recognised(workspace::recognise(&self.store, &self.evidence)?);
                }
                other => return other,
            }
        }
        Err(Error::Store(rappel_store::Error::Moved))
    }

    fn try_arrivals(&self, arrivals: &Arrivals, scratch: &Path) -> Result<Imported> {
        let identified = self.identify();
        let writer = self.store.begin()?;
        let mut skipped = Vec::new();
        let mut bundles = Bundles::default();
        let arrived = self.with_files(&arrivals.checkpoints, scratch, &mut bundles)?;
        let ordered = in_order(&arrived, &mut skipped);
        let mut taken = Vec::with_capacity(ordered.len());
        for portable in &ordered {
            self.go_on()?;
            match self.take_portable(&writer, portable) {
                Ok(one) => taken.push((*portable, one)),
                Err(Failed::Skipped(reason)) => {
                    let path = escape_bytes(portable.id.as_bytes());
                    skipped.push(Skipped { path, reason });
                }
                Err(Failed::Import(error)) => return Err(error),
            }
        }
        let mut run = Run::begin(self, writer, &identified, arrivals, &taken)?;
        run.bundles = bundles;
        run.forked = order::forked(&ordered);
        self.progress().begin(Phase::TakingIn, Some(taken.len() as u64));
        for (portable, taken) in taken {
            self.go_on()?;
            run.take(portable, taken, scratch)?;
            self.progress().add(Phase::TakingIn, 1, 0);
        }
        let imported = Imported { skipped, ..run.commit(&identified)? };
        if let (true, true, Some(document)) =
            (imported.imported > 0, identified.begins, identified.document)
        {
            self.recognised(Recognition::Known(document));
        }
        Ok(imported)
    }
}

impl Rappel {
    /// The checkpoints, those that hold no files but a history with those of their commit.
    fn with_files(
        &self,
        checkpoints: &[Portable],
        scratch: &Path,
        bundles: &mut Bundles,
    ) -> Result<Vec<Portable>> {
        let mut all = Vec::with_capacity(checkpoints.len());
        for portable in checkpoints {
            self.go_on()?;
            let mut portable = portable.clone();
            if let (None, Some(git)) = (&portable.files, &portable.git) {
                let root = escape_bytes(self.root.as_os_str().as_bytes());
                let files = self.files_of_commit(git, scratch, bundles)?;
                portable.files = files.map(|files| Files { root, ..files });
            }
            all.push(portable);
        }
        Ok(all)
    }

    /// Fails if somebody wants no more.
    pub(crate) fn go_on(&self) -> Result<()> {
        Ok(self.cancel().check()?)
    }
}

/// What is known of a checkpoint that was imported before, or just now.
#[derive(Debug, Clone)]
struct Known {
    id: CheckpointId,
    created_at: Timestamp,
    sequence: u64,
    lineage: WorkspaceId,
    digest: String,
    tree: Option<ObjectId>,
}

impl Known {
    fn is(&self, taken: &Taken) -> bool {
        self.digest == taken.digest
    }
}

/// An import at work.
struct Run<'r> {
    rappel: &'r Rappel,
    writer: Writer<'r>,
    form: Form,
    /// The lineages that were there when it began; none may come meanwhile.
    before: Vec<Lineage>,
    lineage: Lineage,
    /// Whether the lineage's record has to be written.
    is_news: bool,
    /// The number of the lineage's last checkpoint when the import began.
    last: u64,
    /// The lineage's checkpoints by their times; of one time, by their numbers.
    by_time: BTreeMap<(Timestamp, u64), Known>,
    /// By their ids there, the newest last.
    known: HashMap<String, Vec<Known>>,
    made: Vec<CheckpointId>,
    names: HashSet<CheckpointId>,
    /// By their ids there.
    sessions: BTreeMap<String, ImportedSession>,
    /// Checkpoints that others follow than the next one, by their ids there.
    forked: HashSet<String>,
    bundles: Bundles,
    known_count: u64,
}

impl<'r> Run<'r> {
    fn begin(
        rappel: &'r Rappel,
        writer: Writer<'r>,
        identified: &Identified,
        arrivals: &Arrivals,
        taken: &[(&Portable, Taken)],
    ) -> Result<Self> {
        let (form, of) = (arrivals.form, identified.id);
        let before = rappel.store.look_up(|index| lineages_in(index, of))?;
        let known = rappel.known_of(&before, form)?;
        let place = escape_bytes(arrivals.place.as_os_str().as_bytes());
        let (lineage, is_news) = choose_lineage(&before, &known, taken, (form, of, place));
        let last = rappel.store.look_up(|index| index.last_sequence(lineage.workspace))?;
        let here = known.values().flatten().filter(|known| known.lineage == lineage.workspace);
        let mut by_time: BTreeMap<(Timestamp, u64), Known> = BTreeMap::new();
        for known in here {
            by_time.insert((known.created_at, known.sequence), known.clone());
        }
        Ok(Self {
            rappel,
            writer,
            form,
            before,
            lineage,
            is_news,
            last,
            by_time,
            known,
            made: Vec::new(),
            names: HashSet::new(),
            sessions: BTreeMap::new(),
            forked: HashSet::new(),
            bundles: Bundles::default(),
            known_count: 0,
        })
    }

    /// Takes one checkpoint, unless it is known.
    fn take(&mut self, portable: &Portable, taken: Taken, scratch: &Path) -> Result<()> {
        if self.known.get(&portable.id).is_some_and(|all| all.iter().any(|one| one.is(&taken))) {
            self.known_count += 1;
            return Ok(());
        }
        let id = self.name(&portable.id)?;
        let parent = self.parent_of(portable).cloned();
        let mut manifest = taken.manifest(portable, &self.lineage, self.form);
        manifest.id = id.clone();
        manifest.parent = parent.as_ref().map(|parent| parent.id.clone());
        manifest.sequence = self.last + self.made.len() as u64 + 1;
        let beside = (scratch, &mut self.bundles);
        self.rappel.take_facets(&self.writer, portable, beside, &mut manifest)?;
        self.take_sessions(portable, &mut manifest)?;
        taken.count_changes(&self.writer, parent.and_then(|parent| parent.tree), &mut manifest)?;
        self.add(portable, manifest, taken)
    }

    fn add(&mut self, portable: &Portable, manifest: Manifest, taken: Taken) -> Result<()> {
        let known = Known {
            id: manifest.id.clone(),
            created_at: manifest.created_at,
            sequence: manifest.sequence,
            lineage: self.lineage.workspace,
            digest: taken.digest,
            tree: manifest.files.as_ref().map(|files| files.tree),
        };
        self.made.push(manifest.id.clone());
        self.writer.add(NewRecord::Manifest { manifest: Box::new(manifest), base: None })?;
        self.by_time.insert((known.created_at, known.sequence), known.clone());
        self.known.entry(portable.id.clone()).or_default().push(known);
        Ok(())
    }

    /// Takes what agents knew into their journals, and into the manifest where those stand.
    fn take_sessions(&mut self, portable: &Portable, manifest: &mut Manifest) -> Result<()> {
        let (form, lineage) = (self.form.as_str(), self.lineage.workspace);
        if let Some(session) = &portable.session {
            manifest.session_id = Some(session_name(form, lineage, session)?.to_string());
        }
        let state_dirs = portable.files.as_ref().map(|files| files.state_dirs.clone());
        let mut part =
            AgentsPart { state_dirs: state_dirs.unwrap_or_default(), ..AgentsPart::default() };
        for session in &portable.sessions {
            if !self.sessions.contains_key(&session.id) {
                let id = session_name(form, lineage, &session.id)?;
                let opened = self.rappel.imported_session(&id)?;
                self.sessions.insert(session.id.clone(), opened);
            }
            let Some(journal) = self.sessions.get_mut(&session.id) else { continue };
            if let Some(parent) = &portable.parent
                && let Some(known) = self.known.get(parent).and_then(|all| all.last())
                && let Some(row) = self.rappel.store.checkpoint(&known.id)?
                && let Some(agents) = self.rappel.store.manifest(&row)?.agents
            {
                self.rappel.keep_imported(journal, parent, &agents.sessions)?;
            }
            let held = journal.take(
                &self.writer,
                (session, lineage),
                (&manifest.id, portable.created_at),
                portable.parent.as_deref(),
            )?;
            part.sessions.push(held);
            if self.forked.contains(&portable.id) {
                journal.keep(&portable.id);
            }
        }
        let live = part.sessions.iter().filter(|session| session.status.is_live());
        part.active_count = live.count() as u64;
        if !portable.sessions.is_empty() || !part.state_dirs.is_empty() {
            manifest.set_agents(part);
        }
        Ok(())
    }

    /// The checkpoint that one follows in the lineage: the one that it names, if that is here; else
    /// the one before it in time, because an older one may be imported later.
    fn parent_of(&self, portable: &Portable) -> Option<&Known> {
        let named = portable.parent.as_ref().and_then(|parent| self.known.get(parent));
        let here = |known: &&Known| known.lineage == self.lineage.workspace;
        let before = || {
            let mut earlier = self.by_time.range(..=(portable.created_at, u64::MAX));
            earlier.next_back().map(|(_, known)| known)
        };
        named.and_then(|all| all.iter().rev().find(here)).or_else(before)
    }

    /// The name of a checkpoint in this home.
    fn name(&mut self, id: &str) -> Result<CheckpointId> {
        let name = names::name(self.form, id, &mut |name| {
            let taken = self.rappel.store.look_up(|index| is_taken(index, name))?;
            Ok::<_, Error>(taken || self.names.contains(name))
        })?;
        self.names.insert(name.clone());
        Ok(name)
    }

    fn commit(mut self, identified: &Identified) -> Result<Imported> {
        for session in self.sessions.values_mut() {
            session.end(&self.writer, self.rappel.now())?;
        }
        let Self { rappel, writer, before, lineage, is_news, last, made, sessions, .. } = self;
        let sessions: Vec<(String, u64)> =
            sessions.values().map(|one| (one.id().to_string(), one.before())).collect();
        let imported = made.len() as u64;
        let (known, skipped) = (self.known_count, Vec::new());
        if made.is_empty() {
            // Nothing is written: what the run holds goes with it.
            let lineage = (known > 0).then_some(lineage);
            return Ok(Imported { imported, known, skipped, lineage });
        }
        let mut records = Vec::new();
        if let (true, Some(document)) = (identified.begins, &identified.document) {
            records.push(workspace_record(document)?);
        }
        if is_news {
            records.push(workspace_record(&lineage.record(rappel.now()))?);
        }
        writer.commit(|moment| {
            let index = &mut *moment.index;
            let moved = rappel.has_moved(index, identified, (&before, &lineage, last), &made)?
                || any(&sessions, |(id, last)| Ok(index.last_event(id)?.unwrap_or(0) != *last))?;
            if moved {
                return Err(rappel_store::Error::Moved);
            }
            rappel.cancel().close()?;
            Ok(records)
        })?;
        tracing::info!(imported, known, lineage = %lineage.workspace, "imported");
        Ok(Imported { imported, known, skipped, lineage: Some(lineage) })
    }
}

impl Rappel {
    /// Whether what an import was made for is no longer so, under the lock of its commit: the
    /// workspace has begun meanwhile, its lineages or the lineage's last number are others, or a
    /// name is taken.
    fn has_moved(
        &self,
        index: &mut Index,
        identified: &Identified,
        (before, lineage, last): (&[Lineage], &Lineage, u64),
        names: &[CheckpointId],
    ) -> rappel_store::Result<bool> {
        Ok(identified.begins && workspace::is_known_by_now(index, &self.evidence)?
            || lineages_in(index, identified.id)? != before
            || index.last_sequence(lineage.workspace)? != last
            || any(names, |id| is_taken(index, id))?)
    }

    /// What the lineages of a form hold, by the ids that their checkpoints had.
    fn known_of(&self, lineages: &[Lineage], form: Form) -> Result<HashMap<String, Vec<Known>>> {
        let mut found: HashMap<String, Vec<Known>> = HashMap::new();
        for lineage in lineages.iter().filter(|lineage| lineage.format == form.as_str()) {
            let id = Some(lineage.workspace);
            for row in self.store.look_up(|index| index.checkpoints(id))? {
                let manifest = match self.store.manifest(&row).map_err(Error::from) {
                    // One that cannot be read is not known: it may be imported again.
                    Err(error) if error.is_unreadable() => continue,
                    other => other?,
                };
                let Some(origin) = manifest.origin else { continue };
                let tree = manifest.files.map(|files| files.tree);
                let (lineage, digest) = (lineage.workspace, origin.digest);
                let (created_at, sequence) = (manifest.created_at, row.sequence);
                let known = Known { id: row.id, created_at, sequence, lineage, digest, tree };
                found.entry(origin.id).or_default().push(known);
            }
        }
        Ok(found)
    }
}

/// The lineage that arrivals belong to, and whether its record is news: the one that was read from
/// the same place; else the one that has most of them already, because folders move; else a new one.
fn choose_lineage(
    lineages: &[Lineage],
    known: &HashMap<String, Vec<Known>>,
    taken: &[(&Portable, Taken)],
    (form, of, place): (Form, WorkspaceId, String),
) -> (Lineage, bool) {
    let format = form.as_str();
    let of_form = lineages.iter().filter(|lineage| lineage.format == format);
    if let Some(same) = of_form.clone().find(|lineage| lineage.place == place) {
        return (same.clone(), false);
    }
    let shared = |lineage: &&Lineage| {
        let has = |(portable, taken): &&(&Portable, Taken)| {
            let all = known.get(&portable.id).into_iter().flatten();
            all.into_iter().any(|one| one.lineage == lineage.workspace && one.is(taken))
        };
        taken.iter().filter(has).count()
    };
    let moved = of_form.map(|lineage| (shared(&lineage), lineage)).max_by_key(|(many, _)| *many);
    match moved {
        Some((1.., lineage)) => (Lineage { place, ..lineage.clone() }, true),
        _ => {
            let workspace = workspace::new_id();
            (Lineage { workspace, of, format: format.to_owned(), place }, true)
        }
    }
}

/// Whether a checkpoint of the home has this id, or had it.
fn is_taken(index: &Index, id: &CheckpointId) -> rappel_store::Result<bool> {
    if index.checkpoint(id)?.is_some() {
        return Ok(true);
    }
    any(&[Kind::Tombstone, Kind::Loss, Kind::Label], |kind| {
        Ok(index.newest_document(*kind, id.as_str())?.is_some())
    })
}

fn any<T>(
    all: &[T],
    mut holds: impl FnMut(&T) -> rappel_store::Result<bool>,
) -> rappel_store::Result<bool> {
    for one in all {
        if holds(one)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn cancelled() -> Error {
    Error::Store(rappel_store::Error::Cancelled)
}

fn unrecognised(path: &Path) -> Error {
    let forms = Form::ALL.iter().map(ToString::to_string).collect();
    Error::Usage {
        message: format!("{} holds no checkpoints in a form that is known", path.display()),
        advice: vec![Advice::ChooseFormat { forms }],
    }
}
