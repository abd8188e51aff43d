//! Converts results and errors to responses: always an envelope, with the HTTP status of the
//! error's code.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use subagent_protocol::api::Envelope;
use subagent_protocol::{Code, Error};

use crate::api::response::status::status;

/// A result and its type in the envelope.
pub(in crate::api) struct TypedReply<T>(pub(in crate::api) &'static str, pub(in crate::api) T);

/// An error that becomes a response.
#[derive(Debug)]
pub(in crate::api) struct ApiError(pub(in crate::api) Error);

/// The result of a handler.
pub(in crate::api) type HandlerResult<T> = Result<TypedReply<T>, ApiError>;

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl<T: Serialize> IntoResponse for TypedReply<T> {
    fn into_response(self) -> axum::response::Response {
        let Self(kind, data) = self;
        match serde_json::to_vec(&Envelope::success(kind, data)) {
            Ok(bytes) => json(StatusCode::OK, bytes),
            Err(error) => unwritable(kind, &error),
        }
    }
}

/// Returns the error response for a result that cannot be written as JSON.
pub(in crate::api) fn unwritable(kind: &str, error: &serde_json::Error) -> axum::response::Response {
    tracing::error!(kind, %error, "a result cannot be written as JSON");
    let message = "the result cannot be written as JSON; the request was carried out";
    ApiError(Error::new(Code::Internal, message).with("type", kind)).into_response()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> axum::response::Response {
        let code = self.0.code;
        json(status(code), error_line(self.0))
    }
}

/// Writes the envelope of an error as JSON, without a newline.
pub(in crate::api) fn error_line(error: Error) -> Vec<u8> {
    let code = error.code;
    serde_json::to_vec(&Envelope::<()>::failure(error)).unwrap_or_else(|error| {
        // Strings and JSON values can always be written as JSON.
        tracing::error!(%code, %error, "an error cannot be written as JSON");
        Vec::new()
    })
}

pub(in crate::api) fn json(status: StatusCode, bytes: Vec<u8>) -> axum::response::Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
