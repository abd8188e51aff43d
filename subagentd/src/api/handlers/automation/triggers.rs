//! Triggers. From below a worker all of it is refused.

use axum::extract::State;
use subagent_protocol::api::{
    AddTrigger, ChangeSchedule, DeliverTrigger, FireTrigger, FiringView, Firings, TriggerRemoved,
    TriggerView, Triggers,
};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::body::{Body, PathNames};
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;

/// `GET /v1/triggers`
#[cfg_attr(test, utoipa::path(get, path = "/v1/triggers", responses((status = 200, description = "`trigger.listed`: all triggers, by name", body = Envelope<Triggers>))))]
pub(in crate::api) async fn list(State(api): State<Api>, _: Owner) -> HandlerResult<Triggers> {
    Ok(TypedReply("trigger.listed", api.schedules.list_triggers().await?))
}

/// `POST /v1/triggers`
#[cfg_attr(test, utoipa::path(post, path = "/v1/triggers", request_body = AddTrigger, responses((status = 200, description = "`trigger.added`", body = Envelope<TriggerView>))))]
pub(in crate::api) async fn add(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<AddTrigger>,
) -> HandlerResult<TriggerView> {
    Ok(TypedReply("trigger.added", api.schedules.add_trigger(caller, request).await?))
}

/// `GET /v1/triggers/{trigger}`
#[cfg_attr(test, utoipa::path(get, path = "/v1/triggers/{trigger}", params(("trigger" = String, Path, description = "Its name")), responses((status = 200, description = "`trigger.shown`", body = Envelope<TriggerView>))))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    _: Owner,
    PathNames(trigger): PathNames<String>,
) -> HandlerResult<TriggerView> {
    Ok(TypedReply("trigger.shown", api.schedules.show_trigger(&trigger).await?))
}

/// `GET /v1/triggers/{trigger}/log`
#[cfg_attr(test, utoipa::path(get, path = "/v1/triggers/{trigger}/log", params(("trigger" = String, Path, description = "Its name")), responses((status = 200, description = "`trigger.log`: its newest firings", body = Envelope<Firings>))))]
pub(in crate::api) async fn log(
    State(api): State<Api>,
    _: Owner,
    PathNames(trigger): PathNames<String>,
) -> HandlerResult<Firings> {
    Ok(TypedReply("trigger.log", api.schedules.trigger_log(&trigger).await?))
}

/// `POST /v1/triggers/{trigger}/pause`
#[cfg_attr(test, utoipa::path(post, path = "/v1/triggers/{trigger}/pause", request_body = ChangeSchedule, params(("trigger" = String, Path, description = "Its name")), responses((status = 200, description = "`trigger.paused`", body = Envelope<TriggerView>))))]
pub(in crate::api) async fn pause(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(trigger): PathNames<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> HandlerResult<TriggerView> {
    Ok(TypedReply("trigger.paused", api.schedules.pause_trigger(caller, &trigger).await?))
}

/// `POST /v1/triggers/{trigger}/resume`
#[cfg_attr(test, utoipa::path(post, path = "/v1/triggers/{trigger}/resume", request_body = ChangeSchedule, params(("trigger" = String, Path, description = "Its name")), responses((status = 200, description = "`trigger.resumed`", body = Envelope<TriggerView>))))]
pub(in crate::api) async fn resume(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(trigger): PathNames<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> HandlerResult<TriggerView> {
    Ok(TypedReply("trigger.resumed", api.schedules.resume_trigger(caller, &trigger).await?))
}

/// `POST /v1/triggers/{trigger}/run`
#[cfg_attr(test, utoipa::path(post, path = "/v1/triggers/{trigger}/run", request_body = ChangeSchedule, params(("trigger" = String, Path, description = "Its name")), responses((status = 200, description = "`trigger.fired`", body = Envelope<FiringView>))))]
pub(in crate::api) async fn run(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(trigger): PathNames<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> HandlerResult<FiringView> {
    Ok(TypedReply("trigger.fired", api.schedules.run_trigger(caller, &trigger).await?))
}

/// `POST /v1/triggers/{trigger}/fire`
#[cfg_attr(test, utoipa::path(post, path = "/v1/triggers/{trigger}/fire", request_body = FireTrigger, params(("trigger" = String, Path, description = "Its name")), responses((status = 200, description = "`trigger.fired`", body = Envelope<FiringView>))))]
pub(in crate::api) async fn fire(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(trigger): PathNames<String>,
    Body(request): Body<FireTrigger>,
) -> HandlerResult<FiringView> {
    Ok(TypedReply("trigger.fired", api.schedules.fire_trigger(caller, &trigger, request).await?))
}

/// `POST /v1/triggers/{trigger}/deliver`
#[cfg_attr(test, utoipa::path(post, path = "/v1/triggers/{trigger}/deliver", request_body = DeliverTrigger, params(("trigger" = String, Path, description = "Its name")), responses((status = 200, description = "`trigger.fired`", body = Envelope<FiringView>))))]
pub(in crate::api) async fn deliver(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(trigger): PathNames<String>,
    Body(request): Body<DeliverTrigger>,
) -> HandlerResult<FiringView> {
    Ok(TypedReply("trigger.fired", api.schedules.deliver_trigger(caller, &trigger, request).await?))
}

/// `POST /v1/triggers/{trigger}/remove`
#[cfg_attr(test, utoipa::path(post, path = "/v1/triggers/{trigger}/remove", request_body = ChangeSchedule, params(("trigger" = String, Path, description = "Its name")), responses((status = 200, description = "`trigger.removed`", body = Envelope<TriggerRemoved>))))]
pub(in crate::api) async fn remove(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(trigger): PathNames<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> HandlerResult<TriggerRemoved> {
    Ok(TypedReply("trigger.removed", api.schedules.remove_trigger(caller, &trigger).await?))
}
