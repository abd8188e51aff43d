//! Handler for the token and cost usage of turns.

use axum::extract::State;
use serde::Deserialize;
use subagent_protocol::api::{UsageBy, UsageShown};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::body::QueryParams;
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

/// Query parameters of usage.
#[derive(Deserialize)]
pub(in crate::api) struct UsageQuery {
    /// Grouping of the turns; by worker if absent.
    by: Option<UsageBy>,
    /// Only turns that began at this time or later.
    since: Option<String>,
}

/// Returns sums of the usage of stored turns.
#[cfg_attr(test, utoipa::path(get, path = "/v1/usage", params(("by" = Option<UsageBy>, Query, description = "How to group the turns; without it by worker"), ("since" = Option<String>, Query, description = "Only turns that began at this time or later, ISO 8601")), responses((status = 200, description = "`usage.shown`", body = Envelope<UsageShown>))))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    Owner(_): Owner,
    QueryParams(query): QueryParams<UsageQuery>,
) -> HandlerResult<UsageShown> {
    let by = query.by.unwrap_or(UsageBy::Worker);
    let environment = api.environment.as_ref().clone();
    Ok(TypedReply(
        "usage.shown",
        supervisor::views::usage::usage(&api.supervisor, by, query.since.as_deref(), environment).await?,
    ))
}
