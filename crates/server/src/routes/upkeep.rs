//! Upkeep: health, space, long checks, unfinished restores, what is trusted.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rappel::answers::{PruneAnswer, RevokedAnswer};
use rappel::{
    Adopted, Answer as Decided, Check, GcReport, Initialised, KnownWorkspace, Lineage,
    RecoverOptions, SetAside, Stats, Status, Trust, Unfinished,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::advice;
use crate::app::{Answer, App, blocking, json};
use crate::describe::{Endpoint, on_delete, on_get, on_post};
use crate::extract::{At, Sent, reference};
use crate::jobs::JobAnswer;
use crate::problem::Problem;

pub fn endpoints() -> Vec<Endpoint> {
    vec![
        on_get("/api/status", "Protected, degraded or unprotected, and why", status)
            .answers::<Status>(200),
        on_get("/api/stats", "Space, tokens, tools", stats).answers::<Stats>(200),
        on_get("/api/workspaces", "Every workspace of the home", workspaces)
            .answers::<Vec<KnownWorkspace>>(200),
        on_get("/api/lineages", "Histories that came from elsewhere", lineages)
            .answers::<Vec<Lineage>>(200),
        on_get("/api/doctor", "What could be wrong with the set-up", doctor)
            .answers::<Vec<Check>>(200),
        on_post("/api/init", "Write a rappel.toml for what is found", init)
            .answers::<Initialised>(201),
        on_post("/api/adopt", "Take over the history of a folder that was moved", adopt)
            .body::<AdoptBody>()
            .answers::<Adopted>(200),
        on_get("/api/trust", "What rappel.toml would run or reach", trust).answers::<Trust>(200),
        on_post("/api/trust", "Allow or refuse what was shown", decide)
            .body::<TrustBody>()
            .answers::<Trust>(200),
        on_delete("/api/trust", "Forget what was allowed and refused", revoke)
            .answers::<RevokedAnswer>(200),
        on_get("/api/recover", "Unfinished restores and crashed sessions", unfinished)
            .answers::<Unfinished>(200),
        on_post("/api/recover", "Finish an unfinished restore, or take it back", recover)
            .body::<RecoverBody>()
            .answers::<SetAside>(200)
            .answers::<JobAnswer>(202),
        on_post("/api/verify", "Read and check everything, or one checkpoint", verify)
            .body::<VerifyBody>()
            .answers::<JobAnswer>(202),
        on_post("/api/prune", "Delete old checkpoints by the retention policy", prune)
            .body::<PruneBody>()
            .answers::<PruneAnswer<'_>>(200)
            .answers::<JobAnswer>(202),
        on_post("/api/gc", "Free what nothing needs any more", gc)
            .body::<GcBody>()
            .answers::<GcReport>(200)
            .answers::<JobAnswer>(202),
        on_get("/api/jobs", "Jobs of this server, newest first", jobs)
            .answers::<Vec<JobAnswer>>(200),
        on_get("/api/jobs/{id}", "How a job stands", job).answers::<JobAnswer>(200),
        on_delete("/api/jobs/{id}", "Cancel a job", cancel).answers::<JobAnswer>(202),
    ]
}

async fn status(State(app): State<App>, At(workspace): At) -> Answer<Status> {
    let installed = app.installed.clone();
    app.answer(workspace, move |rappel| {
        let mut status = rappel.status()?;
        rappel.judge_integrations(&mut status, &installed(rappel))?;
        status.hints = status.advice.iter().map(advice::word).collect();
        status.hints.retain(|hint| !hint.is_empty());
        Ok(status)
    })
    .await
}

async fn stats(State(app): State<App>, At(workspace): At) -> Answer<Stats> {
    app.answer(workspace, |rappel| Ok(rappel.stats()?)).await
}

async fn workspaces(State(app): State<App>) -> Answer<Vec<KnownWorkspace>> {
    let home = app.home.clone();
    blocking(move || Ok(home.workspaces()?)).await.map(Json)
}

async fn lineages(State(app): State<App>, At(workspace): At) -> Answer<Vec<Lineage>> {
    app.answer(workspace, |rappel| Ok(rappel.lineages()?)).await
}

async fn doctor(State(app): State<App>, At(workspace): At) -> Answer<Vec<Check>> {
    let installed = app.installed.clone();
    app.answer(workspace, move |rappel| {
        let mut checks = rappel.doctor()?;
        let found = rappel.integrations(&installed(rappel))?;
        checks.extend(found.iter().map(Check::of_integration));
        for check in &mut checks {
            check.hint = advice::sentence(&check.advice);
        }
        Ok(checks)
    })
    .await
}

async fn init(
    State(app): State<App>,
    At(workspace): At,
) -> Result<(StatusCode, Json<Initialised>), Problem> {
    let written = app.answer(workspace, |rappel| Ok(rappel.init()?)).await?;
    Ok((StatusCode::CREATED, written))
}

/// Which history.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AdoptBody {
    /// The folder that it was, or the workspace's id.
    old: String,
}

async fn adopt(
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<AdoptBody>,
) -> Answer<Adopted> {
    app.answer(workspace, move |rappel| Ok(rappel.adopt(&body.old)?)).await
}

async fn trust(State(app): State<App>, At(workspace): At) -> Answer<Trust> {
    app.answer(workspace, |rappel| Ok(rappel.trust())).await
}

