//! `show`: what a worker does, asks, has said and has changed.

use serde_json::{Value, json};
use subagent_protocol::api::WorkerOverview;

use super::{diff, overview};
use crate::args::look::Show;
use crate::client::{Client, block_on, read};
use crate::context::Context;
use crate::failure::Result;
use crate::output::{Outcome, human, text};

/// The order of the lines.
const KEYS: &[&str] = &[
    "workerId",
    "name",
    "label",
    "state",
    "updatedAt",
    "launcher",
    "cwd",
    "sessionId",
    "activeTurnId",
    "doing",
    "question",
    "answer",
    "queued",
    "lastMessage",
    "filesChanged",
    "cost",
    "tokens",
    "tasks",
    "lastError",
];

pub(super) fn run(args: Show, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let mut client = Client::new(context, &workspace);
    let mut data = block_on(async move { overview::of(&mut client, args.worker, &workspace).await })?;
    let worker: WorkerOverview = read(data.clone())?;
    data["changes"] = diff::counted(&worker, context).unwrap_or(Value::Null);
    data["changesUnknown"] = diff::reason(&worker).map_or(Value::Null, Value::from);
    let shown = text::fields(&lines(&data), KEYS);
    Ok(Outcome::report("worker.overview", data, shown))
}

/// The values of the lines.
fn lines(data: &Value) -> Value {
    let mut lines = data.clone();
    let changes = &data["changes"];
    lines["doing"] = human::doing(&data["doing"]).into();
    let question = &data["questions"][0];
    lines["question"] = question["message"].clone();
    lines["answer"] = match question["requestId"].as_str() {
        Some(request) => human::answer(question, request).into(),
        None => Value::Null,
    };
    lines["queued"] = data["queue"]["length"].clone();
    lines["lastMessage"] = data["lastMessage"]["text"].clone();
    lines["filesChanged"] = match changes.is_object() {
        true => format!("{} +{} -{}", changes["files"], changes["added"], changes["deleted"]).into(),
        false => Value::Null,
    };
    lines["cost"] = data["agent"]["cost"].clone();
    lines["tokens"] = data["agent"]["tokens"].clone();
    lines["tasks"] = data["tasks"].as_array().map_or(json!(0), |tasks| tasks.len().into());
    // A value that is not there is no line.
    if let Some(lines) = lines.as_object_mut() {
        lines.retain(|_, value| !value.is_null() && value != "");
    }
    lines
}
