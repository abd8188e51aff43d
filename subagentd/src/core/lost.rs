//! The outcome of a turn, or of a worker, whose runtime died.

use subagent_protocol::record::TurnEnd;
use subagent_protocol::state::Dispatched;
use subagent_protocol::{Code, Error};

use super::step::TransitionBuilder;
use super::worker::{Fact, LifecycleState};

impl TransitionBuilder {
    pub(super) fn turn_lost(&mut self, rebooted: bool) {
        let (LifecycleState::Turn(turn) | LifecycleState::Stopping(Some(turn))) = &mut self.worker.state
        else {
            return;
        };
        if rebooted && !turn.dispatching {
            // The record of the prompt may have been in the missing part of the journal.
            turn.dispatching = true;
            self.facts.push(Fact::TurnDispatching { no: turn.no });
        }
        let dispatched = if turn.dispatching { Dispatched::Maybe } else { Dispatched::No };
        self.close_turn(Some(TurnEnd::Failed { error: runtime_lost(Some(dispatched)) }));
    }
}

/// Returns whether a turn ended because its runtime died. An accepted cancel counts then, although
/// the runtime could not journal it.
pub(super) fn lost(end: Option<&TurnEnd>) -> bool {
    matches!(end, Some(TurnEnd::Failed { error }) if error.code == Code::RuntimeLost)
}

/// Returns the error for a lost runtime. `dispatched` says whether the prompt of the open turn was
/// sent; `None` if no turn was open.
pub(super) fn runtime_lost(dispatched: Option<Dispatched>) -> Error {
    let message = match dispatched {
        None => "the worker's runtime died; the next message starts another one",
        Some(Dispatched::No) => "the worker's runtime died before the prompt was sent; send it again",
        Some(Dispatched::Maybe | Dispatched::Yes) => {
            "the worker's runtime died in the middle of the turn; look at what it has done before sending again"
        }
    };
    let error = Error::new(Code::RuntimeLost, message);
    match dispatched {
        None => error,
        Some(Dispatched::No) => error.with("dispatched", Dispatched::No.as_str()).retryable(),
        Some(dispatched) => error.with("dispatched", dispatched.as_str()),
    }
}
