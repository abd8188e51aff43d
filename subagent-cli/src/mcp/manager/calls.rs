//! Executes a manager's calls: sends requests to the daemon and returns JSON for a model.

use std::fmt::Write as _;

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::api::{WaitMany, WaitMode, WaitedFor};

use super::arguments::{AnswerArguments, ManagerToolCall};
use super::cut::{MAX_PAGE_BYTES, MAX_REQUEST_BYTES, cut, page};
use super::{Commands, NewMessage};
use crate::client::{ApiRequest, DaemonClient, EventBatch, RequestPath, segment};
use crate::failure::{Failure, Result};

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
            let advice = failure.details.get("recommendedAction").and_then(Value::as_str).unwrap_or_default();
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
            let started = commands.start_worker(worker).await?;
            Ok(json!({
                "worker_id": started["workerId"], "label": started["label"], "launcher": started["launcher"],
                "state": started["state"],
            }))
        }
        ManagerToolCall::Send(message) => send(commands, message).await,
        ManagerToolCall::Wait { workers, seconds } => wait_for(client, workers, seconds).await,
        ManagerToolCall::ListQuestions { worker } => {
            let query = RequestPath::new("/v1/approvals").with("workerId", worker.as_deref());
            let open = client.ask(&ApiRequest::get(query)).await?;
            let questions = open["items"].as_array().into_iter().flatten().map(question);
            Ok(json!({"questions": questions.collect::<Vec<_>>()}))
        }
        ManagerToolCall::Answer(given) => answer_question(client, given).await,
        ManagerToolCall::Stop { worker } => {
            let path = format!("/v1/workers/{}/stop", segment(&worker));
            let stopped = client.ask(&ApiRequest::change(path, &json!({}))?).await?;
            Ok(json!({"worker_id": stopped["workerId"], "state": stopped["state"]}))
        }
        ManagerToolCall::Events { worker, cursor, limit } => get_events(client, &worker, cursor, limit).await,
        ManagerToolCall::Diff { worker } => commands.diff(worker).await.map(diff),
        ManagerToolCall::Land(landing) => {
            let landed = commands.land(landing).await?;
            Ok(json!({
                "worktree": landed["name"], "into": landed["into"], "commit": landed["commit"],
                "files": landed["files"], "worktree_removed": landed["worktreeRemoved"],
            }))
        }
    }
}

async fn list_workers(client: &mut DaemonClient, all: bool) -> Result<Value> {
    let listed = client.ask(&ApiRequest::get("/v1/workers")).await?;
    let shown = |worker: &&Value| all || worker["state"] != "stopped";
    let workers = listed["items"].as_array().into_iter().flatten().filter(shown).map(|worker| {
        json!({
            "worker_id": worker["workerId"], "label": worker["label"], "state": worker["state"],
            "launcher": worker["launcher"], "turn_id": worker["activeTurnId"], "cwd": worker["cwd"],
        })
    });
    Ok(json!({"workers": workers.collect::<Vec<_>>()}))
}

async fn send(commands: &dyn Commands, message: NewMessage) -> Result<Value> {
    let accepted = commands.send_message(message).await?;
    let mut answer = json!({
        "worker_id": accepted["workerId"], "turn_id": accepted["turnId"], "cursor": accepted["acceptedEventId"],
    });
    if let Some(position) = accepted.get("position") {
        answer["queue_position"] = position.clone();
    }
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
    let (waited, timed_out) = match client.wait_many(request).await {
        Ok(waited) => (waited, false),
        Err(failure) if failure.is(Code::WaitTimeout) => (Value::Object(failure.details), true),
        Err(failure) => return Err(failure),
    };
    let mut items = Vec::new();
    for item in waited["items"].as_array().into_iter().flatten() {
        items.push(waited_worker(client, item).await?);
    }
    Ok(json!({"timed_out": timed_out, "workers": items}))
}

