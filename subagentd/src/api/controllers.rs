//! Controllers: who owns the workers of a workspace.

use axum::extract::State;
use serde_json::{Value, json};
use subagent_protocol::api::{ControllerChoice, ControllerInitialized, ControllerStatus, InitController};

use super::Api;
use super::body::{Body, Params};
use super::caller::Owner;
use super::reply::{Outcome, Reply};

/// `POST /v1/controllers`
pub(super) async fn init(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<InitController>,
) -> Outcome<ControllerInitialized> {
    Ok(Reply("controller.initialized", api.supervisor.init_controller(caller, request).await?))
}

/// `GET /v1/controllers/status?controllerId=&hintedControllerId=&workspaceKey=`
pub(super) async fn status(
    State(api): State<Api>,
    Owner(caller): Owner,
    Params(choice): Params<ControllerChoice>,
) -> Outcome<ControllerStatus> {
    Ok(Reply("controller.status", api.supervisor.controller_status(caller, choice).await?))
}

/// `GET /v1/controllers/resolve?controllerId=&hintedControllerId=&workspaceKey=`
pub(super) async fn resolve(
    State(api): State<Api>,
    Owner(caller): Owner,
    Params(choice): Params<ControllerChoice>,
) -> Outcome<Value> {
    let controller_id = api.supervisor.resolve_controller(caller, choice).await?;
    Ok(Reply("controller.resolved", json!({ "controllerId": controller_id })))
}
