//! Workers: list, one of them, start, stop, inspection.

use std::time::Duration;

use serde_json::Value;
use subagent_protocol::api::{UNLABELED, UNLABELED_RUN};

use super::budgets;
use super::event::write as write_event;
use super::questions::{elicitation, open};
use super::removal::bytes;
use super::turns::approval;
use super::usual::text;
use super::view::{PageRenderer, items, named, shown as value, word};
use super::worktrees;
use crate::output::ago::elapsed;
use crate::output::style::Style;
use crate::output::table::Table;

/// A longer line of a worker is cut in a view.
const MAX_LINES: usize = 8;

pub(super) fn listed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data)?;
    if items.is_empty() {
        view.page.plain("No workers.").end();
        view.next("Start one:", "subagent worker start --launcher NAME");
        return Some(());
    }
    let mut table =
        Table::new(&["NAME", "STATE", "LABEL", "LAUNCHER", "ROLE", "CHANGED", "WORKER", "STATE DIR"]);
    for item in items {
        let (style, state) = state(view, item);
        let changed = view.ago(&item["updatedAt"]);
        table.row([
            (Style::Strong, named(item)),
            (style, &state),
            (Style::Plain, word(item, "label")),
            (Style::Plain, word(item, "launcher")),
            (Style::Plain, word(item, "role")),
            (Style::Dim, &changed),
            (Style::Dim, word(item, "workerId")),
            (Style::Dim, word(item, "stateDir")),
        ]);
    }
    view.put(&table);
    Some(())
}

/// The state of a worker in a table.
fn state(view: &PageRenderer, item: &Value) -> (Style, String) {
    let state = word(item, "state");
    let hangs = item["unresponsive"] == true;
    let parked = item["parked"].is_object();
    let shown = match (hangs, parked, item["hibernated"] == true) {
        (true, ..) => format!("{state} (hangs)"),
        (false, true, _) => format!("parked ({} left)", view.left(&item["parked"]["until"])),
        (false, false, true) => format!("{state} (hibernates)"),
        (false, false, false) => state.replace('_', " "),
    };
    let style = match (hangs, parked) {
        (true, _) => Style::Bad,
        (false, true) => Style::Attention,
        (false, false) => Style::of_state(state),
    };
    (style, shown)
}

/// `ls`: who is alive, and what is asked.
pub(super) fn overview(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data)?;
    if items.is_empty() {
        view.page.plain("No worker is alive.").end();
        view.next("Start one:", "subagent run -d AGENT 'WHAT TO DO'");
        return Some(());
    }
    let mut table = Table::new(&["NAME", "STATE", "ASKS", "LAUNCHER", "CHANGED", "LABEL", "WORKER"]);
    for item in items {
        let (style, state) = state(view, item);
        let changed = view.ago(&item["updatedAt"]);
        let label = Some(word(item, "label")).filter(|label| !matches!(*label, UNLABELED | UNLABELED_RUN));
        table.row([
            (Style::Strong, named(item)),
            (style, &state),
            (Style::Attention, word(item, "asks")),
            (Style::Plain, word(item, "launcher")),
            (Style::Dim, &changed),
            (Style::Plain, label.unwrap_or_default()),
            (Style::Dim, word(item, "workerId")),
        ]);
    }
    view.put(&table);
    if let Some(asking) = items.iter().find(|item| item["requestId"].is_string()) {
        let command = if asking["requestKind"] == "elicitation" { "answer" } else { "approve" };
        view.next("Answer:", &format!("subagent {command} {}", named(asking)));
    }
    Some(())
}

/// What became of a worker, in one line.
pub(super) fn changed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    data["workerId"].as_str()?;
    let (style, state) = state(view, data);
    view.page.word(Style::Strong, named(data)).plain("  ").word(style, &state).end();
    Some(())
}

/// What was set of a worker.
pub(super) fn set(view: &mut PageRenderer, data: &Value) -> Option<()> {
    data["workerId"].as_str()?;
    view.page.word(Style::Strong, named(data)).end();
    let idle = match data.get("idleTimeoutMs") {
        None => String::new(),
        Some(time) => {
            time.as_u64().map_or_else(|| "never".to_owned(), |millis| elapsed(Duration::from_millis(millis)))
        }
    };
    view.facts(&[
        ("agent has it", Style::Plain, text(&data["applied"])),
        ("chosen", Style::Plain, text(&data["chosen"])),
        ("current", Style::Plain, text(&data["current"])),
        ("idle timeout", Style::Plain, idle),
        ("at a rate limit", Style::Plain, text(&data["onRateLimit"])),
    ]);
    if data["budget"].is_object() {
        let mut budget = data["budget"].clone();
        budget["name"] = named(data).into();
        budgets::shown_budget(view, &budget)?;
    }
    Some(())
}

