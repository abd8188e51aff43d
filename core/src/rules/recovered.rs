//! A runtime that knows more than the store, because the database was replaced by an older copy.
//! Must not give a runtime a prompt.

use subagent_protocol::data::EventData;
use subagent_protocol::data::questions::ApprovalRequestedEvent;
use subagent_protocol::data::turns::TurnStarted;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::TurnEnd;
use subagent_protocol::state::{Carrier, Dispatched, QuestionKind};
use subagent_protocol::{Code, Error, Result};

use super::transition::TransitionBuilder;
use super::turns::{queue, turn_end};
use crate::model::{AgentRequest, Approval, Fact, LifecycleState, RuntimeTurn};

/// Message of a request whose text is lost.
const LOST_WORDS: &str = "A permission was requested before the database was restored, and its details are \
                          lost. The only possible answer is `cancelled`.";

/// Opens a turn that the runtime was given and the store does not know.
pub(super) fn recover_turn(next: &mut TransitionBuilder, no: u64, id: TurnId) -> Result<()> {
    let fits =
        matches!(next.worker.state, LifecycleState::Starting | LifecycleState::Idle | LifecycleState::Error);
    if no <= next.worker.known_turn || !fits {
        let message = format!("the journal speaks of turn {no}, which is not open");
        return Err(Error::new(Code::Internal, message));
    }
    next.worker.known_turn = no;
    next.worker.last_turn = next.worker.last_turn.max(no);
    queue::unqueue_recovered(next, &id);
    next.facts.push(Fact::TurnOpened { no, id: id.clone(), carrier: Carrier::Runtime });
    next.facts.push(Fact::TurnDispatching { no });
    let data = TurnStarted { turn_id: id.clone(), input: None, recovered: Some(true) };
    next.event(EventData::TurnStarted(data), Some(no));
    next.worker.state =
        LifecycleState::Turn(RuntimeTurn { no, id, dispatching: true, retried: false, cancel: None });
    Ok(())
}

/// Opens a question for which the agent waits, without its text.
pub(super) fn recover_approval(next: &mut TransitionBuilder, request_id: RequestId) {
    if next.worker.approvals.contains_key(&request_id) {
        return;
    }
    let turn = next.worker.asking_turn();
    let data = ApprovalRequestedEvent::of_daemon(request_id.clone(), LOST_WORDS.to_owned(), Vec::new());
    next.event(EventData::ApprovalRequested(data), turn);
    // Whether it is an elicitation is unknown. Both kinds can be canceled.
    let kind = QuestionKind::Permission;
    next.worker
        .approvals
        .insert(request_id.clone(), AgentRequest { kind, turn, approval: Approval::Pending });
    next.facts.push(Fact::ApprovalOpened { request_id, kind, turn });
}

/// Ends a turn that may have been sent according to the store, but not according to the
/// runtime: it was queued when the database was copied. It may no longer be wanted, so it is
/// not sent.
pub(super) fn end_untaken(next: &mut TransitionBuilder) {
    turn_end::close_turn(
        next,
        Some(TurnEnd::Failed {
            error: lost(
                "the turn was queued when the restored database was saved; it is unknown whether it was sent",
            ),
        }),
    );
}

/// Returns the end of a turn whose record is in a missing part of the journal.
pub fn missing_end() -> TurnEnd {
    TurnEnd::Failed {
        error: lost("the end of the turn could not be read; look at what it has done before sending again"),
    }
}

fn lost(message: &str) -> Error {
    Error::new(Code::RuntimeLost, message).with("dispatched", Dispatched::Maybe.as_str())
}
