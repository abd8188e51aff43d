//! Views of stored questions. No I/O.

use subagent_protocol::api::PendingApproval;
use subagent_protocol::elicitation::ElicitationView;
use subagent_protocol::event::ApprovalView;
use subagent_protocol::record::{ApprovalRequested, Child, ElicitationRequested};
use subagent_protocol::state::{Carrier, QuestionKind};

use crate::store::questions::ApprovalRow;

/// Returns the view of a pending question.
pub(crate) fn pending_approval(approval: ApprovalRow) -> PendingApproval {
    let child = child(&approval);
    let mut pending = match approval.kind {
        QuestionKind::Permission => pending_permission(approval),
        QuestionKind::Elicitation => {
            let view = elicitation_view(&approval);
            PendingApproval {
                request_id: approval.request_id,
                turn_id: approval.turn_id,
                kind: approval.kind.as_str().to_owned(),
                message: view.message.clone(),
                options: Vec::new(),
                status: approval.status,
                created_at: approval.asked_at,
                tool_call: view.fields(),
            }
        }
    };
    for (key, value) in [("sessionId", child.session_id), ("sessionTitle", child.session_title)] {
        if let Some(value) = value {
            pending.tool_call.insert(key.to_owned(), value.into());
        }
    }
    pending
}

/// Returns the text of a question for people.
pub(in crate::supervisor) fn message(question: &ApprovalRow) -> String {
    match question.kind {
        QuestionKind::Permission => approval_view(question).message,
        QuestionKind::Elicitation => elicitation_view(question).message,
    }
}

/// Returns the child session that asks, if there is one.
fn child(question: &ApprovalRow) -> Child {
    serde_json::from_str::<Child>(&question.asked).unwrap_or_default()
}

fn pending_permission(approval: ApprovalRow) -> PendingApproval {
    let view = approval_view(&approval);
    PendingApproval {
        request_id: approval.request_id,
        turn_id: approval.turn_id,
        kind: "tool.call".to_owned(),
        message: view.message,
        options: view.options,
        status: approval.status,
        created_at: approval.asked_at,
        tool_call: view.tool_call,
    }
}

/// Parses a stored permission request.
pub(in crate::supervisor) fn approval_view(approval: &ApprovalRow) -> ApprovalView {
    let view = match approval.carrier {
        Carrier::Runtime => serde_json::from_str::<ApprovalRequested>(&approval.asked)
            .map(|asked| ApprovalView::of_record(&asked)),
        Carrier::Local => serde_json::from_str(&approval.asked),
    };
    view.unwrap_or_else(|_| ApprovalView::of("null"))
}

/// Parses a stored elicitation.
pub(in crate::supervisor) fn elicitation_view(asked: &ApprovalRow) -> ElicitationView {
    match serde_json::from_str::<ElicitationRequested>(&asked.asked) {
        Ok(asked) => ElicitationView::of(asked.params.get()),
        Err(_) => ElicitationView::of("null"),
    }
}
