//! How agents name MCP tools, and the target agent of a task server's tool call. Pure.
//!
//! The normalized name is `mcp__SERVER__TOOL`; rules use it.

use serde_json::{Map, Value};
use subagent_protocol::api::TASK_SERVER;
use subagent_protocol::tool_content::ToolCallReport;

use super::{AGENT_KEYS, text};
use crate::policy::tool::{self, ToolKind};

/// Maximum size of a task tool's input as text, in bytes.
const MAX_INPUT_BYTES: usize = 1024 * 1024;

/// Returns the normalized name of an MCP tool; `None` if the description shows no such tool. Titles that a
/// model can choose, such as a command, do not count.
pub(super) fn name(
    report: &ToolCallReport<'_>,
    input: &Value,
    title: Option<&str>,
    kind: Option<ToolKind>,
) -> Option<String> {
    let title = title?;
    let named = |server: &str, tool: &str| {
        let name = format!("mcp__{server}__{tool}");
        name.chars().all(tool::is_name_char).then_some(name)
    };
    // `mcp.echo.say`, with both names next to the arguments; a command has neither.
    if let (Some(server), Some(tool)) = (text(&input["server"]), text(&input["tool"]))
        && title.strip_prefix("mcp.") == Some(&format!("{server}.{tool}"))
    {
        return named(&server, &tool);
    }
    if kind == Some(ToolKind::Execute) {
        return None;
    }
    if title.starts_with("mcp__") {
        return title.chars().all(tool::is_name_char).then(|| title.to_owned());
    }
    if kind != Some(ToolKind::Other) {
        return None;
    }
    // `say (echo MCP Server)`, with an id made of both names.
    if let Some((tool, rest)) = title.split_once(" (")
        && let Some(server) = rest.strip_suffix(" MCP Server)")
    {
        let rest = report
            .tool_call_id
            .0?
            .strip_prefix("mcp_")?
            .strip_prefix(server)?
            .strip_prefix('_')?
            .strip_prefix(tool)?;
        return rest.starts_with('_').then(|| named(server, tool)).flatten();
    }
    // `echo_say` is ambiguous if the names contain underscores, so only known tools of the task server are
    // accepted.
    let tool = title.strip_prefix(TASK_SERVER)?.strip_prefix('_')?;
    tool::OF_TASK_SERVER.contains(&tool).then(|| named(TASK_SERVER, tool)).flatten()
}

/// Whether the name is a tool of the task server.
pub(super) fn is_of_task_server(name: Option<&str>) -> bool {
    name.and_then(tool::of_task_server).is_some()
}

/// Returns the agents that a task server's call names; an unambiguous call names at most one.
pub(super) fn agents(report: &ToolCallReport<'_>, raw: &Value) -> Vec<String> {
    let Some(input) = input(report, raw) else { return Vec::new() };
    let config = &input["config"];
    let mut found: Vec<String> = AGENT_KEYS.iter().filter_map(|key| text(&input[*key])).collect();
    found.extend(["agent_id", "template"].iter().filter_map(|key| text(&config[*key])));
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the tool's input: directly, next to the names of server and tool, or as the text of the
/// permission request.
fn input(report: &ToolCallReport<'_>, raw: &Value) -> Option<Value> {
    let is_full = |value: &&Value| value.as_object().is_some_and(|members| !members.is_empty());
    if let Some(arguments) = Some(&raw["arguments"]).filter(is_full) {
        return Some(arguments.clone());
    }
    if is_full(&raw) {
        return Some(raw.clone());
    }
    // After the end, the text is the result.
    if matches!(report.status.0, Some("completed" | "failed")) {
        return None;
    }
    let said = report.content.iter().find_map(|part| part.content.text.0)?;
    let said = Some(said).filter(|said| said.len() <= MAX_INPUT_BYTES)?;
    serde_json::from_str::<Map<String, Value>>(said).ok().map(Value::Object)
}
