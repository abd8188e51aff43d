//! A tool call as the agent describes it. Pure. The description is untrusted.

mod earlier;
mod mcp;

use std::borrow::Cow;

use serde_json::Value;
use subagent_protocol::lenient::Lenient;
use subagent_protocol::tool_content::ToolCallReport;

use super::paths;
use super::tool::{self, ToolKind};

/// Maximum number of paths per call; more need an approval.
pub(super) const MAX_PATHS: usize = 64;
/// Maximum length of a path in bytes; longer texts are ignored.
const MAX_PATH_BYTES: usize = 4096;

/// A command that an agent wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallCommand {
    /// A line for a shell.
    Line(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

/// A tool call, merged from its descriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCallDescription {
    /// ACP's kind as the agent reports it.
    pub kind: Option<ToolKind>,
    /// Name of the tool.
    pub name: Option<String>,
    /// The command that the call runs.
    pub command: Option<CallCommand>,
    /// Further commands in the input. Which of them runs is unknown.
    pub other_commands: Vec<CallCommand>,
    /// Whether the input contains a command in an unknown format.
    pub unread_command: bool,
    /// Whether `command` is only the title of the call.
    pub by_title: bool,
    /// The working folder of the command, if given.
    pub cwd: Option<String>,
    /// The paths in the call.
    pub paths: Vec<String>,
    /// The paths of files with a diff in the call.
    pub changed: Vec<String>,
    /// The URLs that the call fetches.
    pub urls: Vec<String>,
    /// Names and titles of the call. An agent may name an MCP tool there.
    pub labels: Vec<String>,
    /// The agent that receives a task.
    pub agent: Option<String>,
    /// Whether the key of `agent` has no other meaning.
    pub delegates: bool,
    /// Whether the call has more content than is examined.
    pub more: bool,
    /// Whether the input contains text for a file.
    pub writes: bool,
    /// Whether a part of what was told is not examined.
    pub(super) lost: bool,
    /// Whether a command may be in such a part.
    pub(super) lost_command: bool,
    /// Whether the agent sent the input as structured data.
    has_input: bool,
    /// Whether its input has arguments, as such or in a text.
    has_arguments: bool,
    /// What was said of it before, and is said otherwise now.
    earlier: Vec<earlier::EarlierField>,
}

/// Keys for the path of a file.
const PATH_KEYS: &[&str] = &[
    "path",
    "file_path",
    "filePath",
    "filepath",
    "absolute_path",
    "notebook_path",
    "dir_path",
    "old_path",
    "new_path",
    "paths",
    "files",
    "file_paths",
    "file",
    "filename",
    "target_file",
    "relative_path",
    "source",
    "destination",
    "source_path",
    "destination_path",
];
/// Keys for a command. If several are present, which one the agent uses is unknown.
const COMMAND_KEYS: &[&str] = &["command", "cmd", "script", "shell_command", "command_line", "cmdline"];
/// The command keys that have another meaning outside of shell tools.
const ONLY_OF_SHELLS: &[&str] = COMMAND_KEYS.split_at(2).1;
/// Keys for a URL.
const URL_KEYS: &[&str] = &["url", "uri", "urls", "href", "address"];
/// Keys for the text that is written to a file.
const TEXT_KEYS: &[&str] = &[
    "content",
    "contents",
    "file_text",
    "new_string",
    "newString",
    "new_str",
    "new_text",
    "newText",
    "new_source",
    "old_string",
    "oldString",
    "old_str",
    "patch",
    "diff",
    "edits",
];
/// Keys for the working folder of a command.
const CWD_KEYS: &[&str] = &["cwd", "workdir", "working_directory"];
/// Keys for the agent of a task; the first three have no other meaning.
const AGENT_KEYS: &[&str] = &["subagent_type", "agentType", "agent_type", "agent", "agent_id"];
const DELEGATES: &[&str] = AGENT_KEYS.split_at(3).0;

impl ToolCallDescription {
    /// Reads ACP's `toolCall` or `update`.
    #[must_use]
    pub fn of(reported: &Value) -> Self {
        let mut call = Self::default();
        call.learn(reported);
        call
    }

