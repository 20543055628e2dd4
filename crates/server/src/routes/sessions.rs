//! Agents' sessions: begin, record, recall, report, replay.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use rappel::answers::{RecordAnswer, ReplayStep, SessionAnswer};
use rappel::types::agents::brief::{Brief, DEFAULT_MAX};
use rappel::types::agents::replay::Step;
use rappel::types::agents::{Confidence, HypothesisStatus, NewEvent, SessionId, SessionStatus};
use rappel::types::{CheckpointId, Timestamp};
use rappel::{ErrorKind, Rappel, Report, SessionStart, SessionView, StateAt, TemporalQuery};
use rappel_types::Reference;
use rappel_types::reference::Base;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::looking::ITEMS;
use crate::app::{Answer, App, json};
use crate::describe::{Endpoint, on_get, on_post};
use crate::extract::{Asked, At, OfSession, Sent, reference};
use crate::problem::Problem;
use crate::values::parse;

/// A course has so many points.
const POINTS_MAX: u64 = 160;
/// So many steps of a replay are answered at once.
const STEPS_MAX: usize = 20_000;
/// And so many characters of the detail of each; a single step has all of it.
const DETAIL_MAX: usize = 4_000;

pub fn endpoints() -> Vec<Endpoint> {
    vec![
        on_get("/api/sessions", "Agents' sessions, newest first", list).answers::<Sessions>(200),
        on_post("/api/sessions", "Begin a session", start)
            .body::<StartBody>()
            .answers::<SessionAnswer<'_>>(201),
        on_get("/api/sessions/{id}", "One session", show).answers::<SessionView>(200),
        on_post("/api/sessions/{id}/status", "Pause, resume or end a session", set_status)
            .body::<StatusBody>()
            .answers::<SessionAnswer<'_>>(200),
        on_post("/api/sessions/{id}/events", "Record an event: a thought, a tool call, …", record)
            .body::<EventBody>()
            .answers::<RecordAnswer<'_>>(201),
        on_get("/api/sessions/{id}/recall", "A brief for an agent that lost its context", recall)
            .answers::<Recalled>(200),
        on_get("/api/sessions/{id}/report", "What a run did, prompt by prompt", report)
            .answers::<Report>(200),
        on_get("/api/sessions/{id}/course", "How a session went over time, in numbers", course)
            .answers::<Course>(200),
        on_get("/api/sessions/{id}/replay", "All steps of what happened, read-only", steps)
            .query::<StepsQuery>()
            .answers::<ReplaySteps>(200),
        on_get("/api/sessions/{id}/replay/{n}", "One step of what happened, read-only", replay)
            .query::<ReplayQuery>()
            .answers::<ReplayStep<'_>>(200),
    ]
}

/// The sessions of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
struct Sessions {
    /// The newest first.
    sessions: Vec<SessionView>,
    /// What to do where there is none.
    hint: Option<String>,
}

async fn list(State(app): State<App>, At(workspace): At) -> Answer<Sessions> {
    app.answer(workspace, |rappel| {
        let sessions = rappel.sessions()?;
        let hint = sessions.is_empty().then(|| "POST /api/sessions begins a session".into());
        Ok(Sessions { sessions, hint })
    })
    .await
}

/// What a session is. Everything may be left out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct StartBody {
    /// Its id [default: a new one].
    session: Option<SessionId>,
    /// The agent: `claude`, `codex`, `gemini`, …
    provider: Option<String>,
    /// The task.
    task: Option<String>,
    /// The agent's own id of the conversation.
    conversation_id: Option<String>,
    /// The agent's own id of the session.
    assistant_session_id: Option<String>,
    /// The session that started it.
    parent: Option<SessionId>,
}

async fn start(
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<StartBody>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let answer = app.answer(workspace, move |rappel| {
        let (session, recorded) = rappel.start_session(SessionStart {
            session: body.session,
            provider: body.provider,
            task: body.task,
            conversation_id: body.conversation_id,
            assistant_session_id: body.assistant_session_id,
            parent: body.parent,
            process: None,
        })?;
        json(&SessionAnswer::new(&rappel.session(&session)?, &recorded))
    });
    Ok((StatusCode::CREATED, answer.await?))
}

async fn show(
    State(app): State<App>,
    At(workspace): At,
    OfSession(id): OfSession,
) -> Answer<SessionView> {
    app.answer(workspace, move |rappel| Ok(rappel.session(&id)?)).await
}