/// What a wait found of several workers.
pub(super) fn waited(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data)?;
    if items.iter().any(|item| item["line"].is_string()) {
        return rested(view, items);
    }
    let mut table = Table::new(&["NAME", "OUTCOME", "ASKS", "EVENT"]);
    let asks = |item: &Value| item["matchedEvent"]["data"]["requestId"].is_string();
    for item in items {
        let (outcome, event) = (word(item, "outcome"), &item["matchedEvent"]);
        let message = if asks(item) { word(&event["data"], "message") } else { "" };
        table.row([
            (Style::Strong, named(item)),
            (Style::of_state(outcome), outcome),
            (Style::Attention, message),
            (Style::Dim, word(event, "type")),
        ]);
    }
    view.put(&table);
    if let Some(asking) = items.iter().find(|item| asks(item)) {
        let is_form = asking["matchedEvent"]["type"] == "elicitation.requested";
        let command = if is_form { "answer" } else { "approve" };
        view.next("Answer:", &format!("subagent {command} {}", named(asking)));
    }
    Some(())
}

/// What workers came to that were waited for by name: of each the outcome, and below it what it said or asks.
fn rested(view: &mut PageRenderer, items: &[Value]) -> Option<()> {
    for item in items {
        let outcome = word(item, "outcome");
        let (style, mark) = match outcome {
            "needs_answer" => (Style::Attention, "  ? "),
            outcome => (Style::of_state(outcome), "  "),
        };
        view.page.word(Style::Strong, named(item)).plain("  ");
        view.page.word(style, &outcome.replace('_', " ")).end();
        view.page.prose(Style::Plain, mark, "  ", word(item, "line"), MAX_LINES);
        for advice in item["advice"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            view.page.prose(Style::Plain, "  ", "  ", advice, MAX_LINES);
        }
    }
    for item in items {
        if let Some(command) = item["answer"].as_str() {
            view.next("Answer:", command);
        }
    }
    Some(())
}

pub(super) fn shown(view: &mut PageRenderer, data: &Value) -> Option<()> {
    heading(view, data)?;
    facts(view, data);
    agent(view, &data["agent"]);
    open(view, data);
    if data["unresponsive"] == true {
        view.page.text(Style::Bad, "  Its runtime is alive but does not answer.").end();
    }
    Some(())
}

/// Label, id and state.
fn heading(view: &mut PageRenderer, data: &Value) -> Option<()> {
    data["workerId"].as_str()?;
    view.page.word(Style::Strong, named(data)).plain("  ");
    view.state(word(data, "state"));
    view.page.plain("  ").rest(Style::Plain, word(data, "label")).end();
    Some(())
}

fn facts(view: &mut PageRenderer, data: &Value) {
    let (created, updated, stopped) =
        (view.ago(&data["createdAt"]), view.ago(&data["updatedAt"]), view.ago(&data["stoppedAt"]));
    view.facts(&[
        (
            "worker",
            Style::Plain,
            if named(data) == word(data, "workerId") { String::new() } else { value(&data["workerId"]) },
        ),
        ("launcher", Style::Plain, value(&data["launcher"])),
        ("role", Style::Plain, value(&data["role"])),
        ("cwd", Style::Plain, value(&data["cwd"])),
        ("branch", Style::Plain, value(&data["worktree"]["branch"])),
        ("sandbox", Style::Plain, sandbox(&data["sandbox"])),
        ("controller", Style::Plain, value(&data["controllerId"])),
        ("session", Style::Plain, value(&data["sessionId"])),
        ("turn", Style::Active, value(&data["activeTurnId"])),
        ("runtime pid", Style::Plain, value(&data["runtimePid"])),
        ("parked", Style::Attention, parked(view, &data["parked"])),
        ("at a rate limit", Style::Plain, value(&data["onRateLimit"])),
        ("hibernates", Style::Plain, view.ago(&data["hibernatedAt"])),
        ("hibernation", Style::Attention, value(&data["hibernation"])),
        ("recovery", Style::Plain, value(&data["recoveryState"])),
        ("created", Style::Dim, created),
        ("changed", Style::Dim, updated),
        ("stopped", Style::Dim, stopped),
        ("last error", Style::Bad, value(&data["lastError"])),
    ]);
}

/// Until when a worker is parked, and why.
fn parked(view: &PageRenderer, parked: &Value) -> String {
    let Some(until) = parked["until"].as_str() else { return String::new() };
    let (left, reason) = (view.left(&parked["until"]), word(parked, "reason").replace('_', " "));
    format!("{left} left, until {until} ({reason})")
}

