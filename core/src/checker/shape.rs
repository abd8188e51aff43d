//! The states of the written table that a history has reached.

use super::rows;

use crate::model::{Approval, LifecycleState, RuntimeTurn, Worker};

/// The properties that distinguish states in the written table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateShape {
    pub(crate) state: &'static str,
    /// Whether the prompt may have been sent, and the state of the cancel.
    pub(crate) turn: Option<(bool, &'static str)>,
    /// Whether any request is pending, decided, or decided by a cancel.
    pub(crate) approvals: (bool, bool, bool),
    pub(crate) parked: bool,
}

impl StateShape {
    pub(crate) fn of(worker: &Worker) -> Self {
        let cancel = |turn: &RuntimeTurn| match &turn.cancel {
            None => "none",
            Some(cancel) if cancel.requested => "requested",
            Some(_) => "wanted",
        };
        let any =
            |which: fn(&Approval) -> bool| worker.approvals.values().any(|asked| which(&asked.approval));
        Self {
            state: rows::word(&worker.state),
            turn: worker.turn().map(|turn| (turn.dispatching, cancel(turn))),
            approvals: (
                any(|a| *a == Approval::Pending),
                any(|a| matches!(a, Approval::Decided { .. })),
                any(|a| *a == Approval::DecidedByCancel),
            ),
            parked: worker.is_parked(),
        }
    }
}

pub(crate) fn is_stopped(worker: &Worker) -> bool {
    worker.state == LifecycleState::Stopped
}
