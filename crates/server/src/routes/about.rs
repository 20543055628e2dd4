//! What the server says about itself: who it is, what it can do, and a page for people.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::assets;
use crate::describe::{Endpoint, on_get, openapi};

pub fn endpoints() -> Vec<Endpoint> {
    vec![
        on_get("/api/server", "Which server this is", server).answers::<ServerAnswer>(200),
        on_get("/api/openapi.json", "This description", describe).answers::<Value>(200),
        on_get("/", "The dashboard", page).sends(200, "text/html"),
        on_get("/web/{*path}", "The dashboard's files", file)
            .sends(200, "text/javascript")
            .sends(200, "text/css")
            .sends(200, "image/svg+xml"),
    ]
}

/// Which server this is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerAnswer {
    /// `rappel`.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The folder of its home.
    pub home: String,
    /// The workspace that it was started in, if that has a history.
    #[serde(default)]
    pub workspace: Option<String>,
    /// The folder that it was started in.
    #[serde(default)]
    pub root: Option<String>,
}

async fn server(State(app): State<App>) -> Json<ServerAnswer> {
    let here = app.ask(app.home.here(), |rappel| {
        let id = rappel.workspace_id().map(|id| id.to_string());
        Ok((id, rappel.root().to_string_lossy().into_owned()))
    });
    // A workspace that cannot be opened is no reason not to say which server this is.
    let (workspace, root) = here.await.map_or((None, None), |(id, root)| (id, Some(root)));
    Json(ServerAnswer {
        program: "rappel".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        home: app.home.folder().to_string_lossy().into_owned(),
        workspace,
        root,
    })
}

async fn describe() -> Json<Value> {
    Json(openapi(&super::all()))
}

async fn page(headers: HeaderMap) -> Response {
    assets::answer("index.html", &headers)
}

async fn file(Path(path): Path<String>, headers: HeaderMap) -> Response {
    assets::answer(&path, &headers)
}