/// What an agent may reach, and what enforces it; nothing of one without a sandbox.
pub(super) fn sandbox(sandbox: &Value) -> String {
    let Some(layers) = sandbox["layers"].as_object() else { return String::new() };
    let name = sandbox["name"].as_str().filter(|name| *name != word(sandbox, "filesystem"));
    let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
    let layers: Vec<&str> = layers.keys().map(String::as_str).collect();
    let (files, network) = (word(sandbox, "filesystem"), word(sandbox, "network"));
    format!("{name}{files}, network {network} ({})", layers.join(", "))
}

/// What the agent reports of itself; what it does not report is left out.
fn agent(view: &mut PageRenderer, agent: &Value) {
    let of = |part: &Value, whole: &Value| match (part.is_null(), whole.is_null()) {
        (true, true) => String::new(),
        (false, true) => format!("{} tokens", value(part)),
        (true, false) => format!("of {} tokens", value(whole)),
        (false, false) => format!("{} of {} tokens", value(part), value(whole)),
    };
    let joined = |words: [&Value; 2]| words.map(value).join(" ").trim().to_owned();
    let counts = agent["tokens"].as_object().into_iter().flatten();
    let tokens: Vec<String> = counts.map(|(name, count)| format!("{name} {}", value(count))).collect();
    let active = view.ago(&agent["lastActivityAt"]);
    let some = |value: String, is: bool| if is { value } else { String::new() };
    let (memory, restarts) = (&agent["memoryBytes"], &agent["restarts"]);
    view.facts(&[
        ("agent", Style::Plain, joined([&agent["name"], &agent["version"]])),
        ("title", Style::Plain, value(&agent["title"])),
        ("model", Style::Plain, value(&agent["model"])),
        ("mode", Style::Plain, value(&agent["mode"])),
        ("context", Style::Plain, of(&agent["contextUsed"], &agent["contextSize"])),
        ("cost", Style::Plain, joined([&agent["cost"]["amount"], &agent["cost"]["currency"]])),
        ("tokens", Style::Plain, tokens.join(", ")),
        ("active", Style::Dim, active),
        ("restarts", Style::Plain, some(value(restarts), restarts.as_u64().unwrap_or(0) > 0)),
        ("memory", Style::Plain, some(bytes(memory), memory.is_u64())),
    ]);
}

pub(super) fn started(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let worker = named(data).to_owned();
    heading(view, data)?;
    facts(view, data);
    view.next("Next:", &format!("subagent send {worker} '...'"));
    Some(())
}

pub(super) fn stopped(view: &mut PageRenderer, data: &Value) -> Option<()> {
    data["workerId"].as_str()?;
    view.page.word(Style::Strong, named(data)).plain("  ");
    view.state(word(data, "state"));
    let when = view.ago(&data["stoppedAt"]);
    view.page.plain("  ").word(Style::Dim, &when).end();
    if data["worktree"].is_object() {
        worktrees::end(view, &data["worktree"]);
    }
    Some(())
}

/// `None`, and so the text as it is, if there is any.
pub(super) fn logs(view: &mut PageRenderer, data: &Value) -> Option<()> {
    if data["text"] != "" {
        return None;
    }
    view.page.word(Style::Dim, "(nothing on standard error)").end();
    Some(())
}

pub(super) fn inspected(view: &mut PageRenderer, data: &Value) -> Option<()> {
    shown(view, &data["worker"])?;
    let worker = word(&data["worker"], "workerId").to_owned();
    if let Some(snapshot) = data["latestHandoff"].as_object() {
        let path = snapshot.get("handoffPath").map(value).unwrap_or_default();
        view.facts(&[("handoff", Style::Plain, path)]);
    }
    let pending = || data["pendingApprovals"].as_array().into_iter().flatten();
    for asked in pending() {
        view.page.end();
        if asked["kind"] == "elicitation" {
            elicitation(&mut view.page, asked);
        } else {
            approval(&mut view.page, asked);
        }
    }
    let events = data["events"].as_array()?;
    if !events.is_empty() {
        view.page.end().word(Style::Dim, &format!("The last {} events", events.len())).end();
    }
    for event in events {
        let request = &event["data"]["requestId"];
        let asks = matches!(word(event, "type"), "approval.requested" | "elicitation.requested");
        if asks && pending().any(|asked| asked["requestId"] == *request) {
            let said = format!("{} asked, see above", word(&event["data"], "requestId"));
            view.page.word(Style::Attention, &said).end();
            continue;
        }
        write_event(&mut view.page, &worker, event);
    }
    Some(())
}
