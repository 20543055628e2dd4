//! Checkpoints at regular times while something works: the first at once, one at each tick at
//! which something changed, the last one when it stops.
//!
//! A thread of its own waits for the ticks and samples memory. No lock is held while a callback
//! runs, so that a callback may ask for anything, also from another thread.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rappel_capture::files::Identity;
use rappel_formats::aiwg::{self, CheckpointData, CheckpointSummary, Memory};
use rappel_store::disk;
use rappel_types::manifest::{Cost, PartialReason};
use rappel_types::{CheckpointId, Manifest, Timestamp, Trigger};
use serde_json::Value;

use super::memory::{MemorySamples, ProcessMemory, memory_of_tree};
use super::progress::Progress;
use super::state_file;
use crate::agents::automatic;
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::save::SaveOptions;

/// How often memory is sampled.
const SAMPLE: Duration = Duration::from_secs(5);

/// Called after each checkpoint, on the thread that made it.
pub type OnCheckpoint = Arc<dyn Fn(&CheckpointData) + Send + Sync>;

/// What is to be done at which times.
#[derive(Clone)]
pub struct PeriodicOptions {
    /// The folder to which each checkpoint is also written as a numbered file.
    pub state_dir: Option<PathBuf>,
    /// The time between two ticks.
    pub interval: Duration,
    /// The agent's session.
    pub session: Option<String>,
    /// When the session began; the start of this otherwise.
    pub session_started_at: Option<Timestamp>,
    /// Called after each checkpoint.
    pub on_checkpoint: Option<OnCheckpoint>,
}

impl Default for PeriodicOptions {
    fn default() -> Self {
        Self {
            state_dir: None,
            interval: Duration::from_secs(30 * 60),
            session: None,
            session_started_at: None,
            on_checkpoint: None,
        }
    }
}

impl fmt::Debug for PeriodicOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicOptions")
            .field("state_dir", &self.state_dir)
            .field("interval", &self.interval)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// What listeners are told.
#[derive(Debug, Clone, PartialEq)]
pub enum PeriodicEvent {
    /// The ticks begin.
    Started {
        /// The time between two of them.
        interval: Duration,
        /// Where numbered files go, if they are asked for.
        checkpoints_dir: Option<PathBuf>,
    },
    /// A checkpoint was made.
    Checkpoint(Box<CheckpointData>),
    /// A tick could not do all that it should; the next one comes all the same.
    Failed {
        /// In words.
        message: String,
    },
    /// The ticks are over.
    Stopped {
        /// The last checkpoint, if it could be made.
        final_checkpoint: Option<Box<CheckpointData>>,
        /// All of them in short.
        summary: Box<CheckpointSummary>,
    },
}

/// A checkpoint of the store that this made.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    /// Which.
    pub checkpoint: CheckpointId,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub trigger: Trigger,
    /// How many paths changed since the one before it.
    pub changed: usize,
    /// What it cost.
    pub cost: Cost,
    /// What it lacks, in words.
    pub missing: Vec<String>,
}

/// How it ended.
#[derive(Debug)]
pub struct Finished {
    /// All checkpoints in short.
    pub summary: CheckpointSummary,
    /// The last one.
    pub last: Result<CheckpointData>,
}

/// Checkpoints at regular times. See the module.
pub struct Periodic {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
    begun: AtomicBool,
}

struct Inner {
    rappel: Arc<Rappel>,
    options: PeriodicOptions,
    progress: Mutex<Progress>,
    /// Held while a checkpoint is made, so that there is one at a time.
    capturing: Mutex<()>,
    samples: Mutex<MemorySamples>,
    /// The process whose tree is measured.
    process: Mutex<u32>,
    stopping: Mutex<bool>,
    wake: Condvar,
    listeners: Mutex<Vec<Sender<PeriodicEvent>>>,
}

/// Why a checkpoint is made.
struct Occasion {
    number: Option<u64>,
    trigger: Trigger,
    if_changed: bool,
    message: Option<String>,
    metadata: BTreeMap<String, Value>,
}

