//! Looking: compare, timeline, what was known, what happened where.

use axum::extract::{Path, State};
use rappel::answers::AtAnswer;
use rappel::{
    Diff, DiffOptions, FileLog, Found, ListFilter, Outcomes, Rappel, RecoveryPoint, TemporalQuery,
    TimelineOptions, TimelinePage,
};
use rappel_types::{Facet, RelPath, When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checkpoints::ListQuery;
use crate::advice;
use crate::app::{Answer, App};
use crate::describe::{Endpoint, on_get};
use crate::extract::{Asked, At, Named, path, reference};
use crate::problem::Problem;
use crate::values::{self, parse_list, parse_some};

/// So many items of each long list are answered.
pub const ITEMS: u64 = 1_000;
/// The lines of so many files are answered.
const TEXTS_MAX: usize = 300;
/// And so many bytes of each.
const TEXT_MAX: usize = 1 << 20;
/// So many checkpoints of the graph are answered at once.
const TIMELINE_MAX: u64 = 1_000;

pub fn endpoints() -> Vec<Endpoint> {
    vec![
        on_get("/api/diff", "What changed since a checkpoint, or between two", diff)
            .query::<DiffQuery>()
            .answers::<DiffAnswer>(200),
        on_get("/api/timeline", "Checkpoints as a graph", timeline)
            .query::<TimelineQuery>()
            .answers::<TimelinePage>(200),
        on_get("/api/at", "What an agent knew at a time", at)
            .query::<AtQuery>()
            .answers::<AtAnswer>(200),
        on_get("/api/find", "The checkpoints where something holds, and the events", find)
            .query::<ListQuery>()
            .answers::<Found>(200),
        on_get("/api/outcomes", "What fails now, and how checks and tool calls ended", outcomes)
            .query::<OutcomesQuery>()
            .answers::<Outcomes>(200),
        on_get("/api/log/{*path}", "Who changed a file or folder when", log)
            .query::<LogQuery>()
            .answers::<FileLog>(200),
        on_get("/api/checkpoints/{id}/state", "What a checkpoint's sessions knew", state)
            .answers::<Vec<AtAnswer>>(200),
        on_get(
            "/api/checkpoints/{id}/recovery",
            "What a person or program would do to get back to a checkpoint",
            recovery,
        )
        .answers::<RecoveryPoint>(200),
    ]
}

/// What to compare.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DiffQuery {
    /// The checkpoint to compare from [default: latest].
    from: Option<String>,
    /// The checkpoint to compare with [default: the workspace as it is now].
    to: Option<String>,
    /// Only this file or folder.
    path: Option<String>,
    /// Only these facets, with commas.
    only: Option<String>,
    /// Of the agents, only this session.
    session: Option<String>,
    /// Answer the lines that differ too.
    text: bool,
}

/// What differs, and the lines if they were asked for.
#[derive(Debug, Serialize, JsonSchema)]
struct DiffAnswer {
    #[serde(flatten)]
    diff: Diff,
    /// The files that differ, with their lines; `null` if they were not asked for.
    texts: Option<Vec<Text>>,
    /// Whether there are more files than `texts` has.
    more_texts: bool,
}

/// How a file differs.
#[derive(Debug, Serialize, JsonSchema)]
struct Text {
    /// The file.
    path: RelPath,
    /// Where it was before, if it was renamed.
    from: Option<RelPath>,
    /// A unified diff; `null` where there are no lines to compare, or too many.
    #[allow(clippy::struct_field_names, reason = "it is the name of the answer's key")]
    text: Option<String>,
    /// Lines that are new.
    added: Option<usize>,
    /// Lines that are gone.
    removed: Option<usize>,
}

async fn diff(
    State(app): State<App>,
    At(workspace): At,
    Asked(query): Asked<DiffQuery>,
) -> Answer<DiffAnswer> {
    let from = reference(query.from.as_deref().unwrap_or("latest"))?;
    let to = query.to.map(|text| reference(&text)).transpose()?;
    let options = DiffOptions {
        paths: query.path.map(|text| path(&text)).transpose()?.into_iter().collect(),
        only: parse_list::<Facet>(query.only)?,
        session: parse_some(query.session)?,
    };
    app.answer(workspace, move |rappel| {
        let diff = rappel.diff(&from, to.as_ref(), &options)?;
        let mut texts = Vec::new();
        if query.text {
            texts = lines(rappel, &diff)?;
        }
        let more_texts = texts.len() > TEXTS_MAX;
        texts.truncate(TEXTS_MAX);
        Ok(DiffAnswer { diff, texts: query.text.then_some(texts), more_texts })
    })
    .await
}

