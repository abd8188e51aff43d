//! `approval`: the inbox of all workers, and one question of it.

pub(crate) mod open_request;

use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::clean::{clean, one_line};
use subagent_protocol::tags::Selector;

use crate::args::inbox::{ApprovalCommand, ApprovalList, ApprovalShow};
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::commands::targets::{has_state, named_worker};
use crate::context::{CliContext, path_value, present};
use crate::failure::{Failure, Result};
use crate::output::rule::{describe_rule, task_path};
use crate::output::{CliOutcome, text};

pub(crate) fn run(command: &ApprovalCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        ApprovalCommand::List(args) => list(args, context),
        ApprovalCommand::Show(args) => show(args, context),
    }
}

fn list(args: &ApprovalList, context: &CliContext) -> Result<CliOutcome> {
    if let Some(selector) = &args.selector.selector {
        Selector::parse(selector)?;
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let named: Vec<&str> = args.worker_id.iter().map(String::as_str).collect();
    for worker in &named {
        named_worker(worker, &workspace)?;
        if worker.contains(',') {
            return Err(
                Failure::argument(format!("{worker:?} is not the id of a worker")).with("workerId", *worker)
            );
        }
    }
    let named = Some(named.join(",")).filter(|named| !named.is_empty());
    let data = if has_state(&workspace) {
        let path = RequestPath::new("/v1/approvals")
            .with("workerId", named.as_deref())
            .with("controllerId", present(args.controller_id.clone()).as_deref())
            .with("selector", args.selector.selector.as_deref());
        let mut client = DaemonClient::new(context, &workspace);
        block_on(async move { client.ask(&ApiRequest::get(path)).await })?
    } else {
        json!({"items": [], "count": 0})
    };
    let items = data["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Value> = items.iter().map(row).collect();
    let keys = ["requestId", "workerId", "label", "kind", "subject", "createdAt", "deadline", "rule"];
    let shown = text::rows(&json!({"items": rows}), &keys, "");
    Ok(CliOutcome::list("inbox.listed", data, shown, "(nothing is asked)"))
}

/// A question with its last columns as words.
fn row(item: &Value) -> Value {
    let mut row = item.clone();
    row["deadline"] = match (item["deadlineAt"].as_str(), item["onTimeout"].as_str()) {
        (Some(at), Some(then)) => format!("{at} {then}").into(),
        _ => Value::Null,
    };
    row["rule"] = describe_rule(&item["rule"]).into();
    if let Some(path) = task_path(item) {
        row["label"] = path.into();
    }
    row
}

fn show(args: &ApprovalShow, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let request = args.request_id.as_str();
    if request.is_empty() || !has_state(&workspace) {
        return Err(Failure::new(Code::ApprovalNotFound, "no worker has asked this question")
            .with("requestId", request)
            .with("stateDbPath", path_value(&workspace.db_path))
            .recommend("`subagent approval list` shows all questions; check --cwd and SUBAGENT_STATE_DIR"));
    }
    let mut client = DaemonClient::new(context, &workspace);
    let ask = ApiRequest::get(format!("/v1/approvals/{}", segment(request)));
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = lines(&data);
    Ok(CliOutcome::report("approval.shown", data, shown))
}

/// All of a question, line by line.
fn lines(data: &Value) -> String {
    let keys = [
        "requestId",
        "workerId",
        "label",
        "controllerId",
        "turnId",
        "kind",
        "toolKind",
        "status",
        "subject",
        "message",
        "cwd",
        "createdAt",
        "deadlineAt",
        "onTimeout",
    ];
    let mut lines =
        vec![text::fields(data, &keys), format!("rule: {}", one_line(&describe_rule(&data["rule"])))];
    lines.extend(task_path(data).map(|path| format!("task: {}", one_line(&path))));
    let request = &data["request"];
    for key in ["command", "url", "rawInput", "schema"] {
        if let Some(value) = request.get(key).filter(|value| !value.is_null()) {
            lines.push(format!("{key}: {}", one_line(&text::value(value))));
        }
    }
    for place in request["locations"].as_array().into_iter().flatten() {
        lines.push(format!("path: {}", one_line(place["path"].as_str().unwrap_or_default())));
    }
    for part in request["content"].as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("diff") => {
                lines.push(format!("diff: {}", one_line(part["path"].as_str().unwrap_or_default())));
                lines.extend(changed("-", &part["oldText"]));
                lines.extend(changed("+", &part["newText"]));
            }
            _ => lines.extend(changed(" ", &part["content"]["text"])),
        }
    }
    for option in data["options"].as_array().into_iter().flatten() {
        let words = ["id", "label", "kind"].map(|key| one_line(option[key].as_str().unwrap_or_default()));
        lines.push(format!("option: {}", words.join("\t")));
    }
    if data["decidedBy"].is_object() {
        let decided = &data["decidedBy"];
        let by = ["by", "decision", "at", "instanceId"].map(|key| text::value(&decided[key]));
        lines.push(format!("decided by: {}", one_line(&by.join(" "))));
        if decided["rule"].is_object() {
            lines.push(format!("decided for: {}", one_line(&describe_rule(&decided["rule"]))));
        }
    }
    lines.extend(
        data["answers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|answer| format!("answer: {}", text::value(answer))),
    );
    lines.join("\n")
}

/// Lines of a text behind a sign; nothing of them can look like another line of ours.
fn changed(sign: &str, text: &Value) -> Vec<String> {
    let text = clean(text.as_str().unwrap_or_default()).into_owned();
    text.lines().map(|line| format!("  {sign}{line}")).collect()
}
