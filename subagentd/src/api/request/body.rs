//! Extractors for JSON bodies, queries and path parameters. Errors are our envelopes, not the
//! framework's texts.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use subagent_protocol::{Code, Error};

use crate::api::request::incoming;
use crate::api::response::reply::ApiError;

/// A JSON body; an empty body counts as `{}`. The content type is ignored, since only JSON is
/// accepted.
pub(in crate::api) struct Body<T>(pub(in crate::api) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let announced: Option<u64> =
            request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes = incoming::read(request.into_body(), announced).await?;
        parse(&bytes).map(Self)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // serde would also accept an array of the fields.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let error = "expected an object, not an array";
        let message = format!("the body is not the JSON that this request takes: {error}");
        return Err(Error::new(Code::InvalidInput, message).with("error", error).into());
    }
    serde_json::from_slice(if bytes.is_empty() { b"{}" } else { bytes }).map_err(|error| {
        Error::new(Code::InvalidInput, format!("the body is not the JSON that this request takes: {error}"))
            .with("error", error.to_string())
            .into()
    })
}

/// Extractor for the query parameters.
pub(in crate::api) struct QueryParams<T>(pub(in crate::api) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        Query::try_from_uri(&parts.uri).map(|Query(params)| Self(params)).map_err(|rejection| {
            let message =
                format!("the parameters of {} are wrong: {}", parts.uri.path(), rejection.body_text());
            Error::new(Code::InvalidArgument, message).with("error", rejection.body_text()).into()
        })
    }
}

/// Extractor for the path parameters.
pub(in crate::api) struct PathNames<T>(pub(in crate::api) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathNames<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(rejection) => {
                let message = format!("the path {} is wrong: {}", parts.uri.path(), rejection.body_text());
                Err(Error::new(Code::InvalidArgument, message).with("path", parts.uri.path()).into())
            }
        }
    }
}

/// Deserializes a boolean parameter; a name without a value means true.
pub(in crate::api) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(serde::de::Error::custom("expected true or false")),
    }
}
