//! Sends messages and cancels turns.

pub(crate) mod agent_change;
pub(crate) mod agent_sent;
pub(crate) mod attachments;
pub(crate) mod child_cancel;
pub(crate) mod nesting_limit;
pub(crate) mod options;
pub(crate) mod queue;
pub(crate) mod text;
pub(crate) mod titles;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use subagent_core::model::{By, QueuePosition, Queued, RuntimeStatus, Worker, WorkerInput};
use subagent_core::rules::reasons::CANCELED_BY_MANAGER;
use subagent_protocol::api::{
    CancelTurn, ControllerHandle, IfBusy, SendTurn, Simulation, TurnAccepted, TurnCanceled,
};
use subagent_protocol::attachment::{Attachment, Content};
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{EventId, RequestId, TurnId, WorkerId};
use subagent_protocol::json::extend;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::state::WorkerState;
use subagent_protocol::{Code, Error, Result};

use super::orders::{RequestTarget, read_response};
use super::start::environment::AgentEnvironment;
use super::start::spec::{self, timeouts};
use super::worker::{self, Also, Respond};
use super::{ApiCaller, Supervisor, entropy, hooks};
use crate::store::{OwnerCheck, RowId, Tx, WorkerRow, events, turns};
use crate::supervisor::turns::text::{MAX_PROMPT_BYTES, check_size};
use crate::supervisor::turns::titles::{label_by_task, title_prompt};

/// Time that `cancel` waits beyond the launcher's grace. The agent is killed within this time.
const CANCEL_MARGIN: Duration = Duration::from_secs(20);

