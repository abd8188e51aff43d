//! Shows turns, and changes the queue: dropping, moving, retrying and resuming.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use subagent_core::model::{QueuePosition, Queued, Worker, WorkerInput};
use subagent_protocol::api::{
    ControllerHandle, GoOn, MoveTurn, QueueResumed, TurnAccepted, TurnDropped, TurnList, TurnMoved,
    TurnProgress, TurnResult, TurnShown, TurnView, not_queued,
};
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::event::{EventType, StoredEvent};
use subagent_protocol::ids::{EventId, TurnId, WorkerId};
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::state::{Carrier, Dispatched, TurnStatus};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::{accepted, of_worker};
use crate::store::events::{history, message_text};
use crate::store::turns::queue::QueuedRow;
use crate::store::turns::{self, BegunTurnRow, MessageHead, StoredTurn, queue};
use crate::store::{Connection, OwnerCheck, RowId, WorkerRow, workers};
use crate::supervisor::orders::{RequestTarget, read_response};
use crate::supervisor::start::environment::AgentEnvironment;
use crate::supervisor::start::spec;
use crate::supervisor::views::queue::queue_view;
use crate::supervisor::worker::Respond;
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// Maximum length of a text in a list, in bytes.
const PREVIEW_BYTES: usize = 200;
/// Maximum length of the final message in the result of a turn, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
/// Maximum number of ended turns in a list.
pub(crate) const MAX_ENDED: u32 = 1000;

/// Lists the last ended turns of a worker, the open one, and the queued ones.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `INVALID_ARGUMENT`, `STORAGE_ERROR`.
pub(crate) async fn list_turns(supervisor: &Supervisor, worker: &str, ended: u32) -> Result<TurnList> {
    if ended > MAX_ENDED {
        let message = format!("at most {MAX_ENDED} turns that have ended can be listed");
        return Err(Error::new(Code::InvalidArgument, message).with("ended", ended));
    }
    let row = supervisor.row(worker).await?;
    // Waits until the worker is settled, so that messages accepted meanwhile are included.
    supervisor.view(&row).await;
    let (id, worker_id) = (row.id, row.worker_id.clone());
    let (items, known) = supervisor
        .shared
        .store
        .read(move |connection| {
            let _moment = history::one_moment(connection)?;
            let mut items = Vec::new();
            // One more, because the last one may be open.
            turns::begun(connection, id, ended.saturating_add(1), &mut |row| items.push(begun(&row, true)))?;
            let open = items.last().is_some_and(|turn| turn.status == TurnProgress::Open);
            let most = usize::try_from(ended).unwrap_or(usize::MAX) + usize::from(open);
            items.drain(..items.len().saturating_sub(most));
            let mut position = 0;
            queue::queued(connection, id, &mut |row| {
                position += 1;
                items.push(queued(&row, position, true));
            })?;
            let known = workers::get(connection, row.worker_id.as_str())?;
            Ok((items, known.map(|row| workers::load(connection, &row)).transpose()?))
        })
        .await?;
    let known = known.ok_or_else(|| supervisor.roster.not_found(worker))?;
    let queue = queue_view(&known.queue);
    Ok(TurnList { worker_id, state: known.public_state(), queue, count: items.len(), items })
}

/// Returns one turn.
///
/// # Errors
/// `TURN_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn show_turn(supervisor: &Supervisor, turn: &str) -> Result<TurnShown> {
    let row = row_of_turn(supervisor, turn).await?;
    supervisor.view(&row).await;
    let (id, turn) = (row.id, turn.to_owned());
    supervisor
        .shared
        .store
        .read(move |connection| {
            let _moment = history::one_moment(connection)?;
            let found = turns::find(connection, &turn)?.ok_or_else(|| not_found(&turn))?;
            Ok(match found {
                StoredTurn::Queued(waits) => {
                    let (mut position, mut place) = (0, 1);
                    queue::queued(connection, id, &mut |row| {
                        position += 1;
                        if row.turn_id == waits.turn_id {
                            place = position;
                        }
                    })?;
                    TurnShown {
                        worker_id: row.worker_id,
                        turn: queued(&waits, place, false),
                        dispatched: Dispatched::No,
                        blocks: blocks(&parsed(Some(&waits.message))),
                        end: None,
                        result: None,
                        sender: waits.sender,
                    }
                }
                StoredTurn::Begun(turn) => {
                    let end = turn.end.as_deref().map(|end| parsed(Some(end)));
                    let shown = begun(&turn, false);
                    let result = match shown.status {
                        TurnProgress::Queued | TurnProgress::Open => None,
                        _ => Some(result(connection, id, turn.no, end.as_ref())?),
                    };
                    TurnShown {
                        worker_id: row.worker_id,
                        dispatched: turn.dispatched,
                        blocks: blocks(&parsed(turn.message.as_deref())),
                        end,
                        result,
                        sender: None,
                        turn: shown,
                    }
                }
            })
        })
        .await
}

