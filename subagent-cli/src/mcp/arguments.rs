//! Parses the arguments of tool calls strictly: an unknown key is an error with its place, and is never
//! ignored. Pure.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use subagent_protocol::api::{MessageTask, RunTask, TaskMode, TaskOverrides, TaskStatus};
use subagent_protocol::sandbox::FileSystem;

use super::tools::{FILESYSTEM_MODES, FILTERS, KINDS, LONGEST_WAIT};

/// A call with valid arguments.
#[derive(Debug)]
pub(super) enum TaskToolCall {
    Spawn(Box<RunTask>, AnswerStyle),
    /// Continue a task: its name or id, the agent that it must have, and the message.
    Resume(String, Option<String>, MessageTask),
    /// Query one or several tasks.
    Get(SubagentQuery),
    Message(String, MessageTask),
}

/// The form of the answer for a background task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerStyle {
    /// Answer with `{id, name, status}`.
    Task,
    /// Answer with `{name, subagent_id, status}`.
    Spawn,
}

/// The query of a `get_subagents` call.
#[derive(Debug)]
pub(super) struct SubagentQuery {
    pub(super) one: Option<String>,
    pub(super) filter: TaskStatusFilter,
    /// Maximum wait in milliseconds.
    pub(super) wait: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskStatusFilter {
    All,
    Running,
    Completed,
    Failed,
}

impl TaskStatusFilter {
    /// Whether the filter selects a task with this status.
    pub(super) fn takes(self, status: TaskStatus) -> bool {
        match self {
            Self::All => true,
            Self::Running => !status.is_end(),
            Self::Completed => status == TaskStatus::Completed,
            Self::Failed => status.is_end() && status != TaskStatus::Completed,
        }
    }
}

/// The reason why a call is invalid, with the place.
pub(super) type ArgumentError = String;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskArguments {
    #[serde(default, alias = "subagent_type", alias = "agentType")]
    agent: Option<String>,
    prompt: String,
    description: Option<String>,
    /// The command of the caller's user, as other products send it; stored in the task's metadata.
    command: Option<String>,
    name: Option<String>,
    background: Option<bool>,
    task_id: Option<String>,
    metadata: Option<Map<String, Value>>,
    config: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpawnArguments {
    name: String,
    task: String,
    mode: Option<TaskMode>,
    config: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskConfigArguments {
    system_prompt: Option<String>,
    allowed_tools: Option<Vec<String>>,
    disallowed_tools: Option<Vec<String>>,
    allowed_capabilities: Option<Vec<String>>,
    model: Option<String>,
    max_turns: Option<u64>,
    filesystem_mode: Option<String>,
    agent_id: Option<String>,
    template: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Get {
    name_or_id: Option<String>,
    status_filter: Option<String>,
    wait_seconds: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageArguments {
    name_or_id: String,
    message: String,
    cancel: Option<bool>,
}

impl TaskToolCall {
    /// Parses a call of this tool; `None` if the tool is unknown.
    pub(super) fn parse(tool: &str, arguments: Map<String, Value>) -> Option<Result<Self, ArgumentError>> {
        Some(match tool {
            "task" => read(tool, arguments).and_then(task),
            "spawn_subagent" => read(tool, arguments).and_then(spawn),
            "get_subagents" => read(tool, arguments).and_then(get),
            "message_subagent" => read(tool, arguments).and_then(message),
            _ => return None,
        })
    }
}

fn read<T: DeserializeOwned>(place: &str, value: impl Into<Value>) -> Result<T, ArgumentError> {
    serde_json::from_value(value.into()).map_err(|error| format!("{place}: {error}"))
}

fn task(task: TaskArguments) -> Result<TaskToolCall, ArgumentError> {
    let (overrides, chosen) = overrides("task", task.config)?;
    if chosen.is_some() {
        return Err(
            "task: config.agent_id and config.template are of spawn_subagent; give `agent`".to_owned()
        );
    }
    let mode = mode(task.background);
    if let Some(resumed) = filled(task.task_id) {
        let alone = filled(task.name).is_none() && task.metadata.is_none() && overrides.is_empty();
        if !alone {
            return Err(
                "task: `name`, `metadata` and `config` are those of the task that task_id names; leave them out"
                    .to_owned(),
            );
        }
        // The default is to wait, as for a new task.
        let mode = Some(mode.unwrap_or(TaskMode::Foreground));
        let message = MessageTask { message: task.prompt, cancel: false, allow_fresh: false, mode };
        return Ok(TaskToolCall::Resume(resumed, filled(task.agent), message));
    }
    let Some(agent) = filled(task.agent) else {
        return Err("task: missing field `agent`".to_owned());
    };
    let mut metadata = task.metadata.unwrap_or_default();
    if let Some(command) = filled(task.command) {
        metadata.entry("command").or_insert(command.into());
    }
    let run = RunTask {
        agent: Some(agent),
        prompt: task.prompt,
        description: filled(task.description),
        name: filled(task.name),
        mode,
        metadata,
        overrides,
        worktree: None,
        manager: None,
    };
    Ok(TaskToolCall::Spawn(Box::new(run), AnswerStyle::Task))
}

fn spawn(spawn: SpawnArguments) -> Result<TaskToolCall, ArgumentError> {
    let (overrides, agent) = overrides("spawn_subagent", spawn.config)?;
    let run = RunTask {
        agent,
        prompt: spawn.task,
        description: None,
        name: Some(spawn.name),
        mode: spawn.mode,
        metadata: Map::new(),
        overrides,
        worktree: None,
        manager: None,
    };
    Ok(TaskToolCall::Spawn(Box::new(run), AnswerStyle::Spawn))
}

fn get(get: Get) -> Result<TaskToolCall, ArgumentError> {
    let filter = match get.status_filter.as_deref().unwrap_or("all") {
        "all" => TaskStatusFilter::All,
        "running" => TaskStatusFilter::Running,
        "completed" => TaskStatusFilter::Completed,
        "failed" => TaskStatusFilter::Failed,
        other => return Err(none_of("get_subagents: status_filter", other, &FILTERS)),
    };
    let wait = match get.wait_seconds {
        None => None,
        Some(seconds) if (0.0..=LONGEST_WAIT as f64).contains(&seconds) => {
            Some(std::time::Duration::from_secs_f64(seconds))
        }
        Some(seconds) => {
            return Err(format!("get_subagents: wait_seconds is {seconds}, and must be 0 to {LONGEST_WAIT}"));
        }
    };
    let wait = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)).filter(|wait| *wait > 0);
    Ok(TaskToolCall::Get(SubagentQuery { one: filled(get.name_or_id), filter, wait }))
}

fn message(message: MessageArguments) -> Result<TaskToolCall, ArgumentError> {
    let Some(task) = filled(Some(message.name_or_id)) else {
        return Err("message_subagent: name_or_id is empty".to_owned());
    };
    let cancel = message.cancel.unwrap_or_default();
    let message = MessageTask { message: message.message, cancel, allow_fresh: false, mode: None };
    Ok(TaskToolCall::Message(task, message))
}

/// Reads `config`: returns the overrides and the definition that it names.
fn overrides(tool: &str, config: Option<Value>) -> Result<(TaskOverrides, Option<String>), ArgumentError> {
    let place = format!("{tool}: config");
    let TaskConfigArguments {
        system_prompt,
        allowed_tools,
        disallowed_tools,
        allowed_capabilities,
        model,
        max_turns,
        filesystem_mode,
        agent_id,
        template,
    } = match config {
        None | Some(Value::Null) => TaskConfigArguments::default(),
        Some(value) => read(&place, value)?,
    };
    let allowed_tools = match (allowed_tools, allowed_capabilities) {
        (Some(_), Some(_)) => {
            return Err(format!("{place}: give one of allowed_tools and allowed_capabilities"));
        }
        (None, Some(kinds)) => match kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            Some(other) => return Err(none_of(&format!("{place}.allowed_capabilities"), other, &KINDS)),
            None => kinds,
        },
        (tools, None) => tools.unwrap_or_default(),
    };
    if max_turns == Some(0) {
        return Err(format!("{place}.max_turns is 0, and must be 1 or more"));
    }
    let filesystem = match filesystem_mode.as_deref().map(|word| (word, FileSystem::parse(word))) {
        None => None,
        Some((_, Some(mode))) => Some(mode),
        Some((other, None)) => {
            return Err(none_of(&format!("{place}.filesystem_mode"), other, &FILESYSTEM_MODES));
        }
    };
    let agent = match (filled(agent_id), filled(template)) {
        (Some(one), Some(other)) if one != other => {
            return Err(format!("{place}: agent_id is {one} and template is {other}; give one of them"));
        }
        (one, other) => one.or(other),
    };
    let overrides = TaskOverrides {
        system_prompt: filled(system_prompt),
        allowed_tools,
        disallowed_tools: disallowed_tools.unwrap_or_default(),
        model: filled(model),
        max_steps: max_turns,
        timeout_ms: None,
        // The default adds no limit.
        filesystem: filesystem.filter(|mode| *mode != FileSystem::SharedRw),
    };
    Ok((overrides, agent))
}

fn mode(background: Option<bool>) -> Option<TaskMode> {
    match background {
        Some(true) => Some(TaskMode::Background),
        // `false` is the default and does not override a definition that always runs in the background.
        Some(false) | None => None,
    }
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

fn none_of(place: &str, found: &str, known: &[&str]) -> String {
    format!("{place} is {found:?}, and must be one of {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(tool: &str, arguments: Value) -> Result<TaskToolCall, ArgumentError> {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        TaskToolCall::parse(tool, arguments).expect("a tool")
    }

    fn spawned(tool: &str, arguments: Value) -> RunTask {
        match parse(tool, arguments).unwrap() {
            TaskToolCall::Spawn(run, _) => *run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_agent_of_a_task_is_taken_under_the_names_that_others_give_it() {
        for key in ["agent", "subagent_type", "agentType"] {
            let run = spawned("task", json!({key: "explore", "prompt": "p", "description": "d"}));
            assert_eq!((run.agent.as_deref(), run.mode), (Some("explore"), None));
        }
        let two = json!({"agent": "a", "subagent_type": "b", "prompt": "p", "description": "d"});
        assert!(parse("task", two).unwrap_err().contains("duplicate field `agent`"));
        let none = parse("task", json!({"prompt": "p", "description": "d"})).unwrap_err();
        assert_eq!(none, "task: missing field `agent`");
    }

    #[test]
    fn a_task_needs_no_description_and_keeps_the_command_behind_it() {
        let run = spawned("task", json!({"agent": "a", "prompt": "p", "command": "/review x"}));
        assert_eq!(run.description, None);
        assert_eq!(Value::from(run.metadata), json!({"command": "/review x"}));
        let own = json!({"agent": "a", "prompt": "p", "command": "/x", "metadata": {"command": 1}});
        assert_eq!(
            Value::from(spawned("task", own).metadata),
            json!({"command": 1}),
            "the caller's own stays"
        );
        let again = json!({"task_id": "N", "prompt": "p", "command": "/x"});
        assert!(matches!(parse("task", again), Ok(TaskToolCall::Resume(..))));
    }

    #[test]
    fn all_that_a_call_says_is_sent() {
        let run = spawned(
            "task",
            json!({
                "agent": "a", "prompt": "p", "description": "d", "name": "N", "background": true,
                "metadata": {"k": 1},
                "config": {
                    "system_prompt": "s", "disallowed_tools": ["Bash"], "allowed_capabilities": ["read"],
                    "model": "m", "max_turns": 3, "filesystem_mode": "shared_rw",
                },
            }),
        );
        assert_eq!(
            serde_json::to_value(run).unwrap(),
            json!({
                "agent": "a", "prompt": "p", "description": "d", "name": "N", "mode": "background",
                "metadata": {"k": 1},
                "overrides": {
                    "systemPrompt": "s", "allowedTools": ["read"], "disallowedTools": ["Bash"],
                    "model": "m", "maxSteps": 3,
                },
            })
        );
        let config = json!({"template": "a", "agent_id": "a"});
        let run = spawned(
            "spawn_subagent",
            json!({"name": "N", "task": "t", "mode": "background", "config": config}),
        );
        assert_eq!(
            serde_json::to_value(run).unwrap(),
            json!({"agent": "a", "prompt": "t", "name": "N", "mode": "background"})
        );
    }

    #[test]
    fn a_task_that_goes_on_needs_no_agent_and_takes_nothing_that_is_new() {
        let again = json!({"task_id": "N", "prompt": "p", "description": "d"});
        let Ok(TaskToolCall::Resume(task, None, message)) = parse("task", again) else {
            panic!("it goes on")
        };
        assert_eq!((task.as_str(), message.mode), ("N", Some(TaskMode::Foreground)));
        let named = json!({"task_id": "N", "prompt": "p", "description": "d", "config": {"model": "m"}});
        assert!(parse("task", named).unwrap_err().contains("leave them out"));
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_place() {
        for (tool, arguments, expected) in [
            (
                "task",
                json!({"agent": "a", "prompt": 7, "description": "d"}),
                "task: invalid type: integer `7`",
            ),
            (
                "task",
                json!({"agent": "a", "prompt": "p", "description": "d", "x": 1}),
                "task: unknown field `x`",
            ),
            ("spawn_subagent", json!({"name": "n"}), "spawn_subagent: missing field `task`"),
            (
                "spawn_subagent",
                json!({"name": "n", "task": "t", "config": {"max_turns": 0}}),
                "spawn_subagent: config.max_turns is 0",
            ),
            (
                "spawn_subagent",
                json!({"name": "n", "task": "t", "config": {"agent_id": "a", "template": "b"}}),
                "spawn_subagent: config: agent_id is a and template is b",
            ),
            (
                "spawn_subagent",
                json!({"name": "n", "task": "t", "config": {"allowed_tools": [], "allowed_capabilities": []}}),
                "spawn_subagent: config: give one of",
            ),
            ("get_subagents", json!({"wait_seconds": -1}), "get_subagents: wait_seconds is -1"),
            ("get_subagents", json!({"status_filter": "odd"}), "get_subagents: status_filter is \"odd\""),
            (
                "message_subagent",
                json!({"name_or_id": " ", "message": "m"}),
                "message_subagent: name_or_id is empty",
            ),
        ] {
            let error = parse(tool, arguments).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(TaskToolCall::parse("other", Map::new()).is_none());
    }
}
