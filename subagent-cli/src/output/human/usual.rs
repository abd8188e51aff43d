//! Lists and results without a layout of their own: columns and facts, named by the keys of their data.

use serde::Deserialize;
use serde_json::Value;

use super::view::{PageRenderer, named, parse_time, shown};
use crate::output::style::{Style, state_word};
use crate::output::table::Table;

/// How the values of a column look.
#[derive(Debug, Clone, Copy)]
enum ColumnStyle {
    Name,
    State,
    Text,
    Time,
    Id,
}

use ColumnStyle::{Id, Name, State, Text, Time};

/// A list: its type, and its columns in the order of their importance.
type ListColumns = (&'static str, &'static [(&'static str, &'static str, ColumnStyle)]);

const LISTS: &[ListColumns] = &[
    (
        "task.listed",
        &[
            ("NAME", "name", Name),
            ("STATE", "status", State),
            ("WHAT", "description", Text),
            ("AGENT", "agent", Text),
            ("CHANGED", "updatedAt", Time),
            ("MODE", "mode", Text),
            ("TASK", "taskId", Id),
        ],
    ),
    (
        "turn.listed",
        &[
            ("TURN", "turnId", Name),
            ("STATE", "status", State),
            ("TEXT", "text", Text),
            ("POSITION", "position", Text),
            ("STARTED", "startedAt", Time),
        ],
    ),
    (
        "agent.listed",
        &[
            ("AGENT", "name", Name),
            ("MODE", "mode", Text),
            ("WHAT FOR", "description", Text),
            ("FROM", "level", Text),
        ],
    ),
    (
        "memory.listed",
        &[
            ("AGENT", "agent", Name),
            ("SCOPE", "scope", Text),
            ("LINES", "lines", Text),
            ("CHANGED", "changedAt", Time),
            ("BYTES", "bytes", Text),
            ("PROBLEM", "problem", Text),
            ("FILE", "path", Text),
        ],
    ),
    (
        "placement.listed",
        &[("NAME", "name", Name), ("KIND", "kind", Text), ("HOST", "host", Text), ("FOLDER", "cwd", Text)],
    ),
    ("placement.checked", &[("STEP", "step", Name), ("FOUND", "found", Text)]),
    (
        "daemons.listed",
        &[
            ("PID", "pid", Name),
            ("WORKERS", "liveWorkers", Text),
            ("STATE DIR", "stateDir", Text),
            ("SINCE", "startedAt", Time),
            ("VERSION", "version", Text),
        ],
    ),
    (
        "session.listed",
        &[
            ("SESSION", "sessionId", Name),
            ("TITLE", "title", Text),
            ("CHANGED", "updatedAt", Time),
            ("WHERE", "cwd", Text),
        ],
    ),
    (
        "hook.list",
        &[
            ("EVENT", "event", Name),
            ("RUNS", "runs", Text),
            ("COMMAND", "command", Text),
            ("MATCHER", "matcher", Text),
            ("FROM", "origin", Text),
            ("FILE", "file", Text),
        ],
    ),
    (
        "notify.listed",
        &[
            ("NAME", "name", Name),
            ("TO", "to", Text),
            ("ON", "on", Text),
            ("ERROR", "error", Text),
            ("WAITING", "pending", Text),
            ("TAGS", "selector", Text),
        ],
    ),
    ("notify.tested", &[("NAME", "name", Name), ("DELIVERED", "delivered", Text), ("ERROR", "error", Text)]),
    (
        "notify.log",
        &[
            ("SINK", "sink", Name),
            ("STATE", "status", State),
            ("WHAT", "occasion", Text),
            ("CHANGED", "changedAt", Time),
            ("ERROR", "error", Text),
            ("TRIES", "attempts", Text),
            ("WORKER", "workerId", Id),
        ],
    ),
    ("hook.trust", &[("FILE", "file", Name), ("SINCE", "trustedAt", Time), ("SHA-256", "sha256", Id)]),
    ("workers.diff", &[("PATH", "path", Name), ("WORKERS", "workers", Text)]),
    (
        "policy.rules",
        &[
            ("RULE", "ruleId", Name),
            ("ACTION", "action", Text),
            ("WHAT", "rule", Text),
            ("SCOPE", "scope", Text),
            ("SINCE", "createdAt", Time),
        ],
    ),
];

