//! Which of the tools that an agent offers its model does what a script wants, and how it is called. The names are
//! the agents', not the vendors': a further agent is a further name here.

use serde_json::{Map, Value, json};

/// What a script wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tool {
    /// A command in a shell.
    Shell(String),
    /// The file with this path, to be read.
    Read(String),
    /// A file with this path and these contents.
    Write(String, String),
    /// A subagent that is told this.
    Delegate(String),
    /// A tool of this name, of whatever MCP server, with these arguments.
    Mcp(String, Map<String, Value>),
}

/// A call as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// The group of tools that it belongs to, where an agent has such groups.
    pub namespace: Option<String>,
    pub name: String,
    pub input: Input,
}

/// What a tool takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// An object of arguments.
    Args(Value),
    /// Free text.
    Text(String),
}

/// The call that does it. An error, for the model to say, when no offered tool can.
pub(super) fn choose(tool: &Tool, offered: &[String]) -> Result<Call, String> {
    let first = |names: &[&'static str]| {
        let found = names.iter().find(|name| offered.iter().any(|offered| offered == *name));
        found.copied().ok_or_else(|| format!("no tool for {tool:?} among {offered:?}"))
    };
    let (name, input) = match tool {
        Tool::Shell(command) => match first(&["Bash", "bash", "run_shell_command", "exec_command"])? {
            // Without it the command would run in a sandbox, and nobody be asked.
            name @ "exec_command" => (
                name,
                Input::Args(json!({
                    "cmd": command,
                    "sandbox_permissions": "require_escalated",
                    "justification": "May it run?",
                })),
            ),
            name => (name, Input::Args(json!({"command": command, "description": "A command"}))),
        },
        Tool::Read(path) => match first(&["Read", "read", "read_file", "exec_command"])? {
            // It has no other tool for that. Inside its sandbox nobody is asked.
            name @ "exec_command" => (name, Input::Args(json!({"cmd": format!("cat '{path}'")}))),
            name @ "read" => (name, Input::Args(json!({"filePath": path}))),
            name => (name, Input::Args(json!({"file_path": path}))),
        },
        Tool::Write(path, text) => match first(&["Write", "write", "write_file", "apply_patch"])? {
            name @ "apply_patch" => {
                let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
                let patch = format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n");
                (name, Input::Text(patch))
            }
            name @ "write" => (name, Input::Args(json!({"filePath": path, "content": text}))),
            name => (name, Input::Args(json!({"file_path": path, "content": text}))),
        },
        Tool::Delegate(prompt) => match first(&["Agent", "Task", "task", "invoke_agent"])? {
            name @ "invoke_agent" => {
                (name, Input::Args(json!({"agent_name": "generalist", "prompt": prompt})))
            }
            name => {
                let kind = if name == "task" { "general" } else { "general-purpose" };
                let args = json!({"description": "A child", "prompt": prompt, "subagent_type": kind});
                (name, Input::Args(args))
            }
        },
        Tool::Mcp(name, args) => return mcp(name, args, offered),
    };
    Ok(Call { namespace: None, name: name.to_owned(), input })
}

/// A server's tools have its name before them, in each agent's own way; an agent that can search for tools does not
/// list them.
fn mcp(name: &str, args: &Map<String, Value>, offered: &[String]) -> Result<Call, String> {
    let input = Input::Args(Value::Object(args.clone()));
    let (server, tool) = name.split_once('/').ok_or_else(|| format!("{name:?} is not SERVER/TOOL"))?;
    let ways = [format!("mcp__{server}__{tool}"), format!("mcp_{server}_{tool}"), format!("{server}_{tool}")];
    if let Some(name) = offered.iter().find(|offered| ways.contains(offered)) {
        return Ok(Call { namespace: None, name: name.clone(), input });
    }
    if offered.iter().any(|name| name == "tool_search" || name.starts_with("mcp__")) {
        return Ok(Call { namespace: Some(format!("mcp__{server}")), name: tool.to_owned(), input });
    }
    Err(format!("no tool {name} among {offered:?}"))
}
