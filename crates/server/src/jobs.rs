//! Long work that a request begins and does not wait for.
//!
//! A job lives in this process: it ends with the server. What a killed one leaves is what any killed
//! process leaves (an unfinished restore shows as such).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use rappel::types::Timestamp;
use rappel::{CancelAnswer, Operation, Snapshot, Workspace};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::events::Hub;
use crate::problem::{Problem, Told};

/// So many jobs that ended are remembered.
const REMEMBERED: usize = 100;
/// Results may be long: only so many of the newest are remembered.
const RESULTS: usize = 8;
/// So many run at once.
const RUNNING_MAX: usize = 16;
/// A restore that has not found out within this time whether its plan still holds is answered as a
/// job.
const PLAN_TIME: Duration = Duration::from_secs(5);
/// How often that is looked at.
const PLAN_LOOK: Duration = Duration::from_millis(5);

/// A job, as it is now.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct JobAnswer {
    /// Its id.
    pub id: String,
    /// What it does: `restore`, `undo`, `redo`, `verify`, `gc`, `prune`, `import`.
    pub kind: String,
    /// How it stands.
    pub state: JobState,
    /// How far it is, while it runs.
    pub progress: Option<Snapshot>,
    /// What came of it: the answer that the same work has elsewhere. Lists and events leave it out,
    /// and only the newest jobs still have it.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<Told>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It runs.
    Running,
    /// It was asked to stop, and will.
    Cancelling,
    /// It is done.
    Done,
    /// It failed.
    Failed,
    /// It stopped because it was asked to, and took back what it had done. Of a restore, the safety
    /// checkpoint stays; a `recover` that was stopped is to be asked for again.
    Cancelled,
}

/// All jobs of a server.
#[derive(Clone)]
pub struct Jobs {
    all: Arc<Mutex<BTreeMap<u64, Job>>>,
    hub: Hub,
    /// The server ends. Set with `all` locked, so that no job begins behind it.
    ends: Arc<AtomicBool>,
}

struct Job {
    answer: JobAnswer,
    operation: Operation,
    /// The status that its error has where a request is answered with it.
    status: StatusCode,
}

impl Jobs {
    pub fn new(hub: Hub) -> Self {
        Self { all: Arc::default(), hub, ends: Arc::default() }
    }

    /// Begins a job: `work` gets the workspace as it is then.
    pub fn begin<T: Serialize>(
        &self,
        kind: &str,
        workspace: Workspace,
        work: impl FnOnce(&rappel::Rappel) -> Result<T, Problem> + Send + 'static,
    ) -> Result<JobAnswer, Problem> {
        let operation = Operation::default();
        let (number, answer) = self.add(kind, operation.clone())?;
        let jobs = self.clone();
        let name = format!("rappel-{kind}");
        let begun = std::thread::Builder::new().name(name).spawn(move || {
            let watched = jobs.hub.watch_job(number, jobs.clone());
            let done = workspace
                .now_for(operation)
                .map_err(Problem::from)
                .and_then(|rappel| work(&rappel));
            drop(watched);
            jobs.end(number, done);
        });
        if let Err(error) = begun {
            locked(&self.all).remove(&number);
            return Err(Problem::broken(format!("no thread could be started: {error}")));
        }
        Ok(answer)
    }

    fn add(&self, kind: &str, operation: Operation) -> Result<(u64, JobAnswer), Problem> {
        let mut all = locked(&self.all);
        if self.ends.load(Ordering::Relaxed) {
            return Err(Problem::of(StatusCode::CONFLICT, "busy", "the server ends"));
        }
        let running = all.values().filter(|job| job.answer.ended_at.is_none()).count();
        if running >= RUNNING_MAX {
            let message = format!("{running} jobs are running already");
            return Err(Problem::of(StatusCode::CONFLICT, "busy", message));
        }
        while all.len() >= REMEMBERED + RUNNING_MAX {
            let oldest = all.iter().find(|(_, job)| job.answer.ended_at.is_some());
            let Some((&oldest, _)) = oldest else { break };
            all.remove(&oldest);
        }
        let number = all.keys().next_back().map_or(1, |last| last + 1);
        let answer = JobAnswer {
            id: format!("job_{number}"),
            kind: kind.into(),
            state: JobState::Running,
            progress: None,
            result: None,
            error: None,
            started_at: now(),
            ended_at: None,
        };
        all.insert(number, Job { answer: answer.clone(), operation, status: StatusCode::OK });
        Ok((number, answer))
    }

