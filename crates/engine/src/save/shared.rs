//! Saves at once. A save that waited for its turn and finds a capture that began after it arrived
//! uses that capture: it adds a manifest of its own over the same trees, or none if that checkpoint
//! already says everything. [`super::queue`] knows which captures those are.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use rappel_capture::databases::command::INSIDE;
use rappel_types::Remarks;
use rappel_types::database::DatabaseKind;
use rappel_types::git::GitPart;
use rappel_types::manifest::FilesPart;
use rappel_types::{CheckpointId, Facet, Manifest, ObjectId, RelPath, Trigger, WorkspaceId};
use serde::{Deserialize, Serialize};

use super::begin::Begun;
use super::existing::FRESH_MS;
use super::look::Seen;
use super::prepared::{Over, PreparedSave};
use super::queue::{Arrived, Found, Turn};
use super::{Overtaken, SaveOptions, Saved};
use crate::agents::{Running, agents_part};
use crate::checkpoint::Checkpoint;
use crate::databases::Holdings;
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::workspace;

/// What a capture is asked to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    facets: BTreeSet<Facet>,
    /// Whether databases that changed are read, however long that takes.
    databases: bool,
    /// Whether transcripts are taken.
    transcripts: bool,
    /// A hash of everything else that decides what is captured: the configuration, and what the
    /// process knows of the user's settings. Two saves may differ in it.
    settings: String,
}

impl Asked {
    /// Whether a capture that was asked this holds all that `other` asks for.
    fn covers(&self, other: &Self) -> bool {
        self.facets == other.facets
            && self.settings == other.settings
            && (self.databases || !other.databases)
            && (self.transcripts || !other.transcripts)
    }
}

impl Rappel {
    /// Saves when it is this save's turn, or uses what another one has captured meanwhile.
    pub(super) fn save_in_turn(&self, options: &SaveOptions) -> Result<Saved> {
        let alone = |rappel: &Self, options: &SaveOptions| {
            rappel.save_holding(options, &mut Holdings::default())
        };
        if !self.takes_turns(options) {
            return alone(self, options);
        }
        self.require_folder()?;
        self.check_request(options)?;
        // Nobody else waits for the calls that this save waits for.
        let running = match options.wait {
            Some(limit) => self.wait_for_calls(options.session.as_deref(), limit)?,
            None => Running::default(),
        };
        let waited = running.waited;
        let options =
            &SaveOptions { wait: options.wait.map(|_| Duration::ZERO), ..options.clone() };
        let saved = match self.turn_to_save()? {
            None => alone(self, options)?,
            Some(mut turn) => {
                self.store.refresh()?;
                if self.workspace_id().is_none() {
                    self.recognised(workspace::recognise(&self.store, &self.evidence)?);
                }
                match self.share(&mut turn, options, &running)? {
                    Some(saved) => saved,
                    None => self.lead(turn, options, |rappel| alone(rappel, options))?,
                }
            }
        };
        Ok(Saved { waited, ..saved })
    }

    /// Some saves capture at once, beside any other. A destructive command or a restore waits for
    /// them; a save inside a `[[command]]` would wait for the save that runs it; and agents' state
    /// alone is no work.
    fn takes_turns(&self, options: &SaveOptions) -> bool {
        let may_not_wait = matches!(options.trigger(), Trigger::PreOperation | Trigger::PreRestore);
        let inside = (self.options.variables)(INSIDE).is_some();
        !may_not_wait && !inside && options.wants(Facet::Files) && !options.takes_more()
    }

    /// Arrives, and waits for the turn. `None` where there is no queue to be had, or it is too long.
    fn turn_to_save(&self) -> Result<Option<Turn>> {
        let path = self.queue_path();
        let arrive = || {
            let folder = self.store.home().saving();
            rappel_store::disk::create_dir(&**self.store.disk(), &folder).ok()?;
            Arrived::at(&path).ok()
        };
        let Some(arrived) = arrive() else { return Ok(None) };
        let who = || format!("another save of {} is under way", self.root.display());
        let turn = arrived.wait(self.store.patience(), self.cancel(), who)?;
        if turn.is_none() {
            tracing::debug!("another save takes long; capturing beside it");
        }
        Ok(turn)
    }

