//! The identity of a process, in spite of reused pids.

use serde::{Deserialize, Serialize};

/// A pid with the start time that distinguishes it from a later process with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// The id of the process.
    pub pid: i32,
    /// Clock ticks since boot (field 22 of `/proc/PID/stat` on Linux).
    pub start_time: u64,
}