impl Occasion {
    fn new(trigger: Trigger) -> Self {
        Self { number: None, trigger, if_changed: false, message: None, metadata: BTreeMap::new() }
    }
}

impl Periodic {
    /// Checkpoints of a workspace. Nothing happens before [`Periodic::start`].
    pub fn new(rappel: Arc<Rappel>, options: PeriodicOptions) -> Self {
        let inner = Inner {
            rappel,
            options,
            progress: Mutex::default(),
            capturing: Mutex::default(),
            samples: Mutex::default(),
            process: Mutex::new(std::process::id()),
            stopping: Mutex::default(),
            wake: Condvar::new(),
            listeners: Mutex::default(),
        };
        Self { inner: Arc::new(inner), thread: Mutex::default(), begun: AtomicBool::new(false) }
    }

    /// From now on the memory of that process and its descendants is measured, instead of this
    /// one's.
    pub fn watch(&self, pid: u32) {
        *locked(&self.inner.process) = pid;
        *locked(&self.inner.samples) = MemorySamples::default();
        self.inner.sample();
    }

    /// Makes the first checkpoint and begins the ticks. `interval` overrides the one of the
    /// options. A numbered file that cannot be written is told to listeners and stops nothing.
    pub fn start(&self, interval: Option<Duration>) -> Result<&Self> {
        let interval = interval.unwrap_or(self.inner.options.interval);
        let refuse =
            |message: &str| Err(Error::Usage { message: message.into(), advice: Vec::new() });
        if interval.is_zero() {
            return refuse("the interval is zero");
        }
        if self.begun.swap(true, Ordering::SeqCst) {
            return refuse("the periodic checkpoints have begun already");
        }
        let first = self.begin(interval);
        if first.is_err() {
            self.begun.store(false, Ordering::SeqCst);
        }
        first.map(|()| self)
    }

    fn begin(&self, interval: Duration) -> Result<()> {
        self.inner.begin()?;
        let checkpoints_dir = self.inner.options.state_dir.as_deref().map(aiwg::checkpoints_dir);
        self.inner.tell(&PeriodicEvent::Started { interval, checkpoints_dir });
        match self.inner.capture(Occasion::new(Trigger::SessionStart)) {
            Err(error @ Error::StateFile(_)) => self.inner.fail(&error),
            other => _ = other?,
        }
        *locked(&self.inner.stopping) = false;
        let inner = self.inner.clone();
        let thread = std::thread::spawn(move || inner.tick_until_stopped(interval));
        *locked(&self.thread) = Some(thread);
        Ok(())
    }

    /// Ends the ticks and makes the last checkpoint.
    pub fn stop(&self) -> Result<CheckpointSummary> {
        let finished = self.finish(None, BTreeMap::new());
        finished.last?;
        Ok(finished.summary)
    }

    /// The same, with words and values for the last checkpoint. The summary is there even if that
    /// checkpoint cannot be made.
    pub fn finish(&self, message: Option<String>, metadata: BTreeMap<String, Value>) -> Finished {
        *locked(&self.inner.stopping) = true;
        self.inner.wake.notify_all();
        let thread = locked(&self.thread).take();
        // A callback of the ticks may stop them: that thread cannot wait for itself.
        if let Some(thread) = thread.filter(|it| it.thread().id() != std::thread::current().id()) {
            // One that panicked has said so; the last checkpoint is made all the same.
            let _ = thread.join();
        }
        self.begun.store(false, Ordering::SeqCst);
        let occasion = Occasion { message, metadata, ..Occasion::new(Trigger::SessionEnd) };
        let last = self.inner.capture(occasion);
        let summary = self.summary();
        self.inner.tell(&PeriodicEvent::Stopped {
            final_checkpoint: last.as_ref().ok().cloned().map(Box::new),
            summary: Box::new(summary.clone()),
        });
        Finished { summary, last }
    }

    /// Makes a checkpoint now, as number `number`. That its numbered file cannot be written is an
    /// error; the checkpoint in the store is there all the same.
    pub fn capture(&self, number: u64) -> Result<CheckpointData> {
        let occasion = Occasion { number: Some(number), ..Occasion::new(Trigger::Scheduled) };
        self.inner.begin()?;
        self.inner.capture(occasion)
    }

