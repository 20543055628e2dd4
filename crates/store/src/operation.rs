//! What goes along with long work: a way to stop it, and how far it is.
//!
//! The engine puts one [`Operation`] into each workspace that it opens. Every crate below asks
//! [`Cancel`] between its steps and keeps [`Progress`] up to date. A face draws the progress, or
//! streams it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// One piece of long work, as those who watch it know it.
#[derive(Debug, Clone, Default)]
pub struct Operation {
    /// Stops it.
    pub cancel: Cancel,
    /// How far it is.
    pub progress: Arc<Progress>,
}

/// Stops long work. Clones are one and the same.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    /// Set by a request, or by a signal's handler.
    flag: Arc<AtomicBool>,
    course: Arc<AtomicU8>,
}

/// The work can still be stopped.
const OPEN: u8 = 0;
/// A request to stop was accepted.
const STOPPING: u8 = 1;
/// The work goes on to its end.
const CLOSED: u8 = 2;

/// The answer to a request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CancelAnswer {
    /// The work stops, and leaves nothing visible.
    Cancelling,
    /// The work has passed the point of no return and goes on to its end.
    TooLate,
}

impl Cancel {
    /// Asks the work to stop. Work that was answered [`CancelAnswer::Cancelling`] does not pass its point of
    /// no return any more.
    pub fn request(&self) -> CancelAnswer {
        match self.accept() {
            true => CancelAnswer::Cancelling,
            false => CancelAnswer::TooLate,
        }
    }

    /// The same for a caller that does not need the answer.
    pub fn cancel(&self) {
        self.request();
    }

    /// Whether the work is to stop. Work asks this between its steps.
    pub fn is_cancelled(&self) -> bool {
        match self.course.load(Ordering::SeqCst) {
            OPEN => self.flag.load(Ordering::SeqCst),
            course => course == STOPPING,
        }
    }