/// A result: its type, the key that names it, and the keys that say more.
type ResultLayout = (&'static str, &'static str, &'static [(&'static str, &'static str, ColumnStyle)]);

/// The columns of a firing.
const FIRED: &[(&str, &str, ColumnStyle)] = &[
    ("state", "status", State),
    ("worker", "workerId", Id),
    ("turn", "turnId", Id),
    ("error", "error", Text),
];

const RESULTS: &[ResultLayout] = &[
    (
        "worker.handoff.ready",
        "workerId",
        &[("for the next worker", "handoffPath", Text), ("for programs", "checkpointPath", Text)],
    ),
    ("state.backed_up", "path", &[("bytes", "sizeBytes", Text), ("schema", "schema", Text)]),
    (
        "memory.edited",
        "agent",
        &[
            ("scope", "scope", Text),
            ("lines", "lines", Text),
            ("bytes", "bytes", Text),
            ("file", "path", Text),
        ],
    ),
    (
        "memory.cleared",
        "agent",
        &[("scope", "scope", Text), ("removed", "removed", Text), ("folder", "path", Text)],
    ),
    ("queue.resumed", "workerId", &[("state", "state", State), ("turn", "turnId", Id)]),
    ("turn.dropped", "turnId", &[("worker", "workerId", Id)]),
    ("turn.moved", "turnId", &[("position", "position", Text), ("worker", "workerId", Id)]),
    (
        "turn.queued",
        "turnId",
        &[("position", "position", Text), ("state", "state", State), ("worker", "workerId", Id)],
    ),
    (
        "policy.rule.removed",
        "ruleId",
        &[("action", "action", Text), ("what", "rule", Text), ("scope", "scope", Text)],
    ),
    ("session.deleted", "sessionId", &[("launcher", "launcher", Text)]),
    ("hook.distrusted", "file", &[("removed", "removed", Text)]),
    ("config.initialized", "path", &[("scope", "scope", Text), ("replaced a file", "overwritten", Text)]),
    (
        "completions.installed",
        "path",
        &[("state", "state", State), ("shell", "shell", Text), ("next", "recommendedAction", Text)],
    ),
    (
        "launcher.login",
        "name",
        &[
            ("logged in", "loggedIn", Text),
            ("method", "methodName", Text),
            ("variables", "variables", Text),
            ("link", "link", Text),
            ("next", "recommendedAction", Text),
        ],
    ),
    ("launcher.logout", "name", &[("logged out", "loggedOut", Text)]),
    ("worktree.patch", "name", &[("file", "path", Text), ("bytes", "bytes", Text)]),
    ("task.spawned", "name", &[("state", "status", State), ("task", "taskId", Id)]),
    ("schedule.fired", "schedule", FIRED),
    ("trigger.fired", "schedule", FIRED),
    ("task.cancelled", "name", &[("state", "status", State), ("task", "taskId", Id)]),
    ("task.messaged", "name", &[("state", "status", State), ("task", "taskId", Id)]),
    ("controller.released", "controllerId", &[("released", "released", Text)]),
    (
        "daemon.shown",
        "stateDir",
        &[
            ("running", "running", Text),
            ("pid", "pid", Text),
            ("live workers", "liveWorkers", Text),
            ("started", "startedAt", Time),
            ("version", "version", Text),
            ("mode", "mode", Text),
            ("socket", "socket", Text),
            ("log", "log", Text),
        ],
    ),
    (
        "daemon.started",
        "stateDir",
        &[
            ("ran already", "alreadyRunning", Text),
            ("pid", "pid", Text),
            ("version", "version", Text),
            ("mode", "mode", Text),
            ("socket", "socket", Text),
            ("log", "log", Text),
        ],
    ),
    (
        "daemon.restarted",
        "stateDir",
        &[
            ("pid", "pid", Text),
            ("pid before", "previousPid", Text),
            ("version", "version", Text),
            ("mode", "mode", Text),
            ("socket", "socket", Text),
            ("log", "log", Text),
        ],
    ),
    (
        "task.shown",
        "name",
        &[
            ("state", "status", State),
            ("what", "description", Text),
            ("agent", "agent", Text),
            ("launcher", "launcher", Text),
            ("model", "model", Text),
            ("tool calls", "toolCalls", Text),
            ("tokens", "tokens", Text),
            ("created", "createdAt", Time),
            ("ended", "completedAt", Time),
            ("error", "error", Text),
            ("task", "taskId", Id),
            ("result", "result", Text),
        ],
    ),
];

/// Writes a list or a result that is known here.
pub(super) fn write(view: &mut PageRenderer, kind: &str, data: &Value) -> Option<()> {
    if let Some((_, columns)) = LISTS.iter().find(|(known, _)| *known == kind) {
        return list(view, columns, data);
    }
    let kind = if kind == "workers.handoff.ready" { "worker.handoff.ready" } else { kind };
    let (_, key, facts) = RESULTS.iter().find(|(known, ..)| *known == kind)?;
    match items(data) {
        Some(items) => items.iter().try_for_each(|item| result(view, key, facts, item)),
        None => result(view, key, facts, data),
    }
}

fn result(
    view: &mut PageRenderer,
    key: &str,
    facts: &[(&str, &str, ColumnStyle)],
    data: &Value,
) -> Option<()> {
    let name = match key {
        "workerId" => data.get(key).map(|_| named(data).to_owned())?,
        key => shown(data.get(key)?),
    };
    view.page.word(Style::Strong, &name).end();
    let facts: Vec<(&str, Style, String)> = facts
        .iter()
        .map(|(label, key, look)| {
            let (style, text) = cell(view, *look, &data[*key]);
            (*label, style, text)
        })
        .collect();
    view.facts(&facts);
    Some(())
}

fn items(data: &Value) -> Option<&[Value]> {
    data.get("items")?.as_array().map(Vec::as_slice)
}

/// `None` for an empty list: the words for it are said elsewhere.
fn list(view: &mut PageRenderer, columns: &[(&'static str, &str, ColumnStyle)], data: &Value) -> Option<()> {
    let items = items(data).filter(|items| !items.is_empty())?;
    let heads: Vec<&'static str> = columns.iter().map(|(head, ..)| *head).collect();
    let mut table = Table::new(&heads);
    for item in items {
        table.row_of(columns.iter().map(|(_, key, look)| cell(view, *look, &item[*key])));
    }
    view.put(&table);
    Some(())
}

fn cell(view: &PageRenderer, look: ColumnStyle, value: &Value) -> (Style, String) {
    match look {
        Name => (Style::Strong, shown(value)),
        Text => (Style::Plain, text(value)),
        Time => (Style::Dim, view.ago(parse_time(value))),
        Id => (Style::Dim, shown(value)),
        State => {
            let state = value.as_str().unwrap_or_default();
            (Style::of_state(state), state_word(state))
        }
    }
}

/// An error that is the value of a field.
#[derive(Deserialize)]
struct ShownError<'a> {
    #[serde(default)]
    code: &'a str,
    message: &'a str,
}

/// A value as a person reads it: of an error its message, of an object `key value` pairs.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Object(members) => {
            if let Ok(ShownError { code, message }) = ShownError::deserialize(value) {
                return format!("{code} {message}");
            }
            let pairs = members.iter().filter(|(_, value)| !value.is_null());
            pairs.map(|(key, value)| format!("{key} {}", text(value))).collect::<Vec<_>>().join(", ")
        }
        other => shown(other),
    }
}