/// Returns the state of a worker after a wait, with its question or last message.
async fn waited_worker(client: &mut DaemonClient, item: &Value) -> Result<Value> {
    let event = &item["matchedEvent"];
    let mut shown = json!({"worker_id": item["workerId"], "label": item["label"], "state": item["state"]});
    match event["type"].as_str().unwrap_or_default() {
        "" => {}
        "approval.requested" | "elicitation.requested" => {
            let path =
                format!("/v1/approvals/{}", segment(event["data"]["requestId"].as_str().unwrap_or_default()));
            // The question may be closed already.
            if let Ok(asked) = client.ask(&ApiRequest::get(path)).await {
                shown["question"] = question(&asked);
            }
        }
        ended => {
            shown["turn_id"] = event["turnId"].clone();
            shown["ended"] = ended.trim_start_matches("turn.").into();
            for (key, of) in [("stop_reason", "stopReason"), ("error", "error"), ("reason", "reason")] {
                if let Some(value) = event["data"].get(of).filter(|value| !value.is_null()) {
                    shown[key] = value.clone();
                }
            }
            shown["message"] = message_of(client, event).await?;
        }
    }
    Ok(shown)
}

/// Returns the end of the text of the turn that an event ended; null if the agent sent no text.
async fn message_of(client: &mut DaemonClient, event: &Value) -> Result<Value> {
    let (Some(worker), Some(turn)) = (event["workerId"].as_str(), event["turnId"].as_str()) else {
        return Ok(Value::Null);
    };
    let query = RequestPath::new(format!("/v1/workers/{}/inspect", segment(worker)))
        .with("turnId", Some(turn))
        .with("eventTypes", Some("progress.message"))
        .with("eventsLimit", Some(MAX_PIECES));
    let inspected = client.ask(&ApiRequest::get(query)).await?;
    let pieces = inspected["events"].as_array().into_iter().flatten();
    let text: String = pieces.filter_map(|piece| piece["data"]["text"].as_str()).collect();
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

/// Returns the changes of a worker. Omits patches that exceed the page, then files.
fn diff(found: Value) -> Value {
    let (mut files, mut bytes) = (Vec::new(), 0);
    let changes = found["files"].as_array().into_iter().flatten();
    let count = changes.clone().count();
    for change in changes {
        let mut file = change.clone();
        if bytes + file.to_string().len() > MAX_PAGE_BYTES && file.get("patch").is_some() {
            file["patch"] = Value::Null;
            file["truncated"] = true.into();
        }
        bytes += file.to_string().len() + 1;
        if bytes > MAX_PAGE_BYTES {
            break;
        }
        files.push(file);
    }
    json!({
        "worker_id": found["workerId"], "source": found["source"], "added": found["added"],
        "deleted": found["deleted"], "file_count": count, "files": files,
    })
}

/// Returns a question with the data for a decision.
fn question(asked: &Value) -> Value {
    let mut shown = json!({
        "request_id": asked["requestId"], "worker_id": asked["workerId"], "label": asked["label"],
        "kind": asked["kind"], "subject": asked["subject"],
    });
    for (key, of) in
        [("path", "path"), ("tool_kind", "toolKind"), ("options", "options"), ("request", "request")]
    {
        if let Some(value) = asked.get(of).filter(|value| !value.is_null()) {
            shown[key] = cut(value, MAX_REQUEST_BYTES);
        }
    }
    shown
}

async fn answer_question(client: &mut DaemonClient, given: AnswerArguments) -> Result<Value> {
    let AnswerArguments { request_id, decision, content, note } = given;
    let request = segment(&request_id);
    let asked = client.ask(&ApiRequest::get(format!("/v1/approvals/{request}"))).await?;
    let worker = segment(asked["workerId"].as_str().unwrap_or_default());
    let ask = if asked["kind"] == "elicitation" {
        let answer = json!({"action": decision, "content": content});
        ApiRequest::change(format!("/v1/workers/{worker}/elicitations/{request}"), &answer)?
    } else if content.is_some() {
        return Err(Failure::argument("content is for forms, and this is a permission request")
            .with("requestId", request_id));
    } else {
        let offered =
            asked["options"].as_array().into_iter().flatten().any(|option| option["id"] == *decision);
        let key = if offered { "optionId" } else { "decision" };
        let decide = json!({key: decision, "note": note});
        ApiRequest::change(format!("/v1/workers/{worker}/approvals/{request}"), &decide)?
    };
    let answered = client.ask(&ask).await?;
    Ok(json!({
        "request_id": request_id, "worker_id": answered["workerId"], "state": answered["state"],
        "delivery": answered["delivery"],
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
    let next = found.last().map_or_else(|| json!(cursor), |event| event["eventId"].clone());
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
