//! What others may see of a worker's actor at any time.

use subagent_protocol::Error;
use subagent_protocol::process::ProcessId;
use subagent_protocol::state::WorkerState;

use super::Revival;
use crate::core::Worker;
use crate::core::worker::State;
use crate::store::Cursor;

/// The committed state of a worker. A new one is published after each commit.
#[derive(Debug, Clone)]
pub(in crate::supervisor) struct Snapshot {
    /// The rules' state.
    pub(in crate::supervisor) worker: Worker,
    /// The newest event.
    pub(in crate::supervisor) last_seq: i64,
    /// The error to show.
    pub(in crate::supervisor) last_error: Option<Error>,
    /// Why a worker without a connected runtime cannot go on. If it is settled, the runtime is gone.
    pub(in crate::supervisor) obstacle: Option<Error>,
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
    /// The version of the runtime that lives, once it has said hello.
    pub(in crate::supervisor) runtime_version: Option<String>,
    /// How far the journal was taken.
    pub(in crate::supervisor) cursor: Cursor,
    /// Records that were not understood.
    pub(in crate::supervisor) misread: u64,
    /// After how long its idle agent is ended.
    pub(in crate::supervisor) idle_timeout_ms: Option<u64>,
    /// Why it is not.
    pub(in crate::supervisor) hibernation_obstacle: Option<&'static str>,
    /// Whether the actor of an adopted worker knows how things stand.
    pub(in crate::supervisor) settled: bool,
}

impl Snapshot {
    /// The state to show: never one that needs a runtime when the runtime is known to be gone.
    pub(in crate::supervisor) fn public_state(&self) -> WorkerState {
        match (&self.obstacle, &self.worker.state) {
            (Some(_), _) if !self.settled => self.worker.public_state(),
            (Some(_), State::Starting | State::Turn(_) | State::Stopping(Some(_))) => WorkerState::Error,
            _ => self.worker.public_state(),
        }
    }
}
