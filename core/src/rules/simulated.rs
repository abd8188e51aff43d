//! Turns that the daemon simulates (contract section 9, debug mode), for trying scripts without an
//! agent. Must not give orders to a runtime, and must not depend on the state of one.

use subagent_protocol::api::DecidedBy;
use subagent_protocol::data::EventData;
use subagent_protocol::data::questions::{ApprovalOver, ApprovalRequestedEvent};
use subagent_protocol::data::turns::{ProgressMessage, TurnCanceledEvent, TurnCompleted};
use subagent_protocol::event::ApprovalOption;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::ApprovalClosedReason;
use subagent_protocol::state::{ApprovalStatus, Dispatched, QuestionKind, TurnStatus};

use super::permissions::approvals::decided;
use super::reasons::CANCELED_BY_MANAGER;
use super::transition::TransitionBuilder;
use crate::model::{Fact, LifecycleState, PermissionDecision, SimulatedTurn};

/// Text of the simulated agent.
const STATUS: &str = "STATUS: turn accepted and completed in local runtime.";

/// Id of the option that allows.
const ALLOW: &str = "allow";

/// Completes a simulated turn at once.
pub(super) fn play(next: &mut TransitionBuilder, no: u64, id: &TurnId) {
    let said = ProgressMessage { role: "assistant".to_owned(), text: STATUS.to_owned() };
    next.event(EventData::ProgressMessage(said), Some(no));
    end_local(next, no, TurnStatus::Completed, completed(id, "completed"));
}

/// Asks for a simulated permission. The turn stays open until it is answered.
pub(super) fn ask_locally(next: &mut TransitionBuilder, no: u64, id: TurnId, request_id: RequestId) {
    let option = |id: &str, label: &str| ApprovalOption {
        id: id.to_owned(),
        alias: id.to_owned(),
        label: label.to_owned(),
        kind: None,
    };
    let options = vec![option(ALLOW, "Allow"), option("deny", "Deny")];
    let message = format!("Permission requested for {id}");
    let data = ApprovalRequestedEvent::of_daemon(request_id.clone(), message, options);
    next.event(EventData::ApprovalRequested(data), Some(no));
    next.facts.push(Fact::ApprovalOpened {
        request_id: request_id.clone(),
        kind: QuestionKind::Permission,
        turn: Some(no),
    });
    next.worker.state = LifecycleState::Local(SimulatedTurn { no, id, request_id });
}

/// Ends the turn with the answer.
pub(super) fn decide_local(
    next: &mut TransitionBuilder,
    local: &SimulatedTurn,
    choice: &PermissionDecision,
    note: Option<String>,
    by: DecidedBy,
) {
    let data = decided(&local.request_id, choice, note.clone(), by);
    next.event(EventData::ApprovalDecided(data), Some(local.no));
    let Some(option_id) = choice.option_id.clone() else {
        answered(next, local, None, false);
        return canceled_local(next, local, &note.unwrap_or_else(|| CANCELED_BY_MANAGER.to_owned()));
    };
    let outcome = if option_id == ALLOW { "approved" } else { "rejected" };
    answered(next, local, Some(option_id), false);
    let data = completed(&local.id, outcome);
    end_local(next, local.no, TurnStatus::Completed, data);
}

/// Cancels the turn, and its request, for a cancel or restart.
pub(super) fn cancel_local(next: &mut TransitionBuilder, local: &SimulatedTurn, reason: String) {
    let note = Some(reason.clone());
    let data = decided(&local.request_id, &PermissionDecision::cancelled(), note, DecidedBy::Cancel);
    next.event(EventData::ApprovalDecided(data), Some(local.no));
    answered(next, local, None, true);
    canceled_local(next, local, &reason);
}

/// Cancels the turn for a stop, which decides no request.
pub(super) fn stop_local(next: &mut TransitionBuilder, local: &SimulatedTurn, reason: &str) {
    let closed = ApprovalClosedReason::Stopped.as_str();
    let over = ApprovalOver { request_id: local.request_id.clone(), reason: closed.to_owned() };
    next.event(EventData::ApprovalCanceled(over), Some(local.no));
    let request_id = local.request_id.clone();
    next.facts.push(Fact::ApprovalClosed { request_id, status: ApprovalStatus::Canceled });
    canceled_local(next, local, reason);
}

/// Records the delivery together with the decision, because the daemon itself asked.
fn answered(next: &mut TransitionBuilder, local: &SimulatedTurn, option_id: Option<String>, by_cancel: bool) {
    let request_id = local.request_id.clone();
    next.facts.push(Fact::ApprovalDecided {
        request_id: request_id.clone(),
        option_id,
        content: None,
        by_cancel,
    });
    next.facts.push(Fact::ApprovalClosed { request_id, status: ApprovalStatus::Delivered });
}

fn canceled_local(next: &mut TransitionBuilder, local: &SimulatedTurn, reason: &str) {
    let data = TurnCanceledEvent { turn_id: local.id.clone(), reason: reason.to_owned(), forced: None };
    end_local(next, local.no, TurnStatus::Canceled, EventData::TurnCanceled(data));
}

fn end_local(next: &mut TransitionBuilder, no: u64, status: TurnStatus, data: EventData) {
    next.event(data, Some(no));
    next.facts.push(Fact::TurnClosed { no, status, dispatched: Dispatched::No });
    next.worker.state = LifecycleState::Idle;
}

fn completed(id: &TurnId, outcome: &str) -> EventData {
    EventData::TurnCompleted(TurnCompleted::new(id.clone(), outcome))
}
