//! `/api/events`: what happens in the home, as server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use rappel::events::{Events, Happening, HomeEvent};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{broadcast, watch};

use crate::app::App;
use crate::describe::{Endpoint, on_get};
use crate::events::{Hub, Live};
use crate::extract::Asked;
use crate::problem::Problem;

/// How often a quiet stream says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub fn endpoints() -> Vec<Endpoint> {
    vec![
        on_get("/api/events", "What happens in the home, live; `Last-Event-ID` resumes", stream)
            .query::<EventsQuery>()
            .sends(200, "text/event-stream"),
    ]
}

/// From where on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct EventsQuery {
    /// A position: the id of the last event that was seen. `0` is the beginning; without it, from now
    /// on. The header `Last-Event-ID` says the same and beats it.
    since: Option<String>,
}

async fn stream(
    State(app): State<App>,
    headers: HeaderMap,
    Asked(query): Asked<EventsQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let (news, live) = app.hub.listen();
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let position = match last.map(ToOwned::to_owned).or(query.since) {
        Some(position) => position,
        None => app.hub.newest().await?,
    };
    // A position that means nothing is told at once, not in the stream.
    let first = app.hub.after(&position).await?;
    let mut listener = Listener {
        hub: app.hub.clone(),
        news,
        live,
        position,
        waiting: VecDeque::new(),
        failed: false,
    };
    listener.take(first);
    let events = futures_util::stream::unfold(listener, |mut listener| async {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// One stream.
struct Listener {
    hub: Hub,
    news: watch::Receiver<u64>,
    live: broadcast::Receiver<Live>,
    position: String,
    waiting: VecDeque<Event>,
    /// The home could not be read, and the listener was told so. It comes back by itself.
    failed: bool,
}

impl Listener {
    /// The next event; none when the server ends, or the home cannot be read.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if self.failed {
                return None;
            }
            self.news.mark_unchanged();
            match self.hub.after(&self.position).await {
                Ok(page) if page.events.is_empty() && !page.reset => {}
                Ok(page) => {
                    self.take(page);
                    continue;
                }
                Err(problem) => {
                    self.failed = true;
                    let data = json!({"error": problem.error});
                    return event("error", &data);
                }
            }
            if self.hub.is_closed() {
                return None;
            }
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                told = self.live.recv() => match told {
                    Ok(Live { name, data }) => return event(name, &data),
                    // A slow reader misses some of what is live; what has a position it does not.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
            }
        }
    }

    fn take(&mut self, page: Events) {
        if page.reset {
            let data = json!({"next": page.next});
            self.waiting.extend(event("reset", &data).map(|event| event.id(page.next.clone())));
        }
        for one in &page.events {
            self.waiting.extend(told(one));
        }
        self.position = page.next;
    }
}

/// An event of the home. `also` has the name that CAF's listeners know.
fn told(one: &HomeEvent) -> Option<Event> {
    let mut data = serde_json::to_value(one).ok()?;
    if matches!(one.happening, Happening::CheckpointMade(_)) {
        data["also"] = "agent.checkpoint".into();
    }
    Some(event(one.happening.name(), &data)?.id(&one.position))
}

fn event(name: &str, data: &serde_json::Value) -> Option<Event> {
    Event::default().event(name).json_data(data).ok()
}
