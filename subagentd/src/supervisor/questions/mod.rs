//! Answers elicitations, and has what decisions about permission requests share with them.

pub(crate) mod answer_time;
pub(crate) mod decide;
pub(crate) mod inbox;
pub(crate) mod standing_rules;
pub(crate) mod stored_decision;

use std::time::Duration;

use serde_json::{Value, json};
use subagent_core::model::{ElicitationReply, Worker, WorkerInput};
use subagent_protocol::api::{Answer, DecidedBy, Decider, ElicitationAnswered, OpenQuestion};
use subagent_protocol::elicitation::{self, ElicitationView, content};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::EventId;
use subagent_protocol::secret::Secret;
use subagent_protocol::state::{ApprovalStatus, ElicitationAction, QuestionKind, WorkerState};
use subagent_protocol::{Code, Error, Result};

use super::orders::{RequestTarget, read_response};
use super::{ApiCaller, Supervisor, views};
use crate::store::questions::{self, ApprovalRow};
use crate::store::{Connection, OwnerCheck, WorkerRow};

/// Time that an answer waits for delivery to the agent.
pub(super) const DELIVERY: Duration = Duration::from_secs(5);

/// Answers an elicitation, and waits briefly for delivery to the agent.
///
/// # Errors
/// As [`Self::decide`], and `INVALID_ELICITATION_CONTENT{field,allowed}` for content that does
/// not fit.
pub(crate) async fn answer(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request_id: &str,
    request: Answer,
) -> Result<ElicitationAnswered> {
    let row = supervisor.row(worker).await?;
    // The fingerprint of the request must not reveal the answered values, not even as a hash.
    let names = |request: &Answer| {
        let fields = request.content.iter().flat_map(|content| content.0.keys());
        let words = request.set.iter().flat_map(|set| set.0.iter().map(|(field, _)| field));
        let mut names: Vec<String> = fields.chain(words).cloned().collect();
        names.sort_unstable();
        names
    };
    let what = (request.action, names(&request));
    let (owner, key) = supervisor.guarded(caller, &format!("answer {worker} {request_id}"), &what)?;
    let response = match supervisor.recall(&key).await? {
        Some(response) => response,
        None => {
            // A caller that is not the owner gets only that error.
            supervisor.check_owner_of(&owner, &row).await?;
            let answered = answer_now(supervisor, &row, request_id, request, owner, key.clone()).await;
            supervisor.or_earlier(&key, answered).await?
        }
    };
    let kept: StoredAnswer = read_response(response)?;
    let (now, delivery, state) = wait_for_delivery(supervisor, worker, request_id).await?;
    Ok(ElicitationAnswered {
        worker_id: row.worker_id,
        request_id: now.request_id,
        action: kept.action,
        state,
        event_id: kept.event_id,
        delivery: delivery.to_owned(),
    })
}

async fn answer_now(
    supervisor: &Supervisor,
    row: &WorkerRow,
    request_id: &str,
    request: Answer,
    owner: OwnerCheck,
    key: Option<(String, String)>,
) -> Result<Value> {
    let found = question(supervisor, row, request_id, QuestionKind::Elicitation).await?;
    let reply = reply(&views::question::elicitation_view(&found), request)?;
    let handle = match supervisor.reach(row, &owner, &key).await? {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return Ok(response),
    };
    let action = reply.action;
    let respond = Box::new(move |_: &Worker, added: &[(EventType, i64)]| {
        let answered = added.iter().find(|(event_type, _)| *event_type == EventType::ElicitationAnswered);
        json!({"action": action, "eventId": EventId(answered.map_or(0, |(_, seq)| *seq))})
    });
    let input = WorkerInput::Answer { request_id: found.request_id, reply };
    let answered = supervisor.order(&handle, Some(owner), key, input, respond).await;
    or_how_it_ended(supervisor, row, request_id, answered).await
}

/// Returns the open question of this kind, for an answer.
///
/// # Errors
/// `WORKER_NOT_WAITING_APPROVAL{workerId,state}`,
/// `APPROVAL_NOT_FOUND{workerId,requestId,pendingRequestId}`,
/// `APPROVAL_NOT_PENDING{requestId,status}`; `INVALID_INPUT{requestId,kind,recommendedCommand}`
/// if another command answers it.
pub(super) async fn question(
    supervisor: &Supervisor,
    row: &WorkerRow,
    request_id: &str,
    kind: QuestionKind,
) -> Result<ApprovalRow> {
    let worker = row.worker_id.as_str();
    if row.incarnation == 0 || row.state == "stopped" {
        // The agent cannot have asked anything.
        let state = supervisor.view(row).await.state;
        if state != WorkerState::WaitingApproval {
            let message = format!("the worker is {state} and waits for no permission");
            return Err(Error::new(Code::WorkerNotWaitingApproval, message)
                .with("workerId", worker)
                .with("state", state.as_str()));
        }
    }
    let (id, asked) = (row.id, request_id.to_owned());
    let (found, pending) = supervisor
        .shared
        .store
        .read(move |connection| {
            let found = questions::list(connection, id, Some(&asked))?.pop();
            Ok((found, questions::list(connection, id, None)?))
        })
        .await?;
    let Some(found) = found else {
        let what = match kind {
            QuestionKind::Permission => "the worker has no such permission request",
            QuestionKind::Elicitation => "the worker has no such elicitation",
        };
        let error =
            Error::new(Code::ApprovalNotFound, what).with("workerId", worker).with("requestId", request_id);
        return Err(match pending.first() {
            Some(first) => error.with("pendingRequestId", first.request_id.as_str()),
            None => error,
        });
    };
    if found.status != ApprovalStatus::Pending {
        return Err(not_pending(supervisor, request_id, found.status).await);
    }
    if found.kind != kind {
        return Err(other_command(worker, &found));
    }
    Ok(found)
}