/// Returns the worker of a turn.
///
/// # Errors
/// `TURN_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn worker_of_turn(supervisor: &Supervisor, turn: &str) -> Result<String> {
    let id = turn.to_owned();
    let found = supervisor.shared.store.read(move |connection| turns::worker_of(connection, &id)).await?;
    found.map(|worker| worker.as_str().to_owned()).ok_or_else(|| not_found(turn))
}

async fn row_of_turn(supervisor: &Supervisor, turn: &str) -> Result<WorkerRow> {
    supervisor.row(&worker_of_turn(supervisor, turn).await?).await
}

/// Drops a queued message.
///
/// # Errors
/// `TURN_NOT_FOUND`, `TURN_NOT_QUEUED{turnId,status}`, `INVALID_CONTROLLER_HANDLE`,
/// `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn drop_turn(supervisor: &Supervisor, caller: ApiCaller, turn: &str) -> Result<TurnDropped> {
    let input = |turn_id| WorkerInput::DropQueued { turn_id };
    let respond = |worker_id: WorkerId, turn_id: TurnId| -> Respond {
        Box::new(move |next, added| {
            let dropped = added.iter().find(|(event_type, _)| *event_type == EventType::TurnDropped);
            json!({
                "workerId": worker_id, "turnId": turn_id, "queue": queue_view(&next.queue),
                "eventId": EventId(dropped.map_or(0, |(_, seq)| *seq)),
            })
        })
    };
    change_waiting(supervisor, caller, turn, ("drop", &()), input, respond).await
}

/// Moves a queued message to another position.
///
/// # Errors
/// As [`Self::drop_turn`], and `INVALID_ARGUMENT` for a position below 1.
pub(crate) async fn move_turn(
    supervisor: &Supervisor,
    caller: ApiCaller,
    turn: &str,
    request: MoveTurn,
) -> Result<TurnMoved> {
    if request.to == 0 {
        return Err(Error::new(Code::InvalidArgument, "places are counted from 1").with("to", 0));
    }
    let to = usize::try_from(request.to).unwrap_or(usize::MAX);
    let input = |turn_id| WorkerInput::MoveQueued { turn_id, to };
    let respond = |worker_id: WorkerId, turn_id: TurnId| -> Respond {
        Box::new(
            move |next, _| json!({"workerId": worker_id, "turnId": turn_id, "position": next.queue.position(&turn_id)}),
        )
    };
    change_waiting(supervisor, caller, turn, ("move", &request), input, respond).await
}

/// Executes an order about a queued message. When the request is repeated, the message may be
/// gone.
async fn change_waiting<T: DeserializeOwned>(
    supervisor: &Supervisor,
    caller: ApiCaller,
    turn: &str,
    (what, request): (&str, &impl Serialize),
    input: impl FnOnce(TurnId) -> WorkerInput,
    respond: impl FnOnce(WorkerId, TurnId) -> Respond,
) -> Result<T> {
    let (owner, key) = supervisor.guarded(caller, &format!("{what} {turn}"), request)?;
    if let Some(earlier) = supervisor.recall(&key).await? {
        return read_response(earlier);
    }
    let changed = change_now(supervisor, turn, owner, &key, input, respond).await;
    // A repetition with the same key may have been executed meanwhile, so that the message is
    // gone.
    supervisor.or_earlier(&key, changed).await
}

