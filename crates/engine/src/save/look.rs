//! Looking at everything that a checkpoint holds, beside each other where that is possible.

use rappel_capture::databases::Watch;
use rappel_capture::files::First;
use rappel_capture::restore::IntentId;
use rappel_store::index::CheckpointRow;
use rappel_store::operation::Phase;
use rappel_store::record::Kind;
use rappel_store::sink::Sink;
use rappel_store::threads;
use rappel_types::knowledge::KnowledgePart;
use rappel_types::manifest::PartialReason;
use rappel_types::{CheckpointId, Facet, ObjectId, RelPath, WorkspaceId};

use super::SaveOptions;
use super::begin::Begun;
use super::files::{Ask, CapturedFiles, Leave};
use crate::agents::CapturedTranscripts;
use crate::databases::{CapturedDatabases, Holding, Holdings, Reading};
use crate::error::Result;
use crate::git::{CapturedGit, Known};
use crate::rappel::Rappel;

/// How often a save looks again because a restore began or ended while it looked.
const LOOKS: usize = 2;

/// What a save looks at, and what it may know beforehand.
#[derive(Clone, Copy)]
struct Look<'a> {
    /// Paths of databases that a restore holds.
    pub held: &'a [RelPath],
    pub id: WorkspaceId,
    pub options: &'a SaveOptions,
    pub newest: Option<&'a CheckpointRow>,
    pub distrust: bool,
    /// What was read before anything else.
    pub first: Option<&'a First>,
    /// Whether databases are asked only once something else is found to have changed.
    pub databases_last: bool,
}

/// Everything that a save saw: what the manifest says of it, and what the next save is to know.
#[derive(Default)]
pub(crate) struct Seen {
    pub files: Option<CapturedFiles>,
    pub git: Option<CapturedGit>,
    pub databases: Option<CapturedDatabases>,
    pub transcripts: Option<CapturedTranscripts>,
    pub knowledge: Option<KnowledgePart>,
    /// Databases that were noticed among the files.
    pub noticed: Vec<RelPath>,
    /// Whether a restore of the workspace was under way, so that the parts may be of different states.
    pub restored: bool,
}

impl Seen {
    /// Why the files, git or the databases are not complete.
    pub fn files_git_and_databases(&self) -> impl Iterator<Item = &PartialReason> {
        let files = self.files.iter().flat_map(|files| &files.scanned.partial);
        let git = self.git.iter().flat_map(|git| &git.captured.partial);
        files.chain(git).chain(self.databases.iter().flat_map(|databases| &databases.partial))
    }

    /// Whether something is missing.
    pub fn is_partial(&self) -> bool {
        let transcripts = self.transcripts.as_ref();
        self.files_git_and_databases().next().is_some()
            || transcripts.is_some_and(|transcripts| !transcripts.partial.is_empty())
    }

    /// The tree of the transcripts, if there are any.
    pub fn transcripts_tree(&self) -> Option<ObjectId> {
        self.transcripts.as_ref().and_then(|transcripts| transcripts.tree)
    }

    /// Everything that a manifest with this refers to.
    pub fn trees(&self) -> impl Iterator<Item = ObjectId> {
        let files = self.files.iter().map(|captured| captured.tree);
        files
            .chain(self.git.iter().flat_map(CapturedGit::trees))
            .chain(self.databases.iter().flat_map(CapturedDatabases::trees))
            .chain(self.transcripts_tree())
            .chain(self.knowledge.iter().map(|knowledge| knowledge.index))
    }

    /// The checkpoints on which all depends that was taken over without a look.
    pub fn bases(&self) -> Vec<CheckpointId> {
        let mut bases: Vec<CheckpointId> = Vec::new();
        bases.extend(self.files.as_ref().and_then(|files| files.base_checkpoint.clone()));
        bases.extend(self.git.as_ref().and_then(|git| git.base_checkpoint.clone()));
        bases.extend(self.databases.iter().flat_map(|databases| databases.bases.iter().cloned()));
        bases.extend(self.transcripts.as_ref().and_then(|transcripts| transcripts.base.clone()));
        bases
    }
}

/// What differs once a restore of the workspace began or ended. One that was taken back again in between
/// does not show; it has restored no database.
#[derive(PartialEq)]
struct Restores {
    open: Vec<IntentId>,
    /// When the last one was recorded, which is done before it is closed.
    last: Option<u64>,
}

/// What a look at everything gave.
struct Captured {
    pub files: CapturedFiles,
    pub git: Option<CapturedGit>,
    pub databases: Option<CapturedDatabases>,
    /// Whether a restore of the workspace was under way, so that the parts may be of different states.
    pub restored: bool,
}