/// Returns a question of a worker as it is stored now, open or closed.
async fn stored(supervisor: &Supervisor, row: &WorkerRow, request_id: &str) -> Result<Option<ApprovalRow>> {
    let (id, asked) = (row.id, request_id.to_owned());
    let read = move |connection: &Connection| Ok(questions::list(connection, id, Some(&asked))?.pop());
    supervisor.shared.store.read(read).await
}

/// Returns the result of an order. If the question was closed before the order was executed,
/// the error says how.
pub(super) async fn or_how_it_ended(
    supervisor: &Supervisor,
    row: &WorkerRow,
    request_id: &str,
    result: Result<Value>,
) -> Result<Value> {
    match result {
        Err(error) if matches!(error.code, Code::ApprovalNotFound | Code::ApprovalNotPending) => {
            Err(match stored(supervisor, row, request_id).await? {
                Some(now) => not_pending(supervisor, request_id, now.status).await,
                None => error,
            })
        }
        result => result,
    }
}

/// Returns the error for a question that is closed, with what decided it.
async fn not_pending(supervisor: &Supervisor, request_id: &str, status: ApprovalStatus) -> Error {
    let asked = request_id.to_owned();
    // The question is closed even if its decider cannot be read.
    let decider =
        supervisor.shared.store.read(move |connection| questions::inbox::decider(connection, &asked)).await;
    let decider = decider.unwrap_or_default();
    let message = match &decider {
        Some(Decider { by, decision, .. }) => {
            let who = match by {
                DecidedBy::Owner => "its owner",
                DecidedBy::Rule => "a rule",
                DecidedBy::Hook => "a hook",
                DecidedBy::Deadline => "its deadline",
                DecidedBy::Cancel => "the cancel of its turn",
            };
            format!("{who} has decided the question: {decision}")
        }
        None => format!("the question is {status} and can no longer be decided"),
    };
    Error::new(Code::ApprovalNotPending, message)
        .with("requestId", request_id)
        .with("status", status.as_str())
        .with("decidedBy", json!(decider))
}

/// Waits briefly for delivery to the agent. Returns the state of the question then, and of the
/// worker.
pub(super) async fn wait_for_delivery(
    supervisor: &Supervisor,
    worker: &str,
    request_id: &str,
) -> Result<(ApprovalRow, &'static str, WorkerState)> {
    let row = supervisor.row(worker).await?;
    if let Ok(handle) = supervisor.roster.live(worker) {
        let mut snapshots = handle.follow();
        let delivered = snapshots
            .wait_for(|snapshot| !snapshot.worker.approvals.keys().any(|open| open.as_str() == request_id));
        // A timeout is reported as `pending`.
        let _ = tokio::time::timeout(DELIVERY, delivered).await;
    }
    let Some(now) = stored(supervisor, &row, request_id).await? else {
        return Err(Error::new(Code::ApprovalNotFound, "the question is gone"));
    };
    let delivery = delivery(now.status);
    let state = supervisor.view(&row).await.state;
    Ok((now, delivery, state))
}

/// Returns the open questions of a worker in short form, oldest first.
pub(super) async fn open_questions(supervisor: &Supervisor, row: &WorkerRow) -> Result<Vec<OpenQuestion>> {
    let id = row.id;
    let open = supervisor.shared.store.read(move |connection| questions::list(connection, id, None)).await?;
    let shown = open.into_iter().map(|question| OpenQuestion {
        message: elicitation::summary(&views::question::message(&question)),
        request_id: question.request_id,
        kind: question.kind,
    });
    Ok(shown.collect())
}

/// Returns whether a decision was delivered to the agent.
pub(super) const fn delivery(status: ApprovalStatus) -> &'static str {
    match status {
        ApprovalStatus::Decided | ApprovalStatus::Pending => "pending",
        ApprovalStatus::Delivered => "delivered",
        _ => "undelivered",
    }
}

/// The stored result of an answer, for repetitions.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredAnswer {
    action: ElicitationAction,
    event_id: EventId,
}

fn reply(asked: &ElicitationView, request: Answer) -> Result<ElicitationReply> {
    let Answer { action, content, set } = request;
    let (content, set) = (content.map(|content| content.0), set.map(|set| set.0).unwrap_or_default());
    if action != ElicitationAction::Accept {
        if content.is_some() || !set.is_empty() {
            let message = format!("values are given only to accept; {action} takes none");
            return Err(Error::new(Code::InvalidInput, message));
        }
        return Ok(ElicitationReply { action, fields: Vec::new(), content: None });
    }
    let Some(content) = content::fill(asked, content, &set)? else {
        return Ok(ElicitationReply { action, fields: Vec::new(), content: None });
    };
    let mut fields: Vec<String> = content.keys().cloned().collect();
    fields.sort_unstable();
    Ok(ElicitationReply { action, fields, content: Some(Secret(Value::Object(content).to_string())) })
}

/// Returns the error for a question that another command answers.
fn other_command(worker: &str, found: &ApprovalRow) -> Error {
    let request = found.request_id.as_str();
    let (message, command) = match found.kind {
        QuestionKind::Elicitation => (
            "this is an elicitation, not a permission request: answer it with `subagent answer`",
            format!("subagent answer --worker-id {worker} --request {request} --accept"),
        ),
        QuestionKind::Permission => (
            "this is a permission request, not an elicitation: decide it with `subagent approve`",
            format!("subagent approve --worker-id {worker} --request {request} --decision allow"),
        ),
    };
    Error::new(Code::InvalidInput, message)
        .with("requestId", request)
        .with("kind", found.kind.as_str())
        .with("recommendedCommand", command)
}