/// What is allowed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TrustBody {
    /// The hash of what was shown.
    hash: String,
    /// `allowed` or `refused`.
    answer: Decided,
}

async fn decide(
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<TrustBody>,
) -> Answer<Trust> {
    app.answer(workspace, move |rappel| {
        let shown = rappel.trust();
        if shown.hash.as_ref() != Some(&body.hash) {
            return Err(Problem::conflict("rappel.toml asks for something else by now")
                .hint("GET /api/trust shows it"));
        }
        rappel.decide(&shown, body.answer)?;
        Ok(rappel.trust())
    })
    .await
}

async fn revoke(State(app): State<App>, At(workspace): At) -> Answer<RevokedAnswer> {
    app.answer(workspace, |rappel| Ok(RevokedAnswer { revoked: rappel.revoke_trust()? })).await
}

async fn unfinished(State(app): State<App>, At(workspace): At) -> Answer<Unfinished> {
    app.answer(workspace, |rappel| Ok(rappel.unfinished()?)).await
}

/// How to end an unfinished restore: with `finish` or `set_aside`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RecoverBody {
    /// Carry it on to its end (`true`), or take it back (`false`).
    finish: Option<bool>,
    /// Set its plan aside, where that cannot be read any more. The present is saved first.
    set_aside: bool,
    /// Finish it without the databases that are not restored yet.
    skip_databases: bool,
    /// Disconnect others from databases that they hold.
    terminate_connections: bool,
}

async fn recover(
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<RecoverBody>,
) -> Result<Response, Problem> {
    let finish = match (body.finish, body.set_aside) {
        (Some(finish), false) => finish,
        (None, true) => {
            return Ok(app
                .answer(workspace, |rappel| Ok(rappel.set_aside()?))
                .await?
                .into_response());
        }
        _ => return Err(Problem::malformed("send either `finish` or `set_aside`")),
    };
    let options = RecoverOptions {
        finish,
        skip_databases: body.skip_databases,
        terminate_connections: body.terminate_connections,
    };
    accepted(app.jobs.begin("recover", workspace, move |rappel| Ok(rappel.recover(&options)?)))
}

/// What to check.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct VerifyBody {
    /// Only this checkpoint.
    checkpoint: Option<String>,
    /// Bring back what other records or the workspace still have. Removes nothing.
    repair: bool,
}

async fn verify(
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<VerifyBody>,
) -> Result<Response, Problem> {
    let named = body.checkpoint.map(|text| reference(&text)).transpose()?;
    if body.repair {
        if named.is_some() {
            return Err(Problem::malformed("a repair is of everything, not of one checkpoint"));
        }
        return accepted(app.jobs.begin("repair", workspace, |rappel| Ok(rappel.repair()?)));
    }
    accepted(app.jobs.begin("verify", workspace, move |rappel| Ok(rappel.verify(named.as_ref())?)))
}

/// What to delete.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PruneBody {
    /// Show what would go, and why, and delete nothing.
    dry_run: bool,
    /// Instead of the policy, keep the newest so many.
    keep_last: Option<u64>,
    /// Instead of the policy, keep those under so many days old.
    keep_days: Option<u64>,
    /// Apply the policy to manual checkpoints too.
    include_manual: bool,
    /// They cannot be brought back, and the next gc frees their space.
    now: bool,
}

async fn prune(
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<PruneBody>,
) -> Result<Response, Problem> {
    let (dry_run, now) = (body.dry_run, body.now);
    let plan = move |rappel: &rappel::Rappel| {
        let policy = rappel.policy(body.keep_last, body.keep_days, body.include_manual)?;
        rappel.plan_prune(&policy, now)
    };
    if dry_run {
        let answer =
            app.answer(workspace, move |rappel| json(&PruneAnswer::from(&plan(rappel)?))).await?;
        return Ok(answer.into_response());
    }
    accepted(app.jobs.begin("prune", workspace, move |rappel| {
        json(&PruneAnswer::from(&rappel.prune(plan(rappel)?, now)?))
    }))
}

/// What to free.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct GcBody {
    /// Show what would be freed, and free nothing.
    dry_run: bool,
    /// Free all that was deleted, without waiting out the day of grace.
    now: bool,
}

async fn gc(
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<GcBody>,
) -> Result<Response, Problem> {
    let collect = move |rappel: &rappel::Rappel| match body.now {
        true => rappel.gc_deleted(body.dry_run),
        false => rappel.gc(false, body.dry_run),
    };
    if body.dry_run {
        let answer = app.answer(workspace, move |rappel| Ok(collect(rappel)?)).await?;
        return Ok(answer.into_response());
    }
    accepted(app.jobs.begin("gc", workspace, move |rappel| Ok(collect(rappel)?)))
}

async fn jobs(State(app): State<App>) -> Json<Vec<JobAnswer>> {
    Json(app.jobs.list())
}

async fn job(State(app): State<App>, Path(id): Path<String>) -> Answer<JobAnswer> {
    app.jobs.get(&id).map(Json)
}

async fn cancel(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Problem> {
    accepted(app.jobs.cancel(&id))
}

/// A job that goes on.
pub fn accepted(job: Result<JobAnswer, Problem>) -> Result<Response, Problem> {
    Ok((StatusCode::ACCEPTED, Json(job?)).into_response())
}
