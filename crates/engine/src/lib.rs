//! Rappel: save states for AI coding agents.
//!
//! A [`Rappel`] is one workspace with its history. [`Rappel::save`] makes a checkpoint of
//! everything the work consists of; any checkpoint can be looked into, compared and restored, and
//! a restore can always be undone. The library needs no async runtime, and it takes no
//! setting from the environment or the terminal: those come in through [`OpenOptions`].
//!
//! ```
//! use rappel::{OpenOptions, Rappel, RestoreOptions, SaveOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (project, home) = (folder.path().join("project"), folder.path().join("home"));
//! # std::fs::create_dir(&project)?;
//! std::fs::write(project.join("plan.md"), "1. measure")?;
//!
//! let rappel = Rappel::open(OpenOptions::new(&project, &home))?;
//! let saved = rappel.save(&SaveOptions {
//!     message: Some("before the agent starts".into()),
//!     tags: vec!["known-good".into()],
//!     ..SaveOptions::default()
//! })?;
//!
//! std::fs::write(project.join("plan.md"), "oops")?;
//! assert_eq!(rappel.find_by_tag("known-good")?.len(), 1);
//! let back = saved.checkpoint.manifest.id.to_string().parse()?;
//! let plan = rappel.plan_restore(&back, &RestoreOptions::default())?;
//! assert_eq!(plan.summary.files.overwrite, 1);
//! rappel.apply(&plan, &RestoreOptions::default())?;
//! assert_eq!(std::fs::read_to_string(project.join("plan.md"))?, "1. measure");
//!
//! let step = rappel.next_undo()?;
//! rappel.step(&step, false, &RestoreOptions::default())?;
//! assert_eq!(std::fs::read_to_string(project.join("plan.md"))?, "oops");
//! # Ok(())
//! # }
//! ```
//!
//! # An agent's reasoning
//!
//! What an agent thinks and does is recorded in a session, durable event by event. Any checkpoint knows how far
//! it was, and what was known at any moment can be asked for, compared and gone back to.
//!
//! ```
//! use rappel::types::agents::NewEvent;
//! use rappel::{OpenOptions, Rappel, SaveOptions, SessionStart, TemporalQuery};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (project, home) = (folder.path().join("project"), folder.path().join("home"));
//! # std::fs::create_dir(&project)?;
//! let rappel = Rappel::open(OpenOptions::new(&project, &home))?;
//! let (session, _) = rappel.start_session(SessionStart::default())?;
//! let line = r#"{"kind": "hypothesis", "id": "norm", "text": "normalization is skipped", "confidence": 0.6}"#;
//! rappel.record(&session, NewEvent::parse(line)?)?;
//!
//! // Before trying something risky.
//! let before = rappel.save(&SaveOptions {
//!     message: Some("About to try skipping normalization".into()),
//!     tags: vec!["experiment".into(), "pre_change".into()],
//!     session: Some(session.to_string()),
//!     ..SaveOptions::default()
//! })?;
//! // A status that changes makes a checkpoint by itself.
//! let done = rappel.record(&session, NewEvent::parse(r#"{"kind": "hypothesis", "id": "norm", "status": "rejected"}"#)?)?;
//! assert_eq!(done.checkpoints.len(), 1);
//!
//! // What was believed then?
//! let query = TemporalQuery { tag_filter: Some("pre_change".into()), ..TemporalQuery::default() };
//! let then = rappel.query_at(&query)?;
//! assert!(then.state.hypotheses.get("norm").is_some_and(|guess| guess.status.is_open()));
//!
//! // Things went wrong: back to it, the code left alone.
//! let reference = before.checkpoint.manifest.id.to_string().parse()?;
//! let (state, _) = rappel.resume_from(&reference, Some(&session))?;
//! assert!(state.state.hypotheses.get("norm").is_some_and(|guess| guess.status.is_open()));
//! # Ok(())
//! # }
//! ```
//!
//! # A program's own board
//!
//! A program that has its own board of hypotheses connects it. Each save takes what the board knows into the session, and a
//! callback may save from any thread: a handle is shared, not owned.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use rappel::types::Trigger;
//! use rappel::types::agents::HypothesisStatus;
//! use rappel::{
//!     AgentState, BoardHypothesis, Connected, ConnectedError, OpenOptions, Rappel, SaveOptions, SessionStart,
//!     TemporalQuery,
//! };
//!
//! type Callback = Box<dyn Fn(&BoardHypothesis) + Send>;
//!
//! #[derive(Clone, Default)]
//! struct Board {
//!     hypotheses: Arc<Mutex<Vec<BoardHypothesis>>>,
//!     on_confirmed: Arc<Mutex<Vec<Callback>>>,
//! }
//!
//! impl Board {
//!     fn set(&self, status: HypothesisStatus) {
//!         let (id, text) = ("norm".into(), "normalization is skipped".into());
//!         let one = BoardHypothesis { id, text, status, ..BoardHypothesis::default() };
//!         *self.hypotheses.lock().unwrap() = vec![one.clone()];
//!         if status == HypothesisStatus::Confirmed {
//!             self.on_confirmed.lock().unwrap().iter().for_each(|callback| callback(&one));
//!         }
//!     }
//! }
//!
//! impl Connected for Board {
//!     fn name(&self) -> &str {
//!         "board"
//!     }
//!     fn snapshot(&self) -> Result<Vec<u8>, ConnectedError> {
//!         let confirmed = |one: &BoardHypothesis| one.status == HypothesisStatus::Confirmed;
//!         Ok(vec![u8::from(self.hypotheses.lock().unwrap().iter().any(confirmed))])
//!     }
//!     fn restore(&self, snapshot: &[u8]) -> Result<(), ConnectedError> {
//!         self.set(if snapshot == [1] { HypothesisStatus::Confirmed } else { HypothesisStatus::Open });
//!         Ok(())
//!     }
//!     fn state(&self) -> Option<AgentState> {
//!         let hypotheses = self.hypotheses.lock().unwrap().clone();
//!         Some(AgentState { hypotheses, ..AgentState::default() })
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (project, home) = (folder.path().join("project"), folder.path().join("home"));
//! # std::fs::create_dir(&project)?;
//! let rappel = Arc::new(Rappel::open(OpenOptions::new(&project, &home))?);
//! let (session, _) = rappel.start_session(SessionStart::default())?;
//! let board = Board::default();
//! rappel.connect(board.clone());
//! board.set(HypothesisStatus::Open);
//!
//! // Manual checkpoint before trying something risky.
//! let before = rappel.save(&SaveOptions {
//!     message: Some("About to try skipping normalization".into()),
//!     tags: vec!["experiment".into(), "pre_change".into()],
//!     session: Some(session.to_string()),
//!     ..SaveOptions::default()
//! })?;
//!
//! // Automatic checkpoint on significant events, wherever they happen.
//! let shared = rappel.clone();
//! board.on_confirmed.lock().unwrap().push(Box::new(move |_| {
//!     shared.auto_checkpoint(Trigger::HypothesisStatusChange).unwrap();
//! }));
//! let worker = board.clone();
//! std::thread::spawn(move || worker.set(HypothesisStatus::Confirmed)).join().unwrap();
//! let confirmed = rappel.find_by_tag("hypothesis_confirmed")?;
//! assert_eq!(confirmed.len(), 1);
//!
//! // Compare before and after.
//! let from = before.checkpoint.manifest.id.to_string().parse()?;
//! let to = confirmed[0].manifest.id.to_string().parse()?;
//! let compared = rappel.compare(&from, &to)?.agents.unwrap();
//! assert_eq!(compared.all.hypothesis_changes.len(), 1);
//!
//! // What was believed then?
//! let query = TemporalQuery { tag_filter: Some("pre_change".into()), ..TemporalQuery::default() };
//! assert!(rappel.query_at(&query)?.state.hypotheses.get("norm").unwrap().status.is_open());
//!
//! // Things went wrong: back to it.
//! board.on_confirmed.lock().unwrap().clear();
//! rappel.resume_from(&from, Some(&session))?;
//! assert!(board.hypotheses.lock().unwrap()[0].status.is_open());
//! # Ok(())
//! # }
//! ```
//!
//! # Checkpoints in a file
//!
//! A checkpoint is written out as one file that needs no home. Later the work goes back to it, and the agent's session goes
//! on from there.
//!
//! ```
//! use rappel::types::agents::NewEvent;
//! use rappel::{ExportOptions, OpenOptions, Rappel, RestoreOptions, SaveOptions, SessionStart};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (project, home) = (folder.path().join("project"), folder.path().join("home"));
//! # let checkpoints = folder.path().join("checkpoints");
//! # std::fs::create_dir(&project)?;
//! # std::fs::create_dir(&checkpoints)?;
//! std::fs::write(project.join("plan.md"), "1. measure")?;
//! let rappel = Rappel::open(OpenOptions::new(&project, &home))?;
//! let (session, _) = rappel.start_session(SessionStart::default())?;
//! rappel.record(&session, NewEvent::parse(r#"{"kind": "thought", "type": "analysis", "text": "measure first"}"#)?)?;
//! let saved = rappel.save(&SaveOptions { session: Some(session.to_string()), ..SaveOptions::default() })?;
//! let reference = saved.checkpoint.manifest.id.to_string().parse()?;
//!
//! // Export: one file, in a folder of the caller's.
//! let options = ExportOptions { place: Some(checkpoints.clone()), ..ExportOptions::new(reference) };
//! let exported = rappel.export(&options)?;
//! assert_eq!(exported.paths, [checkpoints.join(format!("{}.rappel", exported.checkpoints[0]))]);
//! assert!(exported.left_out.is_empty());
//!
//! // Change: the agent goes astray.
//! std::fs::write(project.join("plan.md"), "oops")?;
//! rappel.record(&session, NewEvent::parse(r#"{"kind": "thought", "type": "analysis", "text": "never mind"}"#)?)?;
//!
//! // Restore: the files are back.
//! let reference = exported.checkpoints[0].to_string().parse()?;
//! let plan = rappel.plan_restore(&reference, &RestoreOptions::default())?;
//! rappel.apply(&plan, &RestoreOptions::default())?;
//! assert_eq!(std::fs::read_to_string(project.join("plan.md"))?, "1. measure");
//!
//! // Resume: so is what the agent thought.
//! let (state, _) = rappel.resume_from(&reference, Some(&session))?;
//! assert_eq!(state.state.thought_chain.recent.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Checkpoints at regular times
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use rappel::{OpenOptions, Periodic, PeriodicOptions, Rappel, format_duration, latest_in};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (project, home) = (folder.path().join("project"), folder.path().join("home"));
//! # std::fs::create_dir(&project)?;
//! let rappel = Arc::new(Rappel::open(OpenOptions::new(&project, &home))?);
//! let state_dir = project.join(".aiwg/ralph-external/iterations/001");
//! let periodic = Periodic::new(
//!     rappel,
//!     PeriodicOptions {
//!         state_dir: Some(state_dir.clone()),
//!         interval: Duration::from_secs(15 * 60),
//!         session: Some("session-uuid".into()),
//!         on_checkpoint: Some(Arc::new(|data| println!("checkpoint {}", data.number))),
//!         ..PeriodicOptions::default()
//!     },
//! );
//! periodic.start(None)?;
//! std::fs::write(project.join("login.ts"), "export {}")?;
//! let summary = periodic.stop()?;
//! assert_eq!(summary.total, 2);
//! assert_eq!(summary.files_modified, ["login.ts"]);
//!
//! // After a crash, any program can read what was there.
//! let latest = latest_in(&state_dir)?.unwrap();
//! println!("Duration at crash: {}", format_duration(latest.duration));
//! # Ok(())
//! # }
//! ```

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests hold no database"))]

