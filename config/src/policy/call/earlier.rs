//! Contradicting descriptions of a call. All of them are judged, and the strictest verdict counts. Pure.

use serde_json::{Value, json};
use subagent_protocol::lenient;
use subagent_protocol::tool_content::ToolCallReport;

use super::{
    AGENT_KEYS, COMMAND_KEYS, CWD_KEYS, CallCommand, PATH_KEYS, TEXT_KEYS, ToolCallDescription, URL_KEYS,
};
use crate::policy::tool::ToolKind;

/// Maximum number of earlier descriptions; with more, the call is ambiguous.
const MAX_EARLIER: usize = 16;

/// Maximum depth of an input, and maximum number of objects and lists in it. The rest is not examined.
const MAX_DEPTH: usize = 8;
const MAX_NODES: usize = 4096;
/// Maximum number of objects with a command, and of others that name a subject. The rest is not examined.
const MAX_NESTED: usize = 64;
/// Maximum number of readings that only differ in their folder from others. The rest is not examined.
const MAX_MOVED: usize = 256;

/// Maximum length of a JSON text that is read as arguments, in bytes.
const MAX_ARGUMENTS: usize = 64 * 1024;

/// A field of an earlier description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EarlierField {
    Kind(ToolKind),
    Name(String),
    Command {
        command: CallCommand,
        by_title: bool,
    },
    Agent(String),
    Folder(String),
    /// Arguments from a content text, or from within the input; they can only make the verdict stricter.
    Arguments(Value),
}

impl ToolCallDescription {
    /// Merges a further description of the call and keeps fields that differ from it.
    pub fn learn(&mut self, reported: &serde_json::Value) {
        let before = self.clone();
        let (report, input) = (lenient::read(reported), &reported["rawInput"]);
        self.take(&report, &reported["_meta"], input);
        self.has_input |= input.is_object();
        let in_texts = arguments(&report);
        let has_members = |input: &Value| input.as_object().is_some_and(|members| !members.is_empty());
        self.has_arguments |= has_members(input) || in_texts.iter().any(has_members);
        if !self.is_of_task_server() {
            let in_texts = if self.has_input { Vec::new() } else { in_texts };
            let inputs = in_texts.iter().chain([input]);
            // Only commands count in the input of a server's tool, so that it is read as a whole.
            let is_whole = self.is_of_mcp();
            let nested = inputs.map(|input| NestedSubjects::of(input, is_whole));
            let nested: Vec<NestedSubjects> = nested.collect();
            self.lost |= nested.iter().any(|nested| nested.lost);
            self.lost_command |= nested.iter().any(|nested| nested.lost_command);
            let found = nested.into_iter().flat_map(|nested| [nested.commands, nested.others].concat());
            let arguments = in_texts.into_iter().chain(found);
            arguments.for_each(|input| self.keep(Some(EarlierField::Arguments(input)), None));
        }
        let clear = |kind: &ToolKind| !matches!(kind, ToolKind::Other | ToolKind::Think);
        self.keep(before.kind.filter(clear).map(EarlierField::Kind), self.kind.map(EarlierField::Kind));
        self.keep(before.name.map(EarlierField::Name), self.name.clone().map(EarlierField::Name));
        self.keep(before.cwd.map(EarlierField::Folder), self.cwd.clone().map(EarlierField::Folder));
        self.keep(before.agent.map(EarlierField::Agent), self.agent.clone().map(EarlierField::Agent));
        if self.by_title {
            let said = |command| EarlierField::Command { command, by_title: true };
            self.keep(before.command.map(said), self.command.clone().map(said));
        } else {
            // A real command replaces a title.
            self.earlier.retain(|said| !matches!(said, EarlierField::Command { by_title: true, .. }));
            let said = |command| EarlierField::Command { command, by_title: false };
            let grown = |old: &CallCommand| self.command.as_ref().is_some_and(|new| grows(old, new));
            let old = before.command.filter(|old| !before.by_title && !grown(old));
            self.keep(old.map(said), self.command.clone().map(said));
        }
    }

    fn keep(&mut self, before: Option<EarlierField>, now: Option<EarlierField>) {
        let Some(before) = before.filter(|before| now.as_ref() != Some(before)) else { return };
        if self.earlier.contains(&before) {
            return;
        }
        let group = before.group();
        let limit = if group == FieldGroup::Said { MAX_EARLIER } else { MAX_NESTED };
        if self.earlier.iter().filter(|said| said.group() == group).count() < limit {
            return self.earlier.push(before);
        }
        self.lost = true;
        self.lost_command |= group != FieldGroup::Others;
        self.more |= group == FieldGroup::Said;
    }

