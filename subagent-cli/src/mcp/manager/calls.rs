//! Executes a manager's calls: sends requests to the daemon and returns JSON for a model.

use std::fmt::Write as _;

use rmcp::model::{CallToolResult, ContentBlock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use subagent_protocol::api::{
    ApprovalShown, Inbox, InboxItem, Inspected, TurnAccepted, WaitMany, WaitMode, WaitedFor, WaitedWorker,
    WorkerList, WorkerStopped, WorkerView, WorktreeLanded,
};
use subagent_protocol::data::EventData;
use subagent_protocol::data::questions::{ApprovalRequestedEvent, ElicitationRequestedEvent};
use subagent_protocol::event::{Event, NoData, SeenEvent};
use subagent_protocol::state::{QuestionKind, WorkerState};
use subagent_protocol::{Code, json};

use super::arguments::{AnswerArguments, ManagerToolCall};
use super::cut::{MAX_PAGE_BYTES, MAX_REQUEST_BYTES, cut, page};
use super::{Commands, NewMessage};
use crate::client::{
    ApiRequest, DaemonClient, EventBatch, RequestPath, into_items, read, segment, wait_many,
};
use crate::failure::{Failure, Result};
use crate::mcp::answers::mark_unreachable;

/// Maximum length of an agent's text in the answer to a wait, in characters; `get_events` returns all of
/// it.
const MAX_TEXT_CHARS: usize = 16_384;
/// Maximum number of text events that are joined.
const MAX_PIECES: &str = "1000";

/// The details of a failed landing that the worker needs to fix it.
const FAILURE_DETAILS: [&str; 3] = ["files", "command", "output"];

pub(in crate::mcp) fn result(answer: Result<Value>) -> CallToolResult {
    match answer {
        Ok(data) => CallToolResult::success(vec![ContentBlock::text(data.to_string())]),
        Err(failure) => {
            let advice = failure.facts().recommended_action.0.unwrap_or_default();
            let mut text = format!("{}: {}\n{advice}", failure.code, failure.message).trim_end().to_owned();
            for key in FAILURE_DETAILS {
                if let Some(detail) = failure.details.get(key) {
                    let detail = cut(detail, MAX_REQUEST_BYTES);
                    let detail = detail.as_str().map_or_else(|| detail.to_string(), str::to_owned);
                    let _ = write!(text, "\n{key}: {detail}");
                }
            }
            CallToolResult::error(vec![ContentBlock::text(text)])
        }
    }
}

/// The text of a piece of an agent's message.
#[derive(Deserialize)]
struct TextPiece {
    text: Option<String>,
}

/// The fields that the answers to a decision and to a form share.
#[derive(Deserialize)]
struct AnsweredQuestion {
    state: WorkerState,
    delivery: String,
}

/// Executes a call.
///
/// # Errors
/// Those of the daemon and of [`Commands`].
pub(in crate::mcp) async fn carry_out(
    client: &mut DaemonClient,
    commands: &dyn Commands,
    call: ManagerToolCall,
) -> Result<Value> {
    match call {
        ManagerToolCall::ListWorkers { all } => list_workers(client, all).await,
        ManagerToolCall::Start(worker) => {
            let started: WorkerView = read(commands.start_worker(worker).await?)?;
            Ok(json!({
                "worker_id": started.worker_id, "label": started.label, "launcher": started.launcher,
                "state": started.state,
            }))
        }
        ManagerToolCall::Send(message) => send(commands, message).await,
        ManagerToolCall::Wait { workers, seconds } => wait_for(client, workers, seconds).await,
        ManagerToolCall::ListQuestions { worker } => {
            let query = RequestPath::new("/v1/approvals").with("workerId", worker.as_deref());
            let open: Inbox = client.ask_for(&ApiRequest::get(query)).await?;
            let questions: Vec<Value> = open.items.iter().map(question).collect();
            Ok(json!({"questions": questions}))
        }
        ManagerToolCall::Answer(given) => answer_question(client, given).await,
        ManagerToolCall::Stop { worker } => {
            let path = format!("/v1/workers/{}/stop", segment(&worker));
            let stopped: WorkerStopped = client.ask_for(&ApiRequest::change(path, &json!({}))?).await?;
            Ok(json!({"worker_id": stopped.worker_id, "state": stopped.state}))
        }
        ManagerToolCall::Events { worker, cursor, limit } => get_events(client, &worker, cursor, limit).await,
        ManagerToolCall::Diff { worker } => commands.diff(worker).await.map(diff),
        ManagerToolCall::Land(landing) => {
            let WorktreeLanded { name, landed, .. } = read(commands.land(landing).await?)?;
            Ok(json!({
                "worktree": name, "into": landed.into, "commit": landed.commit,
                "files": landed.files, "worktree_removed": landed.worktree_removed,
            }))
        }
    }
}

async fn list_workers(client: &mut DaemonClient, all: bool) -> Result<Value> {
    let listed: WorkerList = client.ask_for(&ApiRequest::get("/v1/workers")).await?;
    let shown = |worker: &&WorkerView| all || worker.state != WorkerState::Stopped;
    let workers = listed.items.iter().filter(shown).map(|worker| {
        let mut shown = json!({
            "worker_id": worker.worker_id, "label": worker.label, "state": worker.state,
            "launcher": worker.launcher, "turn_id": worker.active_turn_id, "cwd": worker.cwd,
        });
        mark_unreachable(&mut shown, worker.unreachable.as_ref());
        shown
    });
    Ok(json!({"workers": workers.collect::<Vec<_>>()}))
}

async fn send(commands: &dyn Commands, message: NewMessage) -> Result<Value> {
    let accepted: TurnAccepted = read(commands.send_message(message).await?)?;
    let mut answer = json!({
        "worker_id": accepted.worker_id, "turn_id": accepted.turn_id, "cursor": accepted.accepted_event_id,
    });
    insert(&mut answer, "queue_position", accepted.position);
    Ok(answer)
}

async fn wait_for(client: &mut DaemonClient, workers: Vec<String>, seconds: f64) -> Result<Value> {
    let workers = workers.into_iter().map(|worker_id| WaitedFor { worker_id, from_event_id: None });
    let request = WaitMany {
        workers: workers.collect(),
        mode: WaitMode::Any,
        until: None,
        include_history: false,
        // Zero would wait without a limit.
        timeout_seconds: seconds.max(0.001),
    };
    let (waited, timed_out) = match wait_many::wait(client, request).await {
        Ok(waited) => (waited, false),
        Err(failure) if failure.is(Code::WaitTimeout) => (Value::Object(failure.details), true),
        Err(failure) => return Err(failure),
    };
    let mut items = Vec::new();
    for item in into_items(waited) {
        items.push(waited_worker(client, read(item)?).await?);
    }
    Ok(json!({"timed_out": timed_out, "workers": items}))
}

/// Returns the state of a worker after a wait, with its question or last message.
async fn waited_worker(client: &mut DaemonClient, item: WaitedWorker) -> Result<Value> {
    let mut shown = json!({"worker_id": item.worker_id, "label": item.label, "state": item.state});
    mark_unreachable(&mut shown, item.unreachable.as_ref());
    let Some(event) = item.matched_event else { return Ok(shown) };
    let data = EventData::read(event.event_type, &event.data);
    if let Some(
        EventData::ApprovalRequested(ApprovalRequestedEvent { request_id, .. })
        | EventData::ElicitationRequested(ElicitationRequestedEvent { request_id, .. }),
    ) = data
    {
        let path = format!("/v1/approvals/{}", segment(request_id.as_str()));
        // The question may be closed already.
        if let Ok(asked) = client.ask_for::<ApprovalShown>(&ApiRequest::get(path)).await {
            json::extend(&mut shown, [("question", question_in_full(&asked))]);
        }
        return Ok(shown);
    }
    let ended = event.event_type.as_str().trim_start_matches("turn.");
    json::extend(&mut shown, [("turn_id", json!(event.turn_id)), ("ended", ended.into())]);
    match data {
        Some(EventData::TurnCompleted(turn)) => insert(&mut shown, "stop_reason", turn.stop_reason),
        Some(EventData::TurnFailed(turn)) => insert(&mut shown, "error", Some(turn.error)),
        Some(EventData::TurnCanceled(turn)) => insert(&mut shown, "reason", Some(turn.reason)),
        _ => {}
    }
    json::extend(&mut shown, [("message", message_of(client, &event).await?)]);
    Ok(shown)
}

/// Sets a key, unless there is no value.
fn insert(shown: &mut Value, key: &str, value: Option<impl Serialize>) {
    if let Some(value) = value {
        json::extend(shown, [(key, json!(value))]);
    }
}

/// Returns the end of the text of the turn that an event ended; null if the agent sent no text.
async fn message_of(client: &mut DaemonClient, event: &Event) -> Result<Value> {
    let Some(turn) = &event.turn_id else { return Ok(Value::Null) };
    let query = RequestPath::new(format!("/v1/workers/{}/inspect", segment(event.worker_id.as_str())))
        .with("turnId", Some(turn.as_str()))
        .with("eventTypes", Some("progress.message"))
        .with("eventsLimit", Some(MAX_PIECES));
    let inspected: Inspected = client.ask_for(&ApiRequest::get(query)).await?;
    let pieces = inspected.events.into_iter();
    let text: String = pieces.filter_map(|piece| read::<TextPiece>(piece.data).ok()?.text).collect();
    Ok(if text.is_empty() { Value::Null } else { end_of(&text).into() })
}

/// Returns the end of a text, which contains the result of a turn.
fn end_of(text: &str) -> String {
    let count = text.chars().count();
    match count.checked_sub(MAX_TEXT_CHARS) {
        None | Some(0) => text.to_owned(),
        Some(left_out) => {
            let end: String = text.chars().skip(left_out).collect();
            format!("[{left_out} characters left out; get_events has all]\n{end}")
        }
    }
}

/// The data of `worker.diff`, as the model gets it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FoundDiff {
    worker_id: Value,
    source: Value,
    added: Value,
    deleted: Value,
    files: Vec<Value>,
}

