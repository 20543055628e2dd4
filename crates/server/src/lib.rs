//! Rappel's server: the HTTP API, the stream of events, and MCP.
//!
//! It is a face like the command line, thin and equal: every rule lives in the engine. This is the
//! only crate with an async runtime; each call of the engine runs on a thread of its own.

mod access;
mod advice;
mod app;
mod assets;
mod describe;
mod events;
mod extract;
mod jobs;
pub mod mcp;
mod peer;
mod problem;
mod routes;
mod seed;
mod serve;
mod under_way;
mod values;

pub use app::FindInstalled;
pub use serve::{Bound, ServeError, ServeOptions, Server};

/// The OpenAPI document of the HTTP API.
pub fn openapi() -> serde_json::Value {
    describe::openapi(&routes::all())
}
