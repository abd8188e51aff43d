//! Kinds of calls in ACP's terms, and the names that agents and other products give to tools. Pure.

use std::fmt;

use subagent_protocol::api::TASK_SERVER;

/// The kind of a call: ACP's kinds, and two of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolKind {
    /// The call reads files.
    Read,
    /// The call changes files.
    Edit,
    /// The call deletes files.
    Delete,
    /// The call moves files.
    Move,
    /// The call searches for information.
    Search,
    /// The call runs a command.
    Execute,
    /// The call has no effect: the model thinks.
    Think,
    /// The call fetches a URL.
    Fetch,
    /// Any other call, mainly MCP tools.
    Other,
    /// The call delegates to another agent.
    Task,
    /// The call edits a todo list.
    Todo,
}

impl ToolKind {
    /// All kinds; ACP's come first.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Edit,
        Self::Delete,
        Self::Move,
        Self::Search,
        Self::Execute,
        Self::Think,
        Self::Fetch,
        Self::Other,
        Self::Task,
        Self::Todo,
    ];

    /// The word in rules; equals ACP's.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::Other => "other",
            Self::Task => "task",
            Self::Todo => "todo",
        }
    }

    /// Parses the word of a kind.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns the kind that differs from a word by one letter, for error messages; `None` for kinds and
    /// known tools.
    #[must_use]
    pub fn misspelled_as(word: &str) -> Option<Self> {
        let is_known = NAMES.iter().any(|(_, names)| names.contains(&word));
        if is_known {
            return None;
        }
        Self::ALL.into_iter().find(|kind| strsim::osa_distance(kind.as_str(), word) == 1)
    }

    /// Whether the call changes, deletes or moves files.
    pub(super) const fn changes_files(self) -> bool {
        matches!(self, Self::Edit | Self::Delete | Self::Move)
    }

    /// Whether a pattern can match a subject of the call.
    const fn has_subject(self) -> bool {
        !matches!(self, Self::Think | Self::Other | Self::Todo)
    }
}

impl fmt::Display for ToolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names of tools by kind. A rule for one of them is about all kinds of its row; a call of one counts as
/// the first kind.
const NAMES: &[(&[ToolKind], &[&str])] = &[
    (
        &[ToolKind::Read],
        &[
            "Read",
            "read_file",
            "read_many_files",
            "NotebookRead",
            "list_dir",
            "list_directory",
            "LS",
            "list",
            "ls",
            "ReadMediaFile",
            "read_text_file",
        ],
    ),
    (
        &[ToolKind::Search],
        &["Grep", "Glob", "grep_files", "search_file_content", "grep_search", "glob", "grep"],
    ),
    (
        &[ToolKind::Edit, ToolKind::Delete, ToolKind::Move],
        &[
            "Write",
            "Edit",
            "MultiEdit",
            "NotebookEdit",
            "write_file",
            "write_text_file",
            "file_editor",
            "edit_file",
            "multiedit",
            "patch",
            "replace",
            "write",
            "apply_patch",
        ],
    ),
    (
        &[ToolKind::Execute],
        &[
            "Bash",
            "shell",
            "bash",
            "run_shell_command",
            "terminal",
            "exec_command",
            "BashOutput",
            "KillShell",
            "KillBash",
        ],
    ),
    (
        &[ToolKind::Fetch],
        &[
            "WebFetch",
            "WebSearch",
            "FetchURL",
            "web_fetch",
            "web_search",
            "webfetch",
            "websearch",
            "codesearch",
            "google_web_search",
        ],
    ),
    (&[ToolKind::Task], &["Task", "Agent", "task", "invoke_agent"]),
    (&[ToolKind::Todo], &["TodoWrite", "TodoRead", "TodoList", "todowrite", "todoread", "write_todos"]),
];

/// The tools of the task server. Other tools of a server with its name may be those of a foreign server.
pub(super) const OF_TASK_SERVER: [&str; 4] = ["task", "spawn_subagent", "get_subagents", "message_subagent"];
/// The tools that call an agent; the others manage existing tasks.
const CALLING: [&str; 2] = ["task", "spawn_subagent"];

/// Returns the tool of the task server with this normalized name.
pub(super) fn of_task_server(name: &str) -> Option<&str> {
    after_task_server(name).filter(|tool| OF_TASK_SERVER.contains(tool))
}

/// Whether a name in a rule denotes tools of a server named like the task server.
pub(super) fn names_task_server(word: &str) -> bool {
    after_task_server(word).is_some()
}

fn after_task_server(name: &str) -> Option<&str> {
    let tool = name.strip_prefix("mcp__")?.strip_prefix(TASK_SERVER)?.strip_prefix("__")?;
    // `subagent mcp --prefix` names the tools `subagent_task` and so on.
    Some(tool.strip_prefix(TASK_SERVER).and_then(|tool| tool.strip_prefix('_')).unwrap_or(tool))
}

/// Whether the tool manages tasks in general, so that it is judged by whether any agent may be called.
pub(super) fn is_about_any_agent(name: Option<&str>) -> bool {
    name.and_then(of_task_server).is_some_and(|tool| !CALLING.contains(&tool))
}

/// Returns the kinds of a tool's name.
fn kinds_of(name: &str) -> Option<&'static [ToolKind]> {
    NAMES.iter().find(|(_, names)| names.contains(&name)).map(|(kinds, _)| *kinds)
}

/// Returns the kind of a call by its tool.
pub(super) fn kind_of(name: &str) -> Option<ToolKind> {
    let task = of_task_server(name).map(|_| ToolKind::Task);
    task.or_else(|| kinds_of(name).and_then(|kinds| kinds.first().copied()))
}

/// The tool part of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tool {
    /// All tools. Such a rule can deny tasks but not allow them.
    Any,
    /// Calls of these kinds.
    Kinds(Vec<ToolKind>),
    /// Tools with this name; `*` matches any text.
    Named(String),
}

impl Tool {
    /// Parses the tool part of a rule.
    ///
    /// # Errors
    /// The name of an MCP tool is incomplete.
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        if word == "*" {
            return Ok(Self::Any);
        }
        if let Some(kind) = ToolKind::parse(word) {
            return Ok(Self::Kinds(vec![kind]));
        }
        if let Some(kinds) = kinds_of(word) {
            return Ok(Self::Kinds(kinds.to_vec()));
        }
        if let Some(rest) = word.strip_prefix("mcp__")
            && rest != "*"
            && !rest.split_once("__").is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty())
        {
            return Err(format!("`{word}` is not whole; write mcp__SERVER__TOOL or mcp__SERVER__*"));
        }
        Ok(Self::Named(word.to_owned()))
    }

    pub(super) fn has_subject(&self) -> bool {
        match self {
            Self::Any | Self::Named(_) => false,
            Self::Kinds(kinds) => kinds.iter().all(|kind| kind.has_subject()),
        }
    }

    /// Whether the tool is a kind or an MCP tool.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Self::Named(name) if !name.starts_with("mcp__"))
    }
}

pub(super) fn is_name_char(char: char) -> bool {
    char.is_alphanumeric() || "_-./*".contains(char)
}

/// Returns the words for all kinds, for a message.
pub(super) fn kinds() -> String {
    let words: Vec<&str> = ToolKind::ALL.iter().map(|kind| kind.as_str()).collect();
    format!("{}, mcp__SERVER__TOOL", words.join(" "))
}