/// Returns the changes of a worker. Omits patches that exceed the page, then files.
fn diff(found: Value) -> Value {
    let FoundDiff { worker_id, source, added, deleted, files: changes } =
        serde_json::from_value(found).unwrap_or_default();
    let (mut files, mut bytes) = (Vec::new(), 0);
    let count = changes.len();
    for mut file in changes {
        if bytes + file.to_string().len() > MAX_PAGE_BYTES && file.get("patch").is_some() {
            json::extend(&mut file, [("patch", Value::Null), ("truncated", true.into())]);
        }
        bytes += file.to_string().len() + 1;
        if bytes > MAX_PAGE_BYTES {
            break;
        }
        files.push(file);
    }
    json!({
        "worker_id": worker_id, "source": source, "added": added, "deleted": deleted,
        "file_count": count, "files": files,
    })
}

/// Returns a question as it is listed.
fn question(asked: &InboxItem) -> Value {
    let mut shown = json!({
        "request_id": asked.request_id, "worker_id": asked.worker_id, "label": asked.label,
        "kind": asked.kind, "subject": asked.subject,
    });
    let path = Some(&asked.path).filter(|path| !path.is_empty());
    insert(&mut shown, "path", path.map(|path| cut(&json!(path), MAX_REQUEST_BYTES)));
    insert(&mut shown, "tool_kind", asked.tool_kind.as_ref());
    shown
}

