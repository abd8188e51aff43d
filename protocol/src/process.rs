//! The identity of a process, as far as one can be told from a number that is given again.

use serde::{Deserialize, Serialize};

/// A pid with the start time that tells it from a later process of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// The process id.
    pub pid: i32,
    /// Clock ticks since boot (field 22 of `/proc/PID/stat` on Linux).
    pub start_time: u64,
}
