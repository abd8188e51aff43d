//! Handlers for schedules. All are refused from below a worker.

use axum::extract::State;
use subagent_protocol::api::{
    AddSchedule, ChangeSchedule, FiringView, Firings, ScheduleRemoved, ScheduleView, Schedules,
};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::body::{Body, PathNames};
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;

/// Lists all schedules by name.
#[cfg_attr(test, utoipa::path(get, path = "/v1/schedules", responses((status = 200, description = "`schedule.listed`: all schedules, by name", body = Envelope<Schedules>))))]
pub(in crate::api) async fn list(State(api): State<Api>, _: Owner) -> HandlerResult<Schedules> {
    Ok(TypedReply("schedule.listed", api.schedules.list().await?))
}

/// Adds a schedule that starts a task or sends a message.
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules", request_body = AddSchedule, responses((status = 200, description = "`schedule.added`", body = Envelope<ScheduleView>))))]
pub(in crate::api) async fn add(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<AddSchedule>,
) -> HandlerResult<ScheduleView> {
    Ok(TypedReply("schedule.added", api.schedules.add(caller, request).await?))
}

/// Returns one schedule by its name.
#[cfg_attr(test, utoipa::path(get, path = "/v1/schedules/{schedule}", params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.shown`", body = Envelope<ScheduleView>))))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    _: Owner,
    PathNames(schedule): PathNames<String>,
) -> HandlerResult<ScheduleView> {
    Ok(TypedReply("schedule.shown", api.schedules.show(&schedule).await?))
}

/// Returns the newest firings of a schedule.
#[cfg_attr(test, utoipa::path(get, path = "/v1/schedules/{schedule}/log", params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.log`: its newest firings", body = Envelope<Firings>))))]
pub(in crate::api) async fn log(
    State(api): State<Api>,
    _: Owner,
    PathNames(schedule): PathNames<String>,
) -> HandlerResult<Firings> {
    Ok(TypedReply("schedule.log", api.schedules.log(&schedule).await?))
}

/// Pauses a schedule until it is resumed.
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules/{schedule}/pause", request_body = ChangeSchedule, params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.paused`", body = Envelope<ScheduleView>))))]
pub(in crate::api) async fn pause(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(schedule): PathNames<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> HandlerResult<ScheduleView> {
    Ok(TypedReply("schedule.paused", api.schedules.pause(caller, &schedule).await?))
}

/// Resumes a paused schedule.
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules/{schedule}/resume", request_body = ChangeSchedule, params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.resumed`", body = Envelope<ScheduleView>))))]
pub(in crate::api) async fn resume(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(schedule): PathNames<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> HandlerResult<ScheduleView> {
    Ok(TypedReply("schedule.resumed", api.schedules.resume(caller, &schedule).await?))
}

/// Fires a schedule now.
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules/{schedule}/run", request_body = ChangeSchedule, params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.fired`", body = Envelope<FiringView>))))]
pub(in crate::api) async fn run(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(schedule): PathNames<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> HandlerResult<FiringView> {
    Ok(TypedReply("schedule.fired", api.schedules.run(caller, &schedule).await?))
}

/// Removes a schedule and its firings.
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules/{schedule}/remove", request_body = ChangeSchedule, params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.removed`", body = Envelope<ScheduleRemoved>))))]
pub(in crate::api) async fn remove(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(schedule): PathNames<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> HandlerResult<ScheduleRemoved> {
    Ok(TypedReply("schedule.removed", api.schedules.remove(caller, &schedule).await?))
}
