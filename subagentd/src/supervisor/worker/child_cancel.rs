//! Cancels a child session of the agent through the runtime. Stores nothing: the agent reports the
//! outcome, and a second cancel is harmless.

use subagent_core::model::LifecycleState;
use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::frame::{CANCEL_CHILD, Refusal, RuntimeCommand};
use subagent_protocol::{Code, Error, Result};
use tokio::sync::oneshot;

use super::actor::Actor;
use super::runtime::PendingCommand;

/// A request to cancel a child session.
pub(in crate::supervisor) struct ChildCancel {
    /// The agent's id of the session.
    pub(in crate::supervisor) session_id: String,
    /// Answered when the agent has been notified. Dropped if the runtime is lost before.
    pub(in crate::supervisor) reply: oneshot::Sender<Result<()>>,
}

impl Actor {
    pub(super) fn cancel_child(&mut self, order: ChildCancel) {
        let ChildCancel { session_id, reply } = order;
        if reply.is_closed() {
            // The request has already timed out.
            return;
        }
        match self.may_cancel_child() {
            Ok(()) => self
                .send_command(RuntimeCommand::CancelChild { session_id }, PendingCommand::CancelChild(reply)),
            Err(error) => {
                // The client may be gone.
                let _ = reply.send(Err(error));
            }
        }
    }

    fn may_cancel_child(&self) -> Result<()> {
        if matches!(self.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
            return Err(stopped_for_good(self.worker.public_state()));
        }
        match &self.runtime {
            None => Err(not_found()),
            Some(runtime) if !runtime.listens() => Err(broken()),
            Some(runtime) if !runtime.capabilities.iter().any(|known| known == CANCEL_CHILD) => {
                let message = "the worker's runtime is too old to cancel a session of its agent";
                let advice =
                    format!("cancel its turn, or run `subagent worker restart {}` first", self.worker_id);
                Err(Error::new(Code::InvalidWorkerState, message).recommend(advice))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Returns the error for a command that the runtime refused.
pub(super) fn refused(refusal: &Refusal) -> Error {
    match refusal {
        Refusal::NoSuchSession => not_found(),
        Refusal::Ending => {
            Error::new(Code::BackendUnavailable, "the worker's agent is being ended; try again").retryable()
        }
        other => {
            let message = format!("the worker's runtime did not take the cancel: {other:?}");
            Error::new(Code::BackendRuntimeError, message)
        }
    }
}

/// Returns the error for a runtime that cannot be reached or did not answer.
pub(in crate::supervisor) fn broken() -> Error {
    Error::new(Code::BackendSocketUnreachable, "the worker's runtime cannot be reached just now; try again")
        .retryable()
}

fn not_found() -> Error {
    let message = "the worker's agent has no such child session, or cannot cancel it separately";
    Error::new(Code::SessionNotFound, message)
        .recommend("`subagent worker show` lists them (childSessions); `subagent cancel` without a session ends the whole turn")
}
