//! Reasons that clients see: of a cancel, and of a refusal by a worker that is stopped.

use subagent_protocol::state::WorkerState;
use subagent_protocol::{Code, Error};

/// Reason of a cancel because a question of the turn was not answered in time.
pub(super) const EXPIRED: &str = "a question was not answered in time";

/// Reason of a cancel in favor of another message.
pub(super) const STEERED: &str = "steered";

/// Reason of a cancel without another reason.
pub const CANCELED_BY_MANAGER: &str = "canceled by manager";

/// Reason of a cancel because the worker is stopped.
pub const STOPPED_BY_MANAGER: &str = "worker stopped by manager";

/// Reason of a cancel because the worker is restarted.
pub const RESTARTED_BY_MANAGER: &str = "worker restarted by manager";

/// Returns the error for a request that a stopped worker cannot execute.
pub fn stopped_for_good(state: WorkerState) -> Error {
    let message = "the worker was stopped for good; start another one with `subagent worker start`";
    Error::new(Code::WorkerStopped, message).with("state", state.as_str())
}