    /// Merges a later description. New fields replace old ones.
    fn take(&mut self, report: &ToolCallReport<'_>, meta: &Value, input: &Value) {
        if let Some(kind) = report.kind.0 {
            // An unknown kind counts as `other`.
            self.kind = Some(ToolKind::parse(kind).filter(is_of_acp).unwrap_or(ToolKind::Other));
        }
        let (title, tool) = (filled(report.title), filled(report.name));
        let meta = meta.as_object().into_iter().flatten().find_map(|(_, value)| text(&value["toolName"]));
        let mcp = || mcp::name(report, input, title.as_deref(), self.kind);
        if let Some(name) = tool.clone().or(meta).or_else(mcp) {
            self.name = Some(name);
        }
        let task = self.is_of_task_server();
        if task {
            self.learn_task(report, input);
        }
        let by_name = self.name.as_deref().and_then(tool::kind_of);
        let runs = self.kind == Some(ToolKind::Execute) || by_name == Some(ToolKind::Execute);
        for label in [tool, title.clone()].into_iter().flatten() {
            add(&mut self.labels, label, &mut self.more);
        }
        let keys = COMMAND_KEYS.iter().filter(|key| runs || !ONLY_OF_SHELLS.contains(key));
        let keys: Vec<&&str> = keys.collect();
        self.unread_command |= keys.iter().any(|key| is_unread(&input[**key]));
        let mut commands = keys.iter().filter_map(|key| command(&input[**key]));
        match commands.next() {
            Some(command) => {
                let others: Vec<CallCommand> = commands.filter(|other| *other != command).collect();
                self.more |= !others.is_empty() && !input["args"].is_null();
                // All of them are kept, because each may be the one that runs.
                self.other_commands.retain(|other| !others.contains(other));
                self.other_commands.extend(others);
                self.more |= self.other_commands.len() > MAX_PATHS;
                let (command, whole) = with_args(command, &input["args"]);
                self.command = Some(command);
                self.by_title = false;
                self.more |= !whole;
            }
            // Some agents put the command only into the title.
            None if runs
                && !task
                && (self.command.is_none() || self.by_title)
                && input["command"].is_null() =>
            {
                self.command = title.map(CallCommand::Line).or(self.command.take());
                self.by_title = self.command.is_some();
            }
            None => {}
        }
        if let Some(cwd) = CWD_KEYS.iter().find_map(|key| text(&input[*key])) {
            self.cwd = Some(cwd);
        }
        for url in URL_KEYS.iter().flat_map(|key| texts(&input[*key])) {
            if is_of_file(&url) {
                add(&mut self.paths, url.clone(), &mut self.more);
            }
            add(&mut self.urls, url, &mut self.more);
        }
        if let Some(agent) = AGENT_KEYS.iter().find_map(|key| text(&input[*key])).filter(|_| !task) {
            self.agent = Some(agent);
        }
        self.writes |= TEXT_KEYS.iter().any(|key| !input[*key].is_null());
        self.delegates |= DELEGATES.iter().any(|key| text(&input[*key]).is_some());
        let located = report.locations.iter().filter_map(|place| filled(place.path));
        let named = PATH_KEYS.iter().flat_map(|key| texts(&input[*key]));
        // The files of a patch are keys.
        let changes = input["changes"].as_object().into_iter().flatten().map(|(path, _)| path.clone());
        for path in located.chain(named).chain(changes) {
            add(&mut self.paths, path, &mut self.more);
        }
        let diffs = report.content.iter().filter(|part| part.kind.0 == Some("diff"));
        for path in diffs.filter_map(|part| filled(part.path)) {
            add(&mut self.changed, path, &mut self.more);
        }
    }

    fn is_of_task_server(&self) -> bool {
        mcp::is_of_task_server(self.name.as_deref())
    }

    /// Merges a description of a task server's tool call.
    fn learn_task(&mut self, report: &ToolCallReport<'_>, input: &Value) {
        let agents = mcp::agents(report, input);
        // A second agent makes the call ambiguous.
        let other = |agent: &String| self.agent.as_ref().is_some_and(|known| known != agent);
        self.more |= agents.len() > 1 || agents.iter().any(other);
        if let Some(agent) = agents.into_iter().next() {
            self.agent = Some(agent);
        }
    }

