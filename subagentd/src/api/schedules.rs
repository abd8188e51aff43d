//! Schedules. From below a worker all of it is refused.

use axum::extract::State;
use subagent_protocol::api::{
    AddSchedule, ChangeSchedule, FiringView, Firings, ScheduleRemoved, ScheduleView, Schedules,
};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use super::body::{Body, Names};
use super::caller::Owner;
use super::reply::{Outcome, Reply};
use super::state::Api;

/// `GET /v1/schedules`
#[cfg_attr(test, utoipa::path(get, path = "/v1/schedules", responses((status = 200, description = "`schedule.listed`: all schedules, by name", body = Envelope<Schedules>))))]
pub(super) async fn list(State(api): State<Api>, _: Owner) -> Outcome<Schedules> {
    Ok(Reply("schedule.listed", api.schedules.list().await?))
}

/// `POST /v1/schedules`
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules", request_body = AddSchedule, responses((status = 200, description = "`schedule.added`", body = Envelope<ScheduleView>))))]
pub(super) async fn add(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<AddSchedule>,
) -> Outcome<ScheduleView> {
    Ok(Reply("schedule.added", api.schedules.add(caller, request).await?))
}

/// `GET /v1/schedules/{schedule}`
#[cfg_attr(test, utoipa::path(get, path = "/v1/schedules/{schedule}", params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.shown`", body = Envelope<ScheduleView>))))]
pub(super) async fn show(
    State(api): State<Api>,
    _: Owner,
    Names(schedule): Names<String>,
) -> Outcome<ScheduleView> {
    Ok(Reply("schedule.shown", api.schedules.show(&schedule).await?))
}

/// `GET /v1/schedules/{schedule}/log`
#[cfg_attr(test, utoipa::path(get, path = "/v1/schedules/{schedule}/log", params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.log`: its newest firings", body = Envelope<Firings>))))]
pub(super) async fn log(
    State(api): State<Api>,
    _: Owner,
    Names(schedule): Names<String>,
) -> Outcome<Firings> {
    Ok(Reply("schedule.log", api.schedules.log(&schedule).await?))
}

/// `POST /v1/schedules/{schedule}/pause`
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules/{schedule}/pause", request_body = ChangeSchedule, params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.paused`", body = Envelope<ScheduleView>))))]
pub(super) async fn pause(
    State(api): State<Api>,
    Owner(caller): Owner,
    Names(schedule): Names<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> Outcome<ScheduleView> {
    Ok(Reply("schedule.paused", api.schedules.pause(caller, &schedule).await?))
}

/// `POST /v1/schedules/{schedule}/resume`
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules/{schedule}/resume", request_body = ChangeSchedule, params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.resumed`", body = Envelope<ScheduleView>))))]
pub(super) async fn resume(
    State(api): State<Api>,
    Owner(caller): Owner,
    Names(schedule): Names<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> Outcome<ScheduleView> {
    Ok(Reply("schedule.resumed", api.schedules.resume(caller, &schedule).await?))
}

/// `POST /v1/schedules/{schedule}/run`
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules/{schedule}/run", request_body = ChangeSchedule, params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.fired`", body = Envelope<FiringView>))))]
pub(super) async fn run(
    State(api): State<Api>,
    Owner(caller): Owner,
    Names(schedule): Names<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> Outcome<FiringView> {
    Ok(Reply("schedule.fired", api.schedules.run(caller, &schedule).await?))
}

/// `POST /v1/schedules/{schedule}/remove`
#[cfg_attr(test, utoipa::path(post, path = "/v1/schedules/{schedule}/remove", request_body = ChangeSchedule, params(("schedule" = String, Path, description = "Its name")), responses((status = 200, description = "`schedule.removed`", body = Envelope<ScheduleRemoved>))))]
pub(super) async fn remove(
    State(api): State<Api>,
    Owner(caller): Owner,
    Names(schedule): Names<String>,
    Body(ChangeSchedule {}): Body<ChangeSchedule>,
) -> Outcome<ScheduleRemoved> {
    Ok(Reply("schedule.removed", api.schedules.remove(caller, &schedule).await?))
}