/// Returns a question with the data for a decision.
fn question_in_full(asked: &ApprovalShown) -> Value {
    let mut shown = question(&asked.item);
    let options = cut(&json!(asked.options), MAX_REQUEST_BYTES);
    let request = cut(&json!(asked.request), MAX_REQUEST_BYTES);
    json::extend(&mut shown, [("options", options), ("request", request)]);
    shown
}

async fn answer_question(client: &mut DaemonClient, given: AnswerArguments) -> Result<Value> {
    let AnswerArguments { request_id, decision, content, note } = given;
    let request = segment(&request_id);
    let asked: ApprovalShown = client.ask_for(&ApiRequest::get(format!("/v1/approvals/{request}"))).await?;
    let worker = segment(asked.item.worker_id.as_str());
    let ask = if asked.item.kind == QuestionKind::Elicitation {
        let answer = json!({"action": decision, "content": content});
        ApiRequest::change(format!("/v1/workers/{worker}/elicitations/{request}"), &answer)?
    } else if content.is_some() {
        return Err(Failure::argument("content is for forms, and this is a permission request")
            .with("requestId", request_id));
    } else {
        let offered = asked.options.iter().any(|option| option.id == decision);
        let key = if offered { "optionId" } else { "decision" };
        let decide = json!({key: decision, "note": note});
        ApiRequest::change(format!("/v1/workers/{worker}/approvals/{request}"), &decide)?
    };
    let answered: AnsweredQuestion = client.ask_for(&ask).await?;
    Ok(json!({
        "request_id": request_id, "worker_id": asked.item.worker_id, "state": answered.state,
        "delivery": answered.delivery,
    }))
}

