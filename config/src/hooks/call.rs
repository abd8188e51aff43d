//! Translates the tool calls of any agent to the names that Claude Code's hooks expect: `Bash` with
//! `command`, `Edit` with `file_path`. Pure. If the agent omits the tool's name, it is derived from
//! ACP's kind.

use serde_json::{Map, Value};
use subagent_protocol::lenient;
use subagent_protocol::tool_content::ToolCallReport;

use crate::policy::{CallCommand, ToolCallDescription, ToolKind};

/// Claude Code's tools. Their names are kept.
const NAMES: &[&str] = &[
    "Agent",
    "Bash",
    "BashOutput",
    "Edit",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Read",
    "Task",
    "TodoRead",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Write",
];
/// Maximum length of a name that an agent chooses, in characters.
const MAX_NAME_CHARS: usize = 256;

/// A tool call in the form for hooks.
#[derive(Debug, Clone, PartialEq)]
pub struct HookCall {
    /// Name of the tool.
    pub name: String,
    /// Its arguments, as an object.
    pub input: Value,
    /// The agent's id of the call, if given.
    pub id: Option<String>,
}

/// Converts ACP's `toolCall` of a permission request, or a `tool_call` merged with its updates.
#[must_use]
pub fn of(reported: &Value) -> HookCall {
    let call = ToolCallDescription::of(reported);
    let report: ToolCallReport<'_> = lenient::read(reported);
    let creates = report.content.iter().any(|part| part.kind.0 == Some("diff") && part.old_text.0.is_none());
    HookCall {
        name: name(&call, creates, report.title.0),
        input: input(&call, &reported["rawInput"]),
        id: report.tool_call_id.0.map(str::to_owned),
    }
}

fn name(call: &ToolCallDescription, creates: bool, title: Option<&str>) -> String {
    let own = call.name.as_deref();
    if let Some(own) = own.filter(|own| NAMES.contains(own) || own.starts_with("mcp__")) {
        return short(own);
    }
    let by_kind = match call.main_kind() {
        ToolKind::Execute => "Bash",
        ToolKind::Edit if creates => "Write",
        ToolKind::Edit => "Edit",
        ToolKind::Delete => "Delete",
        ToolKind::Move => "Move",
        ToolKind::Read => "Read",
        ToolKind::Search => "Grep",
        ToolKind::Fetch => "WebFetch",
        ToolKind::Task => "Task",
        ToolKind::Todo => "TodoWrite",
        ToolKind::Think => "Think",
        ToolKind::Other => return short(own.or(title).unwrap_or("other")),
    };
    by_kind.to_owned()
}

fn short(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect()
}

/// Returns the agent's arguments, with missing arguments of Claude Code's tools added.
fn input(call: &ToolCallDescription, raw: &Value) -> Value {
    let mut input = match raw {
        Value::Object(input) => input.clone(),
        Value::Null => Map::new(),
        other => Map::from_iter([("input".to_owned(), other.clone())]),
    };
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|_| !input.get(key).is_some_and(Value::is_string)) {
            input.insert(key.to_owned(), value.into());
        }
    };
    match call.main_kind() {
        ToolKind::Execute => add("command", call.command.as_ref().map(line)),
        ToolKind::Fetch => add("url", call.urls.first().cloned()),
        ToolKind::Read | ToolKind::Edit | ToolKind::Delete | ToolKind::Move => {
            add("file_path", call.changed.first().or(call.paths.first()).cloned());
        }
        ToolKind::Search => add("path", call.paths.first().cloned()),
        ToolKind::Think | ToolKind::Other | ToolKind::Task | ToolKind::Todo => {}
    }
    Value::Object(input)
}

fn line(command: &CallCommand) -> String {
    match command {
        CallCommand::Line(line) => line.clone(),
        // `sh -c LINE` becomes LINE, because Claude Code's hooks expect the line.
        CallCommand::Words(words) => match words.as_slice() {
            [shell, flag, line] if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc") => line.clone(),
            words => shell_words::join(words),
        },
    }
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    matches!(name, "sh" | "bash" | "zsh" | "dash")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_of_every_agent_have_the_names_of_claude_code() {
        for (reported, name, input) in [
            (
                json!({"kind": "execute", "title": "rm -rf x", "rawInput": {"command": "rm -rf x"}}),
                "Bash",
                json!({"command": "rm -rf x"}),
            ),
            (
                json!({"kind": "execute", "rawInput": {"command": ["bash", "-lc", "git push"], "cwd": "/w"}}),
                "Bash",
                json!({"command": "git push", "cwd": "/w"}),
            ),
            (
                json!({"kind": "execute", "rawInput": {"command": ["ls", "a b"]}}),
                "Bash",
                json!({"command": "ls 'a b'"}),
            ),
            (json!({"kind": "execute", "title": "ls -l"}), "Bash", json!({"command": "ls -l"})),
            (
                json!({"kind": "edit", "locations": [{"path": "/w/a.rs"}]}),
                "Edit",
                json!({"file_path": "/w/a.rs"}),
            ),
            (
                json!({"kind": "edit", "content": [{"type": "diff", "path": "/w/new", "oldText": null, "newText": "x"}]}),
                "Write",
                json!({"file_path": "/w/new"}),
            ),
            (
                json!({"kind": "edit", "_meta": {"claudeCode": {"toolName": "MultiEdit"}}, "rawInput": {"file_path": "/w/a"}}),
                "MultiEdit",
                json!({"file_path": "/w/a"}),
            ),
            (
                json!({"kind": "other", "_meta": {"x": {"toolName": "mcp__memory__add"}}, "rawInput": {"k": 1}}),
                "mcp__memory__add",
                json!({"k": 1}),
            ),
            (
                json!({"kind": "fetch", "rawInput": {"url": "https://a"}}),
                "WebFetch",
                json!({"url": "https://a"}),
            ),
            (json!({"kind": "other", "title": "Frobnicate"}), "Frobnicate", json!({})),
            (json!({}), "other", json!({})),
            (json!({"kind": "read", "rawInput": "a"}), "Read", json!({"input": "a"})),
        ] {
            let call = of(&reported);
            assert_eq!((call.name.as_str(), &call.input), (name, &input), "{reported}");
        }
        assert_eq!(of(&json!({"toolCallId": "c1"})).id.as_deref(), Some("c1"));
    }
}
