//! A runtime that knows more than the store, because the database was replaced by an older copy.
//! Must not give a runtime a prompt.

use serde_json::json;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::TurnEnd;
use subagent_protocol::state::{Carrier, Dispatched, QuestionKind};
use subagent_protocol::{Code, Error, Result};

use super::approval::{AgentRequest, Approval};
use super::step::TransitionBuilder;
use super::worker::{Fact, LifecycleState, RuntimeTurn};

/// Message of a request whose text is lost.
const LOST_WORDS: &str = "A permission was requested before the database was restored, and its details are \
                          lost. The only possible answer is `cancelled`.";

impl TransitionBuilder {
    /// Opens a turn that the runtime was given and the store does not know.
    pub(super) fn recover_turn(&mut self, no: u64, id: TurnId) -> Result<()> {
        let fits = matches!(
            self.worker.state,
            LifecycleState::Starting | LifecycleState::Idle | LifecycleState::Error
        );
        if no <= self.worker.known_turn || !fits {
            let message = format!("the journal speaks of turn {no}, which is not open");
            return Err(Error::new(Code::Internal, message));
        }
        self.worker.known_turn = no;
        self.worker.last_turn = self.worker.last_turn.max(no);
        self.unqueue_recovered(&id);
        self.facts.push(Fact::TurnOpened { no, id: id.clone(), carrier: Carrier::Runtime });
        self.facts.push(Fact::TurnDispatching { no });
        let data = json!({"turnId": id, "input": null, "recovered": true});
        self.event(EventType::TurnStarted, data, Some(no));
        self.worker.state =
            LifecycleState::Turn(RuntimeTurn { no, id, dispatching: true, retried: false, cancel: None });
        Ok(())
    }

    /// Opens a question for which the agent waits, without its text.
    pub(super) fn recover_approval(&mut self, request_id: RequestId) {
        if self.worker.approvals.contains_key(&request_id) {
            return;
        }
        let turn = self.worker.asking_turn();
        let data =
            json!({"requestId": request_id, "kind": "tool.call", "message": LOST_WORDS, "options": []});
        self.event(EventType::ApprovalRequested, data, turn);
        // Whether it is an elicitation is unknown. Both kinds can be canceled.
        let kind = QuestionKind::Permission;
        self.worker
            .approvals
            .insert(request_id.clone(), AgentRequest { kind, turn, approval: Approval::Pending });
        self.facts.push(Fact::ApprovalOpened { request_id, kind, turn });
    }

    /// Ends a turn that may have been sent according to the store, but not according to the
    /// runtime: it was queued when the database was copied. It may no longer be wanted, so it is
    /// not sent.
    pub(super) fn end_untaken(&mut self) {
        self.close_turn(Some(TurnEnd::Failed {
            error: lost(
                "the turn was queued when the restored database was saved; it is unknown whether it was sent",
            ),
        }));
    }
}

/// Returns the end of a turn whose record is in a missing part of the journal.
pub(crate) fn missing_end() -> TurnEnd {
    TurnEnd::Failed {
        error: lost("the end of the turn could not be read; look at what it has done before sending again"),
    }
}

fn lost(message: &str) -> Error {
    Error::new(Code::RuntimeLost, message).with("dispatched", Dispatched::Maybe.as_str())
}