    /// The view of a call that ran without approval. Agents that use a shell for everything parse command
    /// lines themselves, and report a line that only reads as a `read` without the line.
    #[must_use]
    pub fn as_reported(&self) -> Cow<'_, Self> {
        let reported = self.command.is_some() && !self.by_title;
        let reads = matches!(self.kind, Some(ToolKind::Read | ToolKind::Search)) && !reported;
        match self.name.as_deref().and_then(tool::kind_of) {
            Some(ToolKind::Execute) if reads => {
                Cow::Owned(Self { name: None, command: None, other_commands: Vec::new(), ..self.clone() })
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Whether the call has more information than its title.
    #[must_use]
    pub fn has_details(&self) -> bool {
        let files = !self.paths.is_empty() || !self.changed.is_empty() || !self.urls.is_empty();
        self.kind.is_some() || self.name.is_some() || self.command.is_some() || files
    }

    /// Returns the call without the name of its tool.
    pub(super) fn unnamed(&self) -> Self {
        Self { name: None, labels: Vec::new(), ..self.clone() }
    }

    /// The first of its kinds, for display.
    #[must_use]
    pub fn main_kind(&self) -> ToolKind {
        self.kinds().first().copied().unwrap_or(ToolKind::Other)
    }

    /// Whether a call of this tool may be of any kind. The kinds `other` and `think` alone say too little: some agents ask so
    /// for calls of every kind, under a title that is always the same.
    pub(super) fn is_undeclared(&self) -> bool {
        let is_vague = matches!(self.kinds().as_slice(), [ToolKind::Other | ToolKind::Think]);
        let is_declared = self.kind.is_some() && self.paths.is_empty() && self.has_detail() && !self.more;
        is_vague && !is_declared && !self.is_of_mcp()
    }

    /// Whether the agent says which tool it is, or with which input.
    pub(super) fn has_detail(&self) -> bool {
        self.name.is_some() || self.has_arguments
    }

    pub(super) fn is_of_mcp(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with("mcp__"))
    }

    /// All kinds of the call: by the agent's kind, by the tool, and by the input.
    pub(super) fn kinds(&self) -> Vec<ToolKind> {
        let by_name = self.name.as_deref().and_then(tool::kind_of);
        let mut kinds: Vec<ToolKind> = match (self.kind, by_name) {
            // Calls of the task server are tasks, independent of the agent's kind.
            _ if self.is_of_task_server() => vec![ToolKind::Task],
            // A vague kind gives way to the kind of a known tool.
            (Some(ToolKind::Other | ToolKind::Think) | None, Some(known)) => vec![known],
            (Some(said), Some(known)) => vec![said, known],
            (Some(said), None) => vec![said],
            (None, None) => vec![ToolKind::Other],
        };
        // Some agents omit the tool's name but give the target agent.
        let vague = kinds.iter().all(|kind| matches!(kind, ToolKind::Other | ToolKind::Think));
        if vague && self.name.is_none() && self.delegates {
            kinds = vec![ToolKind::Task];
        }
        // The input says what a call does, under every kind.
        if kinds != [ToolKind::Task] && !self.is_of_mcp() {
            let writes = self.writes && !self.paths.is_empty();
            // A file that is named as an address is one of the paths.
            let gets = self.urls.iter().any(|url| vague || !is_of_file(url));
            let of_input = [(writes, ToolKind::Edit), (gets, ToolKind::Fetch)];
            let found: Vec<ToolKind> =
                of_input.into_iter().filter_map(|(found, kind)| found.then_some(kind)).collect();
            if vague && !found.is_empty() {
                kinds.clear();
            }
            kinds.extend(found);
        }
        if self.command.is_some() {
            // Agents report `cat` and similar commands as `read`; they are judged as commands.
            kinds.retain(|kind| {
                !matches!(kind, ToolKind::Read | ToolKind::Search | ToolKind::Other | ToolKind::Think)
            });
            kinds.push(ToolKind::Execute);
        } else if self.unread_command {
            kinds.push(ToolKind::Execute);
        }
        if !self.changed.is_empty() && !kinds.iter().any(|kind| kind.changes_files()) {
            kinds.push(ToolKind::Edit);
        }
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// `task` and `todo` are our own kinds. An agent cannot claim them.
fn is_of_acp(kind: &ToolKind) -> bool {
    !matches!(kind, ToolKind::Task | ToolKind::Todo)
}

fn text(value: &Value) -> Option<String> {
    filled(Lenient(value.as_str()))
}

fn filled(text: Lenient<&str>) -> Option<String> {
    text.0.filter(|text| !text.is_empty()).map(str::to_owned)
}

fn is_of_file(url: &str) -> bool {
    paths::file_of_url(url).is_some()
}

/// A text, or a list of them.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().filter_map(text).collect(),
        value => text(value).into_iter().collect(),
    }
}

fn command(value: &Value) -> Option<CallCommand> {
    match value {
        Value::String(line) if !line.trim().is_empty() => Some(CallCommand::Line(line.clone())),
        Value::Array(words) if !words.is_empty() => {
            let words: Option<Vec<String>> =
                words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            words.map(CallCommand::Words)
        }
        _ => None,
    }
}

/// Whether a value is present but not a command.
fn is_unread(value: &Value) -> bool {
    let is_empty = match value {
        Value::String(_) | Value::Null => true,
        Value::Array(words) => words.is_empty(),
        _ => false,
    };
    !is_empty && command(value).is_none()
}

/// Joins a program with separate arguments, as in ACP's terminals. Returns whether the result is complete.
fn with_args(command: CallCommand, args: &Value) -> (CallCommand, bool) {
    let Some(args) = args.as_array() else { return (command, args.is_null()) };
    let words: Option<Vec<String>> = args.iter().map(|word| word.as_str().map(str::to_owned)).collect();
    match (command, words) {
        (command, Some(words)) if words.is_empty() => (command, true),
        (CallCommand::Line(program), Some(words)) if program.chars().all(is_of_a_program) => {
            (CallCommand::Words([vec![program], words].concat()), true)
        }
        (CallCommand::Words(program), Some(words)) => (CallCommand::Words([program, words].concat()), true),
        // Whether a shell would split the line is unknown.
        (command, _) => (command, false),
    }
}

fn is_of_a_program(char: char) -> bool {
    char.is_alphanumeric() || "_-+./".contains(char)
}

fn add(paths: &mut Vec<String>, path: String, more: &mut bool) {
    if paths.contains(&path) {
        return;
    }
    if paths.len() >= MAX_PATHS || path.len() > MAX_PATH_BYTES {
        *more = true;
    } else {
        paths.push(path);
    }
}
