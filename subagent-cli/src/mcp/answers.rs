//! Formats the daemon's answers as tool results for an agent. Pure.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};
use subagent_protocol::api::{TaskMerge, TaskMessage, TaskMessaged, TaskShown, TaskView};
use subagent_protocol::data::workers::UnreachableState;
use subagent_protocol::task_result::{self, About, TaskToolResult};
use subagent_protocol::{Code, json};

use super::arguments::AnswerStyle;
use crate::failure::Failure;

/// Returns a text as a successful result.
fn said(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// Returns JSON as a successful result; keys keep their order.
fn data(data: &Value) -> CallToolResult {
    said(data.to_string())
}

fn answered(answer: TaskToolResult) -> CallToolResult {
    let content = vec![ContentBlock::text(answer.text)];
    if answer.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

/// The result of an ended task.
pub(super) fn ended(task: &TaskShown) -> CallToolResult {
    answered(task_result::answer(task))
}

/// The answer for a new background task.
pub(super) fn begun(task: &TaskView, style: AnswerStyle) -> CallToolResult {
    data(&match style {
        AnswerStyle::Task => json!({"id": task.task_id, "name": task.name, "status": task.status}),
        AnswerStyle::Spawn => json!({"name": task.name, "subagent_id": task.task_id, "status": task.status}),
    })
}

/// An error with its advice.
pub(super) fn failed(about: About<'_>, failure: &Failure) -> CallToolResult {
    let message = match failure.facts().recommended_action.0 {
        Some(advice) => format!("{}\n{advice}", failure.message),
        None => failure.message.clone(),
    };
    answered(task_result::error_answer(about, &failure.code, &message))
}

pub(super) fn malformed(problem: &str) -> CallToolResult {
    answered(task_result::error_answer(About::default(), Code::InvalidArgument.as_str(), problem))
}

/// The task that an error is about.
pub(super) fn about(task: &TaskView) -> About<'_> {
    let (name, id) = (Some(task.name.as_str()), Some(task.task_id.as_str()));
    About { agent: task.agent.as_deref(), name, id, ..About::default() }
}

/// One task with its result.
pub(super) fn one(shown: &TaskShown) -> CallToolResult {
    let task = &shown.task;
    let (result, error) = match (task_result::short(shown), &task.error) {
        (Ok(result), error) => (shown.result.is_some().then_some(result), error.clone()),
        (Err(too_large), _) => (None, Some(too_large)),
    };
    let mut one = json!({
        "id": task.task_id,
        "name": task.name,
        "task": task.prompt,
        "status": task.status,
        "result": result,
        "error": error.map(|error| json!({"code": error.code, "message": error.message})),
        "iterations": task.steps,
        "tools_used": task.tool_calls,
    });
    mark_unreachable(&mut one, task.unreachable.as_ref());
    // The published form has no such key.
    if let Some(merge) = &shown.merge {
        json::extend(&mut one, [("merge", self::merge(merge))]);
    }
    data(&one)
}

/// Says since when the place of a worker does not answer. Its state is then the last one known.
pub(super) fn mark_unreachable(shown: &mut Value, unreachable: Option<&UnreachableState>) {
    if let Some(unreachable) = unreachable {
        json::extend(shown, [("unreachable_since", json!(unreachable.since))]);
    }
}

/// The last merge of a task's files.
fn merge(merge: &TaskMerge) -> Value {
    let mut shown = json!({
        "outcome": merge.outcome, "files": merge.files, "conflicts": merge.refused, "at": merge.at,
        "error": merge.error.as_ref().map(|error| json!({"code": error.code, "message": error.message})),
    });
    for (key, more) in [("more_files", merge.more_files), ("more_conflicts", merge.more_refused)] {
        if more > 0 {
            json::extend(&mut shown, [(key, more.into())]);
        }
    }
    shown
}

/// Tasks in a list.
pub(super) fn list(tasks: &[TaskView]) -> CallToolResult {
    data(&listed(tasks))
}

/// A list of tasks as JSON.
pub(super) fn listed(tasks: &[TaskView]) -> Value {
    let item = |task: &TaskView| {
        let mut item = json!({
            "id": task.task_id, "name": task.name, "task": task.prompt, "status": task.status,
            "created_at": task.times.created_at, "model": task.model,
        });
        mark_unreachable(&mut item, task.unreachable.as_ref());
        item
    };
    tasks.iter().map(item).collect()
}

pub(super) fn messaged(answer: &TaskMessaged) -> CallToolResult {
    let became = match answer.message {
        TaskMessage::Appended => "it has not begun, and has the message as a part of its task",
        TaskMessage::Queued => "it has the message as its next turn",
        TaskMessage::Last => "it has the message as its last turn, and is stopped then",
        TaskMessage::Resumed => "it had ended, and goes on with the message",
        TaskMessage::Cancelled => "it had not begun, and is canceled; the message was not given to it",
        TaskMessage::AlreadyEnded => "it had ended already; nothing was done",
    };
    data(&json!({
        "id": answer.task.task_id, "name": answer.task.name, "status": answer.task.status,
        "message": became,
    }))
}

/// The status of a task in a few words.
pub(super) fn progress(task: &TaskView) -> String {
    let status = task.status.as_str().replace('_', " ");
    match task.steps {
        0 => format!("{}: {status}", task.name),
        1 => format!("{}: {status}, 1 tool call", task.name),
        steps => format!("{}: {status}, {steps} tool calls", task.name),
    }
}