/// Accepts a message. Returns as soon as the turn is stored; a simulated turn may be over then.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `WORKER_BUSY`, `WORKER_STOPPED`, `QUEUE_PAUSED{workerId,length,reason}`,
/// `QUEUE_FULL{workerId,limit,length}`, `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`,
/// `HOOK_DENIED{workerId,hook}`, `HOOK_FAILED{workerId,hook}`, `PAYLOAD_TOO_LARGE{limitBytes}`.
/// `INVALID_INPUT` for an empty message or blocks that are nested too deeply.
/// `ENV_REQUIRED{workerId}` if an agent must be started and its environment is gone.
/// `STORAGE_ERROR` for a worker that is set aside.
pub(crate) async fn send(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    mut request: SendTurn,
) -> Result<TurnAccepted> {
    let environment = AgentEnvironment::taken(&mut request.env, &mut request.mcp_servers)?;
    let row = supervisor.row(worker).await?;
    if request.simulate.is_none()
        && request.text.trim().is_empty()
        && request.blocks.is_empty()
        && request.attachments.is_empty()
    {
        return Err(Error::new(Code::InvalidInput, "the message is empty: give a text or blocks"));
    }
    if subagent_failpoint::sabotaged("log.prompt") {
        tracing::trace!(text = request.text, "sent");
    }
    check_size(&request, MAX_PROMPT_BYTES)?;
    nesting_limit::check(&request.blocks)?;
    attachments::check(&request.attachments)?;
    let sender = caller.handle.as_ref().and_then(ControllerHandle::epoch_number);
    let (owner, key) = supervisor.guarded(caller, &format!("send {worker}"), &request)?;
    let reached = supervisor.reach(&row, &owner, &key).await;
    let handle = match reached.map_err(|error| supervisor.shared.refused(&row, error))? {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return read_response(response),
    };
    let turn_id = TurnId::from_random(entropy::random()?);
    if request.simulate.is_none()
        && let Some(mut prompt) = hooks::prompt_to(&supervisor.shared, &row, all_text(&request)).await?
    {
        supervisor.check_owner_of(&owner, &row).await?;
        // Hooks run once: a repetition of an accepted message does not run them again.
        if let Some(response) = supervisor.recall(&key).await? {
            return read_response(response);
        }
        prompt.turn_id = Some(turn_id.clone());
        let context = hooks::of_prompt(&supervisor.shared, prompt).await;
        if let Some(context) = context.map_err(|error| error.with("workerId", worker))? {
            request.text = format!("{}\n\n{context}", request.text);
            check_size(&request, MAX_PROMPT_BYTES)?;
        }
    }
    let also = agent_sent::accept(&request, &row)?.map(|agent| {
        let turn_id = turn_id.clone();
        Box::new(move |tx: &mut Tx<'_>, id: RowId| turns::queue::store_agent(tx, id, &turn_id, agent)) as Also
    });
    let if_busy = request.if_busy.unwrap_or(IfBusy::Reject);
    let by = match request.simulate {
        None => By::Runtime,
        Some(Simulation::Turn) => By::Local,
        Some(Simulation::Approval) => {
            By::LocalAsking { request_id: RequestId::from_random(entropy::random()?) }
        }
    };
    let asked = match &by {
        By::LocalAsking { request_id } => Some(request_id.clone()),
        By::Runtime | By::Local => None,
    };
    let message = message(&request);
    let title = title_prompt(&row, &request.text).filter(|_| by == By::Runtime);
    let blocks_count = request.blocks.len() as u64;
    let started = TurnInput { text: request.text.clone(), blocks_count, subagent: None };
    let urgency = match if_busy {
        // Simulated turns need an idle worker.
        _ if by != By::Runtime => None,
        IfBusy::Reject => None,
        IfBusy::Queue => Some(QueuePosition::Queued),
        IfBusy::Steer => Some(QueuePosition::Steered),
    };
    let input = match urgency {
        None => WorkerInput::Send { turn_id: turn_id.clone(), input: started, message, by },
        Some(urgency) => WorkerInput::Enqueue {
            queued: Queued { turn_id: turn_id.clone(), message, input: started, sender },
            urgency,
            most: spec::queue_limit(&row),
        },
    };
    let definition = request.agent.as_ref().map(|change| change.agent.name.clone());
    let accepted = accepted(row.worker_id.clone(), turn_id, asked);
    let unreachable = handle.snapshot.borrow().unreachable.clone().filter(|_| request.simulate.is_none());
    let respond: Respond = Box::new(move |next, added| {
        let mut response = accepted(next, added);
        if let Some(unreachable) = unreachable {
            extend(&mut response, [("unreachable", json!(unreachable))]);
        }
        if let Some(name) = definition {
            extend(&mut response, [("agentDefinition", name.into())]);
        }
        response
    });
    match supervisor.order_also(&handle, Some(owner), key, input, respond, environment, also).await {
        Ok(response) => {
            if let Some(prompt) = title {
                label_by_task(supervisor, &row, prompt);
            }
            read_response(response)
        }
        Err(error) => Err(supervisor.shared.refused(&row, of_worker(error, worker))),
    }
}

/// Cancels the open turn and waits for its end.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `WORKER_NOT_RUNNING{workerId,state,latestEvent}`,
/// `TURN_NOT_OPEN{turnId,state}`, `INVALID_CONTROLLER_HANDLE`; `STORAGE_ERROR` for a worker that
/// is set aside.
pub(crate) async fn cancel(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request: CancelTurn,
) -> Result<TurnCanceled> {
    let row = supervisor.row(worker).await?;
    let (owner, key) = supervisor.guarded(caller, &format!("cancel {worker}"), &request)?;
    let CancelTurn { turn_id, reason } = request;
    let reason = reason.unwrap_or_else(|| CANCELED_BY_MANAGER.to_owned());
    let (response, handle) = match supervisor.reach(&row, &owner, &key).await {
        Ok(RequestTarget::Live(handle)) => {
            (cancel_now(supervisor, &row, &handle, owner, key, turn_id, reason).await?, Some(handle))
        }
        Ok(RequestTarget::Replayed(response)) => (response, None),
        Err(error) if error.code == Code::WorkerStopped => {
            let message = "the worker is stopped: there is no turn to cancel";
            let error = Error::new(Code::WorkerNotRunning, message).with("state", "stopped");
            return Err(not_running(supervisor, &row, error).await?);
        }
        Err(error) => return Err(error),
    };
    let CancelOrdered { turn_id, end } = lenient::take(response);
    let turn_id = match (turn_id.0, end.0) {
        // The open turn is another one, which was queued.
        (_, Some(end)) => turn_of(supervisor, row.id, end).await?,
        (Some(turn_id), None) => turn_id,
        (None, None) => return Err(Error::new(Code::Internal, "a cancel was of no turn")),
    };
    let state = match &handle {
        Some(handle) => until_canceled(supervisor, &row, handle, &turn_id).await?,
        None => WorkerState::Stopped,
    };
    canceled(supervisor, &row, turn_id, state).await
}

async fn cancel_now(
    supervisor: &Supervisor,
    row: &WorkerRow,
    handle: &worker::ActorHandle,
    owner: OwnerCheck,
    key: Option<(String, String)>,
    turn: Option<TurnId>,
    reason: String,
) -> Result<Value> {
    // The response names the canceled turn: the one still open, or the one that ended at once.
    let respond = Box::new(|next: &Worker, added: &[(EventType, i64)]| {
        let end = added.iter().find(|(event_type, _)| event_type.ends_turn()).map(|(_, seq)| seq);
        json!({"turnId": next.open_turn(), "end": end})
    });
    match supervisor.order(handle, Some(owner), key, WorkerInput::Cancel { turn, reason }, respond).await {
        Err(error) if error.code == Code::WorkerNotRunning => Err(not_running(supervisor, row, error).await?),
        result => result,
    }
}

/// Returns the error for a cancel without an open turn, with the latest event.
async fn not_running(supervisor: &Supervisor, row: &WorkerRow, error: Error) -> Result<Error> {
    let latest = supervisor.latest(row).await?;
    Ok(error.with("workerId", row.worker_id.as_str()).with("latestEvent", latest))
}

/// Returns the turn of an event.
async fn turn_of(supervisor: &Supervisor, worker: RowId, seq: i64) -> Result<String> {
    let event = supervisor.shared.store.read(move |connection| events::get(connection, worker, seq)).await?;
    let turn_id = event.and_then(|event| event.turn_id).map(|turn_id| turn_id.as_str().to_owned());
    turn_id.ok_or_else(|| Error::new(Code::Internal, "the end of a turn belongs to no turn"))
}

/// Waits until the turn is over. Returns the worker's state then.
async fn until_canceled(
    supervisor: &Supervisor,
    row: &WorkerRow,
    handle: &worker::ActorHandle,
    turn_id: &str,
) -> Result<WorkerState> {
    // The time after which the runtime kills the agent of a canceled turn.
    let grace = Duration::from_millis(timeouts(row).cancel_grace_ms);
    let mut snapshots = handle.follow();
    let over = snapshots
        .wait_for(|snapshot| snapshot.worker.open_turn().is_none_or(|open| open.as_str() != turn_id));
    match tokio::time::timeout(CANCEL_MARGIN + grace, over).await {
        Ok(Ok(snapshot)) => Ok(snapshot.worker.public_state()),
        Ok(Err(_)) => Err(supervisor.abandoned()),
        Err(_) => {
            let error = match handle.snapshot.borrow().unreachable.clone() {
                Some(unreachable) => {
                    let message = "the cancel is stored; the agent gets it when its place answers again";
                    Error::new(Code::PlacementUnreachable, message).with("unreachable", json!(unreachable))
                }
                None => {
                    let message =
                        "the cancel is stored, but the turn has not ended yet; wait for turn.canceled";
                    Error::new(Code::BackendTimeout, message)
                }
            };
            Err(error.retryable().with("workerId", row.worker_id.as_str()).with("turnId", turn_id))
        }
    }
}

async fn canceled(
    supervisor: &Supervisor,
    row: &WorkerRow,
    turn_id: String,
    state: WorkerState,
) -> Result<TurnCanceled> {
    let worker_id = row.worker_id.clone();
    let (id, turn) = (row.id, turn_id.clone());
    let (row, end) = supervisor
        .shared
        .store
        .read(move |connection| {
            let row = turns::get(connection, id, &turn)?;
            let end = match row.as_ref().and_then(|row| row.end_seq) {
                Some(seq) => events::get(connection, id, seq)?,
                None => None,
            };
            Ok((row, end))
        })
        .await?;
    let (Some(row), Some(end)) = (row, end) else {
        return Err(Error::new(Code::Internal, "the turn has ended without an event").with("turnId", turn_id));
    };
    let already_terminal = end.event_type != EventType::TurnCanceled;
    Ok(TurnCanceled {
        worker_id,
        state,
        event_id: EventId(end.seq),
        turn_id: Some(row.turn_id),
        forced: end.data()["forced"] == true,
        already_terminal,
        terminal_event_type: already_terminal.then_some(end.event_type),
    })
}

/// The response to the order of a cancel.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CancelOrdered {
    turn_id: Lenient<String>,
    end: Lenient<i64>,
}

