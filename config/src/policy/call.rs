//! What an agent wants to do or has done, as far as its words tell. Pure; an agent may say anything.

mod earlier;
mod mcp;

use std::borrow::Cow;

use serde_json::Value;

use super::tool::{self, Kind};

/// So many paths of one call are judged; with more, the owner is asked.
pub(super) const MOST_PATHS: usize = 64;
/// A longer path is none.
const MOST_PATH_BYTES: usize = 4096;

/// A command as an agent tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A line for a shell.
    Line(String),
    /// The words of a program.
    Words(Vec<String>),
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// ACP's kind, as the agent says.
    pub kind: Option<Kind>,
    /// The tool's own name.
    pub name: Option<String>,
    /// The command that it runs.
    pub command: Option<Command>,
    /// Further commands that its input holds: which of them runs is not known.
    pub other_commands: Vec<Command>,
    /// Whether its input holds a command that cannot be read.
    pub unread_command: bool,
    /// Whether that is its title, for want of anything better.
    pub by_title: bool,
    /// Where that runs, if it says so.
    pub cwd: Option<String>,
    /// The paths that it is about.
    pub paths: Vec<String>,
    /// The paths that it shows a change of.
    pub changed: Vec<String>,
    /// The addresses that it gets.
    pub urls: Vec<String>,
    /// Its names and titles, in which an agent may name a tool of an MCP server.
    pub labels: Vec<String>,
    /// The agent that it gives work to.
    pub agent: Option<String>,
    /// Whether it says that in a word that is used for nothing else.
    pub delegates: bool,
    /// What there is more of than is looked at.
    pub more: bool,
    /// Whether it brings the text of a file.
    pub writes: bool,
    /// Whether its input was told as such.
    has_input: bool,
    /// What was said of it before, and is said otherwise now.
    earlier: Vec<earlier::Said>,
}

/// Where agents put the path of a file.
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
/// And a command. Which one an agent goes by where there are several is not known.
const COMMAND_KEYS: &[&str] = &["command", "cmd", "script", "shell_command", "command_line", "cmdline"];
/// Of these, the ones that say something else where no shell is meant.
const ONLY_OF_SHELLS: &[&str] = COMMAND_KEYS.split_at(2).1;
/// And an address.
const URL_KEYS: &[&str] = &["url", "uri", "urls", "href", "address"];
/// And what they write into it.
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
/// And where a command runs.
const CWD_KEYS: &[&str] = &["cwd", "workdir", "working_directory"];
/// And the agent that they call; of these the first ones are used for nothing else.
const AGENT_KEYS: &[&str] = &["subagent_type", "agentType", "agent_type", "agent", "agent_id"];
const DELEGATES: &[&str] = AGENT_KEYS.split_at(3).0;

impl Call {
    /// A call as ACP's `toolCall` or `update` tells of it.
    #[must_use]
    pub fn of(told: &Value) -> Self {
        let mut call = Self::default();
        call.learn(told);
        call
    }