    /// Saves now if something changed, under the next number.
    pub fn capture_now(&self) -> Result<CheckpointData> {
        self.inner.capture(Occasion { if_changed: true, ..Occasion::new(Trigger::Scheduled) })
    }

    /// All checkpoints of the session, by number.
    pub fn all(&self) -> Vec<CheckpointData> {
        locked(&self.inner.progress).all.clone()
    }

    /// The last one.
    pub fn latest(&self) -> Option<CheckpointData> {
        locked(&self.inner.progress).all.last().cloned()
    }

    /// All of them in short.
    pub fn summary(&self) -> CheckpointSummary {
        CheckpointSummary::of(&locked(&self.inner.progress).all)
    }

    /// The checkpoints of the store that this made, oldest first.
    pub fn captured(&self) -> Vec<Captured> {
        locked(&self.inner.progress).captured.clone()
    }

    /// The files that changed between those, each once, sorted.
    pub fn files_modified(&self) -> Vec<String> {
        locked(&self.inner.progress).modified.iter().cloned().collect()
    }

    /// The memory over time.
    pub fn memory(&self) -> MemorySamples {
        locked(&self.inner.samples).clone()
    }

    /// Everything that happens from now on.
    pub fn subscribe(&self) -> Receiver<PeriodicEvent> {
        let (sender, receiver) = mpsc::channel();
        locked(&self.inner.listeners).push(sender);
        receiver
    }
}

impl Drop for Periodic {
    /// Ends the ticks. The last checkpoint is made by [`Periodic::stop`] alone.
    fn drop(&mut self) {
        *locked(&self.inner.stopping) = true;
        self.inner.wake.notify_all();
    }
}

impl Inner {
    /// Takes up what the state folder has of this session, and sees to it that no save captures
    /// what is written there.
    fn begin(&self) -> Result<()> {
        let mut progress = locked(&self.progress);
        if progress.started.is_some() {
            return Ok(());
        }
        let began = self.options.session_started_at.unwrap_or_else(|| self.rappel.now());
        progress.started = Some(began);
        let Some(state_dir) = &self.options.state_dir else { return Ok(()) };
        if let Err(error) = self.prepare_folder(state_dir) {
            drop(progress);
            self.fail(&error);
            return Ok(());
        }
        let folder = aiwg::read(state_dir)?;
        progress.take_up(folder, self.options.session.as_deref());
        Ok(())
    }

    fn prepare_folder(&self, state_dir: &Path) -> Result<()> {
        let folder = aiwg::checkpoints_dir(state_dir);
        disk::create_dir(&**self.rappel.store.disk(), &folder)?;
        self.rappel.exclude_written(&folder)
    }

