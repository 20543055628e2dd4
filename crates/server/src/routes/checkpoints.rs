//! Checkpoints: list, make, show, label, delete.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use rappel::{Label, ListFilter, Rappel, SaveOptions};
use rappel_types::{Facet, Trigger};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::{Answer, App};
use crate::describe::{Endpoint, on_delete, on_get, on_patch, on_post};
use crate::extract::{Asked, At, Named, Sent, path};
use crate::problem::Problem;
use crate::seed::CheckpointEntry;
use crate::values;

pub fn endpoints() -> Vec<Endpoint> {
    let one = "/api/checkpoints/{id}";
    vec![
        on_get("/api/checkpoints", "Checkpoints, newest first", list)
            .query::<ListQuery>()
            .answers::<Vec<CheckpointEntry>>(200),
        on_post("/api/checkpoints", "Make a checkpoint", make)
            .body::<MakeBody>()
            .answers::<CheckpointEntry>(201),
        on_get(one, "One checkpoint", show).answers::<CheckpointEntry>(200),
        on_patch(one, "Describe, tag or pin a checkpoint", label)
            .body::<LabelBody>()
            .answers::<CheckpointEntry>(200),
        on_delete(one, "Delete a checkpoint; for a day it can be brought back", remove)
            .query::<RemoveQuery>()
            .answers::<Removed>(200),
        on_post("/api/checkpoints/{id}/undelete", "Bring a deleted checkpoint back", undelete)
            .answers::<CheckpointEntry>(200),
    ]
}

/// Which checkpoints to list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a parameter of its own")]
pub struct ListQuery {
    /// At most so many, from 1 to 200 [default: 20].
    limit: Option<u64>,
    /// The value of the header `rappel-next` of the page before.
    after: Option<String>,
    /// Only with this tag.
    tag: Option<String>,
    /// Only for this reason.
    trigger: Option<String>,
    /// Only of this session.
    session: Option<String>,
    /// Only from this time on: RFC 3339, or words such as `2 hours ago`.
    since: Option<String>,
    /// Only up to this time.
    until: Option<String>,
    /// Only the first to hold a call of this tool.
    tool: Option<String>,
    /// Only the first to hold an event that says this.
    text: Option<String>,
    /// Only those in which this file or folder changed.
    path: Option<String>,
    /// State-only checkpoints too, instead of counting them.
    all: bool,
    /// Those of every workspace in the home.
    all_workspaces: bool,
    /// Deleted ones that can still be brought back, instead.
    deleted: bool,
    /// None that came from elsewhere.
    own: bool,
}

impl ListQuery {
    /// Whether it leaves nothing out but by its limit.
    fn is_plain(&self) -> bool {
        let Self { limit: _, all: _, all_workspaces: _, own: _, deleted, .. } = self;
        let words = [
            &self.after,
            &self.tag,
            &self.trigger,
            &self.session,
            &self.since,
            &self.until,
            &self.tool,
            &self.text,
            &self.path,
        ];
        !deleted && words.into_iter().all(Option::is_none)
    }

    pub fn filter(self, rappel: &Rappel) -> Result<ListFilter, Problem> {
        let moment = |text: Option<String>, end| {
            text.map(|text| values::moment(&text, rappel, end)).transpose()
        };
        Ok(ListFilter {
            limit: Some(values::limit(self.limit)?),
            after: values::parse_some(self.after)?,
            tag: self.tag,
            trigger: self.trigger.map(|text| values::parse::<Trigger>(&text)).transpose()?,
            since: moment(self.since, false)?,
            until: moment(self.until, true)?,
            session: self.session,
            tool: self.tool,
            text: self.text,
            path: self.path.map(|text| path(&text)).transpose()?,
            all: self.all,
            all_workspaces: self.all_workspaces,
            deleted: self.deleted,
            own: self.own,
        })
    }
}

