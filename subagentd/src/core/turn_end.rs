//! The end of a turn and of its questions: the events, and whether the queue continues.

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::event::EventType;
use subagent_protocol::fields;
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::{ApprovalClosedReason, TurnEnd};
use subagent_protocol::state::{Dispatched, QueuePause, TurnStatus, UnparkReason};

use super::approval::{AgentRequest, ApprovalInput, event_of};
use super::lost::lost;
use super::step::TransitionBuilder;
use super::worker::{Fact, LifecycleState, STOPPED_BY_MANAGER};

/// The ACP method that cancels a turn; agents must obey it.
const CANCEL: &str = "session/cancel";

/// Returns whether the agent ignored the cancel, so that its runtime ended it.
fn ignored_cancel(end: &TurnEnd) -> bool {
    let TurnEnd::Failed { error } = end else { return false };
    error.code == Code::BackendTimeout && error.details.get("method").is_some_and(|method| method == CANCEL)
}

impl TransitionBuilder {
    /// Ends the open turn, if there is one. `end` is `None` if the runtime did not report an end.
    pub(super) fn close_turn(&mut self, end: Option<TurnEnd>) {
        if let Some(no) = self.worker.turn().map(|turn| turn.no) {
            // The runtime closes questions before it ends a turn. A remaining one would stay open
            // forever. Questions from outside of the turn stay open.
            let closed = ApprovalInput::Closed(ApprovalClosedReason::TurnEnded);
            self.end_approvals(&closed, |asked| asked.turn == Some(no));
        }
        let turn = match &mut self.worker.state {
            LifecycleState::Turn(turn) => {
                let turn = turn.clone();
                self.worker.state = LifecycleState::Idle;
                turn
            }
            LifecycleState::Stopping(open) => match open.take() {
                Some(turn) => turn,
                None => return,
            },
            LifecycleState::Starting
            | LifecycleState::Idle
            | LifecycleState::Local(_)
            | LifecycleState::Error
            | LifecycleState::Stopped => return,
        };
        self.spend_turn(&turn, end.as_ref());
        // A cancel that the runtime did not journal counts only if the runtime did not decide the
        // end.
        let is_lost = lost(end.as_ref());
        let own = !turn.dispatching || end.is_none() || is_lost;
        let canceled = turn.cancel.as_ref().filter(|cancel| cancel.requested || own);
        let (status, event_type, data) = match (canceled, end) {
            (Some(cancel), end) => {
                let mut data = json!({"turnId": turn.id, "reason": cancel.reason});
                if end.as_ref().is_some_and(ignored_cancel) {
                    data["forced"] = true.into();
                }
                (TurnStatus::Canceled, EventType::TurnCanceled, data)
            }
            (None, Some(TurnEnd::Answered { stop_reason, usage, meta })) => {
                let mut data = json!({"turnId": turn.id, "outcome": "completed", "state": "idle"});
                if let Some(stop_reason) = stop_reason {
                    data["stopReason"] = stop_reason.into();
                }
                if let Some(usage) = fields::usage_of_turn(usage.as_ref(), meta.as_ref()) {
                    data["usage"] = usage;
                }
                // Cleared only by a completed turn, so that the next message does not hide the last
                // error.
                self.facts.push(Fact::LastError(None));
                (TurnStatus::Completed, EventType::TurnCompleted, data)
            }
            (None, Some(TurnEnd::Failed { error })) => {
                let data = json!({"turnId": turn.id, "error": error});
                self.facts.push(Fact::LastError(Some(error)));
                (TurnStatus::Failed, EventType::TurnFailed, data)
            }
            (None, None) => {
                let data = json!({"turnId": turn.id, "reason": STOPPED_BY_MANAGER});
                (TurnStatus::Canceled, EventType::TurnCanceled, data)
            }
        };
        let pause = match status {
            TurnStatus::Failed if is_lost => Some(QueuePause::TurnLost),
            TurnStatus::Failed => Some(QueuePause::TurnFailed),
            TurnStatus::Completed | TurnStatus::Canceled | TurnStatus::Accepted => None,
        };
        let dispatched = match (turn.dispatching, &status) {
            (false, _) => Dispatched::No,
            (true, TurnStatus::Completed) => Dispatched::Yes,
            (true, _) => Dispatched::Maybe,
        };
        self.event(event_type, data, Some(turn.no));
        self.facts.push(Fact::TurnClosed { no: turn.no, status, dispatched });
        if let Some(reason) = pause
            && !self.park(Some(&turn.id))
        {
            self.pause(reason, Some(&turn.id));
        }
        if status == TurnStatus::Completed {
            self.unpark(UnparkReason::TurnCompleted);
        }
    }

    pub(super) fn end_approvals(&mut self, input: &ApprovalInput, which: impl Fn(&AgentRequest) -> bool) {
        let chosen = self.worker.approvals.iter().filter(|(_, asked)| which(asked));
        for request_id in chosen.map(|(request_id, _)| request_id.clone()).collect::<Vec<_>>() {
            self.end_approval(&request_id, input);
        }
    }

    pub(super) fn end_approval(&mut self, request_id: &RequestId, input: &ApprovalInput) {
        // A hidden question is shown before its end is reported.
        self.release(request_id);
        // An input for a closed question is a repetition after a restart.
        let Some(AgentRequest { kind, turn, approval }) = self.worker.approvals.remove(request_id) else {
            return;
        };
        let status = approval.end(input);
        let reason = match input {
            ApprovalInput::Closed(reason) => reason.as_str(),
            ApprovalInput::Lost => "runtime_lost",
            ApprovalInput::AnswerWritten | ApprovalInput::AnswerRefused => "unknown_to_the_agent",
        };
        let data = json!({"requestId": request_id, "reason": reason});
        if let Some(event_type) = event_of(kind, status) {
            self.event(event_type, data, turn);
        }
        self.facts.push(Fact::ApprovalClosed { request_id: request_id.clone(), status });
    }
}
