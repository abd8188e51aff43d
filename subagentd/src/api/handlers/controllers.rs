//! Handlers for controllers, which own the workers of a workspace.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_protocol::api::{
    AttachController, ControllerChoice, ControllerInitialized, ControllerReleased, ControllerStatus,
    ControllersRecovered, InitController, ReleaseController,
};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::body::{Body, QueryParams};
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

/// Creates the controller of a workspace and makes the caller its owner.
#[cfg_attr(test, utoipa::path(post, path = "/v1/controllers", request_body = InitController, responses((status = 200, description = "`controller.initialized`", body = Envelope<ControllerInitialized>))))]
pub(in crate::api) async fn init(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<InitController>,
) -> HandlerResult<ControllerInitialized> {
    Ok(TypedReply(
        "controller.initialized",
        supervisor::controllers::ownership::init_controller(&api.supervisor, caller, request).await?,
    ))
}

/// Makes the caller the owner of an existing controller.
#[cfg_attr(test, utoipa::path(post, path = "/v1/controllers/attach", request_body = AttachController, responses((status = 200, description = "`controller.attached`", body = Envelope<ControllerInitialized>))))]
pub(in crate::api) async fn attach(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<AttachController>,
) -> HandlerResult<ControllerInitialized> {
    Ok(TypedReply(
        "controller.attached",
        supervisor::controllers::ownership::attach_controller(&api.supervisor, caller, request).await?,
    ))
}

/// Releases the ownership of a controller.
#[cfg_attr(test, utoipa::path(post, path = "/v1/controllers/release", request_body = ReleaseController, responses((status = 200, description = "`controller.released`", body = Envelope<ControllerReleased>))))]
pub(in crate::api) async fn release(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<ReleaseController>,
) -> HandlerResult<ControllerReleased> {
    Ok(TypedReply(
        "controller.released",
        supervisor::controllers::ownership::release_controller(&api.supervisor, caller, request).await?,
    ))
}

/// Query parameters of the list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct ControllerListQuery {
    /// Only the controller of this workspace.
    workspace_key: Option<String>,
}

/// Lists controllers, newest first.
#[cfg_attr(test, utoipa::path(get, path = "/v1/controllers", params(("workspaceKey" = Option<String>, Query, description = "Only this workspace")), responses((status = 200, description = "`controller.recovered`", body = Envelope<ControllersRecovered>))))]
pub(in crate::api) async fn recover(
    State(api): State<Api>,
    _: Owner,
    QueryParams(filter): QueryParams<ControllerListQuery>,
) -> HandlerResult<ControllersRecovered> {
    Ok(TypedReply(
        "controller.recovered",
        supervisor::controllers::recover_controllers(&api.supervisor, filter.workspace_key).await?,
    ))
}

/// Returns the state of a controller.
#[cfg_attr(test, utoipa::path(get, path = "/v1/controllers/status", params(("controllerId" = Option<String>, Query, description = "Named explicitly"), ("hintedControllerId" = Option<String>, Query, description = "Found in the hint file of the workspace"), ("workspaceKey" = String, Query, description = "The workspace")), responses((status = 200, description = "`controller.status`", body = Envelope<ControllerStatus>))))]
pub(in crate::api) async fn status(
    State(api): State<Api>,
    Owner(caller): Owner,
    QueryParams(choice): QueryParams<ControllerChoice>,
) -> HandlerResult<ControllerStatus> {
    Ok(TypedReply(
        "controller.status",
        supervisor::controllers::controller_status(&api.supervisor, caller, choice).await?,
    ))
}

/// Returns the id of the controller that a new worker would get.
#[cfg_attr(test, utoipa::path(get, path = "/v1/controllers/resolve", params(("controllerId" = Option<String>, Query, description = "Named explicitly"), ("hintedControllerId" = Option<String>, Query, description = "Found in the hint file of the workspace"), ("workspaceKey" = String, Query, description = "The workspace")), responses((status = 200, description = "`controller.resolved`", body = Envelope<serde_json::Value>))))]
pub(in crate::api) async fn resolve(
    State(api): State<Api>,
    Owner(caller): Owner,
    QueryParams(choice): QueryParams<ControllerChoice>,
) -> HandlerResult<Value> {
    let controller_id = supervisor::controllers::resolve_controller(&api.supervisor, caller, choice).await?;
    Ok(TypedReply("controller.resolved", json!({ "controllerId": controller_id })))
}