async fn list(
    State(app): State<App>,
    At(workspace): At,
    Asked(query): Asked<ListQuery>,
) -> Result<(HeaderMap, Json<Vec<CheckpointEntry>>), Problem> {
    let is_filtered = !query.is_plain();
    let listing =
        app.ask(workspace, move |rappel| Ok(rappel.list(&query.filter(rappel)?)?)).await?;
    let mut headers = HeaderMap::new();
    let mut add = |name: &'static str, value: String| {
        // A cursor and a number are plain text.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    };
    add("rappel-total", listing.total.to_string());
    if let Some(next) = listing.next {
        add("rappel-next", next);
    }
    if listing.total == 0 && !is_filtered {
        add("rappel-hint", "POST /api/checkpoints makes the first checkpoint".into());
    }
    let entries = listing.checkpoints.into_iter().map(Into::into).collect();
    Ok((headers, Json(entries)))
}

/// What a new checkpoint should be. Everything may be left out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct MakeBody {
    /// What this moment is, in your words.
    message: Option<String>,
    /// Tags.
    tags: Vec<String>,
    /// Why it is made [default: manual].
    trigger: Option<Trigger>,
    /// The agent session that asks.
    session: Option<String>,
    /// The environment's name.
    environment: Option<String>,
    /// Values to keep with it.
    metadata: BTreeMap<String, Value>,
    /// Only these facets.
    only: Option<BTreeSet<Facet>>,
    /// Not these facets.
    skip: BTreeSet<Facet>,
    /// How many milliseconds to wait for running tool calls, up to a minute [default: 2000 for a
    /// checkpoint by hand].
    wait_ms: Option<u64>,
}

async fn make(
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<MakeBody>,
) -> Result<(StatusCode, Json<CheckpointEntry>), Problem> {
    if body.wait_ms.is_some_and(|wait| wait > 60_000) {
        return Err(Problem::out_of_range("wait_ms is at most 60000"));
    }
    let options = SaveOptions {
        message: body.message,
        tags: body.tags,
        trigger: body.trigger,
        session: body.session,
        environment: body.environment,
        metadata: body.metadata,
        only: body.only,
        skip: body.skip,
        wait: body.wait_ms.map(Duration::from_millis),
        ..SaveOptions::default()
    };
    let tending = workspace.clone();
    let saved = app.ask(workspace, move |rappel| Ok(rappel.save_asked_for(&options)?)).await?;
    App::tend(tending);
    Ok((StatusCode::CREATED, Json(saved.checkpoint.into())))
}

async fn show(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
) -> Answer<CheckpointEntry> {
    app.answer(workspace, move |rappel| Ok(rappel.show(&reference)?.into())).await
}

/// What to change of what is said about a checkpoint.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct LabelBody {
    /// Another message; an empty one takes the message away.
    description: Option<String>,
    /// Tags to add.
    add_tags: Vec<String>,
    /// Tags to take away.
    remove_tags: Vec<String>,
    /// Whether it may not be pruned.
    pinned: Option<bool>,
    /// Values to set; `null` takes one away.
    metadata: BTreeMap<String, Value>,
}

async fn label(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
    Sent(body): Sent<LabelBody>,
) -> Answer<CheckpointEntry> {
    app.answer(workspace, move |rappel| {
        let label = Label {
            add: body.add_tags,
            remove: body.remove_tags,
            pinned: body.pinned,
            description: body.description.map(|text| text.trim().to_owned()),
            metadata: body.metadata,
            ..Label::default()
        };
        Ok(rappel.relabel(&reference, &label)?.into())
    })
    .await
}

/// How to delete.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct RemoveQuery {
    /// It cannot be brought back, and its space is freed at once.
    now: bool,
}

/// What was deleted.
#[derive(Debug, Serialize, JsonSchema)]
struct Removed {
    /// The ids.
    deleted: Vec<String>,
}

async fn remove(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
    Asked(query): Asked<RemoveQuery>,
) -> Answer<Removed> {
    app.answer(workspace, move |rappel| {
        let deleted = rappel.delete(&[reference], query.now)?;
        // They are deleted, whatever becomes of their space.
        if query.now
            && let Err(error) = rappel.free_deleted_for_good()
        {
            tracing::warn!(%error, "the space of deleted checkpoints could not be freed");
        }
        Ok(Removed { deleted: deleted.iter().map(ToString::to_string).collect() })
    })
    .await
}

async fn undelete(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
) -> Answer<CheckpointEntry> {
    app.answer(workspace, move |rappel| Ok(rappel.undelete(&reference.to_string())?.into())).await
}
