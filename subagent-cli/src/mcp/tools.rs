//! The definitions of the task tools: names, descriptions and schemas. Pure.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use subagent_protocol::api::{CallableAgent, MAX_TASK_NAME_CHARS};

/// Names of the task tools, in list order.
pub(super) const NAMES: [&str; 4] = ["task", "spawn_subagent", "get_subagents", "message_subagent"];
/// Kinds of calls for `allowed_capabilities`.
pub(super) const KINDS: [&str; 8] = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch"];
/// Modes of sharing files between a task and its parent.
pub(super) const FILESYSTEM_MODES: [&str; 3] = ["shared_rw", "shared_ro", "isolated"];
/// Filters of a task list.
pub(super) const FILTERS: [&str; 4] = ["all", "running", "completed", "failed"];
/// Maximum wait of one call in seconds.
pub(super) const LONGEST_WAIT: u64 = 3_600;
/// Maximum length of an agent's description in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_000;

/// Returns the tools for a client with these callable agents; without agents, those that start tasks are
/// omitted. `is_notified` is true for a worker's agent, which is notified of ended background tasks.
pub(super) fn tools(agents: &[CallableAgent], is_notified: bool) -> Vec<Tool> {
    let mut tools = Vec::new();
    if !agents.is_empty() {
        tools.push(task(agents, is_notified));
        tools.push(spawn_subagent(agents, is_notified));
    }
    tools.push(get_subagents(is_notified));
    tools.push(message_subagent());
    tools
}

/// The instructions that a client reads at initialization.
pub(super) const INSTRUCTIONS: &str = "Gives work to other agents, which run on their own, each with a session of its own. \
`task` has an agent do something and returns what it found; several calls in one turn run at the same time. \
`get_subagents` and `message_subagent` look at the tasks that you have given, and talk to their agents.";

/// The description of how to delegate a task.
const HOW: &str = "The agent sees nothing of this conversation: not what was said, not what you have read, not other tasks. \
Put everything into the prompt that it needs (the goal, paths, what you know already, what it must not do, and in what form it is to answer). \
Calls in one turn run at the same time: for work that does not depend on each other make the calls together. \
In the foreground the call returns the agent's last message. It works on the same files as you do. Use the background for long work whose result you do not need for your next step: \
the call returns at once";
/// Only for a worker's agent: definition and config alone limit a manager's tasks.
const DENIED: &str = "What is denied to you is denied to it, too.";

/// Returns how to detect the end of a background task.
const fn end(is_notified: bool) -> &'static str {
    match is_notified {
        true => "you are notified when the task has ended; do not wait for it by asking again and again",
        false => "get_subagents with wait_seconds waits for the end",
    }
}

fn how(is_notified: bool) -> String {
    let denied = if is_notified { format!(" {DENIED}") } else { String::new() };
    format!("{HOW}, and {}.{denied}", end(is_notified))
}

fn task(agents: &[CallableAgent], is_notified: bool) -> Tool {
    let text = format!(
        "Have an agent carry out a task, and get its result. {}\n\n{}",
        how(is_notified),
        list(agents)
    );
    let properties = json!({
        "agent": {
            "type": "string", "enum": names(agents),
            "description": "Which agent. Also taken as subagent_type or agentType",
        },
        "prompt": {"type": "string", "description": "The whole task: the agent knows nothing else"},
        "description": {
            "type": "string",
            "description": "The task in three to five words, for people; without it the beginning of the prompt",
        },
        "command": {"type": "string", "description": "The command of your user that led to the task, if one did"},
        "name": name("A name to refer to the task by; without one it is made of the description"),
        "background": {
            "type": "boolean", "default": false,
            "description": format!("Return at once; {}", end(is_notified)),
        },
        "task_id": {
            "type": "string",
            "description": "Continue this task of yours, which has ended, by its name or id: its agent remembers what it did",
        },
        "metadata": {"type": "object", "description": "Data of your own that is stored with the task"},
        "config": config(json!({})),
    });
    new("task", text, properties, &["agent", "prompt"]).annotate(changes("Give a task"))
}

