//! The key `hooks` of config files and definitions: commands before or after actions of a worker.
//! Pure. The format is Claude Code's. An unknown event is an error in a config file. A definition
//! keeps unsupported events and kinds of hooks of Claude Code as ignored.

pub mod call;
pub mod load;
pub mod run;

use std::time::Duration;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use subagent_protocol::hook::{DEFAULT_TIMEOUT_MS, Hook, HookEvent, HookOrigin};
use subagent_protocol::hook_matcher::Matcher;
use subagent_protocol::ids::hex;

use crate::agents::keys::KeyPositions;
use crate::check::{CheckResult, list, mismatch, refuse, without_nul};
use crate::error::FieldPath;
use crate::policy::Position;
use crate::section::Section;

pub(crate) const KEY: &str = "hooks";
/// Maximum number of hooks per file.
const MAX_HOOKS: usize = 100;
/// Maximum length of a command in bytes.
const MAX_COMMAND_BYTES: usize = 16 * 1024;
/// Maximum timeout in seconds.
const MAX_SECONDS: f64 = 3600.0;

const ALIASES: [(&str, HookEvent); 2] =
    [("PermissionRequest", HookEvent::ApprovalRequested), ("TurnEnd", HookEvent::Stop)];

/// Claude Code's events that are unsupported here.
const CLAUDE_CODE: &[&str] = &[
    "ConfigChange",
    "CwdChanged",
    "Elicitation",
    "ElicitationResult",
    "FileChanged",
    "InstructionsLoaded",
    "PermissionDenied",
    "PostCompact",
    "PostToolBatch",
    "PostToolUseFailure",
    "PreCompact",
    "SessionEnd",
    "Setup",
    "StopFailure",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "UserPromptExpansion",
];

/// A hook of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookEntry {
    /// The event that triggers it.
    pub event: HookEvent,
    /// Pattern for tools, sources or kinds; `None` matches all.
    pub matcher: Option<String>,
    /// The command line for `sh -c`.
    pub command: String,
    /// Maximum duration of the command.
    pub timeout: Duration,
    /// Position of the command in the file.
    pub at: Option<Position>,
    /// Path of keys and indexes to the command.
    path: Vec<String>,
}

impl HookEntry {
    /// Converts it to the hook of a worker.
    #[must_use]
    pub fn hook(&self, origin: HookOrigin, file: &std::path::Path, sha256: &str) -> Hook {
        Hook {
            event: self.event,
            matcher: self.matcher.clone(),
            command: self.command.clone(),
            timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX).max(1),
            origin,
            file: file.to_owned(),
            sha256: sha256.to_owned(),
        }
    }
}

/// A hook of a definition that is not executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// Its key, such as `hooks.PreCompact`.
    pub key: String,
    /// The value in the file.
    pub value: Value,
    /// The reason why it is ignored.
    pub reason: String,
    /// Position of the key in the file.
    pub at: Option<Position>,
}

/// The hooks of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileHooks {
    /// The hooks in file order.
    pub entries: Vec<HookEntry>,
    /// The ignored hooks of a definition. In a config file they are errors.
    pub ignored: Vec<Ignored>,
    /// SHA-256 of the file in lowercase hexadecimal; empty if the file has no hooks.
    pub sha256: String,
}

/// The kind of file that contains the hooks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HookFileKind {
    Config,
    Definition,
}

/// SHA-256 of the content in lowercase hexadecimal.
#[must_use]
pub fn content_hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn of_config(root: &Map<String, Value>) -> CheckResult<FileHooks> {
    read(root.get(KEY), HookFileKind::Config)
}

pub(crate) fn of_definition(front: &Map<String, Value>, keys: &KeyPositions) -> CheckResult<FileHooks> {
    let mut hooks = read(front.get(KEY), HookFileKind::Definition)?;
    hooks.locate(keys);
    Ok(hooks)
}

/// Returns the position of a place below `hooks`, if its keys are known.
pub(crate) fn position(keys: &KeyPositions, place: &FieldPath) -> Option<Position> {
    let (field, key) = match place {
        FieldPath::Field(field) | FieldPath::Element { field, .. } => (field, None),
        FieldPath::Entry { field, key } => (field, Some(key.as_str())),
        _ => return None,
    };
    if field != KEY && !field.starts_with("hooks.") {
        return None;
    }
    let field = field.replace('[', ".").replace(']', "");
    let path: Vec<&str> = field.split('.').chain(key).collect();
    keys.of(&path)
}

impl FileHooks {
    /// Sets the positions of all hooks.
    pub(crate) fn locate(&mut self, keys: &KeyPositions) {
        let of = |path: &[String]| keys.of(&path.iter().map(String::as_str).collect::<Vec<_>>());
        for entry in &mut self.entries {
            entry.at = of(&entry.path);
        }
        for ignored in &mut self.ignored {
            ignored.at = position(keys, &FieldPath::Field(ignored.key.clone()));
        }
    }
}

