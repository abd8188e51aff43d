//! The `--input` contract (section 8): one JSON object instead of flags; a key with its flag is an error.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value};
use subagent_protocol::{Code, MAX_LINE_BYTES};

use crate::args::Typed;
use crate::failure::{Failure, Result};
use repeated::DuplicateKey;

mod repeated;

/// The type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A string; null and the empty string are absent.
    Text,
    /// A string; null is absent, the empty string is not.
    AnyText,
    /// A boolean; null is an error.
    Bool,
    /// A number from 0; null is absent.
    Seconds,
    /// An integer from 1; null is absent.
    Count,
    Objects,
    /// A list of non-empty strings.
    Texts,
    /// An object with strings, booleans or null as values.
    Options,
    /// An object; null is absent.
    Object,
}

/// A key of the object with its flag. The key's name appears in `details`.
#[derive(Debug)]
pub struct Field {
    key: &'static str,
    flags: &'static [&'static str],
    shape: Shape,
}

const fn field(key: &'static str, flags: &'static [&'static str], shape: Shape) -> Field {
    Field { key, flags, shape }
}

/// The keys of `send`.
pub const SEND: &[Field] = &[
    field("workerId", &["worker_id"], Shape::Text),
    field("text", &["text"], Shape::AnyText),
    field("blocks", &["blocks_json"], Shape::Objects),
    field("attachments", &["attach"], Shape::Texts),
    field("agent", &["agent"], Shape::Text),
    field("debugMode", &["debug_mode", "no_debug_mode"], Shape::Bool),
    field("ifBusy", &["if_busy", "queue"], Shape::Text),
    field("wait", &["wait_for_match", "no_wait"], Shape::Bool),
    field("waitUntil", &["wait_until"], Shape::Text),
    field("waitTimeoutSeconds", &["wait_timeout_seconds"], Shape::Seconds),
    field("waitNoProgressTimeoutSeconds", &["wait_no_progress_timeout_seconds"], Shape::Seconds),
];

/// The keys of `wait`.
pub const WAIT: &[Field] = &[
    field("workerId", &["worker_id"], Shape::Text),
    field("until", &["until"], Shape::Text),
    field("fromEventId", &["from_event_id"], Shape::Text),
    field("afterLatest", &["after_latest", "include_history"], Shape::Bool),
    field("timeoutSeconds", &["timeout_seconds"], Shape::Seconds),
    field("noProgressTimeoutSeconds", &["no_progress_timeout_seconds"], Shape::Seconds),
];

/// The keys of `approve`.
pub const APPROVE: &[Field] = &[
    field("workerId", &["worker_id"], Shape::Text),
    field("requestId", &["request_id"], Shape::Text),
    field("decision", &["decision"], Shape::Text),
    field("optionId", &["option_id"], Shape::Text),
    field("alias", &["alias"], Shape::Text),
    field("note", &["note"], Shape::Text),
    field("all", &["all"], Shape::Bool),
    field("tree", &["tree"], Shape::Bool),
    field("always", &["always"], Shape::Text),
];

/// The keys of `answer`.
pub const ANSWER: &[Field] = &[
    field("workerId", &["worker_id"], Shape::Text),
    field("requestId", &["request_id"], Shape::Text),
    field("action", &["action", "accept", "decline", "cancel"], Shape::Text),
    field("content", &["content_json", "set"], Shape::Object),
];

/// The keys of `worker start`.
pub const WORKER_START: &[Field] = &[
    field("launcher", &["launcher"], Shape::Text),
    field("role", &["role"], Shape::Text),
    field("cwd", &["cwd"], Shape::Text),
    field("name", &["name"], Shape::Text),
    field("label", &["label"], Shape::Text),
    field("controllerId", &["controller_id"], Shape::Text),
    field("debugMode", &["debug_mode", "no_debug_mode"], Shape::Bool),
    field("mcpConfig", &["mcp_config"], Shape::Text),
    field("additionalDirectories", &["add_dir"], Shape::Texts),
    field("mode", &["mode"], Shape::Text),
    field("model", &["model"], Shape::Text),
    field("configOptions", &["set"], Shape::Options),
    field("resume", &["resume"], Shape::Text),
    field("idleTimeout", &["idle_timeout"], Shape::Text),
    field("onRateLimit", &["on_rate_limit"], Shape::Text),
    field("tags", &["tag"], Shape::Texts),
    field("allow", &["allow"], Shape::Texts),
    field("ask", &["ask"], Shape::Texts),
    field("deny", &["deny"], Shape::Texts),
    field("approvalTimeout", &["approval_timeout"], Shape::Text),
    field("onApprovalTimeout", &["on_approval_timeout"], Shape::Text),
    field(
        "budget",
        &["max_turns", "max_wall_time", "max_tokens", "max_cost", "on_budget", "on_unknown"],
        Shape::Object,
    ),
    field("agent", &["agent"], Shape::Text),
    field("delegate", &["delegate"], Shape::Bool),
    field("worktree", &["worktree", "base", "with_changes"], Shape::Object),
    field("sandbox", &["sandbox"], Shape::Text),
];

/// The keys of `task run`.
pub const TASK_RUN: &[Field] = &[
    field("agent", &["agent"], Shape::Text),
    field("text", &["text"], Shape::AnyText),
    field("description", &["description"], Shape::Text),
    field("name", &["name"], Shape::Text),
    field("background", &["background"], Shape::Bool),
    field("launcher", &["launcher"], Shape::Text),
    field("model", &["model"], Shape::Text),
    field("systemPrompt", &["system_prompt"], Shape::Text),
    field("allowedTools", &["allowed_tool"], Shape::Texts),
    field("disallowedTools", &["disallowed_tool"], Shape::Texts),
    field("maxSteps", &["max_steps"], Shape::Count),
    field("timeoutSeconds", &["timeout"], Shape::Seconds),
    field("metadata", &[], Shape::Object),
    field("controllerId", &["controller_id"], Shape::Text),
    field("cwd", &["cwd"], Shape::Text),
    field("worktree", &["worktree", "base", "with_changes"], Shape::Object),
    field("sandbox", &["sandbox"], Shape::Text),
];

/// The keys of `task message`.
pub const TASK_MESSAGE: &[Field] = &[
    field("task", &["task"], Shape::Text),
    field("text", &["text"], Shape::AnyText),
    field("cancel", &["cancel"], Shape::Bool),
    field("allowFresh", &["allow_fresh"], Shape::Bool),
];

/// The keys of `worker set`.
pub const WORKER_SET: &[Field] = &[
    field("workerId", &["worker_id", "workers"], Shape::Text),
    field("name", &["name"], Shape::Text),
    field("mode", &["mode"], Shape::Text),
    field("model", &["model"], Shape::Text),
    field("configOptions", &["set"], Shape::Options),
    field("idleTimeout", &["idle_timeout"], Shape::Text),
    field("onRateLimit", &["on_rate_limit"], Shape::Text),
    field(
        "budget",
        &["max_turns", "max_wall_time", "max_tokens", "max_cost", "on_budget", "on_unknown"],
        Shape::Object,
    ),
];

/// A checked object: every value has the type of its key.
#[derive(Debug, Default)]
pub struct Input(Map<String, Value>);

impl Input {
    /// Reads and checks the file of `--input` (`-` is stdin). Without a file the result is empty.
    ///
    /// # Errors
    /// `INVALID_INPUT`: `{path,error}` if unreadable, `{error}` if not JSON, `{field}` for a duplicate key,
    /// `{unknown,known}` for unknown keys, `{field,flag}` for a key whose flag was typed too, no details
    /// for a wrong type.
    /// shape.
    pub fn load(source: Option<&Path>, fields: &[Field], typed: &Typed) -> Result<Self> {
        let Some(path) = source.filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(Self::default());
        };
        Self::parse(&read_text(path)?, fields, typed)
    }

    /// Checks a JSON text. Pure.
    ///
    /// # Errors
    /// Those of [`Input::load`].
    pub fn parse(text: &str, fields: &[Field], typed: &Typed) -> Result<Self> {
        // Some editors write a byte order mark, which has no meaning in UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let document: Value = serde_json::from_str(text).map_err(|error| {
            Failure::input(format!("--input is not JSON: {error}")).with("error", error.to_string())
        })?;
        let Value::Object(mut object) = document else {
            return Err(Failure::input("--input must hold a JSON object"));
        };
        if let Ok(DuplicateKey(Some(key))) = serde_json::from_str(text) {
            return Err(Failure::input(format!("--input has the key \"{key}\" twice; give it once"))
                .with("field", key));
        }
        let names_workers = fields.iter().any(|field| field.key == "workerId");
        if names_workers && object.contains_key("worker") {
            return Err(Failure::input("the key \"worker\" of --input is not supported; use \"workerId\""));
        }
        let known: Vec<&str> = fields.iter().map(|field| field.key).collect();
        let unknown: Vec<&str> =
            object.keys().map(String::as_str).filter(|key| !known.contains(key)).collect();
        if !unknown.is_empty() {
            let (names, all) = (unknown.join(", "), known.join(", "));
            return Err(Failure::input(format!(
                "--input has keys that mean nothing here: {names} (known: {all})"
            ))
            .with("unknown", unknown)
            .with("known", known));
        }
        for field in fields {
            let Some(flag) = field.flags.first() else { continue };
            if object.contains_key(field.key) && field.flags.iter().any(|name| typed.has(name)) {
                return Err(Failure::input(format!(
                    "\"{}\" is given both in --input and as a flag; give it once",
                    field.key
                ))
                .with("field", field.key)
                .with("flag", *flag));
            }
        }
        let mut checked = Map::new();
        for field in fields {
            if let Some(value) = object.remove(field.key)
                && let Some(value) = check(field, value)?
            {
                checked.insert(field.key.to_owned(), value);
            }
        }
        Ok(Self(checked))
    }

    /// Returns the string under this key.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    /// Returns the boolean under this key.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.0.get(key).and_then(Value::as_bool)
    }

    /// Returns the number of seconds under this key.
    #[must_use]
    pub fn seconds(&self, key: &str) -> Option<f64> {
        self.0.get(key).and_then(Value::as_f64)
    }

    /// Returns the integer under this key.
    #[must_use]
    pub fn count(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    /// Returns the list of strings under this key; absent is empty.
    #[must_use]
    pub fn texts(&self, key: &str) -> Vec<String> {
        let items = self.0.get(key).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns the object under this key.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<Map<String, Value>> {
        self.0.get(key).and_then(Value::as_object).cloned()
    }

    /// Returns the list of objects under this key.
    #[must_use]
    pub fn objects(&self, key: &str) -> Option<Vec<Value>> {
        self.0.get(key).and_then(Value::as_array).cloned()
    }
}

/// Returns the value if it counts as present.
fn check(field: &Field, value: Value) -> Result<Option<Value>> {
    let wrong = |wanted: &str| Err(Failure::input(format!("\"{}\" in --input must be {wanted}", field.key)));
    match (field.shape, &value) {
        (Shape::Text | Shape::AnyText | Shape::Seconds | Shape::Count, Value::Null) => Ok(None),
        (Shape::Text, Value::String(text)) if text.is_empty() => Ok(None),
        (Shape::Text | Shape::AnyText, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => Ok(Some(value)),
        (Shape::Seconds, Value::Number(number))
            if number.as_f64().is_some_and(|n| n.is_finite() && n >= 0.0) =>
        {
            Ok(Some(value))
        }
        (Shape::Count, Value::Number(number)) if number.as_u64().is_some_and(|n| n > 0) => Ok(Some(value)),
        (Shape::Object, Value::Null) => Ok(None),
        (Shape::Object, Value::Object(_)) => Ok(Some(value)),
        (Shape::Objects, Value::Array(items)) if items.iter().all(Value::is_object) => Ok(Some(value)),
        (Shape::Texts, Value::Array(items))
            if items.iter().all(|item| item.as_str().is_some_and(|text| !text.is_empty())) =>
        {
            Ok(Some(value))
        }
        (Shape::Texts, _) => wrong("a list of texts"),
        (Shape::Options, Value::Null) => Ok(None),
        (Shape::Options, Value::Object(entries))
            if entries.values().all(|value| value.is_null() || value.is_boolean() || value.is_string()) =>
        {
            Ok(Some(value))
        }
        (Shape::Options, _) => wrong("an object whose values are texts, true, false or null"),
        (Shape::Text | Shape::AnyText, _) => wrong("a string"),
        (Shape::Bool, _) => wrong("true or false"),
        (Shape::Seconds, _) => wrong("a number of seconds, 0 or more"),
        (Shape::Count, _) => wrong("a whole number, 1 or more"),
        (Shape::Objects, _) => wrong("a list of objects"),
        (Shape::Object, _) => wrong("an object"),
    }
}

/// Reads the whole text of a file, or of stdin for `-`.
///
/// # Errors
/// `INVALID_INPUT{path,error}` if it is unreadable or not UTF-8; `PAYLOAD_TOO_LARGE{path,limitBytes}` if it
/// exceeds the maximum size of a message.
pub fn read_text(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    // Reads one byte more than allowed, so that an endless device ends here.
    let limit = MAX_LINE_BYTES as u64 + 1;
    let read = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    let name = if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() };
    let unreadable = |error: String| {
        Failure::input(format!("cannot read {name}: {error}"))
            .with("path", path.to_string_lossy().into_owned())
            .with("error", error)
    };
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > MAX_LINE_BYTES {
        return Err(Failure::new(
            Code::PayloadTooLarge,
            format!("{name} is larger than the {MAX_LINE_BYTES} bytes that a message may have"),
        )
        .with("path", path.to_string_lossy().into_owned())
        .with("limitBytes", MAX_LINE_BYTES)
        .recommend("Send less at once, or name a file instead of its content."));
    }
    String::from_utf8(bytes).map_err(|error| unreadable(format!("not UTF-8: {}", error.utf8_error())))
}

#[cfg(test)]
mod bytes;
#[cfg(test)]
mod tests;