    /// Adds what the agent says later: what is told again replaces what was told.
    fn take(&mut self, told: &Value) {
        if let Some(kind) = told["kind"].as_str() {
            // A kind that is none of ours is the agent's other.
            self.kind = Some(Kind::parse(kind).filter(is_of_acp).unwrap_or(Kind::Other));
        }
        let title = text(&told["title"]);
        let meta =
            told["_meta"].as_object().into_iter().flatten().find_map(|(_, value)| text(&value["toolName"]));
        let mcp = || mcp::name(told, title.as_deref(), self.kind);
        if let Some(name) = text(&told["name"]).or(meta).or_else(mcp) {
            self.name = Some(name);
        }
        let task = self.is_of_task_server();
        if task {
            self.learn_task(told);
        }
        let input = &told["rawInput"];
        let by_name = self.name.as_deref().and_then(tool::kind_of);
        let runs = self.kind == Some(Kind::Execute) || by_name == Some(Kind::Execute);
        for label in [text(&told["name"]), title.clone()].into_iter().flatten() {
            add(&mut self.labels, label, &mut self.more);
        }
        let keys = COMMAND_KEYS.iter().filter(|key| runs || !ONLY_OF_SHELLS.contains(key));
        let keys: Vec<&&str> = keys.collect();
        self.unread_command |= keys.iter().any(|key| is_unread(&input[**key]));
        let mut commands = keys.iter().filter_map(|key| command(&input[**key]));
        match commands.next() {
            Some(command) => {
                let others: Vec<Command> = commands.filter(|other| *other != command).collect();
                self.more |= !others.is_empty() && !input["args"].is_null();
                // None of them is forgotten: each may be the one that runs.
                self.other_commands.retain(|other| !others.contains(other));
                self.other_commands.extend(others);
                self.more |= self.other_commands.len() > MOST_PATHS;
                let (command, whole) = with_args(command, &input["args"]);
                self.command = Some(command);
                self.by_title = false;
                self.more |= !whole;
            }
            // Some agents say it in the title alone.
            None if runs
                && !task
                && (self.command.is_none() || self.by_title)
                && input["command"].is_null() =>
            {
                self.command = title.map(Command::Line).or(self.command.take());
                self.by_title = self.command.is_some();
            }
            None => {}
        }
        if let Some(cwd) = CWD_KEYS.iter().find_map(|key| text(&input[*key])) {
            self.cwd = Some(cwd);
        }
        for url in URL_KEYS.iter().flat_map(|key| texts(&input[*key])) {
            add(&mut self.urls, url, &mut self.more);
        }
        if let Some(agent) = AGENT_KEYS.iter().find_map(|key| text(&input[*key])).filter(|_| !task) {
            self.agent = Some(agent);
        }
        self.writes |= TEXT_KEYS.iter().any(|key| !input[*key].is_null());
        self.delegates |= DELEGATES.iter().any(|key| text(&input[*key]).is_some());
        let located =
            told["locations"].as_array().into_iter().flatten().filter_map(|place| text(&place["path"]));
        let named = PATH_KEYS.iter().flat_map(|key| texts(&input[*key]));
        // Files of a patch, by their names.
        let changes = input["changes"].as_object().into_iter().flatten().map(|(path, _)| path.clone());
        for path in located.chain(named).chain(changes) {
            add(&mut self.paths, path, &mut self.more);
        }
        let contents = told["content"].as_array().into_iter().flatten();
        for path in contents.filter(|part| part["type"] == "diff").filter_map(|part| text(&part["path"])) {
            add(&mut self.changed, path, &mut self.more);
        }
    }

    fn is_of_task_server(&self) -> bool {
        mcp::is_of_task_server(self.name.as_deref())
    }

    /// The same of a call of the server for tasks.
    fn learn_task(&mut self, told: &Value) {
        let agents = mcp::agents(told);
        // What was named before is named still.
        let other = |agent: &String| self.agent.as_ref().is_some_and(|known| known != agent);
        self.more |= agents.len() > 1 || agents.iter().any(other);
        if let Some(agent) = agents.into_iter().next() {
            self.agent = Some(agent);
        }
    }

