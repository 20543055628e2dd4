//! What a request carries, taken out of it with limits, and refused in our own words.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRef, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use rappel::Workspace;
use rappel::types::agents::SessionId;
use rappel_types::reference::Base;
use rappel_types::{CheckpointId, Reference, RelPath};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::Problem;
use crate::values::parse;

/// A body may be so long.
pub const BODY_MAX: usize = 1 << 20;
/// It has to arrive within this time.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Arrays and objects in a body may be nested so deep.
const DEPTH_MAX: usize = 32;

/// The workspace that a request is about: `?workspace=`, else the one that the server began in.
pub struct At(pub Workspace);

#[derive(Deserialize)]
struct Chosen {
    workspace: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for At
where
    App: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let app = App::from_ref(state);
        let Asked(chosen) = Asked::<Chosen>::from_request_parts(parts, state).await?;
        Ok(Self(match chosen.workspace.filter(|named| !named.is_empty()) {
            Some(named) => app.home.named(named),
            None => app.home.here(),
        }))
    }
}

/// The values behind the `?` of an address.
pub struct Asked<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(values)) => Ok(Self(values)),
            Err(error) => Err(Problem::malformed(error.body_text())),
        }
    }
}

/// A checkpoint that a part of the address names.
pub struct Named(pub Reference);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(reference(&id(parts, state).await?)?))
    }
}

/// A session that a part of the address names.
pub struct OfSession(pub SessionId);

impl<S: Send + Sync> FromRequestParts<S> for OfSession {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(parse(&id(parts, state).await?)?))
    }
}

/// The part of the address that is called `id`.
async fn id<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, Problem> {
    #[derive(Deserialize)]
    struct Part {
        id: String,
    }
    let part = Path::<Part>::from_request_parts(parts, state).await;
    let Path(Part { id }) = part.map_err(|error| Problem::malformed(error.body_text()))?;
    Ok(id)
}

/// A body of JSON. No body at all is what `T` says an empty object is.
pub struct Sent<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let bytes = read(request.into_body()).await?;
        let text = if bytes.is_empty() { b"{}" } else { &bytes[..] };
        // An array would be read as the values of the keys in their order.
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Err(Problem::malformed("the body is not a JSON object"));
        }
        if depth(text) > DEPTH_MAX {
            return Err(Problem::malformed("the body is nested too deep"));
        }
        serde_json::from_slice(text).map(Self).map_err(|error| {
            let message = format!("the body is not what this route takes: {error}");
            Problem::malformed(message)
        })
    }
}

async fn read(body: Body) -> Result<Vec<u8>, Problem> {
    let limit = |status, message: &str| Problem::of(status, "usage", message);
    match tokio::time::timeout(BODY_TIME, to_bytes(body, BODY_MAX)).await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(_)) => {
            Err(limit(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long, or was cut off"))
        }
        Err(_) => Err(limit(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    }
}

/// How deep arrays and objects are nested, strings passed over.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0usize, 0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A reference that a text names.
pub fn reference(text: &str) -> Result<Reference, Problem> {
    text.parse().map_err(|error| Problem::malformed(format!("{error}")))
}

/// This very checkpoint. What `latest` means may change between two looks.
pub fn exactly(id: &CheckpointId) -> Reference {
    Reference::new(Base::Id(id.clone()))
}

/// A path in the workspace that a text names.
pub fn path(text: &str) -> Result<RelPath, Problem> {
    text.parse().map_err(|error| Problem::malformed(format!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_what_is_nested_and_not_what_is_said() {
        assert_eq!(depth(b"{}"), 1);
        assert_eq!(depth(br#"{"a": [1, {"b": "[[[[\"["}]}"#), 3);
        assert_eq!(depth("[".repeat(4000).as_bytes()), 4000);
    }
}