mod adopt;
mod agents;
mod ancestry;
pub mod answers;
mod bisect;
mod browse;
mod changes;
mod checkpoint;
mod cursor;
mod databases;
mod destructive;
mod diff;
mod doctor;
mod error;
pub mod events;
mod export;
mod git;
mod home;
pub mod hook;
mod import;
mod init;
mod knowledge;
mod labels;
mod lineage;
mod list;
mod log;
mod mistaken;
mod operation;
mod outcomes;
mod patch;
mod prune;
mod rappel;
mod recover;
mod references;
mod replay;
mod report;
mod restore;
mod rollback;
mod run;
mod save;
mod status;
mod timeline;
mod trust;
mod undo;
mod upkeep;
pub mod watch;
mod workspace;

pub use adopt::Adopted;
pub use agents::{
    AgentState, AgentStats, BoardBelief, BoardDependency, BoardEvidence, BoardGap, BoardHypothesis,
    BoardVerification, Connected, ConnectedError, CrashedSession, ExecutionStats, Found,
    FoundEvent, Notice, Recorded, RecoveryPoint, RecoveryStep, SessionStart, SessionView, StateAt,
    TemporalQuery, ToolStats, UnfinishedCall, process_id, process_started, resume_command,
    state_json,
};
pub use bisect::{BisectRequest, Bisected, Candidate, Culprit, CulpritCall, Ran, Tested};
pub use changes::FilesDiff;
pub use checkpoint::Checkpoint;
pub use cursor::Cursor;
pub use destructive::{Commit, DestructiveCommand, LeftOut, SavedBefore};
pub use diff::{
    AgentsCompared, DatabaseDiff, Diff, DiffOptions, FILES_NOT_COMPARED, FileText, GitDiff, Moved,
    NestedDiff, RefDiff, Renamed, RepositoryDiff, SessionDiff, TableDiff,
};
pub use doctor::Check;
pub use error::{Error, ErrorKind, Result, way_out};
pub use export::{ExportFailure, ExportOptions, ExportRange, Exported, LokiWritten};
pub use home::{Home, KnownWorkspace, Workspace};
pub use import::{Arrivals, ImportOptions, Imported};
pub use init::Initialised;
pub use labels::check_tags;
pub use lineage::{Lineage, LineageView};
pub use list::{ListFilter, Listing};
pub use log::{FileChange, FileLog};
pub use outcomes::{FailingCheck, HeldOutcome, Outcomes};
pub use patch::{Choice, PathHunks};
pub use prune::{FirstDeletion, Full, PruneReport, Retention};
pub use rappel::{OpenOptions, Rappel, Variables, Words};
pub use rappel_capture::agents::locate::Surroundings;
pub use rappel_capture::agents::said;
pub use rappel_capture::files::Environment;
pub use rappel_capture::restore::copy_out::Copied;
pub use rappel_formats as formats;
pub use rappel_formats::Form;
pub use rappel_formats::loki::Listed as LokiListed;
pub use rappel_store::ambient;
pub use rappel_store::document::Label;
pub use rappel_store::gc::GcReport;
pub use rappel_store::operation::{Cancel, CancelAnswer, Operation, Phase, Progress, Snapshot};
pub use rappel_store::verify::{Hurt, RepairReport, VerifyReport};
pub use rappel_types as types;
pub use rappel_types::duration::format_duration;
pub use recover::{RecoverOptions, Recovered, SetAside, Unfinished, UnfinishedRestore};
pub use replay::{AgentAt, FilesAt, Replay, ReplayPosition};
pub use report::{Changed, PromptReport, Report, Totals};
pub use restore::{Done, KeptFile, RestoreOptions, RestoreReport, ShownAction, Summary};
pub use rollback::RolledBack;
pub use run::{
    Captured, CheckpointData, CheckpointSummary, Finished, MemorySamples, OnCheckpoint, OomCounter,
    Periodic, PeriodicEvent, PeriodicOptions, ProcessMemory, RunSession, RunStart, RunTotals,
    Stream, Tail, describe_exit, latest_in, memory_of_tree, summary_of,
};
pub use save::{Overtaken, SaveOptions, Saved};
pub use status::{DayStats, Health, LastSaved, Stats, Status, WorkspaceStats};
pub use timeline::{
    ChangedFiles, PagedEntry, Timeline, TimelineEntry, TimelineOptions, TimelinePage,
};
pub use trust::{Answer, Asked, Decision, Shown, Trust, TrustEntry, TrustFile, TrustState, Wanted};
pub use undo::{IgnoredFiles, PromptStep, Step};
pub use upkeep::UpkeepDue;
pub use workspace::{find_root, is_project};

/// The examples of the library's page run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/library.md")]
struct LibraryPage;
