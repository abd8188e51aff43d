//! Cancels a child session of the agent through the runtime. Stores nothing: the agent reports the
//! outcome, and a second cancel is harmless.

use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::frame::{CANCEL_CHILD, Refusal, RuntimeCommand};
use subagent_protocol::{Code, Error, Result};

use super::actor::Actor;
use super::message::ChildCancel;
use super::runtime::live::PendingCommand;

pub(super) fn cancel(actor: &mut Actor, order: ChildCancel) {
    let ChildCancel { session_id, reply } = order;
    if reply.is_closed() {
        // The request has already timed out.
        return;
    }
    match may_cancel(actor) {
        Ok(()) => {
            actor.runtime.send(RuntimeCommand::CancelChild { session_id }, PendingCommand::CancelChild(reply))
        }
        Err(error) => {
            // The client may be gone.
            let _ = reply.send(Err(error));
        }
    }
}

fn may_cancel(actor: &Actor) -> Result<()> {
    if actor.stops() {
        return Err(stopped_for_good(actor.worker.public_state()));
    }
    match &actor.runtime.live {
        None => Err(not_found()),
        Some(runtime) if !runtime.listens() => Err(broken()),
        Some(runtime) if !runtime.can(CANCEL_CHILD) => {
            let message = "the worker's runtime is too old to cancel a session of its agent";
            let advice = format!(
                "cancel its turn, or run `subagent worker restart {}` first",
                actor.identity.worker_id
            );
            Err(Error::new(Code::InvalidWorkerState, message).recommend(advice))
        }
        Some(_) => Ok(()),
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