    /// Fails if the work is to stop.
    pub fn check(&self) -> Result<()> {
        match self.is_cancelled() {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    }

    /// Passes the point of no return, unless the work is to stop. From here on it goes on to its end.
    pub fn close(&self) -> Result<()> {
        if self.flag.load(Ordering::SeqCst) {
            self.accept();
        }
        let passed = self.course.compare_exchange(OPEN, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
        match passed {
            Ok(_) | Err(CLOSED) => Ok(()),
            Err(_) => Err(Error::Cancelled),
        }
    }

    /// Begins the next piece of work of the same process, which can be stopped again. A signal that came
    /// too late for the last one stops this one.
    pub fn reopen(&self) {
        let _ = self.course.compare_exchange(CLOSED, OPEN, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether a signal asked to stop after the point of no return.
    pub fn came_too_late(&self) -> bool {
        self.course.load(Ordering::SeqCst) == CLOSED && self.flag.load(Ordering::SeqCst)
    }

    /// What a signal's handler sets to stop the work. A handler can do no more than that.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// One that nobody cancels.
    pub fn never() -> &'static Self {
        static NEVER: std::sync::LazyLock<Cancel> = std::sync::LazyLock::new(Cancel::default);
        &NEVER
    }

    /// Whether a request to stop is accepted.
    fn accept(&self) -> bool {
        let asked =
            self.course.compare_exchange(OPEN, STOPPING, Ordering::SeqCst, Ordering::SeqCst);
        let accepted = asked.is_ok() || asked == Err(STOPPING);
        if accepted {
            self.flag.store(true, Ordering::SeqCst);
        }
        accepted
    }
}

/// Declares the phases in one place: the enum, and all of them.
macro_rules! phases {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What long work is doing. `done` and `total` count what the phase says.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum Phase {
            $($(#[$doc])* $name,)*
        }

        impl Phase {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

phases! {
    /// Nothing has begun: it waits for its turn, or opens what it needs.
    #[default]
    Starting,
    /// It looks for changed files.
    Looking,
    /// It reads changed files. Counts files.
    ReadingFiles,
    /// It reads databases. Counts databases; nobody knows beforehand how many bytes they hold.
    ReadingDatabases,
    /// What was read becomes durable as a checkpoint.
    Committing,
    /// It compares, and decides what to do.
    Planning,
    /// The present becomes the safety checkpoint of a restore.
    SavingPresent,
    /// New content of databases is loaded where nobody sees it yet. Counts databases.
    LoadingDatabases,
    /// New content is written beside its place. Counts files.
    Staging,
    /// New and old content change places. Counts entries.
    Swapping,
    /// What was swapped is read again. Counts entries.
    Verifying,
    /// Databases are committed. It cannot be cancelled any more. Counts databases.
    CommittingDatabases,
    /// What was done is written down and made durable.
    Recording,
    /// What was done is taken back. Counts entries.
    RollingBack,
    /// The store's packs are read.
    ReadingPacks,
    /// Objects are decoded and compared with their hashes. Counts objects.
    CheckingObjects,
    /// Checkpoints are looked through for what they need. Counts checkpoints.
    CheckingCheckpoints,
    /// What is damaged is put again from wherever it can be had.
    Repairing,
    /// It finds out what is still needed.
    Marking,
    /// What is needed is copied out of packs that go. Counts packs.
    Copying,
    /// Checkpoints are deleted. Counts checkpoints.
    Deleting,
    /// Checkpoints of another tool, or of a bundle, are read. Counts checkpoints.
    ReadingCheckpoints,
    /// Checkpoints that were read are taken into the home. Counts checkpoints.
    TakingIn,
    /// Checkpoints or their files are written out. Counts checkpoints, files or objects.
    WritingOut,
}

/// Counters that running work keeps up to date. Each phase has its own, so that phases that run beside
/// each other do not mix, and a snapshot never has the numbers of another phase than it names.
#[derive(Debug)]
pub struct Progress {
    current: AtomicU8,
    counters: Vec<Counters>,
}

#[derive(Debug)]
struct Counters {
    done: AtomicU64,
    /// [`UNKNOWN`] as long as that is not known.
    total: AtomicU64,
    bytes: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

/// How far long work was at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// What it was doing.
    pub phase: Phase,
    /// How much of that was done, counted as the phase says.
    pub done: u64,
    /// Of how much, where that is known.
    pub total: Option<u64>,
    /// How many bytes this took.
    pub bytes: u64,
}

impl Default for Progress {
    fn default() -> Self {
        let counters = || Counters {
            done: AtomicU64::new(0),
            total: AtomicU64::new(UNKNOWN),
            bytes: AtomicU64::new(0),
        };
        let counters = Phase::ALL.iter().map(|_| counters()).collect();
        Self { current: AtomicU8::new(0), counters }
    }
}

impl Progress {
    /// Begins a phase from zero.
    pub fn begin(&self, phase: Phase, total: Option<u64>) {
        self.prepare(phase, total);
        self.show(phase);
    }

    /// Sets a phase to zero that runs beside the one that is shown.
    pub fn prepare(&self, phase: Phase, total: Option<u64>) {
        let counters = self.of(phase);
        counters.done.store(0, Ordering::Relaxed);
        counters.bytes.store(0, Ordering::Relaxed);
        counters.total.store(total.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// Makes a phase the one that is shown; it goes on where it is.
    pub fn show(&self, phase: Phase) {
        self.current.store(phase as u8, Ordering::Relaxed);
    }

    /// So much more of a phase is done, with so many bytes.
    pub fn add(&self, phase: Phase, done: u64, bytes: u64) {
        let counters = self.of(phase);
        counters.done.fetch_add(done, Ordering::Relaxed);
        counters.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much of a phase is done altogether.
    pub fn reach(&self, phase: Phase, done: u64) {
        self.of(phase).done.store(done, Ordering::Relaxed);
    }

    /// The bytes of a phase, for whoever counts them by itself.
    pub fn bytes(&self, phase: Phase) -> &AtomicU64 {
        &self.of(phase).bytes
    }

    /// How far it is.
    pub fn snapshot(&self) -> Snapshot {
        let current = self.current.load(Ordering::Relaxed);
        let phase = Phase::ALL.get(usize::from(current)).copied().unwrap_or_default();
        self.snapshot_of(phase)
    }

    /// How far a phase is, or was.
    pub fn snapshot_of(&self, phase: Phase) -> Snapshot {
        let counters = self.of(phase);
        let total = Some(counters.total.load(Ordering::Relaxed)).filter(|total| *total != UNKNOWN);
        let done = counters.done.load(Ordering::Relaxed);
        // Work that looks again at what moved under it counts some of it twice.
        let done = total.map_or(done, |total| done.min(total));
        Snapshot { phase, done, total, bytes: counters.bytes.load(Ordering::Relaxed) }
    }

    fn of(&self, phase: Phase) -> &Counters {
        &self.counters[phase as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_accepted_keeps_work_from_the_point_of_no_return() {
        let cancel = Cancel::default();
        assert!(!cancel.is_cancelled() && cancel.check().is_ok());
        assert_eq!(cancel.clone().request(), CancelAnswer::Cancelling);
        assert!(cancel.is_cancelled());
        assert!(matches!(cancel.close(), Err(Error::Cancelled)));
        cancel.reopen();
        assert!(cancel.is_cancelled(), "a request outlives the piece of work that it stopped");
    }

    #[test]
    fn a_request_after_the_point_of_no_return_is_too_late() {
        let cancel = Cancel::default();
        cancel.close().unwrap();
        assert_eq!(cancel.request(), CancelAnswer::TooLate);
        assert!(!cancel.is_cancelled() && !cancel.came_too_late());
        cancel.close().unwrap();
        // A signal gets no answer; the work says it at its end, and the next work stops.
        cancel.flag().store(true, Ordering::SeqCst);
        assert!(!cancel.is_cancelled() && cancel.came_too_late());
        cancel.reopen();
        assert!(cancel.is_cancelled());
    }

    #[test]
    fn a_signal_before_the_point_of_no_return_stops_the_work() {
        let cancel = Cancel::default();
        cancel.flag().store(true, Ordering::SeqCst);
        assert!(cancel.is_cancelled());
        assert!(cancel.close().is_err());
        assert_eq!(cancel.request(), CancelAnswer::Cancelling);
    }

    #[test]
    fn a_request_and_the_point_of_no_return_never_both_succeed() {
        for _ in 0..2_000 {
            let cancel = Cancel::default();
            let (answer, closed) = std::thread::scope(|scope| {
                let asking = scope.spawn(|| cancel.request());
                let closed = cancel.close().is_ok();
                (asking.join().unwrap(), closed)
            });
            assert_eq!(closed, answer == CancelAnswer::TooLate);
        }
    }

    #[test]
    fn a_snapshot_has_the_numbers_of_its_phase() {
        let progress = Progress::default();
        assert_eq!(progress.snapshot(), Snapshot::default());
        progress.prepare(Phase::ReadingDatabases, None);
        progress.begin(Phase::ReadingFiles, Some(3));
        progress.add(Phase::ReadingFiles, 2, 20);
        progress.bytes(Phase::ReadingDatabases).fetch_add(7, Ordering::Relaxed);
        let files = Snapshot { phase: Phase::ReadingFiles, done: 2, total: Some(3), bytes: 20 };
        assert_eq!(progress.snapshot(), files);
        progress.show(Phase::ReadingDatabases);
        let databases = Snapshot { phase: Phase::ReadingDatabases, done: 0, total: None, bytes: 7 };
        assert_eq!(progress.snapshot(), databases);
        assert_eq!(serde_json::to_value(databases).unwrap()["phase"], "reading-databases");
        progress.add(Phase::ReadingFiles, 9, 0);
        assert_eq!(progress.snapshot_of(Phase::ReadingFiles).done, 3);
        progress.begin(Phase::ReadingFiles, None);
        assert_eq!(
            progress.snapshot(),
            Snapshot { phase: Phase::ReadingFiles, ..Snapshot::default() }
        );
    }
}
