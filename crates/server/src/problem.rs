//! What a request is answered with when it cannot be done: JSON, and a status that fits.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rappel::ErrorKind;
use rappel_types::Advice;
use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Refusal;
use crate::advice;

/// Why a request was not done.
#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub error: Told,
    /// It stopped because it was asked to.
    pub cancelled: bool,
}

/// The document that says so.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ErrorAnswer {
    /// What went wrong.
    pub error: Told,
}

/// What went wrong.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Told {
    /// Its kind: `usage`, `not-found`, `confirmation`, `busy`, `damage`, `conflict`, `failed`,
    /// `forbidden`.
    pub kind: String,
    /// What happened, for people.
    pub message: String,
    /// What to do next, if there is something.
    pub hint: Option<String>,
    /// The same as data.
    pub advice: Vec<Advice>,
}

impl Problem {
    /// A request that makes no sense.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, "usage", message)
    }

    /// A value that is understood and not allowed.
    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::of(StatusCode::UNPROCESSABLE_ENTITY, "usage", message)
    }

    /// Something that is not there.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::of(StatusCode::NOT_FOUND, "not-found", message)
    }

    /// Something that cannot be done now.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::of(StatusCode::CONFLICT, "conflict", message)
    }

    /// Something in this process broke.
    pub fn broken(message: impl Into<String>) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
    }

    /// With another status.
    pub fn of(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        let (kind, message) = (kind.into(), message.into());
        let error = Told { kind, message, hint: None, advice: Vec::new() };
        Self { status, error, cancelled: false }
    }

    /// The same, with what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }
}

impl From<rappel::Error> for Problem {
    fn from(error: rappel::Error) -> Self {
        let kind = error.kind();
        let status = match kind {
            // Nothing broke: there is no step to undo or redo.
            _ if matches!(error, rappel::Error::Nothing { .. }) => StatusCode::CONFLICT,
            ErrorKind::Usage => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Confirmation
            | ErrorKind::Busy
            | ErrorKind::Conflict
            | ErrorKind::Cancelled => StatusCode::CONFLICT,
            ErrorKind::Damage | ErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let advice = error.advice();
        let hint = advice::sentence(&advice);
        let told = Told { kind: kind.as_str().into(), message: error.to_string(), hint, advice };
        Self { status, error: told, cancelled: error.is_cancelled() }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Host => {
                Self::of(StatusCode::FORBIDDEN, "forbidden", "the Host of this request is not ours")
                    .hint(
                        "call it localhost, or start the server with `--allow-host` and that name",
                    )
            }
            Refusal::Origin => Self::of(
                StatusCode::FORBIDDEN,
                "forbidden",
                "a page of another origin may not call this server",
            ),
            Refusal::Token => Self::of(
                StatusCode::UNAUTHORIZED,
                "forbidden",
                "this request needs the token",
            )
            .hint("send `Authorization: Bearer TOKEN`; the token is in the home's file `token`"),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorAnswer { error: self.error })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = axum::http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(axum::http::header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