async fn change_now<T: DeserializeOwned>(
    supervisor: &Supervisor,
    turn: &str,
    owner: OwnerCheck,
    key: &Option<(String, String)>,
    input: impl FnOnce(TurnId) -> WorkerInput,
    respond: impl FnOnce(WorkerId, TurnId) -> Respond,
) -> Result<T> {
    let row = row_of_turn(supervisor, turn).await?;
    let handle = match supervisor.reach(&row, &owner, key).await {
        Ok(RequestTarget::Live(handle)) => handle,
        Ok(RequestTarget::Replayed(response)) => return read_response(response),
        Err(error) => return Err(not_waiting(supervisor, turn, error).await),
    };
    let turn_id: TurnId = turn.parse().map_err(|_| not_found(turn))?;
    let respond = respond(row.worker_id.clone(), turn_id.clone());
    match supervisor.order(&handle, Some(owner), key.clone(), input(turn_id), respond).await {
        Ok(response) => read_response(response),
        Err(error) => Err(not_waiting(supervisor, turn, error).await),
    }
}

/// Sends the message of a failed or canceled turn again as a new turn. For a busy worker, it is
/// appended to the queue.
///
/// # Errors
/// `TURN_NOT_FOUND`, `TURN_NOT_RETRYABLE{turnId,status}`, and those of [`Self::send`].
pub(crate) async fn retry_turn(
    supervisor: &Supervisor,
    caller: ApiCaller,
    turn: &str,
    mut request: GoOn,
) -> Result<TurnAccepted> {
    let environment = AgentEnvironment::taken(&mut request.env, &mut request.mcp_servers)?;
    let sender = caller.handle.as_ref().and_then(ControllerHandle::epoch_number);
    let (owner, key) = supervisor.guarded(caller, &format!("retry {turn}"), &request)?;
    if let Some(earlier) = supervisor.recall(&key).await? {
        return read_response(earlier);
    }
    let row = row_of_turn(supervisor, turn).await?;
    supervisor.check_owner_of(&owner, &row).await?;
    let id = turn.to_owned();
    let found = supervisor.shared.store.read(move |connection| turns::find(connection, &id)).await?;
    let mut message = match found.ok_or_else(|| not_found(turn))? {
        StoredTurn::Queued(_) => return Err(not_retryable(turn, TurnProgress::Queued)),
        StoredTurn::Begun(row) => match (row.status, row.message) {
            (TurnStatus::Failed | TurnStatus::Canceled, Some(message)) => parsed(Some(&message)),
            (TurnStatus::Failed | TurnStatus::Canceled, None) => {
                let message = "the message of the turn is no longer stored";
                return Err(Error::new(Code::TurnNotFound, message).with("turnId", turn));
            }
            (status, _) => return Err(not_retryable(turn, progress(status))),
        },
    };
    let handle = match supervisor.reach(&row, &owner, &key).await? {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return read_response(response),
    };
    // The retry uses the worker's current definition.
    message.as_object_mut().map(|message| message.remove("agent"));
    let turn_id = TurnId::from_random(entropy::random()?);
    let MessageHead { text, blocks } = lenient::read(&message);
    let text = text.0.unwrap_or_default().to_owned();
    let started = TurnInput { text, blocks_count: blocks.len() as u64, subagent: None };
    let queued = Queued { turn_id: turn_id.clone(), message, input: started, sender };
    let input =
        WorkerInput::Enqueue { queued, urgency: QueuePosition::Retried, most: spec::queue_limit(&row) };
    let respond = Box::new(accepted(row.worker_id.clone(), turn_id, None));
    let retried = supervisor.order_with(&handle, Some(owner), key, input, respond, environment).await;
    retried.map_err(|error| of_worker(error, row.worker_id.as_str())).and_then(read_response)
}

/// Resumes a paused queue, or a parked worker.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `WORKER_STOPPED`, `ENV_REQUIRED`, `BUDGET_EXCEEDED`, `BUDGET_UNKNOWN`,
/// `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn resume_queue(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    mut request: GoOn,
) -> Result<QueueResumed> {
    let environment = AgentEnvironment::taken(&mut request.env, &mut request.mcp_servers)?;
    let row = supervisor.row(worker).await?;
    let (owner, key) = supervisor.guarded(caller, &format!("resume queue {worker}"), &request)?;
    let handle = match supervisor.reach(&row, &owner, &key).await? {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return read_response(response),
    };
    let worker_id = row.worker_id.clone();
    let respond = Box::new(move |next: &Worker, added: &[(EventType, i64)]| {
        let any = |wanted| added.iter().any(|(event_type, _)| *event_type == wanted);
        json!({
            "workerId": worker_id, "state": next.public_state(), "resumed": any(EventType::QueueResumed),
            "unparked": any(EventType::WorkerUnparked),
            "turnId": next.open_turn().filter(|_| any(EventType::TurnStarted)), "queue": queue_view(&next.queue),
        })
    });
    let resumed = supervisor
        .order_with(&handle, Some(owner), key, WorkerInput::ResumeQueue, respond, environment)
        .await;
    resumed.map_err(|error| of_worker(error, worker)).and_then(read_response)
}

