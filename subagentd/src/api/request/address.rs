//! Resolves the worker address in a path: an id, a name, an id prefix, or `@last`.
//! It must not decide who may see or change the worker.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Deserialize;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Result, worker_name};

use crate::api::request::body::PathNames;
use crate::api::response::reply::ApiError;
use crate::api::state::Api;
use crate::supervisor::{Supervisor, TaskCaller, addresses};

/// The worker that was started or addressed last. A new daemon starts with the one that changed
/// last.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWorker(Arc<Mutex<Option<String>>>);

impl LastWorker {
    /// Stores the id of the last addressed worker.
    pub(in crate::api) fn set(&self, worker_id: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker_id.to_owned());
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the id of the addressed worker. An address that matches no worker is returned unchanged.
///
/// # Errors
/// `WORKER_NOT_FOUND` for `@last` without workers, `AMBIGUOUS_WORKER{candidates}`, `STORAGE_ERROR`.
pub(in crate::api) async fn resolve(api: &Api, address: &str) -> Result<String> {
    let supervisor: &Supervisor = &api.supervisor;
    if address == worker_name::LAST {
        return addresses::last(supervisor, api.last_worker.get()).await;
    }
    let worker_id = addresses::find(supervisor, address).await?;
    // A wrong address must not change which worker is the last one.
    if worker_id.parse::<WorkerId>().is_ok() {
        api.last_worker.set(&worker_id);
    }
    Ok(worker_id)
}

/// Returns the id of a task for `@last` and for the beginning of an id. Names stay as they are:
/// only the caller's tasks count for them. An agent has its own tasks alone, by id or name.
///
/// # Errors
/// Those of [`resolve`].
pub(in crate::api) async fn resolve_task(api: &Api, caller: &TaskCaller, address: String) -> Result<String> {
    let is_id = address == worker_name::LAST || address.starts_with("w_");
    if is_id && caller.parent().is_none() { resolve(api, &address).await } else { Ok(address) }
}

/// Extractor for the address of a worktree in the path: `@last` becomes the id of its worker.
pub(in crate::api) struct AddressedWorktree(pub(in crate::api) String);

impl FromRequestParts<Api> for AddressedWorktree {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let PathNames(worktree) = PathNames::<String>::from_request_parts(parts, api).await?;
        let is_last = worktree == worker_name::LAST;
        Ok(Self(if is_last { resolve(api, &worktree).await? } else { worktree }))
    }
}

/// Extractor for the id of the worker in the path.
pub(in crate::api) struct WorkerInPath(pub(in crate::api) String);

#[derive(Deserialize)]
struct WorkerOfPath {
    worker: String,
}

impl FromRequestParts<Api> for WorkerInPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let PathNames(WorkerOfPath { worker }) = PathNames::from_request_parts(parts, api).await?;
        Ok(Self(resolve(api, &worker).await?))
    }
}

/// The request id after the worker in the path.
#[derive(Deserialize)]
pub(in crate::api) struct RequestOfPath {
    pub(in crate::api) request: String,
}