/// Builds the response to a message, for a turn that started or is queued.
pub(super) fn accepted(
    worker_id: WorkerId,
    turn_id: TurnId,
    asked: Option<RequestId>,
) -> impl FnOnce(&Worker, &[(EventType, i64)]) -> Value + Send {
    move |next, added| {
        let position = next.queue.position(&turn_id);
        let accepted = if position.is_some() { EventType::TurnQueued } else { EventType::MessageSent };
        let accepted = added.iter().find(|(event_type, _)| *event_type == accepted);
        let mut response = json!({
            "workerId": worker_id,
            "turnId": turn_id,
            "state": next.public_state(),
            "eventId": EventId(added.last().map_or(0, |(_, seq)| *seq)),
            "acceptedEventId": EventId(accepted.map_or(0, |(_, seq)| *seq)),
        });
        let starts = matches!(next.link, RuntimeStatus::Starting | RuntimeStatus::Ending);
        if starts && position.is_none() && asked.is_none() && next.turn().is_some() {
            extend(&mut response, [("startsAgent", true.into())]);
        }
        if let Some(request_id) = asked {
            extend(&mut response, [("requestId", request_id.as_str().into())]);
        }
        if let Some(position) = position {
            extend(&mut response, [("position", position.into())]);
            if next.queue.paused.is_some() {
                extend(&mut response, [("paused", true.into())]);
            }
        }
        response
    }
}

