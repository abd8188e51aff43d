//! The states of the written table that a history has reached, and which may follow which.

use subagent_protocol::state::WorkerState;

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

/// Returns whether a public state may follow another, by the contract and `docs/state-machines.md`.
pub fn may_follow(from: WorkerState, to: WorkerState) -> bool {
    use WorkerState as W;
    from == to
        || match from {
            W::Starting => matches!(to, W::Idle | W::Error | W::Stopped),
            W::Idle => matches!(to, W::Running | W::WaitingApproval | W::Stopped),
            W::Running => matches!(to, W::WaitingApproval | W::Canceling | W::Idle),
            W::WaitingApproval => matches!(to, W::Running | W::Canceling | W::Idle),
            W::Canceling => matches!(to, W::Idle | W::Stopped),
            W::Error => matches!(to, W::Starting | W::Running | W::WaitingApproval | W::Idle | W::Stopped),
            W::Stopped => false,
        }
}
