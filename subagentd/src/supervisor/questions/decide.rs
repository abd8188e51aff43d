//! Decides permission requests.

use serde_json::{Value, json};
use subagent_core::model::{QuestionInput, Worker, WorkerInput, decision};
use subagent_protocol::Result;
use subagent_protocol::api::{ApprovalDecided, Decide};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::EventId;
use subagent_protocol::state::QuestionKind;

use super::standing_rules::derive;
use super::stored_decision::StoredDecision;
use super::{or_how_it_ended, question, wait_for_delivery};
use crate::store::{OwnerCheck, WorkerRow};
use crate::supervisor::orders::{RequestTarget, read_response};
use crate::supervisor::{ApiCaller, Supervisor, views};

/// Decides a permission request, and waits briefly for delivery to the agent.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `APPROVAL_NOT_FOUND{workerId,requestId,pendingRequestId}`,
/// `APPROVAL_NOT_PENDING{requestId,status}`, `INVALID_APPROVAL_DECISION`,
/// `INVALID_CONTROLLER_HANDLE`. `WORKER_NOT_WAITING_APPROVAL{workerId,state}` for a worker that
/// is stopped or never had a runtime. `INVALID_INPUT{kind}` for an elicitation.
pub(crate) async fn decide(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request_id: &str,
    request: Decide,
) -> Result<ApprovalDecided> {
    let row = supervisor.row(worker).await?;
    let (owner, key) = supervisor.guarded(caller, &format!("decide {worker} {request_id}"), &request)?;
    let response = match supervisor.recall(&key).await? {
        Some(response) => response,
        None => {
            // A caller that is not the owner gets only that error.
            supervisor.check_owner_of(&owner, &row).await?;
            let decided = decide_now(supervisor, &row, request_id, request, owner, key.clone()).await;
            supervisor.or_earlier(&key, decided).await?
        }
    };
    delivered(supervisor, worker, request_id, read_response::<StoredDecision>(response)?).await
}

async fn decide_now(
    supervisor: &Supervisor,
    row: &WorkerRow,
    request_id: &str,
    request: Decide,
    owner: OwnerCheck,
    key: Option<(String, String)>,
) -> Result<Value> {
    let found = question(supervisor, row, request_id, QuestionKind::Permission).await?;
    let choice = decision::choose(&views::question::approval_view(&found).options, &request)?;
    let always = match request.always {
        Some(scope) => Some(derive(supervisor, row, &found, &choice, scope).await?),
        None => None,
    };
    let handle = match supervisor.reach(row, &owner, &key).await? {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return Ok(response),
    };
    let (made, added_rule) = (choice.clone(), always.as_ref().map(|(rule, _)| rule.clone()));
    let respond = Box::new(move |_: &Worker, added: &[(EventType, i64)]| {
        let decided = added.iter().find(|(event_type, _)| *event_type == EventType::ApprovalDecided);
        let event_id = EventId(decided.map_or(0, |(_, seq)| *seq));
        json!(StoredDecision { always: added_rule, ..StoredDecision::of(&made, event_id) })
    });
    let (asked, note) = (found.request_id, request.note);
    let input = match always {
        Some((_, rule)) => {
            WorkerInput::Inbox(QuestionInput::DecideAlways { request_id: asked, choice, note, rule })
        }
        None => WorkerInput::Decide { request_id: asked, choice, note },
    };
    let decided = supervisor.order(&handle, Some(owner), key, input, respond).await;
    or_how_it_ended(supervisor, row, request_id, decided).await
}

async fn delivered(
    supervisor: &Supervisor,
    worker: &str,
    request_id: &str,
    decision: StoredDecision,
) -> Result<ApprovalDecided> {
    let row = supervisor.row(worker).await?;
    let (now, delivery, state) = wait_for_delivery(supervisor, worker, request_id).await?;
    Ok(ApprovalDecided {
        worker_id: row.worker_id,
        request_id: now.request_id,
        decision: decision.decision,
        option_id: decision.option_id,
        alias: decision.alias,
        state,
        event_id: decision.event_id,
        delivery: delivery.to_owned(),
        always: decision.always,
    })
}