    fn tick_until_stopped(&self, interval: Duration) {
        let mut next = Instant::now() + interval;
        loop {
            let rest = next.saturating_duration_since(Instant::now());
            let stopping = locked(&self.stopping);
            let waited = self.wake.wait_timeout_while(stopping, rest.min(SAMPLE), |stop| !*stop);
            let (stopping, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if *stopping {
                return;
            }
            drop(stopping);
            self.sample();
            // Nobody else may be there at midnight.
            if let Err(error) = self.rappel.end_day_by_clock() {
                self.fail(&error);
            }
            if Instant::now() < next {
                continue;
            }
            let tick = Occasion { if_changed: true, ..Occasion::new(Trigger::Scheduled) };
            if let Err(error) = self.capture(tick) {
                self.fail(&error);
            }
            // A machine that slept owes one tick, not many.
            next = (next + interval).max(Instant::now());
        }
    }

    fn sample(&self) -> Option<ProcessMemory> {
        let process = *locked(&self.process);
        let sample = memory_of_tree(process)?;
        locked(&self.samples).add(sample);
        Some(sample)
    }

    fn capture(&self, occasion: Occasion) -> Result<CheckpointData> {
        let one_at_a_time = locked(&self.capturing);
        let start = Instant::now();
        // A process that has ended is told by its last sample.
        let memory = self.sample().or_else(|| locked(&self.samples).last());
        let automatic = automatic(occasion.trigger, None);
        let saved = self.rappel.save(&SaveOptions {
            session: self.options.session.clone(),
            message: occasion.message.or(automatic.message),
            metadata: occasion.metadata,
            if_changed: occasion.if_changed,
            process: memory,
            tags: automatic.tags,
            trigger: automatic.trigger,
            ..SaveOptions::default()
        })?;
        let manifest = &saved.checkpoint.manifest;
        let changed = self.changed_since_last(manifest)?;
        if let Some(session) = &self.options.session {
            self.rappel.note_changed(session, changed.clone())?;
        }
        let made = saved.checkpoint.created.then(|| captured(manifest, changed.len()));
        let counts = made.is_some() || !occasion.if_changed || self.options.state_dir.is_some();
        let data = {
            let mut progress = locked(&self.progress);
            progress.note(manifest, changed, made);
            self.data(&progress, manifest, occasion.number, memory.unwrap_or_default())
        };
        if let Some(state_dir) = self.options.state_dir.as_deref().filter(|_| counts) {
            aiwg::write(self.rappel.store.disk(), state_dir, &data)?;
        }
        if counts {
            locked(&self.progress).add(data.clone());
        }
        drop(one_at_a_time);
        let took_ms = start.elapsed().as_secs_f64() * 1000.0;
        tracing::debug!(took_ms, created = saved.checkpoint.created, "tick");
        if counts {
            self.tell(&PeriodicEvent::Checkpoint(Box::new(data.clone())));
            if let Some(callback) = &self.options.on_checkpoint {
                callback(&data);
            }
        }
        Ok(data)
    }

    /// The paths that differ from what the last tick found.
    fn changed_since_last(&self, manifest: &Manifest) -> Result<Vec<String>> {
        let before = locked(&self.progress).tree;
        match (before, &manifest.files) {
            (Some(before), Some(files)) => self.rappel.paths_between(&before, &files.tree),
            _ => Ok(Vec::new()),
        }
    }

    fn data(
        &self,
        progress: &Progress,
        manifest: &Manifest,
        number: Option<u64>,
        memory: ProcessMemory,
    ) -> CheckpointData {
        let now = self.rappel.now();
        let written = self.rappel.written_folders();
        let written: Vec<Identity> =
            written.iter().filter_map(|folder| Identity::of(folder).ok()).collect();
        let began = progress.started.unwrap_or(now);
        CheckpointData {
            number: number.unwrap_or(progress.last_number + 1),
            timestamp: now,
            duration: u64::try_from(now.millis_since(began)).unwrap_or_default(),
            session_id: self.options.session.clone().unwrap_or_else(|| "unknown".into()),
            git_status: state_file::git_status(manifest),
            aiwg_state: state_file::aiwg_state(self.rappel.root(), &written),
            files_modified: progress.named.iter().cloned().collect(),
            memory: Memory { heap_used: memory.heap_used, rss: memory.rss, ..Memory::default() },
            extra: rappel_formats::aiwg::Extra::default(),
        }
    }

    fn tell(&self, event: &PeriodicEvent) {
        locked(&self.listeners).retain(|listener| listener.send(event.clone()).is_ok());
    }

    /// Says that something did not work, here and for `status`.
    fn fail(&self, error: &Error) {
        self.rappel.note_run_failure(&error.to_string());
        self.tell(&PeriodicEvent::Failed { message: error.to_string() });
    }
}

fn captured(manifest: &Manifest, changed: usize) -> Captured {
    Captured {
        checkpoint: manifest.id.clone(),
        at: manifest.created_at,
        trigger: manifest.trigger,
        changed,
        cost: manifest.cost,
        missing: manifest.partial_reasons.iter().map(missing).collect(),
    }
}

fn missing(reason: &PartialReason) -> String {
    match &reason.path {
        Some(path) => format!("{path} ({})", reason.reason),
        None => format!("{} ({})", reason.facet, reason.reason),
    }
}

/// A lock on a value that is whole at every moment, so that a thread that panicked spoils nothing.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