    /// Of a call that was made without asking: what its agent says that it did. One that has a shell for everything takes its
    /// lines apart by itself, and tells of one that only reads as that, without the line.
    #[must_use]
    pub fn as_told(&self) -> Cow<'_, Self> {
        let told = self.command.is_some() && !self.by_title;
        let reads = matches!(self.kind, Some(Kind::Read | Kind::Search)) && !told;
        match self.name.as_deref().and_then(tool::kind_of) {
            Some(Kind::Execute) if reads => {
                Cow::Owned(Self { name: None, command: None, other_commands: Vec::new(), ..self.clone() })
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Whether anything is known of it beside its title.
    #[must_use]
    pub fn tells_something(&self) -> bool {
        let files = !self.paths.is_empty() || !self.changed.is_empty() || !self.urls.is_empty();
        self.kind.is_some() || self.name.is_some() || self.command.is_some() || files
    }

    /// The same without the name of its tool.
    pub(super) fn unnamed(&self) -> Self {
        Self { name: None, labels: Vec::new(), ..self.clone() }
    }

    /// What it is in one word.
    #[must_use]
    pub fn main_kind(&self) -> Kind {
        self.kinds().first().copied().unwrap_or(Kind::Other)
    }

    /// Whether neither the agent nor the name of the tool nor what goes into it tells of which kind it is. The agent's
    /// own `other` counts, unless there are files in it.
    pub(super) fn is_undeclared(&self) -> bool {
        let says = self.kind.is_some() && self.paths.is_empty();
        !says && !self.is_of_mcp() && self.kinds() == [Kind::Other]
    }

    fn is_of_mcp(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with("mcp__"))
    }

    /// Everything that it is: what the agent says, what its tool is, and what it holds.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let by_name = self.name.as_deref().and_then(tool::kind_of);
        let mut kinds: Vec<Kind> = match (self.kind, by_name) {
            // Whatever an agent calls it: there it says nothing more.
            _ if self.is_of_task_server() => vec![Kind::Task],
            // A kind that says nothing gives way to a name that does.
            (Some(Kind::Other | Kind::Think) | None, Some(known)) => vec![known],
            (Some(said), Some(known)) => vec![said, known],
            (Some(said), None) => vec![said],
            (None, None) => vec![Kind::Other],
        };
        // Some agents do not name their tools; to whom the work is given they say.
        let vague = kinds.iter().all(|kind| matches!(kind, Kind::Other | Kind::Think));
        if vague && self.name.is_none() && self.delegates {
            kinds = vec![Kind::Task];
        }
        // The input says what a call does, also under another kind.
        let reads = kinds.iter().any(|kind| matches!(kind, Kind::Read | Kind::Search | Kind::Fetch));
        if reads && self.writes && !self.paths.is_empty() && !self.is_of_mcp() {
            kinds.push(Kind::Edit);
        }
        if vague && kinds != [Kind::Task] && !self.is_of_mcp() {
            let writes = (self.writes && !self.paths.is_empty()).then_some(Kind::Edit);
            let found: Vec<Kind> =
                writes.into_iter().chain((!self.urls.is_empty()).then_some(Kind::Fetch)).collect();
            if !found.is_empty() {
                kinds = found;
            }
        }
        if self.command.is_some() {
            // Agents call a command that reads a file `read`: it is judged as the command that it is.
            kinds.retain(|kind| !matches!(kind, Kind::Read | Kind::Search | Kind::Other | Kind::Think));
            kinds.push(Kind::Execute);
        } else if self.unread_command {
            kinds.push(Kind::Execute);
        }
        if !self.changed.is_empty() && !kinds.iter().any(|kind| kind.changes_files()) {
            kinds.push(Kind::Edit);
        }
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// `task` and `todo` are our words: an agent does not say that its call is one.
fn is_of_acp(kind: &Kind) -> bool {
    !matches!(kind, Kind::Task | Kind::Todo)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A text, or a list of them.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().filter_map(text).collect(),
        value => text(value).into_iter().collect(),
    }
}

fn command(value: &Value) -> Option<Command> {
    match value {
        Value::String(line) if !line.trim().is_empty() => Some(Command::Line(line.clone())),
        Value::Array(words) if !words.is_empty() => {
            let words: Option<Vec<String>> =
                words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            words.map(Command::Words)
        }
        _ => None,
    }
}

/// Whether a value is no command, though it says something.
fn is_unread(value: &Value) -> bool {
    let is_empty = match value {
        Value::String(_) | Value::Null => true,
        Value::Array(words) => words.is_empty(),
        _ => false,
    };
    !is_empty && command(value).is_none()
}

/// A program with the words that stand beside it, as ACP's terminals are started; and whether that is all.
fn with_args(command: Command, args: &Value) -> (Command, bool) {
    let Some(args) = args.as_array() else { return (command, args.is_null()) };
    let words: Option<Vec<String>> = args.iter().map(|word| word.as_str().map(str::to_owned)).collect();
    match (command, words) {
        (command, Some(words)) if words.is_empty() => (command, true),
        (Command::Line(program), Some(words)) if program.chars().all(is_of_a_program) => {
            (Command::Words([vec![program], words].concat()), true)
        }
        (Command::Words(program), Some(words)) => (Command::Words([program, words].concat()), true),
        // Whether a shell takes the line apart is not told.
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
    if paths.len() >= MOST_PATHS || path.len() > MOST_PATH_BYTES {
        *more = true;
    } else {
        paths.push(path);
    }
}