/// Adds the worker to errors of the rules, which do not know its id.
pub(super) fn of_worker(error: Error, worker: &str) -> Error {
    match error.code {
        Code::WorkerStopped | Code::EnvRequired | Code::QueueFull => error.with("workerId", worker),
        Code::QueuePaused => {
            let command = format!("subagent queue resume --worker-id {worker}");
            error.with("workerId", worker).with("recommendedCommand", command)
        }
        _ => error,
    }
}

/// Returns the stored form of a message, from which its prompt is built.
fn message(request: &SendTurn) -> Value {
    let mut message = json!({"text": request.text, "blocks": request.blocks});
    if !request.attachments.is_empty() {
        extend(&mut message, [("attachments", attachments::stored(&request.attachments))]);
    }
    if let Some(change) = &request.agent {
        extend(&mut message, [("agent", change.agent.name.as_str().into())]);
    }
    message
}

/// A block of a message: its text, or that of its resource.
#[derive(Default, Deserialize)]
#[serde(default)]
struct BlockText {
    text: Lenient<String>,
    #[serde(deserialize_with = "lenient::object")]
    resource: ResourceText,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceText {
    text: Lenient<String>,
}

/// Returns all text of a message for hooks: its own, that of its blocks and of attached files.
fn all_text(request: &SendTurn) -> String {
    let of_block = |block: &Value| {
        let BlockText { text, resource } = lenient::read(block);
        text.0.or(resource.text.0)
    };
    let of_file = |attachment: &Attachment| match &attachment.content {
        Content::Text { text } => Some(text.clone()),
        Content::Image { .. } | Content::Audio { .. } | Content::Link => None,
    };
    let own = Some(request.text.clone()).filter(|text| !text.is_empty());
    let more = request.blocks.iter().filter_map(of_block);
    let parts = own.into_iter().chain(more).chain(request.attachments.iter().filter_map(of_file));
    parts.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_measured_as_it_is_sent() {
        let check = |text: String, blocks| {
            let request = SendTurn {
                text,
                blocks,
                attachments: vec![],
                simulate: None,
                if_busy: None,
                agent: None,
                env: None,
                mcp_servers: Default::default(),
            };
            check_size(&request, 1000)
        };
        let most = 1000 - "[\"\",[],[]]".len();
        check("x".repeat(most), vec![]).unwrap();
        let error = check("x".repeat(most + 1), vec![]).unwrap_err();
        assert_eq!(error.code, Code::PayloadTooLarge);
        assert_eq!(error.details["limitBytes"], 1000);
        assert_eq!(error.details["bytes"], 1001);
        // Each of these characters is two bytes in JSON.
        check("\n".repeat(most / 2), vec![]).unwrap();
        check("\n".repeat(most / 2 + 1), vec![]).unwrap_err();
        let block = json!({"type": "text", "text": "x".repeat(most)});
        let block = block.as_object().unwrap().clone();
        check(String::new(), vec![block.into()]).unwrap_err();
    }
}
