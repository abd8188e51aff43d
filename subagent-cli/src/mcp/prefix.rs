//! Tool names with a prefix, for clients that add no prefix themselves and have their own `task` tool.
//! Pure.

use rmcp::model::Tool;
use subagent_protocol::api::TASK_SERVER;

use super::manager;
use super::tools::NAMES;

/// Adds the prefix to a tool's name and description.
pub(super) fn tool(mut tool: Tool) -> Tool {
    tool.name = with_prefix(&tool.name).into();
    tool.description = tool.description.map(|description| text(&description).into());
    tool
}

/// Removes the prefix; `None` without one.
pub(super) fn own(name: &str) -> Option<&str> {
    name.strip_prefix(TASK_SERVER)?.strip_prefix('_')
}

/// Adds the prefix to the names in a text. `task` is also a word, so it counts as a name only in quotes.
pub(super) fn text(text: &str) -> String {
    let named = |text: String, name: &&str| match *name {
        "task" => text.replace("`task`", &format!("`{}`", with_prefix(name))),
        name => text.replace(name, &with_prefix(name)),
    };
    NAMES.iter().chain(&manager::NAMES).fold(text.to_owned(), named)
}

/// Returns the name of a tool with the prefix.
pub(super) fn with_prefix(name: &str) -> String {
    format!("{TASK_SERVER}_{name}")
}

#[cfg(test)]
mod tests {
    use super::super::tools::{INSTRUCTIONS, tools};
    use super::*;

    #[test]
    fn every_tool_has_another_name_and_is_found_by_it() {
        let named: Vec<Tool> = tools(&[], true).into_iter().map(tool).collect();
        let names: Vec<&str> = named.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["subagent_get_subagents", "subagent_message_subagent"]);
        assert_eq!(own("subagent_task"), Some("task"));
        assert_eq!((own("task"), own("subagent")), (None, None));
        let renamed = text(INSTRUCTIONS);
        assert!(
            renamed.contains("`subagent_task`") && renamed.contains("`subagent_get_subagents`"),
            "{renamed}"
        );
        assert!(!renamed.contains("`task`") && !renamed.contains("`get_subagents`"), "{renamed}");
    }
}