impl Rappel {
    /// Looks at everything that a request asks for, and puts it into a run.
    pub(super) fn see(
        &self,
        begun: &mut Begun,
        options: &SaveOptions,
        holdings: &mut Holdings,
        sink: &dyn Sink,
    ) -> Result<Seen> {
        let held: Vec<RelPath> = holdings.all.iter().filter_map(Holding::path).collect();
        let transcripts = begun.transcripts.take();
        let newest = begun.newest.as_ref();
        let (id, distrust) = (begun.id, begun.distrust);
        let first = options.first.as_deref();
        // Where the newest checkpoint will do, and these events are none to read databases at.
        let databases_last = options.if_changed
            && !begun.takes_nothing_over()
            && !self.config.capture.databases.contains(&options.trigger());
        let look = Look { held: &held, id, options, newest, distrust, first, databases_last };
        let (all, transcripts) = std::thread::scope(|scope| {
            let beside = transcripts.map(|found| {
                threads::beside(scope, || self.capture_transcripts(found, options.care(), sink))
            });
            let all =
                (!options.is_about_agents_alone()).then(|| self.capture_all(&look, sink, holdings));
            let transcripts = beside.map(|beside| {
                beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            (all, transcripts)
        });
        let mut seen = match all.transpose()? {
            Some(Captured { files, git, databases, restored }) => Seen {
                noticed: files.scanned.databases.clone(),
                files: options.wants(Facet::Files).then_some(files),
                git,
                databases,
                restored,
                ..Seen::default()
            },
            None => Seen::default(),
        };
        seen.transcripts = transcripts.transpose()?;
        self.complete(&mut seen, &look, sink)?;
        Ok(seen)
    }

    /// Adds what follows from the files: how they changed, and what of them is knowledge.
    fn complete(&self, seen: &mut Seen, look: &Look<'_>, sink: &dyn Sink) -> Result<()> {
        let Some(files) = &mut seen.files else { return Ok(()) };
        match self.count_changes(files, look.id, look.newest, sink) {
            // What cannot be read is nothing to compare with.
            Err(error) if error.is_unreadable() => {}
            other => other?,
        }
        if look.options.wants(Facet::Knowledge) {
            seen.knowledge = self.capture_knowledge(files, look.newest, sink)?;
        }
        Ok(())
    }

    /// Looks at everything until no restore began or ended meanwhile: the parts of a checkpoint are of
    /// one state.
    fn capture_all(
        &self,
        look: &Look<'_>,
        sink: &dyn Sink,
        holdings: &mut Holdings,
    ) -> Result<Captured> {
        let (mut looks, mut look) = (0, *look);
        loop {
            looks += 1;
            let before = self.restores_so_far(look.id)?;
            let captured = self.capture_once(&look, sink, holdings)?;
            let after = self.restores_so_far(look.id)?;
            if after == before || looks > LOOKS {
                let restored = after != before || !after.open.is_empty();
                return Ok(Captured { restored, ..captured });
            }
            tracing::debug!("a restore went by; looking at everything anew");
            // What was read before it is of another state.
            look.first = None;
        }
    }

    fn restores_so_far(&self, id: WorkspaceId) -> Result<Restores> {
        // In this order: one that ends in between is seen either way.
        let open = self.open_intents()?;
        let key = id.to_string();
        let last = self.store.look_up(|index| index.newest_document(Kind::Undo, &key))?;
        Ok(Restores {
            open: open.into_iter().map(|intent| intent.header.id).collect(),
            last: last.map(|row| row.birth),
        })
    }

    /// Looks at everything once; at the databases that are known beforehand beside the files, or not at
    /// all where they wait for a change and there is none. What a restore may change is held and read
    /// last, so that others wait for nothing else.
    fn capture_once(
        &self,
        look: &Look<'_>,
        sink: &dyn Sink,
        holdings: &mut Holdings,
    ) -> Result<Captured> {
        if !look.options.wants(Facet::Databases) {
            let (files, git) = self.capture_files_and_git(look, sink)?;
            return Ok(Captured { files, git, databases: None, restored: false });
        }
        let mut found = None;
        if look.databases_last {
            let (files, git) = self.capture_files_and_git(look, sink)?;
            if self.is_unchanged(look, &files, git.as_ref())? {
                let databases = Some(CapturedDatabases::default());
                return Ok(Captured { files, git, databases, restored: false });
            }
            found = Some((files, git));
        }
        self.capture_with_databases(look, sink, holdings, found)
    }

    /// Whether the newest checkpoint holds these.
    fn is_unchanged(
        &self,
        look: &Look<'_>,
        files: &CapturedFiles,
        git: Option<&CapturedGit>,
    ) -> Result<bool> {
        let (Some(newest), Some(git)) = (look.newest, git) else { return Ok(false) };
        let held = self.unchanged(newest, (files, git, &CapturedDatabases::default()))?;
        Ok(held.is_some())
    }

    /// Looks at the databases; beside files and git, unless they were `found` before.
    fn capture_with_databases(
        &self,
        look: &Look<'_>,
        sink: &dyn Sink,
        holdings: &mut Holdings,
        found: Option<(CapturedFiles, Option<CapturedGit>)>,
    ) -> Result<Captured> {
        let reading = Reading {
            id: look.id,
            trigger: look.options.trigger(),
            read: look.options.read_databases,
            distrust: look.distrust,
            watch: Watch {
                cancel: self.cancel(),
                bytes: self.progress().bytes(Phase::ReadingDatabases),
            },
        };
        self.progress().prepare(Phase::ReadingDatabases, None);
        holdings.let_go();
        let held: Vec<String> = holdings.all.iter().map(|one| one.named.name.clone()).collect();
        let any = !self.config.databases.is_empty() || !self.config.commands.is_empty();
        let (found, configured) = std::thread::scope(|scope| {
            let beside = any.then(|| {
                threads::beside(scope, || {
                    self.capture_databases(self.configured_databases(), sink, &reading, &held)
                })
            });
            let found = match found {
                Some(found) => Ok(found),
                None => self.capture_files_and_git(look, sink),
            };
            if beside.is_some() {
                self.progress().show(Phase::ReadingDatabases);
            }
            let configured = beside.map_or(Ok(CapturedDatabases::default()), |beside| {
                beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            (found, configured)
        });
        let (files, git) = found?;
        if !files.scanned.databases.is_empty() || !holdings.all.is_empty() {
            self.progress().show(Phase::ReadingDatabases);
        }
        let noticed = files.scanned.databases.iter().map(|path| self.noticed_database(path));
        let noticed = self.capture_databases(noticed, sink, &reading, &held)?;
        let holding = self.capture_held(holdings, sink, &reading)?;
        let mut databases = configured?.and(noticed).and(holding);
        let lost = self.no_databases_any_more(&databases, &reading, &held)?;
        databases.notes.extend(lost);
        Ok(Captured { files, git, databases: Some(databases), restored: false })
    }

    /// Looks at files and git until neither moved while the other was looked at.
    fn capture_files_and_git(
        &self,
        look: &Look<'_>,
        sink: &dyn Sink,
    ) -> Result<(CapturedFiles, Option<CapturedGit>)> {
        let Look { held, id, options, newest, distrust, mut first, .. } = *look;
        let knowledge: &[RelPath] = match options.wants(Facet::Knowledge) {
            true => &[],
            false => &self.config.knowledge.paths,
        };
        let leave = Leave { paths: knowledge, databases: held, ..Leave::default() };
        let mut looks = 0;
        let mut early = None;
        let is_first = newest.is_none() && !distrust && options.wants(Facet::Git);
        loop {
            looks += 1;
            let mut before = self.git_before(id, distrust)?;
            before.wanted.clone_from(&options.also_git);
            before.also_worktrees.clone_from(&options.also_worktrees);
            let mark = self.intents().mark();
            let cache = if distrust { None } else { self.load_cache(id)? };
            let progress = Some(self.progress());
            let scan = || {
                self.scan_beside(sink, cache, Ask { also: &options.also, first, progress }, leave)
            };
            let files = match is_first && looks == 1 {
                true => std::thread::scope(|scope| {
                    let taking = threads::beside(scope, || self.early_objects(id, sink));
                    let files = scan();
                    early = taking.join().ok().flatten();
                    files
                })?,
                false => scan()?,
            };
            before.early.clone_from(&early);
            // A restore that began or ended meanwhile: its staged files are not the user's.
            if self.intents().mark() != mark && looks <= LOOKS {
                first = None;
                continue;
            }
            if !options.wants(Facet::Git) {
                return Ok((files, None));
            }
            let known = if distrust { Known::Nothing } else { Known::Home { newest } };
            let mut git = self.capture_git(id, before, &files, known, sink, true)?;
            if git.captured.moved && looks <= LOOKS {
                continue;
            }
            git.say_if_moved();
            return Ok((files, Some(git)));
        }
    }
}
