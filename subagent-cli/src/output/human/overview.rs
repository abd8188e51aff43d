//! A worker as `show` has it.

use serde_json::Value;

use super::questions::open;
use super::view::{PageRenderer, named, parse_time, shown as value, word};
use super::workers::sandbox;
use crate::output::advice;
use crate::output::page::shorten;
use crate::output::style::Style;

/// Lines of the last message.
const MAX_LINES: usize = 6;
/// Tasks that are listed.
const MAX_TASKS: usize = 20;

pub(super) fn shown(view: &mut PageRenderer, data: &Value) -> Option<()> {
    data["workerId"].as_str()?;
    let name = named(data);
    view.page.word(Style::Strong, name).plain("  ");
    view.state(word(data, "state"));
    if parse_time(&data["updatedAt"]).is_some() {
        let since = view.ago(&data["updatedAt"]);
        view.page.plain("  ").word(Style::Dim, &since);
    }
    view.page.plain("  ").rest(Style::Plain, word(data, "label")).end();
    // The names of the facts take 12 columns.
    let room = view.width.saturating_sub(12);
    let fitting = |text: &str| shorten(text, room);
    view.facts(&[
        ("doing", Style::Active, fitting(&doing(&data["doing"]))),
        ("login", Style::Bad, login(data)),
        ("queue", Style::Attention, queue(&data["queue"])),
        ("changed", Style::Plain, fitting(&changed(data, name))),
        ("usage", Style::Plain, fitting(&usage(&data["agent"]))),
        ("launcher", Style::Plain, fitting(&value(&data["launcher"]))),
        ("branch", Style::Plain, fitting(&value(&data["worktree"]["branch"]))),
        ("cwd", Style::Plain, fitting(&value(&data["cwd"]))),
        ("sandbox", Style::Plain, fitting(&sandbox(&data["sandbox"]))),
        ("session", Style::Plain, fitting(&value(&data["sessionId"]))),
        ("last error", Style::Bad, value(&data["lastError"])),
    ]);
    open(view, data);
    if let Some(text) = data["lastMessage"]["text"].as_str() {
        view.page.end().prose(Style::Plain, "  | ", "  | ", text, MAX_LINES);
    }
    tasks(view, data["tasks"].as_array().map(Vec::as_slice).unwrap_or_default());
    Some(())
}

fn login(data: &Value) -> String {
    match data["loginWanted"] == true {
        true => format!("not logged in  {}", advice::login(word(data, "launcher"))),
        false => String::new(),
    }
}

fn queue(queue: &Value) -> String {
    match queue["length"].as_u64().unwrap_or(0) {
        0 => String::new(),
        length if queue["paused"] == true => format!("{length} waiting, paused ({})", word(queue, "reason")),
        length => format!("{length} waiting"),
    }
}

fn changed(data: &Value, name: &str) -> String {
    let changes = &data["changes"];
    match changes["files"].as_u64() {
        Some(0) => "nothing since its first turn".to_owned(),
        Some(files) => {
            let noun = if files == 1 { "file" } else { "files" };
            format!("{files} {noun} +{} -{}  subagent diff {name}", changes["added"], changes["deleted"])
        }
        None if data["base"].is_null() && data["lastMessage"].is_null() => String::new(),
        None => format!("not counted ({})  subagent diff {name}", word(data, "changesUnknown")),
    }
}

/// What the agent has reported of its use.
fn usage(agent: &Value) -> String {
    let mut parts = Vec::new();
    let counts = agent["tokens"].as_object().into_iter().flatten();
    parts.extend(counts.map(|(name, count)| format!("{name} {}", value(count))));
    if let Some(used) = agent["contextUsed"].as_u64() {
        let size = agent["contextSize"].as_u64().map_or(String::new(), |size| format!(" of {size}"));
        parts.push(format!("context {used}{size}"));
    }
    if agent["cost"].is_object() {
        parts.push(format!("{} {}", value(&agent["cost"]["amount"]), word(&agent["cost"], "currency")));
    }
    parts.join(" · ")
}

fn tasks(view: &mut PageRenderer, tasks: &[Value]) {
    if tasks.is_empty() {
        return;
    }
    view.page.end().word(Style::Dim, "tasks").end();
    for task in tasks.iter().take(MAX_TASKS) {
        view.page.plain("  ").word(Style::Strong, word(task, "name")).plain("  ");
        view.state(word(task, "status"));
        view.page.plain("  ").word(Style::Dim, word(task, "taskId")).end();
    }
    if let Some(left) = tasks.len().checked_sub(MAX_TASKS).filter(|left| *left > 0) {
        view.page.word(Style::Dim, &format!("  ... {left} more: subagent tree")).end();
    }
}

/// What an open turn is at, in a line.
#[must_use]
pub fn doing(doing: &Value) -> String {
    let mut parts: Vec<String> = doing["tool"].as_str().map(str::to_owned).into_iter().collect();
    if let Some(step) = doing["step"].as_str() {
        let number = doing["stepsCompleted"].as_u64().unwrap_or(0) + 1;
        parts.push(format!("step {number} of {}: {step}", doing["steps"]));
    }
    parts.join(" · ")
}

/// The command that answers a question.
#[must_use]
pub fn answer(question: &Value, request: &str) -> String {
    match question["kind"] == "elicitation" {
        true => format!("subagent answer {request} --accept|--decline"),
        false => format!("subagent approve {request}"),
    }
}