    /// The file of the queue. It is named after the folder, because the first saves of a workspace
    /// have no other name for it yet.
    fn queue_path(&self) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.root.as_os_str().as_bytes());
        hasher.update(&[0]);
        hasher.update(&self.evidence.inode.to_le_bytes());
        hasher.update(self.evidence.file_system.as_bytes());
        let name = hasher.finalize().to_hex();
        self.store.home().saving().join(&name[..32])
    }

    /// Captures, and tells those who wait.
    fn lead(
        &self,
        mut turn: Turn,
        options: &SaveOptions,
        save: impl FnOnce(&Self) -> Result<Saved>,
    ) -> Result<Saved> {
        let asked = self.asked(options);
        let number = turn.begin();
        let saved = save(self)?;
        let manifest = &saved.checkpoint.manifest;
        let saw_the_same = self.saw_the_same(turn.newest(), manifest);
        if !saw_the_same {
            turn.forget();
        }
        // The parts of a checkpoint that a restore went by may not fit each other.
        if let Some(number) = number.filter(|_| !manifest.interrupted_restore) {
            let checkpoint = manifest.id.clone();
            let unchanged = options.if_changed && !saved.checkpoint.created;
            turn.note(number, asked, Found { checkpoint, unchanged }, saw_the_same);
        }
        Ok(saved)
    }

    /// Whether the captures that were noted before saw what this one did.
    fn saw_the_same(&self, newest: Option<&CheckpointId>, manifest: &Manifest) -> bool {
        let Some(newest) = newest else { return false };
        if *newest == manifest.id {
            return true;
        }
        let row = self.store.checkpoint(newest).ok().flatten();
        let before = row.and_then(|row| self.store.manifest(&row).ok());
        before.is_some_and(|before| {
            let digests = |manifest: &Manifest| -> Vec<_> {
                manifest
                    .databases
                    .iter()
                    .map(|part| (part.name.clone(), part.digest.clone()))
                    .collect()
            };
            manifest.parent.as_ref() == Some(newest)
                && before.files.as_ref().map(state_of) == manifest.files.as_ref().map(state_of)
                && before.git == manifest.git
                && before.knowledge == manifest.knowledge
                && digests(&before) == digests(manifest)
        })
    }

    /// The answer to a save whose state another one has captured since it arrived.
    fn share(
        &self,
        turn: &mut Turn,
        options: &SaveOptions,
        running: &Running,
    ) -> Result<Option<Saved>> {
        let Some(id) = self.workspace_id().filter(|_| !options.needs_first()) else {
            return Ok(None);
        };
        let asked = self.asked(options);
        let is_enough = |unchanged: bool| options.if_changed || !unchanged;
        let mut captures = turn.captures();
        let found = captures
            .find(|(capture, _)| capture.asked.covers(&asked) && is_enough(capture.unchanged))
            .map(|(capture, newest)| (capture.checkpoint.clone(), newest.clone()));
        drop(captures);
        let Some((checkpoint, newest)) = found else { return Ok(None) };
        let Some(captured) = self.still_stands(id, &checkpoint, &newest)? else { return Ok(None) };
        if options.if_changed || self.says_everything(&captured.manifest, options)? {
            tracing::debug!(%checkpoint, "another save captured this");
            let (checkpoint, waited) = (Checkpoint { created: false, ..captured }, Duration::ZERO);
            return Ok(Some(Saved {
                advice: self.advice_on(&checkpoint),
                checkpoint,
                notes: Remarks::default(),
                waited,
            }));
        }
        match self.save_over(id, &captured.manifest, newest, options, running) {
            Ok(saved) => {
                turn.note_newest(saved.checkpoint.manifest.id.clone());
                Ok(Some(saved))
            }
            // Something came between, or gc took it: this save captures by itself.
            Err(Error::Store(rappel_store::Error::Moved)) => Ok(None),
            Err(error) if error.is_unreadable() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The checkpoint of a capture, if it can be read and nothing else was saved or restored since.
    fn still_stands(
        &self,
        id: WorkspaceId,
        checkpoint: &CheckpointId,
        newest: &CheckpointId,
    ) -> Result<Option<Checkpoint>> {
        let now = self.store.look_up(|index| index.newest_with_files(id))?;
        let is_newest = now.is_some_and(|row| row.id == *newest);
        if !is_newest || !self.open_intents()?.is_empty() || !self.damage()?.is_empty() {
            return Ok(None);
        }
        let Some(row) = self.store.checkpoint(checkpoint)? else { return Ok(None) };
        let captured = match self.view(&row) {
            Err(error) if error.is_unreadable() => return Ok(None),
            other => other?,
        };
        Ok(Some(captured).filter(|captured| captured.manifest.workspace.id == id))
    }

    /// Whether a request adds nothing to a checkpoint that holds the present state.
    fn says_everything(&self, manifest: &Manifest, options: &SaveOptions) -> Result<bool> {
        let age = self.now().as_millis() - manifest.created_at.as_millis();
        if options.adds_to(manifest, self.environment(options).as_deref())
            || manifest.partial
            || !self.connected().is_empty()
            || !(0..FRESH_MS).contains(&age)
            || manifest.variables != self.variables()
        {
            return Ok(false);
        }
        let id = manifest.workspace.id;
        let now = self.store.look_up(|index| agents_part(index, id, &[], None))?;
        let held = manifest.agents.as_ref().map(|agents| &agents.sessions[..]);
        Ok(held.unwrap_or_default() == &now.sessions[..])
    }

    /// A checkpoint of its own over what another one holds.
    fn save_over(
        &self,
        id: WorkspaceId,
        captured: &Manifest,
        newest: CheckpointId,
        options: &SaveOptions,
        running: &Running,
    ) -> Result<Saved> {
        let begun = Begun::over(id, self.asking_session(options)?);
        let writer = self.store.begin()?;
        writer.reuse(roots(captured));
        let mut draft = self.draft(id, options, &Seen::default(), false);
        take_state(&mut draft, captured);
        let overtaken = options.overtaken.iter().filter_map(Overtaken::words);
        draft.mid_operation.extend(running.named.iter().cloned().chain(overtaken));
        draft.mid_operation.sort();
        draft.mid_operation.dedup();
        let mut connected = self.snapshot_connected(&writer)?;
        draft.partial_reasons.append(&mut connected.failed);
        draft.partial = !draft.partial_reasons.is_empty();
        let prepared = PreparedSave::over(
            (begun, options.clone(), writer, draft),
            captured,
            connected,
            Over { checkpoint: captured.id.clone(), newest },
            self.noticed_in(captured),
        );
        let made = Box::new(prepared).commit(self)?;
        Ok(self.acknowledge(made))
    }

    /// The databases of a checkpoint that were noticed among the files.
    fn noticed_in(&self, manifest: &Manifest) -> Vec<RelPath> {
        let is_named = |name: &str| self.config.databases.iter().any(|one| one.name == name);
        let databases = manifest.databases.iter();
        databases
            .filter(|part| part.kind == DatabaseKind::Sqlite && !is_named(&part.name))
            .filter_map(|part| part.name.parse().ok())
            .collect()
    }

    /// What a save asks for.
    fn asked(&self, options: &SaveOptions) -> Asked {
        let trigger = options.trigger();
        Asked {
            facets: Facet::ALL.into_iter().filter(|facet| options.wants(*facet)).collect(),
            databases: self.config.capture.databases.contains(&trigger),
            transcripts: trigger.takes_transcripts(),
            settings: self.settings(),
        }
    }

    /// See [`Asked::settings`]. Only its hash is kept: it may hold an address with a password.
    fn settings(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |text: String| {
            hasher.update(text.as_bytes());
            hasher.update(&[0]);
        };
        add(env!("CARGO_PKG_VERSION").to_owned());
        add(rustix::process::geteuid().as_raw().to_string());
        add(format!("{:?}", self.config));
        add(format!("{:?}", self.config_problem));
        add(format!("{:?}", self.options.environment));
        add(format!("{:?}", self.options.agents));
        // An address may come from the process's environment, and a command may be run only once
        // the user has allowed it.
        for source in self.configured_databases() {
            add(match source {
                Ok(named) => format!("{} {:?} {}", named.name, named.kind, named.place),
                Err((name, error)) => format!("{name} {error}"),
            });
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }
}

/// What of a files' part is state, and not a comparison with another checkpoint.
fn state_of(part: &FilesPart) -> FilesPart {
    FilesPart { added: 0, modified: 0, deleted: 0, ..part.clone() }
}

/// What a manifest refers to.
fn roots(manifest: &Manifest) -> Vec<ObjectId> {
    let git = manifest.git.iter();
    let worktrees = git.clone().flat_map(GitPart::repositories).flat_map(|(_, one)| {
        one.worktrees.iter().filter_map(|worktree| Some(worktree.files.as_ref()?.tree))
    });
    let agents = manifest.agents.iter().filter_map(|agents| agents.transcripts);
    let files = manifest.files.iter().map(|files| files.tree);
    files
        .chain(git.clone().filter_map(|git| git.tree))
        .chain(worktrees)
        .chain(manifest.databases.iter().map(|part| part.tree))
        .chain(manifest.knowledge.iter().map(|knowledge| knowledge.index))
        .chain(agents)
        .collect()
}

/// Makes a draft one of the same state as another checkpoint.
fn take_state(draft: &mut Manifest, captured: &Manifest) {
    let process = draft.state_of(Facet::Process);
    draft.facets.clone_from(&captured.facets);
    draft.facets.insert(Facet::Process, process);
    draft.partial_reasons.clone_from(&captured.partial_reasons);
    draft.mid_operation.clone_from(&captured.mid_operation);
    draft.files = captured.files.as_ref().map(state_of);
    draft.git.clone_from(&captured.git);
    draft.databases.clone_from(&captured.databases);
    draft.knowledge.clone_from(&captured.knowledge);
}
