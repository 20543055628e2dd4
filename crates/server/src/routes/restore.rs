//! Going back: restore, rollback, undo, redo. A plan first; then the plan whose hash is sent.

use std::collections::BTreeSet;
use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rappel::answers::{CopyAnswer, UndoAnswer};
use rappel::{Rappel, RestoreOptions, RestoreReport, Step};
use rappel_types::{Facet, RelPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::{Answer, App, json};
use crate::describe::{Endpoint, on_get, on_post};
use crate::extract::{Asked, At, Named, Sent, exactly};
use crate::jobs::JobAnswer;
use crate::problem::Problem;
use crate::values::{parse_list, parse_some};

pub fn endpoints() -> Vec<Endpoint> {
    let restore = "/api/checkpoints/{id}/restore";
    vec![
        on_get(restore, "What restoring a checkpoint would do", plan)
            .query::<PlanQuery>()
            .answers::<RestoreReport>(200),
        on_post(restore, "Restore a checkpoint: the plan, or with its hash the restore", begin)
            .body::<RestoreBody>()
            .answers::<RestoreReport>(200)
            .answers::<JobAnswer>(202),
        on_post("/api/checkpoints/{id}/rollback", "Set agents' state back, code left alone", roll)
            .answers::<RolledBack>(200),
        on_get("/api/undo", "What undo would do", plan_undo).answers::<NextStep<'_>>(200),
        on_post("/api/undo", "Take the last restore back, or go one checkpoint back", undo)
            .body::<StepBody>()
            .answers::<UndoAnswer<'_>>(200)
            .answers::<JobAnswer>(202),
        on_get("/api/redo", "What redo would do", plan_redo).answers::<NextStep<'_>>(200),
        on_post("/api/redo", "Take the last undo back", redo)
            .body::<StepBody>()
            .answers::<UndoAnswer<'_>>(200)
            .answers::<JobAnswer>(202),
    ]
}

/// What to restore.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct PlanQuery {
    /// Only these facets, with commas.
    only: Option<String>,
    /// Not these facets, with commas.
    skip: Option<String>,
    /// Only this file or folder.
    path: Option<String>,
}

/// Declares what a request to go back may say: its own fields, and those of every way back.
macro_rules! way_back {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        #[allow(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
        struct $name {
            $($own)*
            /// Only these facets.
            only: Option<BTreeSet<Facet>>,
            /// Not these facets.
            skip: BTreeSet<Facet>,
            /// Only these files and folders.
            paths: Vec<RelPath>,
            /// Leave these files and folders as they are.
            except: Vec<RelPath>,
            /// Delete refs that were made after the checkpoint.
            prune_refs: bool,
            /// Other work trees to restore, by name; `all` is every one.
            worktrees: Vec<String>,
            /// Only these databases, by name.
            only_databases: Vec<String>,
            /// Disconnect others from databases that they hold.
            terminate_connections: bool,
            /// End other sessions that are running.
            terminate_sessions: bool,
            /// Databases on other machines that may be restored, by name.
            allow_remote_databases: Vec<String>,
            /// Also restore databases whose dump is older than the checkpoint.
            allow_stale: bool,
            /// Commands to restore although what they hold now cannot be saved, by name.
            allow_unsaved: Vec<String>,
            /// Load dumps that came from elsewhere.
            trust_dump: bool,
            /// The session that asks. It is never ended.
            session: Option<String>,
        }

        impl $name {
            fn options(&self) -> Result<RestoreOptions, Problem> {
                let asked = self.clone();
                Ok(RestoreOptions {
                    paths: asked.paths,
                    except: asked.except,
                    only: asked.only,
                    skip: asked.skip,
                    expected: asked.plan,
                    prune_refs: asked.prune_refs,
                    worktrees: asked.worktrees,
                    only_databases: asked.only_databases,
                    terminate_connections: asked.terminate_connections,
                    allow_remote_databases: asked.allow_remote_databases,
                    allow_stale: asked.allow_stale,
                    trust_dump: asked.trust_dump,
                    allow_unsaved: asked.allow_unsaved,
                    terminate_sessions: asked.terminate_sessions,
                    rewound: Vec::new(),
                    own_session: parse_some(asked.session)?,
                })
            }
        }
    };
}

way_back! {
    /// What to restore, and the plan that was seen.
    RestoreBody {
        /// The hash of the plan. Without it, nothing is done and the plan is the answer.
        plan: Option<String>,
        /// Write the files to this folder (new or empty) instead; the workspace is not touched.
        to: Option<PathBuf>,
    }
}

way_back! {
    /// How to take a step, and the plan that was seen.
    StepBody {
        /// The hash of the plan. A step that asks nothing needs none.
        plan: Option<String>,
        /// Also take back paths that were edited since.
        overwrite: bool,
    }
}

async fn plan(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
    Asked(query): Asked<PlanQuery>,
) -> Answer<RestoreReport> {
    let only: Vec<Facet> = parse_list(query.only)?;
    let options = RestoreOptions {
        only: (!only.is_empty()).then(|| only.into_iter().collect()),
        skip: parse_list(query.skip)?.into_iter().collect(),
        paths: parse_some(query.path)?.into_iter().collect(),
        ..RestoreOptions::default()
    };
    app.answer(workspace, move |rappel| Ok(rappel.plan_restore(&reference, &options)?)).await
}

