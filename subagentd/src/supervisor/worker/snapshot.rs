//! The state of a worker's actor that others can read at any time.

use subagent_core::model::{LifecycleState, Worker};
use subagent_protocol::Error;
use subagent_protocol::process::ProcessId;
use subagent_protocol::state::WorkerState;

use super::runtime::revival::Revival;
use crate::store::Cursor;

/// The committed state of a worker. Each commit publishes a new one.
#[derive(Debug, Clone)]
pub(in crate::supervisor) struct Snapshot {
    /// State of the rules.
    pub(in crate::supervisor) worker: Worker,
    /// Sequence number of the newest event.
    pub(in crate::supervisor) last_seq: i64,
    /// The last error of the worker.
    pub(in crate::supervisor) last_error: Option<Error>,
    /// Why a worker without a connected runtime cannot go on. If it is settled, the runtime is
    /// gone.
    pub(in crate::supervisor) obstacle: Option<Error>,
    /// Process of the live runtime.
    pub(in crate::supervisor) runtime: Option<ProcessId>,
    /// Process of the last known runtime, alive or not. `None` for a worker that never had one.
    pub(in crate::supervisor) last_runtime: Option<ProcessId>,
    /// Whether there was ever a runtime.
    pub(in crate::supervisor) had_runtime: bool,
    /// The last start of a runtime without a message.
    pub(in crate::supervisor) revival: Option<Revival>,
    /// Whether the runtime is alive and does not answer.
    pub(in crate::supervisor) unresponsive: bool,
    /// Version of the live runtime, after its hello.
    pub(in crate::supervisor) runtime_version: Option<String>,
    /// Position up to which the journal was read.
    pub(in crate::supervisor) cursor: Cursor,
    /// Number of unreadable records.
    pub(in crate::supervisor) misread: u64,
    /// Time after which an idle agent is ended.
    pub(in crate::supervisor) idle_timeout_ms: Option<u64>,
    /// Why the agent cannot be ended.
    pub(in crate::supervisor) hibernation_obstacle: Option<&'static str>,
    /// Whether the actor knows the state of its runtime.
    pub(in crate::supervisor) settled: bool,
}

impl Snapshot {
    /// Returns the public state. Never one that needs a runtime while the runtime is known to be
    /// gone.
    pub(in crate::supervisor) fn public_state(&self) -> WorkerState {
        match (&self.obstacle, &self.worker.state) {
            (Some(_), _) if !self.settled => self.worker.public_state(),
            (
                Some(_),
                LifecycleState::Starting | LifecycleState::Turn(_) | LifecycleState::Stopping(Some(_)),
            ) => WorkerState::Error,
            _ => self.worker.public_state(),
        }
    }
}
