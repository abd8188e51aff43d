//! Handlers that wait for events. A wait changes nothing, so an agent may wait for its own worker.

use axum::extract::State;
use axum::response::Response;
use subagent_protocol::api::{WaitMany, WaitRequest, WaitedMany};

#[cfg(test)]
use subagent_protocol::api::{Envelope, Waited};

use crate::api::control::{ShutdownPhase, ending};
use crate::api::request::address::{WorkerInPath, resolve};
use crate::api::request::body::Body;
use crate::api::request::caller::ReadOnlyCaller;
use crate::api::response::reply::{ApiError, HandlerResult, TypedReply};
use crate::api::response::waited;
use crate::api::state::Api;
use crate::supervisor;

/// Waits for an event or state of a worker.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/wait", request_body = WaitRequest, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.waited`", body = Envelope<Waited>))))]
pub(in crate::api) async fn wait(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<WaitRequest>,
) -> Result<Response, ApiError> {
    reader.may_see(&api, &worker).await?;
    tokio::select! {
        biased;
        found = supervisor::events::wait::wait(&api.supervisor, &worker, request, reader.sight()) => Ok(waited::reply(found?)),
        () = api.control.reached(ShutdownPhase::EndWaits) => Err(ending().into()),
    }
}

/// Waits for several workers at once.
#[cfg_attr(test, utoipa::path(post, path = "/v1/wait", request_body = WaitMany, responses((status = 200, description = "`workers.waited`", body = Envelope<WaitedMany>))))]
pub(in crate::api) async fn many(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    Body(mut request): Body<WaitMany>,
) -> HandlerResult<WaitedMany> {
    for worker in &mut request.workers {
        worker.worker_id = resolve(&api, &worker.worker_id).await?;
        reader.may_see(&api, &worker.worker_id).await?;
    }
    tokio::select! {
        biased;
        waited = supervisor::events::wait_many::wait_many(&api.supervisor, request, reader.sight()) => Ok(TypedReply("workers.waited", waited?)),
        () = api.control.reached(ShutdownPhase::EndWaits) => Err(ending().into()),
    }
}
