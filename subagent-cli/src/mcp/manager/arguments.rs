//! Parses the arguments of a manager's tools strictly. Pure.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::tools::{DEFAULT_EVENTS, DEFAULT_WAIT, MAX_EVENTS, MAX_WAIT, MAX_WORKERS};
use super::{NewLanding, NewMessage, WorkerOptions};

/// A call with valid arguments.
#[derive(Debug)]
pub(in crate::mcp) enum ManagerToolCall {
    ListWorkers { all: bool },
    Start(WorkerOptions),
    Send(NewMessage),
    Wait { workers: Vec<String>, seconds: f64 },
    ListQuestions { worker: Option<String> },
    Answer(AnswerArguments),
    Stop { worker: String },
    Events { worker: String, cursor: Option<String>, limit: u64 },
    Diff { worker: String },
    Land(NewLanding),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::mcp) struct AnswerArguments {
    pub(super) request_id: String,
    pub(super) decision: String,
    pub(super) content: Option<Map<String, Value>>,
    pub(super) note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListWorkers {
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    launcher: Option<String>,
    label: Option<String>,
    agent: Option<String>,
    model: Option<String>,
    mode: Option<String>,
    #[serde(default)]
    worktree: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    worker_id: String,
    message: String,
    #[serde(default)]
    queue: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    worker_ids: Vec<String>,
    timeout_seconds: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuestions {
    worker_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    worker_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsArguments {
    worker_id: String,
    cursor: Option<String>,
    limit: Option<u64>,
}

impl ManagerToolCall {
    /// Parses a call of this tool; `None` if it is not a manager's tool. An error contains the problem and
    /// its place.
    pub(in crate::mcp) fn parse(tool: &str, arguments: Map<String, Value>) -> Option<Result<Self, String>> {
        Some(match tool {
            "list_workers" => read(tool, arguments).map(|ListWorkers { all }| Self::ListWorkers { all }),
            "start_worker" => read(tool, arguments).map(start),
            "send_message" => read(tool, arguments).map(|Send { worker_id, message, queue }| {
                Self::Send(NewMessage { worker_id, text: message, queue })
            }),
            "wait_for" => read(tool, arguments).and_then(wait),
            "list_questions" => read(tool, arguments)
                .map(|ListQuestions { worker_id }| Self::ListQuestions { worker: worker_id }),
            "answer_question" => read(tool, arguments).map(Self::Answer),
            "stop_worker" => read(tool, arguments).map(|One { worker_id }| Self::Stop { worker: worker_id }),
            "get_events" => read(tool, arguments).and_then(events),
            "get_diff" => read(tool, arguments).map(|One { worker_id }| Self::Diff { worker: worker_id }),
            "land" => read(tool, arguments).map(Self::Land),
            _ => return None,
        })
    }
}

fn read<T: DeserializeOwned>(tool: &str, arguments: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(arguments.into()).map_err(|error| format!("{tool}: {error}"))
}

fn start(start: Start) -> ManagerToolCall {
    let Start { launcher, label, agent, model, mode, worktree } = start;
    let said = [("launcher", launcher), ("label", label), ("agent", agent), ("model", model), ("mode", mode)];
    let said = said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
    let worktree = worktree.then(|| ("worktree".to_owned(), Value::Object(Map::new())));
    ManagerToolCall::Start(said.chain(worktree).collect())
}

fn wait(wait: Wait) -> Result<ManagerToolCall, String> {
    let count = wait.worker_ids.len();
    if count == 0 || count > MAX_WORKERS {
        return Err(format!("wait_for: worker_ids has {count} ids, and must have 1 to {MAX_WORKERS}"));
    }
    let seconds = wait.timeout_seconds.unwrap_or(DEFAULT_WAIT as f64);
    if !(0.0..=MAX_WAIT as f64).contains(&seconds) {
        return Err(format!("wait_for: timeout_seconds is {seconds}, and must be 0 to {MAX_WAIT}"));
    }
    Ok(ManagerToolCall::Wait { workers: wait.worker_ids, seconds })
}

fn events(events: EventsArguments) -> Result<ManagerToolCall, String> {
    let limit = events.limit.unwrap_or(DEFAULT_EVENTS);
    if !(1..=MAX_EVENTS).contains(&limit) {
        return Err(format!("get_events: limit is {limit}, and must be 1 to {MAX_EVENTS}"));
    }
    Ok(ManagerToolCall::Events { worker: events.worker_id, cursor: events.cursor, limit })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tools::{NAMES, tools};
    use super::*;

    fn parsed(tool: &str, arguments: Value) -> Result<ManagerToolCall, String> {
        ManagerToolCall::parse(tool, arguments.as_object().unwrap().clone()).unwrap()
    }

    #[test]
    fn every_tool_that_is_listed_can_be_called_with_what_it_requires() {
        let listed = tools();
        assert_eq!(listed.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), NAMES);
        for tool in listed {
            let required = tool.input_schema["required"].as_array().unwrap();
            let value = |name: &Value| match name.as_str().unwrap() {
                "worker_ids" => json!(["w_1"]),
                _ => json!("x"),
            };
            let arguments: Map<String, Value> =
                required.iter().map(|name| (name.as_str().unwrap().to_owned(), value(name))).collect();
            parsed(&tool.name, arguments.clone().into()).unwrap();
            let mut unknown = arguments;
            unknown.insert("unknown".to_owned(), true.into());
            assert!(parsed(&tool.name, unknown.into()).unwrap_err().starts_with(&*tool.name));
        }
        assert!(ManagerToolCall::parse("task", Map::new()).is_none());
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_its_place() {
        for (tool, arguments, place) in [
            ("wait_for", json!({"worker_ids": []}), "worker_ids"),
            ("wait_for", json!({"worker_ids": ["w"], "timeout_seconds": 61}), "timeout_seconds"),
            ("wait_for", json!({"worker_ids": ["w"], "timeout_seconds": -1}), "timeout_seconds"),
            ("get_events", json!({"worker_id": "w", "limit": 0}), "limit"),
        ] {
            let error = parsed(tool, arguments).unwrap_err();
            assert!(error.starts_with(&format!("{tool}: {place}")), "{error}");
        }
    }
}