/// How the session goes on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatusBody {
    /// `paused`, `running`, `completed` or `failed`.
    status: SessionStatus,
    /// Why it ended.
    #[serde(default)]
    reason: Option<String>,
}

async fn set_status(
    State(app): State<App>,
    At(workspace): At,
    OfSession(id): OfSession,
    Sent(body): Sent<StatusBody>,
) -> Answer<Value> {
    app.answer(workspace, move |rappel| {
        let recorded = match body.status {
            SessionStatus::Paused => rappel.pause_session(&id)?,
            SessionStatus::Running => rappel.resume_session(&id, None)?,
            status => rappel.end_session(&id, status, body.reason)?,
        };
        json(&SessionAnswer::new(&rappel.session(&id)?, &recorded))
    })
    .await
}

/// An event, as `rappel record --stdin` takes it: its `kind`, and what belongs to it.
#[derive(Debug, Deserialize, JsonSchema)]
struct EventBody {
    /// `thought`, `tool`, `hypothesis`, `evidence`, `belief`, `gap`, `verification`, `branch`, `note`,
    /// `command`, `context`.
    kind: String,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

async fn record(
    State(app): State<App>,
    At(workspace): At,
    OfSession(id): OfSession,
    Sent(mut body): Sent<EventBody>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    body.rest.insert("kind".into(), body.kind.into());
    let line = Value::from(body.rest).to_string();
    let event = NewEvent::parse(&line).map_err(|error| Problem::malformed(error.to_string()))?;
    let answer = app.answer(workspace, move |rappel| {
        let recorded = rappel.record(&id, event)?;
        json(&RecordAnswer::new(Some(&id), &recorded))
    });
    Ok((StatusCode::CREATED, answer.await?))
}

/// A brief of what a session knows.
#[derive(Debug, Serialize, JsonSchema)]
struct Recalled {
    #[serde(flatten)]
    brief: Brief,
    /// All of it as a text for the agent.
    text: String,
}

async fn recall(
    State(app): State<App>,
    At(workspace): At,
    OfSession(id): OfSession,
) -> Answer<Recalled> {
    app.answer(workspace, move |rappel| {
        let brief = rappel.recall(&id)?;
        let text = brief.to_text(DEFAULT_MAX);
        Ok(Recalled { brief, text })
    })
    .await
}

async fn report(
    State(app): State<App>,
    At(workspace): At,
    OfSession(id): OfSession,
) -> Answer<Report> {
    app.answer(workspace, move |rappel| Ok(rappel.report(Some(&id))?)).await
}

/// How a session went over time.
#[derive(Debug, Serialize, JsonSchema)]
struct Course {
    /// The agent's own command that resumes the session; `null` if Rappel does not know it.
    resume: Option<String>,
    /// Moments of the session, oldest first: every event of a short session, some of a long one.
    points: Vec<CoursePoint>,
}

/// What a session had reached after an event.
#[derive(Debug, Serialize, JsonSchema)]
struct CoursePoint {
    /// The event's number.
    event: u64,
    /// When it happened.
    at: Option<Timestamp>,
    /// The step that the session was at.
    step_number: u64,
    /// What the session said about that step.
    step: Option<String>,
    /// The tokens that it had used.
    tokens: u64,
    /// The tool calls that it had made.
    tool_calls: u64,
    /// How many of those had failed.
    failed_tool_calls: u64,
    /// The hypotheses as they stood.
    hypotheses: Vec<HypothesisPoint>,
}

/// How sure a session was of a hypothesis.
#[derive(Debug, Serialize, JsonSchema)]
struct HypothesisPoint {
    /// The hypothesis.
    id: String,
    /// How sure the session was.
    confidence: Confidence,
    /// What had become of it.
    status: HypothesisStatus,
    /// When it last changed.
    updated_at: Timestamp,
}

async fn course(
    State(app): State<App>,
    At(workspace): At,
    OfSession(id): OfSession,
) -> Answer<Course> {
    app.answer(workspace, move |rappel| {
        let view = rappel.session(&id)?;
        let last = rappel.state_now(&id, 0)?.position.event;
        let mut points = Vec::new();
        for event in spread(last, POINTS_MAX) {
            let query = TemporalQuery {
                event: Some(event),
                session: Some(id.clone()),
                ..TemporalQuery::default()
            };
            match rappel.query_at_most(&query, 0) {
                Ok(found) => points.push(CoursePoint::of(&found)),
                // Numbers may be missing in a journal that came from elsewhere.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Course { resume: rappel::resume_command(&view).map(|words| words.join(" ")), points })
    })
    .await
}

impl CoursePoint {
    fn of(found: &StateAt) -> Self {
        let progress = &found.state.progress;
        let hypotheses = found.state.hypotheses.iter().map(|one| HypothesisPoint {
            id: one.id.clone(),
            confidence: one.confidence,
            status: one.status,
            updated_at: one.updated_at,
        });
        Self {
            event: found.position.event,
            at: found.at,
            step_number: progress.step_number,
            step: progress.text.clone(),
            tokens: progress.tokens.total(),
            tool_calls: progress.total_tool_calls,
            failed_tool_calls: progress.failed_tool_calls,
            hypotheses: hypotheses.collect(),
        }
    }
}

/// At most so many numbers from 1 to `last`, evenly spread, with both ends.
fn spread(last: u64, most: u64) -> Vec<u64> {
    if last <= most {
        return (1..=last).collect();
    }
    (0..most).map(|place| 1 + place * (last - 1) / (most - 1)).collect()
}

/// Of which past.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct StepsQuery {
    /// The checkpoint whose past is replayed [default: the newest that holds the session].
    checkpoint: Option<String>,
}

/// Everything that led to a checkpoint.
#[derive(Debug, Serialize, JsonSchema)]
struct ReplaySteps {
    /// Always true: a replay changes nothing.
    read_only: bool,
    /// The checkpoint that the steps lead to.
    checkpoint: CheckpointId,
    /// How many steps there are.
    total: usize,
    /// The newest steps, oldest first. A long detail is cut.
    steps: Vec<Step>,
}

async fn steps(
    State(app): State<App>,
    At(workspace): At,
    OfSession(id): OfSession,
    Asked(query): Asked<StepsQuery>,
) -> Answer<ReplaySteps> {
    let named = query.checkpoint.map(|text| reference(&text)).transpose()?;
    app.answer(workspace, move |rappel| {
        let reference = match named {
            Some(reference) => reference,
            None => newest_with(rappel, &id)?,
        };
        let replay = rappel.replay(&reference, Some(&id))?;
        let (checkpoint, total) = (replay.checkpoint.manifest.id.clone(), replay.steps.len());
        let newest = replay.steps.into_iter().skip(total.saturating_sub(STEPS_MAX));
        let cut = |mut step: Step| {
            if let Some((end, _)) = step.detail.char_indices().nth(DETAIL_MAX) {
                step.detail.truncate(end);
                step.detail.push('…');
            }
            step
        };
        Ok(ReplaySteps { read_only: true, checkpoint, total, steps: newest.map(cut).collect() })
    })
    .await
}

/// What of a step.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ReplayQuery {
    /// The checkpoint whose past is replayed [default: the newest that holds the session].
    checkpoint: Option<String>,
    /// The agents that were at work there.
    agents: bool,
    /// What the session knew there.
    memory: bool,
    /// The files that were there.
    files: bool,
}

async fn replay(
    State(app): State<App>,
    At(workspace): At,
    Path((id, n)): Path<(String, String)>,
    Asked(query): Asked<ReplayQuery>,
) -> Answer<Value> {
    let (id, number): (SessionId, usize) = (parse(&id)?, parse(&n)?);
    let named = query.checkpoint.map(|text| reference(&text)).transpose()?;
    app.answer(workspace, move |rappel| {
        let reference = match named {
            Some(reference) => reference,
            None => newest_with(rappel, &id)?,
        };
        let replay = rappel.replay(&reference, Some(&id))?;
        json(&replay.answer(number, query.agents, query.memory.then_some(ITEMS), query.files)?)
    })
    .await
}

/// The newest checkpoint that holds a session.
fn newest_with(rappel: &Rappel, session: &SessionId) -> Result<Reference, Problem> {
    let found = rappel.newest_holding(session)?;
    let found = found.ok_or_else(|| {
        Problem::unknown(format!("no checkpoint holds session {session} yet"))
            .hint("POST /api/checkpoints makes one")
    })?;
    Ok(Reference::new(Base::Id(found)))
}
