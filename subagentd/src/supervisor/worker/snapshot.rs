//! What others may see of a worker's actor at any time.

use subagent_protocol::Error;
use subagent_protocol::process::ProcessId;

use super::Revival;
use crate::core::Worker;

/// The committed state of a worker. A new one is published after each commit.
#[derive(Debug, Clone)]
pub(in crate::supervisor) struct Snapshot {
    /// The rules' state.
    pub(in crate::supervisor) worker: Worker,
    /// The newest event.
    pub(in crate::supervisor) last_seq: i64,
    /// The error to show.
    pub(in crate::supervisor) last_error: Option<Error>,
    /// The runtime's process.
    pub(in crate::supervisor) runtime: Option<ProcessId>,
    /// The last runtime that is known, whether it lives or not; `None` also for a worker that never had one.
    pub(in crate::supervisor) last_runtime: Option<ProcessId>,
    /// Whether there was ever a runtime.
    pub(in crate::supervisor) had_runtime: bool,
    /// The last start of a runtime that no message asked for.
    pub(in crate::supervisor) revival: Option<Revival>,
    /// Whether the runtime lives and does not answer.
    pub(in crate::supervisor) unresponsive: bool,
    /// Whether the actor of an adopted worker knows how things stand.
    pub(in crate::supervisor) settled: bool,
}