    /// Returns the current description, and one variant per differing earlier field.
    pub(in crate::policy) fn readings(&self) -> Vec<Self> {
        let mut now = self.clone();
        let earlier = std::mem::take(&mut now.earlier);
        let mut readings = vec![now.clone()];
        let (folders, earlier): (Vec<_>, Vec<_>) =
            earlier.into_iter().partition(|said| matches!(said, EarlierField::Folder(_)));
        for said in earlier {
            let mut reading = now.clone();
            match said {
                EarlierField::Kind(kind) => reading.kind = Some(kind),
                EarlierField::Name(name) => reading.name = Some(name),
                EarlierField::Command { command, by_title } => {
                    (reading.command, reading.by_title) = (Some(command), by_title);
                }
                EarlierField::Agent(agent) => reading.agent = Some(agent),
                EarlierField::Folder(folder) => reading.cwd = Some(folder),
                EarlierField::Arguments(input) => {
                    reading.take(&ToolCallReport::default(), &Value::Null, &input)
                }
            }
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
        // Each command may belong to each working folder.
        let at = |folder: &String, reading: &Self| Self { cwd: Some(folder.clone()), ..reading.clone() };
        let folders: Vec<&String> = folders.iter().filter_map(EarlierField::folder).collect();
        let is_cut = folders.len().saturating_mul(readings.len()) > MAX_MOVED;
        let moved: Vec<Self> = folders
            .iter()
            .flat_map(|folder| readings.iter().map(|reading| at(folder, reading)).collect::<Vec<_>>())
            .take(MAX_MOVED)
            .collect();
        if let Some(first) = readings.first_mut().filter(|_| is_cut) {
            (first.lost, first.lost_command) = (true, true);
        }
        readings.extend(moved);
        readings
    }
}

impl EarlierField {
    fn folder(&self) -> Option<&String> {
        match self {
            Self::Folder(folder) => Some(folder),
            _ => None,
        }
    }

    /// Returns which limit counts the field.
    fn group(&self) -> FieldGroup {
        match self {
            Self::Arguments(input) if has(input, COMMAND_KEYS) => FieldGroup::Commands,
            Self::Arguments(_) => FieldGroup::Others,
            _ => FieldGroup::Said,
        }
    }
}

/// Fields that have a limit of their own, so that none evicts another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldGroup {
    /// What was said of the call itself.
    Said,
    /// Inputs with a command.
    Commands,
    /// Inputs with other subjects.
    Others,
}

/// Reads the arguments of an unfinished call that some agents (Kimi Code) send only as JSON in a text.
fn arguments(report: &ToolCallReport<'_>) -> Vec<Value> {
    if matches!(report.status.0, Some("completed" | "failed")) {
        return Vec::new();
    }
    let texts = report.content.iter().filter_map(|part| part.content.text.0);
    texts
        .filter(|text| text.trim_start().starts_with('{') && text.len() <= MAX_ARGUMENTS)
        .filter_map(|text| serde_json::from_str::<Value>(text).ok())
        .collect()
}

/// The objects within an input that name a subject of the call.
#[derive(Debug, Default)]
struct NestedSubjects {
    commands: Vec<Value>,
    others: Vec<Value>,
    /// Whether some subject may be missing.
    lost: bool,
    /// Whether a command may be missing.
    lost_command: bool,
}

impl NestedSubjects {
    /// Reads an input; without a limit of depth and size if all of it is to be read.
    fn of(input: &Value, is_whole: bool) -> Self {
        let (mut found, mut nodes) = (Self::default(), 0);
        let mut open: Vec<(&Value, usize)> = vec![(input, 0)];
        while let Some((value, depth)) = open.pop() {
            let inner: Vec<&Value> = match value {
                Value::Object(members) => members.values().collect(),
                Value::Array(values) => values.iter().collect(),
                _ => continue,
            };
            nodes += 1;
            if !is_whole && (depth > MAX_DEPTH || nodes > MAX_NODES) {
                (found.lost, found.lost_command) = (true, true);
                continue;
            }
            if depth > 0 {
                found.add(value);
            }
            open.extend(inner.into_iter().map(|inner| (inner, depth + 1)));
        }
        found
    }

    fn add(&mut self, value: &Value) {
        if has(value, COMMAND_KEYS) {
            self.lost_command |= !add(&mut self.commands, value);
        } else if names_subject(value) {
            self.lost |= !add(&mut self.others, value);
        } else if has(value, TEXT_KEYS) {
            // That there is a text counts, and not which one.
            self.lost |= !add(&mut self.others, &json!({ "content": true }));
        }
    }
}

/// Adds a value once; returns whether it is there.
fn add(found: &mut Vec<Value>, value: &Value) -> bool {
    if found.contains(value) {
        return true;
    }
    let has_room = found.len() < MAX_NESTED;
    if has_room {
        found.push(value.clone());
    }
    has_room
}

/// Whether an object has a key for a path, an address, an agent or a folder, or files as keys.
fn names_subject(value: &Value) -> bool {
    [PATH_KEYS, URL_KEYS, AGENT_KEYS, CWD_KEYS].into_iter().any(|keys| has(value, keys))
        || value["changes"].is_object()
}

fn has(value: &Value, keys: &[&str]) -> bool {
    keys.iter().any(|key| !value[*key].is_null())
}

/// Whether one line is a prefix of the other: agents stream a command while the model writes it.
fn grows(old: &CallCommand, new: &CallCommand) -> bool {
    match (old, new) {
        (CallCommand::Line(old), CallCommand::Line(new)) => new.starts_with(old.as_str()),
        _ => false,
    }
}