fn lines(rappel: &Rappel, diff: &Diff) -> Result<Vec<Text>, Problem> {
    let mut texts = Vec::new();
    rappel.diff_text(diff, &mut |file| {
        if texts.len() <= TEXTS_MAX {
            texts.push(Text {
                path: file.path,
                from: file.from,
                text: file.text.filter(|text| text.len() <= TEXT_MAX),
                added: file.lines.map(|(added, _)| added),
                removed: file.lines.map(|(_, removed)| removed),
            });
        }
    })?;
    Ok(texts)
}

/// How much of the graph.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct TimelineQuery {
    /// At most so many checkpoints, from 1 to 1000 [default: 20].
    limit: Option<u64>,
    /// Only those behind this checkpoint: `next` of the page before.
    after: Option<String>,
    /// State-only checkpoints too, instead of counting them.
    all: bool,
}

async fn timeline(
    State(app): State<App>,
    At(workspace): At,
    Asked(query): Asked<TimelineQuery>,
) -> Answer<TimelinePage> {
    let limit = query.limit.unwrap_or(20);
    if !(1..=TIMELINE_MAX).contains(&limit) {
        return Err(Problem::out_of_range(format!("limit is from 1 to {TIMELINE_MAX}")));
    }
    let limit = usize::try_from(limit).ok();
    let options = TimelineOptions { limit, all: query.all };
    let after = query.after;
    app.answer(workspace, move |rappel| Ok(rappel.timeline_page(&options, after.as_deref())?)).await
}

/// Which moment. A time beats a number, a number beats a checkpoint. A tag says which checkpoints
/// count.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct AtQuery {
    /// `now`, RFC 3339, or words such as `2 hours ago`.
    when: Option<String>,
    /// The session [default: the newest that runs, else the last one].
    session: Option<String>,
    /// As the checkpoint with this number has it.
    sequence: Option<u64>,
    /// After the event with this number.
    event: Option<u64>,
    /// As this checkpoint has it.
    checkpoint: Option<String>,
    /// As the newest checkpoint with this tag has it.
    tag: Option<String>,
}

async fn at(
    State(app): State<App>,
    At(workspace): At,
    Asked(query): Asked<AtQuery>,
) -> Answer<AtAnswer> {
    let session = parse_some(query.session)?;
    let checkpoint = query.checkpoint.map(|text| reference(&text)).transpose()?;
    app.answer(workspace, move |rappel| {
        let is_now = |text: &String| When::parse(text).is_ok_and(|when| when.is_now());
        let now = query.when.as_ref().is_some_and(is_now);
        let timestamp = query.when.map(|text| values::moment(&text, rappel, true)).transpose()?;
        let found = rappel.query_at_most(
            &TemporalQuery {
                timestamp,
                sequence_number: query.sequence,
                event: query.event,
                checkpoint,
                tag_filter: query.tag,
                now,
                session,
                preferred: None,
            },
            ITEMS,
        )?;
        Ok(AtAnswer::from(&found))
    })
    .await
}

async fn find(
    State(app): State<App>,
    At(workspace): At,
    Asked(query): Asked<ListQuery>,
) -> Answer<Found> {
    app.answer(workspace, move |rappel| {
        // What is looked for may be in a checkpoint of agents' state alone.
        let filter = ListFilter { all: true, ..query.filter(rappel)? };
        Ok(rappel.find(&filter)?)
    })
    .await
}

/// How many outcomes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct OutcomesQuery {
    /// At most so many, from 1 to 1000 [default: 200].
    limit: Option<u64>,
}

async fn outcomes(
    State(app): State<App>,
    At(workspace): At,
    Asked(query): Asked<OutcomesQuery>,
) -> Answer<Outcomes> {
    let limit = query.limit.unwrap_or(200);
    if !(1..=ITEMS).contains(&limit) {
        return Err(Problem::out_of_range(format!("limit is from 1 to {ITEMS}")));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    app.answer(workspace, move |rappel| Ok(rappel.outcomes(limit)?)).await
}

/// How many changes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct LogQuery {
    /// At most so many, from 1 to 200 [default: 20].
    limit: Option<u64>,
}

async fn log(
    State(app): State<App>,
    At(workspace): At,
    Path(given): Path<String>,
    Asked(query): Asked<LogQuery>,
) -> Answer<FileLog> {
    let (path, limit) = (path(&given)?, values::limit(query.limit)?);
    app.answer(workspace, move |rappel| Ok(rappel.log(&path, Some(limit))?)).await
}

async fn state(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
) -> Answer<Vec<AtAnswer>> {
    app.answer(workspace, move |rappel| {
        let manifest = rappel.show(&reference)?.manifest;
        Ok(rappel.states_in(&manifest, ITEMS)?.iter().map(AtAnswer::from).collect())
    })
    .await
}

async fn recovery(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
) -> Answer<RecoveryPoint> {
    app.answer(
        workspace,
        move |rappel| Ok(rappel.create_recovery_point(&reference, &advice::word)?),
    )
    .await
}