/// Returns the error for a turn that is not queued, with its status.
async fn not_waiting(supervisor: &Supervisor, turn: &str, error: Error) -> Error {
    if !matches!(error.code, Code::TurnNotQueued | Code::WorkerStopped) {
        return error;
    }
    let id = turn.to_owned();
    match supervisor.shared.store.read(move |connection| turns::find(connection, &id)).await {
        Ok(Some(StoredTurn::Begun(row))) => not_queued(turn).with("status", progress(row.status).as_str()),
        Ok(_) => not_found(turn),
        Err(error) => error,
    }
}

const fn progress(status: TurnStatus) -> TurnProgress {
    match status {
        TurnStatus::Accepted => TurnProgress::Open,
        TurnStatus::Completed => TurnProgress::Completed,
        TurnStatus::Failed => TurnProgress::Failed,
        TurnStatus::Canceled => TurnProgress::Canceled,
    }
}

fn queued(row: &QueuedRow, position: usize, short: bool) -> TurnView {
    let (text, text_truncated) = text(Some(&row.message), short);
    TurnView {
        turn_id: row.turn_id.clone(),
        status: TurnProgress::Queued,
        position: Some(position),
        text,
        text_truncated,
        queued_at: Some(row.created_at),
        started_at: None,
        ended_at: None,
    }
}

fn begun(row: &BegunTurnRow, short: bool) -> TurnView {
    let (text, text_truncated) = text(row.message.as_deref(), short);
    TurnView {
        turn_id: row.turn_id.clone(),
        status: progress(row.status),
        position: None,
        text,
        text_truncated,
        queued_at: None,
        started_at: row.started_at,
        ended_at: row.ended_at,
    }
}

/// Returns the result of an ended turn.
fn result(connection: &Connection, worker: RowId, no: u64, end: Option<&Value>) -> Result<TurnResult> {
    let message = message_text::final_message(connection, worker, no, MAX_MESSAGE_BYTES)?;
    let of_end = |key: &str| end.map(|end| end[key].clone()).filter(|value| !value.is_null());
    Ok(TurnResult {
        message: Some(message.text).filter(|text| !text.is_empty()),
        message_truncated: message.truncated,
        stop_reason: of_end("stopReason").and_then(|reason| reason.as_str().map(str::to_owned)),
        usage: of_end("usage"),
        error: of_end("error"),
    })
}

/// Returns the text of a message, and whether it was truncated.
fn text(message: Option<&str>, short: bool) -> (Option<String>, bool) {
    let message = parsed(message);
    let MessageHead { text: Lenient(Some(text)), .. } = lenient::read(&message) else { return (None, false) };
    let kept = if short { text.floor_char_boundary(PREVIEW_BYTES) } else { text.len() };
    (Some(text[..kept].to_owned()), kept < text.len())
}

fn blocks(message: &Value) -> Vec<Value> {
    message["blocks"].as_array().cloned().unwrap_or_default()
}

/// Decodes the payload of an event of the daemon.
fn parsed(payload: Option<&str>) -> Value {
    let event = |payload: &str| StoredEvent {
        seq: 0,
        at: Timestamp(0),
        event_type: EventType::TurnStarted,
        kind: None,
        turn_id: None,
        carrier: Carrier::Runtime,
        record: None,
        payload: payload.to_owned(),
    };
    payload.map_or(Value::Null, |payload| event(payload).data())
}

fn not_found(turn: &str) -> Error {
    let message = format!("there is no turn {turn}; `subagent turn list` shows those of a worker");
    Error::new(Code::TurnNotFound, message).with("turnId", turn)
}

fn not_retryable(turn: &str, status: TurnProgress) -> Error {
    let message = format!("the turn is {status}; only a failed or canceled turn can be sent again");
    Error::new(Code::TurnNotRetryable, message).with("turnId", turn).with("status", status.as_str())
}
