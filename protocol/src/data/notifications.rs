//! The `data` of events about notifications; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

use crate::ids::EventId;
use crate::notification::Occasion;

/// A notification that is not retried.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NotificationFailed {
    /// Name of the sink.
    sink: String,
    /// The kind of occasion.
    occasion: Occasion,
    /// Id of the event it is about.
    event_id: EventId,
    /// Number of attempts so far.
    attempts: u32,
    /// Why the last attempt failed.
    reason: String,
}