fn spawn_subagent(agents: &[CallableAgent], is_notified: bool) -> Tool {
    let text = format!(
        "Start a subagent with a name, and with fewer permissions than you where its config says so. {}\n\nWith agent_id or template it is one of these agents, without one it has your own model and rules.\n\n{}",
        how(is_notified),
        list(agents)
    );
    let which = |what: &str| json!({"type": "string", "enum": names(agents), "description": what});
    let own = json!({
        "agent_id": which("Which agent it is"),
        "template": which("The same as agent_id"),
    });
    let properties = json!({
        "name": name("A name for it, unique among your subagents"),
        "task": {"type": "string", "description": "The whole task: it knows nothing else"},
        "mode": {
            "type": "string", "enum": ["foreground", "background"], "default": "foreground",
            "description": "Whether the call returns the result, or at once",
        },
        "config": config(own),
    });
    new("spawn_subagent", text, properties, &["name", "task"]).annotate(changes("Start a subagent"))
}

fn get_subagents(is_notified: bool) -> Tool {
    let needless = match is_notified {
        true => " You are notified when a background task ends, so there is no need to ask for that.",
        false => "",
    };
    let text = format!(
        "Look at the subagents that you have given tasks to. With name_or_id one of them with its result, without it a list.{needless}"
    );
    let properties = json!({
        "name_or_id": {"type": "string", "description": "One of them, by its name or id"},
        "status_filter": {
            "type": "string", "enum": FILTERS, "default": "all",
            "description": "Which ones are listed: running ones have not ended, failed ones have ended in any way but completed",
        },
        "wait_seconds": {
            "type": "number", "minimum": 0, "maximum": LONGEST_WAIT,
            "description": "Wait at most this long until that subagent ends, or, without name_or_id, the first of the running ones",
        },
    });
    new("get_subagents", text, properties, &[])
        .annotate(ToolAnnotations::with_title("Look at subagents").read_only(true))
}

fn message_subagent() -> Tool {
    let text = "Send a message to a subagent of yours. One that has not begun gets it as a part of its task, one that runs as its next turn, \
one that has ended goes on with it and knows what it did before. With cancel it is stopped after that, or at once if it has not begun.";
    let properties = json!({
        "name_or_id": {"type": "string", "description": "Which one, by its name or id"},
        "message": {"type": "string", "description": "The message"},
        "cancel": {"type": "boolean", "default": false, "description": "Whether it stops after this"},
    });
    new("message_subagent", text.to_owned(), properties, &["name_or_id", "message"])
        .annotate(changes("Send a message to a subagent"))
}

/// Returns the schema of overrides that narrow a definition.
fn config(own: Value) -> Value {
    let mut properties = json!({
        "system_prompt": {"type": "string", "description": "Added to the agent's own prompt"},
        "allowed_tools": {
            "type": "array", "items": {"type": "string"},
            "description": "The only tools of the agent that are not denied",
        },
        "disallowed_tools": {
            "type": "array", "items": {"type": "string"}, "description": "Tools that are denied",
        },
        "allowed_capabilities": {
            "type": "array", "items": {"type": "string", "enum": KINDS},
            "description": "The same as allowed_tools, by kinds of tools; give one of the two",
        },
        "model": {"type": "string", "description": "A model of the agent, or fast, default or strong"},
        "max_turns": {
            "type": "integer", "minimum": 1,
            "description": "Maximum number of tool calls, below the agent's own limit",
        },
        "filesystem_mode": {
            "type": "string", "enum": FILESYSTEM_MODES, "default": FILESYSTEM_MODES[0],
            "description": "shared_rw: the same files as yours. shared_ro: it reads them and writes none. isolated: a copy of them, whose changes are landed later",
        },
    });
    if let (Value::Object(all), Value::Object(own)) = (&mut properties, own) {
        all.extend(own);
    }
    json!({
        "type": "object", "properties": properties, "additionalProperties": false,
        "description": "Overrides for this task. They can only narrow what the agent may do",
    })
}

fn name(text: &str) -> Value {
    json!({"type": "string", "maxLength": MAX_TASK_NAME_CHARS, "description": text})
}

fn names(agents: &[CallableAgent]) -> Vec<&str> {
    agents.iter().map(|agent| agent.name.as_str()).collect()
}

fn list(agents: &[CallableAgent]) -> String {
    let mut text = "Agents:".to_owned();
    for agent in agents {
        let what: String = agent.description.chars().take(MAX_DESCRIPTION_CHARS).collect();
        let always = if agent.background { " (always in the background)" } else { "" };
        text.push_str(&format!("\n- {}{always}: {}", agent.name, what.replace('\n', " ").trim()));
    }
    text
}

fn changes(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title).read_only(false)
}

fn new(name: &'static str, text: String, properties: Value, required: &[&str]) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    Tool::new(name, text, schema)
}
