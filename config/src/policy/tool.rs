//! What a rule or a call is about: ACP's kinds of tools, and the names that agents and other products give them. Pure.

use std::fmt;

use subagent_protocol::api::TASK_SERVER;

/// What a call does: ACP's kinds, and two of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Reads files.
    Read,
    /// Changes files.
    Edit,
    /// Removes files.
    Delete,
    /// Moves files.
    Move,
    /// Searches.
    Search,
    /// Runs a command.
    Execute,
    /// Thinks.
    Think,
    /// Gets something of the web.
    Fetch,
    /// Anything else, tools of MCP servers above all.
    Other,
    /// Gives work to another agent.
    Task,
    /// Writes down what is to do.
    Todo,
}

impl Kind {
    /// All of them.
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

    /// The word in rules, and ACP's.
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

    /// The kind that a word stands for.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The kind that a word misses by one letter, which is probably a slip; `None` for a kind and for names of tools.
    #[must_use]
    pub fn misspelled_as(word: &str) -> Option<Self> {
        let is_known = NAMES.iter().any(|(_, names)| names.contains(&word));
        if is_known {
            return None;
        }
        Self::ALL.into_iter().find(|kind| strsim::osa_distance(kind.as_str(), word) == 1)
    }

    /// Whether it changes files.
    pub(super) const fn changes_files(self) -> bool {
        matches!(self, Self::Edit | Self::Delete | Self::Move)
    }

    /// Whether there is something to match a pattern against.
    const fn has_subject(self) -> bool {
        !matches!(self, Self::Think | Self::Other | Self::Todo)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names of tools that stand for kinds, by kind. A rule for one of them is about all the kinds of its row; a call of one
/// of them counts as the first.
const NAMES: &[(&[Kind], &[&str])] = &[
    (
        &[Kind::Read],
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
    (&[Kind::Search], &["Grep", "Glob", "grep_files", "search_file_content", "grep_search", "glob", "grep"]),
    (
        &[Kind::Edit, Kind::Delete, Kind::Move],
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
        &[Kind::Execute],
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
        &[Kind::Fetch],
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
    (&[Kind::Task], &["Task", "Agent", "task", "invoke_agent"]),
    (&[Kind::Todo], &["TodoWrite", "TodoRead", "TodoList", "todowrite", "todoread", "write_todos"]),
];

/// The tools of the server for tasks. What else a server of that name has is none: it may be somebody else's.
pub(super) const OF_TASK_SERVER: [&str; 4] = ["task", "spawn_subagent", "get_subagents", "message_subagent"];
/// Those that call an agent; the others look after tasks that there are.
const CALLING: [&str; 2] = ["task", "spawn_subagent"];

/// A tool of the server for tasks, by the name that calls are known by here.
pub(super) fn of_task_server(name: &str) -> Option<&str> {
    after_task_server(name).filter(|tool| OF_TASK_SERVER.contains(tool))
}

/// Whether a name in a rule stands for tools of the server for tasks, of a server of its name at least.
pub(super) fn names_task_server(word: &str) -> bool {
    after_task_server(word).is_some()
}

fn after_task_server(name: &str) -> Option<&str> {
    let tool = name.strip_prefix("mcp__")?.strip_prefix(TASK_SERVER)?.strip_prefix("__")?;
    // `subagent mcp --prefix` names them `subagent_task` and so on.
    Some(tool.strip_prefix(TASK_SERVER).and_then(|tool| tool.strip_prefix('_')).unwrap_or(tool))
}

/// Whether a tool of this name does nothing to be judged by but to have tasks at all.
pub(super) fn is_about_any_agent(name: Option<&str>) -> bool {
    name.and_then(of_task_server).is_some_and(|tool| !CALLING.contains(&tool))
}

/// The kinds that a name stands for.
fn kinds_of(name: &str) -> Option<&'static [Kind]> {
    NAMES.iter().find(|(_, names)| names.contains(&name)).map(|(kinds, _)| *kinds)
}

/// The kind of a call by the name of its tool.
pub(super) fn kind_of(name: &str) -> Option<Kind> {
    let task = of_task_server(name).map(|_| Kind::Task);
    task.or_else(|| kinds_of(name).and_then(|kinds| kinds.first().copied()))
}

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tool {
    /// Everything.
    Any,
    /// Calls of these kinds.
    Kinds(Vec<Kind>),
    /// The tool of this name, in which `*` is any text.
    Named(String),
}

impl Tool {
    /// # Errors
    /// A name of an MCP tool that is not whole.
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        if word == "*" {
            return Ok(Self::Any);
        }
        if let Some(kind) = Kind::parse(word) {
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

    /// Whether there is anything that it is known to be about.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Self::Named(name) if !name.starts_with("mcp__"))
    }
}

pub(super) fn is_name_char(char: char) -> bool {
    char.is_alphanumeric() || "_-./*".contains(char)
}

/// The words for kinds, for a message.
pub(super) fn kinds() -> String {
    let words: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    format!("{}, mcp__SERVER__TOOL", words.join(" "))
}