async fn begin(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
    Sent(body): Sent<RestoreBody>,
) -> Result<Response, Problem> {
    let options = body.options()?;
    if let Some(folder) = body.to {
        if !folder.is_absolute() {
            return Err(Problem::malformed("`to` is an absolute path"));
        }
        let job = app.jobs.begin("restore", workspace, move |rappel| {
            let id = rappel.resolve(&reference, true)?.id;
            let copied = rappel.restore_to(&exactly(&id), &folder, &options)?;
            json(&CopyAnswer::new(&id, &folder, &copied))
        })?;
        return Ok((StatusCode::ACCEPTED, Json(job)).into_response());
    }
    let Some(expected) = body.plan else {
        let plan =
            app.answer(workspace, move |rappel| Ok(rappel.plan_restore(&reference, &options)?));
        return Ok(plan.await?.into_response());
    };
    // Whether it is still the plan is found out by the job: it may take long, and is made once.
    if expected.len() != 64 || !expected.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Problem::conflict("`plan` is not the hash of a plan")
            .hint("ask for the plan first, and send its hash"));
    }
    let job = app
        .jobs
        .begin("restore", workspace, move |rappel| Ok(rappel.restore(&reference, &options)?))?;
    Ok((StatusCode::ACCEPTED, Json(app.jobs.planned(job).await?)).into_response())
}

/// What a rollback did, in the words of Loki Mode's dashboard.
#[derive(Debug, Serialize, JsonSchema)]
struct RolledBack {
    /// The checkpoint that the state was set back to.
    id: String,
    /// Whether it was.
    restored: bool,
    /// The checkpoint of what was there before.
    pre_rollback_snapshot: Option<String>,
    /// What was left as it is, and why.
    errors: Vec<String>,
    /// What was done, in a sentence.
    message: String,
}

async fn roll(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
) -> Answer<RolledBack> {
    app.answer(workspace, move |rappel| {
        let report = rappel.rollback(&reference, &RestoreOptions::default())?.report;
        let done = report.done.as_ref();
        Ok(RolledBack {
            id: report.checkpoint.to_string(),
            restored: done.is_some_and(|done| done.recovery_complete),
            pre_rollback_snapshot: done
                .and_then(|done| done.safety_checkpoint.as_ref())
                .map(ToString::to_string),
            errors: report.conflicts.iter().map(|one| one.reason.clone()).collect(),
            message: done
                .map(|done| format!("{} Files and git stay as they are.", done.text))
                .unwrap_or_default(),
        })
    })
    .await
}

/// Finds the next step one way or the other.
type Next = fn(&Rappel, bool) -> rappel::Result<Step>;

const BACK: Next = |rappel, overwrite| rappel.next_undo_over(overwrite);
const FORWARD: Next = |rappel, _| rappel.next_redo();

/// The next step one way or the other, if there is one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum NextStep<'a> {
    Step(UndoAnswer<'a>),
    Nothing {
        /// There is none.
        step: (),
        /// Why.
        hint: String,
    },
}

async fn plan_undo(State(app): State<App>, At(workspace): At) -> Answer<Value> {
    app.answer(workspace, |rappel| next_step(rappel, BACK)).await
}

async fn plan_redo(State(app): State<App>, At(workspace): At) -> Answer<Value> {
    app.answer(workspace, |rappel| next_step(rappel, FORWARD)).await
}

fn next_step(rappel: &Rappel, next: Next) -> Result<Value, Problem> {
    use rappel::Error::{NotThere, Nothing};
    match next(rappel, false) {
        Err(error @ (Nothing { .. } | NotThere { .. })) => {
            json(&NextStep::Nothing { step: (), hint: error.to_string() })
        }
        step => {
            let step = step?;
            let report = rappel.plan_step(&step, false, &RestoreOptions::default())?;
            json(&NextStep::Step(UndoAnswer { step: &step, report: &report }))
        }
    }
}

/// What a step would do, and whether it asks first.
fn planned(rappel: &Rappel, next: Next, body: &StepBody) -> Result<(Value, bool), Problem> {
    let step = next(rappel, body.overwrite)?;
    let report = rappel.plan_step(&step, body.overwrite, &body.options()?)?;
    Ok((json(&UndoAnswer { step: &step, report: &report })?, step.asks))
}

async fn undo(state: State<App>, at: At, body: Sent<StepBody>) -> Result<Response, Problem> {
    take("undo", BACK, state, at, body).await
}

async fn redo(state: State<App>, at: At, body: Sent<StepBody>) -> Result<Response, Problem> {
    take("redo", FORWARD, state, at, body).await
}

/// A step that asks is answered with its plan, unless the plan's hash is sent.
async fn take(
    kind: &'static str,
    next: Next,
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<StepBody>,
) -> Result<Response, Problem> {
    if body.plan.is_none() {
        let asked = body.clone();
        let found = app.ask(workspace.clone(), move |rappel| planned(rappel, next, &asked));
        let (answer, asks) = found.await?;
        if asks {
            return Ok(Json(answer).into_response());
        }
    }
    let options = body.options()?;
    let job = app.jobs.begin(kind, workspace, move |rappel| {
        let step = next(rappel, body.overwrite)?;
        // Something happened since it was seen that this step would ask nothing.
        if step.asks && body.plan.is_none() {
            return Err(rappel::Error::Stepped.into());
        }
        let report = rappel.step(&step, body.overwrite, &options)?;
        json(&UndoAnswer { step: &step, report: &report })
    })?;
    Ok((StatusCode::ACCEPTED, Json(app.jobs.planned(job).await?)).into_response())
}