fn read(value: Option<&Value>, kind: HookFileKind) -> CheckResult<FileHooks> {
    let mut hooks = FileHooks::default();
    let events = match value {
        None | Some(Value::Null) => return Ok(hooks),
        Some(Value::Object(events)) => events,
        Some(other) => {
            return mismatch(FieldPath::Field(KEY.to_owned()), "a mapping of events to hooks", other);
        }
    };
    for (name, groups) in events {
        if kind == HookFileKind::Definition && CLAUDE_CODE.contains(&name.as_str()) {
            let reason = format!("this version has no event `{name}`");
            hooks.ignored.push(ignored(format!("{KEY}.{name}"), groups, reason));
            continue;
        }
        let event = event(name)?;
        let field = format!("{KEY}.{name}");
        for (index, group) in
            list(Some(groups), || FieldPath::Field(field.clone()))?.into_iter().flatten().enumerate()
        {
            let group_field = format!("{field}[{index}]");
            let path = [KEY.to_owned(), name.clone(), index.to_string()];
            of_group(event, group, &group_field, &path, kind, &mut hooks)?;
        }
    }
    if hooks.entries.len() > MAX_HOOKS {
        return refuse(FieldPath::Field(KEY.to_owned()), format!("has more than {MAX_HOOKS} hooks"));
    }
    Ok(hooks)
}

fn ignored(key: String, value: &Value, reason: String) -> Ignored {
    Ignored { key, value: value.clone(), reason, at: None }
}

/// Parses the name of an event or an alias.
///
/// # Errors
/// The problem, with the list of valid names.
pub fn event_named(name: &str) -> Result<HookEvent, String> {
    let alias = || ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, event)| *event);
    if let Some(event) = HookEvent::parse(name).or_else(alias) {
        return Ok(event);
    }
    let known: Vec<&str> = HookEvent::ALL.iter().map(|event| event.as_str()).collect();
    let why = match CLAUDE_CODE.contains(&name) {
        true => "is an event of Claude Code that this version does not have",
        false => "is not an event",
    };
    Err(format!("{why}; write {}", known.join(", ")))
}

fn event(name: &str) -> CheckResult<HookEvent> {
    event_named(name)
        .or_else(|problem| refuse(FieldPath::Entry { field: KEY.to_owned(), key: name.to_owned() }, problem))
}

fn of_group(
    event: HookEvent,
    group: &Value,
    field: &str,
    path: &[String],
    kind: HookFileKind,
    hooks: &mut FileHooks,
) -> CheckResult<()> {
    let group = Section::of(group, field)?;
    // A misspelled matcher must not match everything.
    group.only(&["matcher", "hooks"])?;
    let matcher = group.string("matcher")?.map(str::trim);
    let matcher = matcher.filter(|text| !text.is_empty() && *text != "*").map(str::to_owned);
    if let Err(problem) = Matcher::parse(matcher.as_deref()) {
        return refuse(group.place("matcher"), problem);
    }
    let Some(items) = group.list("hooks")? else {
        return refuse(group.place("hooks"), "is missing; write a list of {type: command, command: ...}");
    };
    for (index, item) in items.iter().enumerate() {
        let item = Section::of(item, group.field(&format!("hooks[{index}]")))?;
        if let Some(found) = not_a_command(&item, kind)? {
            hooks.ignored.push(found);
            continue;
        }
        let path = path.iter().cloned().chain(["hooks".to_owned(), index.to_string(), "command".to_owned()]);
        hooks.entries.push(HookEntry {
            event,
            matcher: matcher.clone(),
            command: command(&item)?,
            timeout: timeout(&item)?,
            at: None,
            path: path.collect(),
        });
    }
    Ok(())
}

/// Rejects unsupported hooks: an error in a config file; in a definition the hook is ignored.
fn not_a_command(item: &Section<'_>, kind: HookFileKind) -> CheckResult<Option<Ignored>> {
    const KNOWN: [&str; 4] = ["type", "command", "timeout", "statusMessage"];
    let place = || item.place("type");
    let (place, problem) = match item.string("type")? {
        Some("command") => match item.given.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            None => return Ok(None),
            Some(key) => {
                let problem = "is not carried out by this version; write type, command and timeout";
                (item.entry(key), problem.to_owned())
            }
        },
        Some(other) => (place(), format!("is `{other}`; this version runs only hooks of the type `command`")),
        None => return refuse(place(), "is missing; write `type: command`"),
    };
    match kind {
        HookFileKind::Config => refuse(place, problem),
        HookFileKind::Definition => {
            let value = Value::Object(item.given.clone());
            Ok(Some(ignored(item.path.clone(), &value, format!("{place} {problem}"))))
        }
    }
}

fn command(item: &Section<'_>) -> CheckResult<String> {
    let place = || item.place("command");
    let Some(line) = item.string("command")? else {
        return refuse(place(), "is missing; write a line for the shell");
    };
    match without_nul(line, place)? {
        line if line.trim().is_empty() => refuse(place(), "must not be blank; write a line for the shell"),
        line if line.len() > MAX_COMMAND_BYTES => {
            refuse(place(), format!("is longer than {MAX_COMMAND_BYTES} bytes; write a script and name it"))
        }
        line => Ok(line),
    }
}

fn timeout(item: &Section<'_>) -> CheckResult<Duration> {
    let place = || item.place("timeout");
    match item.value("timeout") {
        None => Ok(Duration::from_millis(DEFAULT_TIMEOUT_MS)),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(seconds) if (0.001..=MAX_SECONDS).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
            _ => refuse(place(), format!("must be seconds, above 0 to {MAX_SECONDS}")),
        },
        Some(other) => mismatch(place(), "a number of seconds", other),
    }
}

#[cfg(test)]
mod tests;
