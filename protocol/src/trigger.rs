//! Triggers: the occurrences that start work.

use serde::{Deserialize, Serialize};

use crate::state::words;

/// Maximum size of a payload, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;

words! {
    /// How a turn or a task ended.
    EndStatus {
        /// The turn or the task succeeded.
        Completed = "completed",
        /// The turn or the task failed.
        Failed = "failed",
        /// The turn or the task was canceled.
        Canceled = "canceled",
    }
}

/// The occurrences that fire a trigger. A request (`trigger fire`) fires any trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum TriggerSource {
    /// Only requests fire it.
    Request {},
    /// The end of a task, or of each turn of a worker that is no task.
    #[serde(rename_all = "camelCase")]
    After {
        /// The worker: its id, its name, or a prefix of its id. The id is stored.
        worker: String,
        /// Only ends with this status; any if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<EndStatus>,
    },
}
