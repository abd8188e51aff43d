//! Layers around all routes: checks, shutdown, panics and response headers. Every response has an
//! envelope.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use subagent_protocol::api::{DaemonInfo, header};
use subagent_protocol::{Code, Error, PROTOCOL};

use crate::api::control::{Control, ShutdownPhase, ending};
use crate::api::request::checks;
use crate::api::response::reply::ApiError;

/// The only path that is answered at the very end of a shutdown.
pub(in crate::api) const STOP_PATH: &str = "/v1/daemon/stop";

/// State shared by the layers.
#[derive(Clone)]
pub(in crate::api) struct Surroundings {
    pub(in crate::api) control: Control,
    pub(in crate::api) info: Arc<DaemonInfo>,
}

/// Wraps the routes with all layers.
pub(in crate::api) fn around(routes: Router, surroundings: Surroundings) -> Router {
    routes
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(surroundings, outermost))
}

async fn outermost(State(surroundings): State<Surroundings>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let Surroundings { control, info } = &surroundings;
    let mut response = match checks::check(request.uri(), request.headers(), info) {
        Ok(()) => run(control, request, next).await,
        Err(error) => ApiError(error).into_response(),
    };
    tracing::debug!(%method, path, status = response.status().as_u16(), "answered");
    response.headers_mut().insert(HeaderName::from_static(header::PROTOCOL), HeaderValue::from(PROTOCOL));
    response
}

async fn run(control: &Control, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let until = async {
        if path == STOP_PATH {
            std::future::pending().await
        } else {
            control.reached(ShutdownPhase::EndAll).await
        }
    };
    tokio::select! {
        // A ready answer is sent even during a shutdown.
        biased;
        outcome = AssertUnwindSafe(next.run(request)).catch_unwind() => outcome.unwrap_or_else(|_| {
            // The panic's text is already on standard error, and may contain data that must not be
            // in an answer.
            tracing::error!(path, "a request made its handler panic");
            let message = format!("a defect of the daemon ended this request ({path})");
            ApiError(Error::new(Code::Internal, message).recommend(
                "Please report it with the log `logs/subagentd.log` of the state dir.",
            )).into_response()
        }),
        () = until => ApiError(ending()).into_response(),
    }
}

async fn no_such_path(uri: Uri) -> ApiError {
    let message = format!("there is nothing at {}; the API is below /v1", uri.path());
    ApiError(Error::new(Code::InvalidArgument, message).with("path", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{method} cannot be used on {}", uri.path());
    ApiError(
        Error::new(Code::InvalidArgument, message).with("path", uri.path()).with("method", method.as_str()),
    )
}