async fn get_events(
    client: &mut DaemonClient,
    worker: &str,
    cursor: Option<String>,
    limit: u64,
) -> Result<Value> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    let mut stream = client.events(worker, cursor.clone(), false, false);
    while found.len() < limit {
        match stream.next().await? {
            EventBatch::Events(events) => found.extend(events),
            EventBatch::End => break,
        }
    }
    found.truncate(limit);
    let (found, _) = page(found, MAX_PAGE_BYTES);
    let last = found.last().map(|event| SeenEvent::<NoData>::of(event).event_id.to_owned());
    let next = last.or(cursor);
    Ok(json!({"events": found, "next_cursor": next}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_landing_says_what_the_worker_needs_within_a_limit() {
        let files: Vec<String> = (0..10_000).map(|number| format!("src/{number}.rs")).collect();
        let failure = Failure::new(Code::LandConflict, "a conflict").with("files", files);
        let shown = serde_json::to_value(result(Err(failure))).unwrap();
        let text = shown["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("LAND_CONFLICT: a conflict") && text.contains("src/0.rs"), "{text}");
        assert!(text.len() < MAX_REQUEST_BYTES + 200, "{}", text.len());
    }

    #[test]
    fn a_long_diff_keeps_the_files_that_fit() {
        let file = |path: String, lines: usize| json!({"path": path, "patch": "+x\n".repeat(lines)});
        let files = vec![file("a".into(), 10), file("long".into(), MAX_PAGE_BYTES), file("b".into(), 10)];
        let shown = diff(json!({"files": files}));
        assert_eq!((&shown["file_count"], shown["files"].as_array().unwrap().len()), (&json!(3), 3));
        assert_eq!(
            (&shown["files"][1]["patch"], &shown["files"][1]["truncated"]),
            (&Value::Null, &json!(true))
        );
        assert_eq!(shown["files"][2]["patch"], "+x\n".repeat(10));
        let many: Vec<Value> = (0..10_000).map(|number| file(format!("file {number}"), 1)).collect();
        let shown = diff(json!({"files": many}));
        assert!(shown.to_string().len() < MAX_PAGE_BYTES + 200 && shown["file_count"] == 10_000);
    }

    #[test]
    fn a_long_text_is_cut_at_its_beginning() {
        assert_eq!(end_of("short"), "short");
        let long = format!("{}end", "\u{e4}".repeat(MAX_TEXT_CHARS));
        let cut = end_of(&long);
        assert!(cut.starts_with("[3 characters left out") && cut.ends_with("end"), "{}", &cut[..60]);
    }
}
