//! Other spellings of `mcp__SERVER__TOOL` by agents, for rules that restrict a server. Pure.

use super::glob::{self, MatchResult};
use super::tool;

/// Tools of agents without a kind, in lower case; `docs/agents.md` lists them by agent. Words that a server
/// may use (`wait`, `search`, `monitor`) are omitted and need an approval.
const OF_AGENTS: &[&str] = &[
    "activate_skill",
    "ask_user",
    "ask_user_question",
    "askuserquestion",
    "create_goal",
    "creategoal",
    "croncreate",
    "crondelete",
    "cronlist",
    "enter_plan_mode",
    "enterplanmode",
    "enterworktree",
    "exitplanmode",
    "exitworktree",
    "finish",
    "get_goal",
    "getgoal",
    "list_background_processes",
    "list_mcp_resource_templates",
    "list_mcp_resources",
    "listagents",
    "listmcpresourcestool",
    "message_subagent",
    "read_background_output",
    "read_mcp_resource",
    "readmcpresourcetool",
    "reportfindings",
    "request_user_input",
    "save_memory",
    "schedulewakeup",
    "search_tool_functions",
    "setgoalbudget",
    "skill",
    "slashcommand",
    "task_tracker",
    "tasklist",
    "taskoutput",
    "taskstop",
    "think",
    "thinking",
    "todo",
    "toolsearch",
    "unified_harness_scratchpad",
    "update_goal",
    "update_plan",
    "update_topic",
    "updategoal",
    "view_image",
    "waitfor",
];

/// Whether a label of a call (its name or title) denotes a tool that an MCP rule matches.
///
/// `MCP__github__push`, `mcp_github_push`, `mcp.github.push`, `github/push` and `push (github MCP Server)`
/// are the same tool. A label without the word MCP may also be an agent's own tool.
pub(super) fn fits(rule: &str, label: &str) -> MatchResult {
    let Some(rest) = rule.strip_prefix("mcp__") else { return MatchResult::No };
    let Some((server, tool)) = rest.split_once("__").or((rest == "*").then_some(("*", "*"))) else {
        return MatchResult::No;
    };
    let (server, tool) = (folded(server), folded(tool));
    let (label, sure) = match said(label) {
        Some(label) => label,
        None => return MatchResult::No,
    };
    if !sure && tool != "*" && glob::matches(&tool, &label) {
        // Some agents add no prefix to MCP tools.
        return MatchResult::Could;
    }
    // Both names may contain separators, so every split is tried.
    let splits = label.match_indices('_').any(|(at, _)| {
        let (before, after) = (&label[..at], label[at..].trim_start_matches('_'));
        !after.is_empty() && is_server(&server, before.trim_end_matches('_')) && glob::matches(&tool, after)
    });
    match (splits, sure) {
        (false, _) => MatchResult::No,
        (true, true) => MatchResult::Yes,
        (true, false) => MatchResult::Could,
    }
}

/// Whether a name without a server may be a tool of a server whose tools are all restricted: it is not a
/// known tool of an agent. Some agents add no prefix to MCP tools.
pub(super) fn may_be_bare(rule: &str, label: &str) -> bool {
    let all = rule.strip_prefix("mcp__").is_some_and(|rest| rest == "*" || rest.ends_with("__*"));
    let is_name =
        !label.is_empty() && label.chars().all(|char| char.is_alphanumeric() || "_-".contains(char));
    all && is_name && tool::kind_of(label).is_none() && !OF_AGENTS.contains(&folded(label).as_str())
}

/// Whether a server is the one of a rule. Claude Code names the server of a plugin `plugin_PLUGIN_SERVER`.
fn is_server(rule: &str, server: &str) -> bool {
    let of_plugin = server
        .strip_prefix("plugin_")
        .into_iter()
        .flat_map(|rest| rest.match_indices('_').map(move |(at, _)| rest[at..].trim_start_matches('_')));
    glob::matches(rule, server) || of_plugin.into_iter().any(|server| glob::matches(rule, server))
}

/// Whether a label contains the word MCP.
pub(super) fn says_mcp(label: &str) -> bool {
    said(label).is_some_and(|(_, sure)| sure)
}

/// Returns a label as `server_tool`, and whether it contains the word MCP. A text of several words is not a
/// name.
fn said(label: &str) -> Option<(String, bool)> {
    let label = label.trim();
    if let Some((tool, rest)) = label.split_once(" (")
        && let Some(server) = rest.to_lowercase().strip_suffix(" mcp server)")
    {
        return Some((format!("{}_{}", folded(server), folded(tool)), true));
    }
    let lower = label.to_lowercase();
    // The text behind such a name is the input.
    let label = match lower.strip_prefix("mcp").and_then(|rest| rest.find(['(', '{'])) {
        Some(end) => folded(lower[..end + 3].trim_end()).replace(' ', "_"),
        None if lower.starts_with("mcp") => folded(&lower).replace(' ', "_"),
        None => folded(&lower),
    };
    let after = label.strip_prefix("mcp").map(|rest| rest.trim_start_matches('_').to_owned());
    match after {
        Some(rest) if label.starts_with("mcp_") => Some((rest, true)),
        _ if label.contains(' ') => None,
        _ => Some((label, false)),
    }
    .filter(|(label, _)| !label.contains(' '))
}

/// Converts to lower case with one separator.
fn folded(name: &str) -> String {
    let lower = name.to_lowercase().replace(": ", ":");
    lower.chars().map(|char| if "-./:".contains(char) { '_' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_however_it_is_written() {
        let table = [
            ("mcp__github__*", "mcp__github__push", MatchResult::Yes),
            ("mcp__github__*", "MCP__github__push", MatchResult::Yes),
            ("mcp__github__*", "mcp_github_push", MatchResult::Yes),
            ("mcp__github__*", "mcp.github.push", MatchResult::Yes),
            ("mcp__github__*", "MCP: github/push", MatchResult::Yes),
            ("mcp__github__*", "push (github MCP Server)", MatchResult::Yes),
            ("mcp__github__*", "github_push", MatchResult::Could),
            ("mcp__github__*", "GitHub.push", MatchResult::Could),
            ("mcp__my-server__*", "mcp__my_server__a_b", MatchResult::Yes),
            ("mcp__github__push", "mcp_github_pull", MatchResult::No),
            ("mcp__github__*", "gitlab_push", MatchResult::No),
            ("mcp__github__*", "Push to github_push now", MatchResult::No),
            ("mcp__*", "mcp.a.b", MatchResult::Yes),
            ("mcp__*", "a_b", MatchResult::Could),
            ("mcp__github__*", "mcp__github__push {\"a\": 1}", MatchResult::Yes),
            ("mcp__github__*", "mcp__github__push (x)", MatchResult::Yes),
            ("mcp__github__*", "MCP: github push", MatchResult::Yes),
            ("mcp__*", "think", MatchResult::No),
            ("mcp__github__push", "push", MatchResult::Could),
            ("mcp__github__create_*", "create_issue", MatchResult::Could),
            ("mcp__github__push", "pull", MatchResult::No),
            ("mcp__github__*", "mcp__plugin_x_github__push", MatchResult::Yes),
            ("mcp__github__*", "mcp__plugin_x_y_github__push", MatchResult::Yes),
            ("mcp__github__*", "mcp__x_github__push", MatchResult::No),
            ("read", "mcp__a__b", MatchResult::No),
        ];
        for (rule, label, expected) in table {
            assert_eq!(fits(rule, label), expected, "{rule} {label}");
        }
    }
}
