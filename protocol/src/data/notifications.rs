//! The `data` of events about notifications.

use serde::{Deserialize, Serialize};

use crate::ids::EventId;

/// A notification that is not retried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NotificationFailed {
    /// Name of the sink.
    pub sink: String,
    /// The kind of occasion.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::notification::Occasion))]
    pub occasion: String,
    /// Id of the event it is about.
    pub event_id: EventId,
    /// Number of attempts so far.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub reason: String,
}