    fn end<T: Serialize>(&self, number: u64, done: Result<T, Problem>) {
        let result = done.as_ref().ok().and_then(|done| serde_json::to_value(done).ok());
        let ended = {
            let mut all = locked(&self.all);
            let Some(job) = all.get_mut(&number) else { return };
            let answer = &mut job.answer;
            answer.ended_at = Some(now());
            match done {
                Ok(_) => answer.state = JobState::Done,
                Err(problem) => {
                    job.status = problem.status;
                    answer.state = match problem.cancelled {
                        true => JobState::Cancelled,
                        false => JobState::Failed,
                    };
                    answer.error = Some(problem.error);
                }
            }
            let ended = answer.clone();
            answer.result = result;
            let with_results = all.values_mut().rev().filter(|job| job.answer.result.is_some());
            with_results.skip(RESULTS).for_each(|job| job.answer.result = None);
            ended
        };
        self.hub.tell_job(&ended);
    }

    /// Waits, for a while, until a restore has compared its plan with the one that was sent. If it
    /// fails before it has changed anything, the request fails with it.
    pub async fn planned(&self, begun: JobAnswer) -> Result<JobAnswer, Problem> {
        let start = Instant::now();
        loop {
            let now = self.get(&begun.id)?;
            let (is_planning, status) = self.is_planning(&begun.id)?;
            match now.error {
                Some(error) if is_planning && now.state == JobState::Failed => {
                    return Err(Problem { status, error, cancelled: false });
                }
                None if is_planning && now.ended_at.is_none() && start.elapsed() < PLAN_TIME => {
                    tokio::time::sleep(PLAN_LOOK).await;
                }
                _ => return Ok(now),
            }
        }
    }

    /// Whether a job has changed nothing yet, and the status of its error if it has ended.
    fn is_planning(&self, id: &str) -> Result<(bool, StatusCode), Problem> {
        use rappel::Phase::{Looking, Planning, ReadingDatabases, ReadingFiles, Starting};
        let all = locked(&self.all);
        let job = number_of(id).and_then(|number| all.get(&number)).ok_or_else(|| no_job(id))?;
        let phase = job.operation.progress.snapshot().phase;
        let planning = [Starting, Looking, ReadingFiles, ReadingDatabases, Planning];
        Ok((planning.contains(&phase), job.status))
    }

    /// All of them, the newest first, without what came of them.
    pub fn list(&self) -> Vec<JobAnswer> {
        let all = locked(&self.all);
        all.values().rev().map(Job::without_result).collect()
    }

    /// One job as it is now.
    pub fn get(&self, id: &str) -> Result<JobAnswer, Problem> {
        let all = locked(&self.all);
        let job = number_of(id).and_then(|number| all.get(&number));
        job.map(Job::now).ok_or_else(|| no_job(id))
    }

    /// One job by its number, for its watcher.
    pub(crate) fn numbered(&self, number: u64) -> Option<JobAnswer> {
        locked(&self.all).get(&number).map(Job::without_result)
    }

    /// Asks a job to stop. A restore whose first database is committed goes on to its end.
    pub fn cancel(&self, id: &str) -> Result<JobAnswer, Problem> {
        let mut all = locked(&self.all);
        let job = number_of(id).and_then(|number| all.get_mut(&number));
        let job = job.ok_or_else(|| no_job(id))?;
        if job.answer.ended_at.is_some() {
            return Err(Problem::conflict(format!("{id} has ended")));
        }
        if job.operation.cancel.request() == CancelAnswer::TooLate {
            let kind = &job.answer.kind;
            let late =
                Problem::conflict(format!("it is too late to cancel: {kind} is almost done"));
            return Err(match kind.as_str() {
                "restore" | "undo" => late.hint("let it finish, then POST /api/undo"),
                "redo" => late.hint("let it finish, then POST /api/undo takes it back"),
                _ => late,
            });
        }
        job.answer.state = JobState::Cancelling;
        Ok(job.now())
    }

    /// Asks all of them to stop, and lets no other begin: the server ends.
    pub fn cancel_all(&self) {
        let all = locked(&self.all);
        self.ends.store(true, Ordering::Relaxed);
        for job in all.values() {
            let _ = job.operation.cancel.request();
        }
    }

    /// Whether none is running.
    pub fn are_done(&self) -> bool {
        locked(&self.all).values().all(|job| job.answer.ended_at.is_some())
    }
}

impl Job {
    fn now(&self) -> JobAnswer {
        JobAnswer { result: self.answer.result.clone(), ..self.without_result() }
    }

    fn without_result(&self) -> JobAnswer {
        let JobAnswer { id, kind, state, error, started_at, ended_at, .. } = &self.answer;
        JobAnswer {
            id: id.clone(),
            kind: kind.clone(),
            state: *state,
            progress: ended_at.is_none().then(|| self.operation.progress.snapshot()),
            result: None,
            error: error.clone(),
            started_at: *started_at,
            ended_at: *ended_at,
        }
    }
}

fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix("job_")?.parse().ok()
}

fn no_job(id: &str) -> Problem {
    Problem::unknown(format!("there is no job {id}")).hint("GET /api/jobs lists them")
}

fn now() -> Timestamp {
    use rappel::ambient::{Clock, SystemClock};
    SystemClock.now()
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
