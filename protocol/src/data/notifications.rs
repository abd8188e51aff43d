//! The `data` of events about notifications; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

use crate::ids::EventId;
use crate::notification::Occasion;

/// A notification that is not tried again.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NotificationFailed {
    /// The sink.
    sink: String,
    /// What it was about.
    occasion: Occasion,
    /// The event that it was about.
    event_id: EventId,
    /// How often it was tried.
    attempts: u32,
    /// Why the last attempt failed.
    reason: String,
}
