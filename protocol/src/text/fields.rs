//! The fields of a `progress.update` by kind; `docs/events.md` contains them as a table. Only
//! fields with the expected type are used, so readers need not check types. Everything else stays
//! in the raw text. Nothing here fails.

use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::data::progress::{
    AvailableCommands, Chunk, Compaction, CompactionSummary, ConfigOptions, Mode, Nothing, Notice, Object,
    PlanEntries, Replayed, SessionInfo, TerminalExit, Text, ToolCall, Usage,
};
use crate::update;

/// Maximum number of entries shown of an agent's token counts.
const MAX_USAGE_ENTRIES: usize = 32;

/// Returns the fields of a `progress.update` of this kind, from the `params` of the notification.
#[must_use]
pub fn of(kind: &str, params: &Value) -> Map<String, Value> {
    let said = AgentValue(&params["update"]);
    match kind {
        "tool_call" | "tool_call_update" => shown(&tool_call(&said)),
        "plan" => shown(&PlanEntries { entries: said.objects("entries") }),
        "usage" => {
            shown(&Usage { used: said.number("used"), size: said.number("size"), cost: said.object("cost") })
        }
        "mode" => shown(&Mode { current_mode_id: said.text("currentModeId") }),
        "available_commands" => {
            shown(&AvailableCommands { available_commands: said.objects("availableCommands") })
        }
        "config_option" => shown(&ConfigOptions { config_options: said.objects("configOptions") }),
        "session_info" => {
            shown(&SessionInfo { title: said.text("title"), updated_at: said.text("updatedAt") })
        }
        "thought" | "user_message" => shown(&Text { text: update::text(params) }),
        update::CHUNK => shown(&Chunk { content: said.object("content") }),
        "notice" => shown(&Notice {
            severity: said.text("severity"),
            title: said.text("title"),
            description: said.text("description"),
        }),
        "compaction" => shown(&Compaction {
            compaction_id: said.text("compactionId"),
            status: said.text("status"),
            summary: said.objects("summary"),
            error: said.text("error"),
        }),
        "compaction_summary" => shown(&CompactionSummary {
            compaction_id: said.text("compactionId"),
            content: said.object("content"),
        }),
        update::REPLAYED => shown(&replayed(params)),
        _ => shown(&Nothing {}),
    }
}

/// Returns the original update under a name of its own.
fn replayed(params: &Value) -> Replayed {
    let kind = update::classify(&params.to_string());
    let fields = match &*kind {
        update::MESSAGE => shown(&Text { text: update::text(params) }),
        kind => of(kind, params),
    };
    let mut update = Object::new();
    update.insert("kind".to_owned(), kind.into());
    update.extend(fields);
    Replayed { update }
}

/// Returns a permission request's data about its tool call, from the `toolCall` of its `params`.
/// Omits the status: the call waits.
#[must_use]
pub fn of_request(request: &Value) -> Map<String, Value> {
    let call = tool_call(&AgentValue(request));
    shown(&ToolCall { status: None, ..call })
}

/// Whether a value is null or empty.
#[must_use]
pub fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn tool_call(said: &AgentValue<'_>) -> ToolCall {
    let meta = AgentValue(&said.0["_meta"]);
    let printed = |name: &str| AgentValue(&meta.0[name]).text("data");
    ToolCall {
        tool_call_id: said.text("toolCallId"),
        title: said.text("title"),
        tool_kind: said.text("kind"),
        status: said.text("status"),
        locations: said.objects("locations"),
        content: said.objects("content"),
        raw_input: said.some("rawInput"),
        command: command(&said.0["rawInput"]),
        raw_output: said.some("rawOutput"),
        terminal_output: printed("terminal_output_delta").or_else(|| printed("terminal_output")),
        terminal_exit: meta.object("terminal_exit").map(|exit| TerminalExit {
            exit_code: exit.get("exit_code").and_then(Value::as_i64),
            signal: exit.get("signal").and_then(Value::as_str).map(str::to_owned),
        }),
        closed_by: None,
    }
}

/// Converts our own struct of texts, numbers and JSON to a JSON object.
pub(crate) fn shown<T: Serialize>(fields: &T) -> Map<String, Value> {
    match serde_json::to_value(fields) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// A value that an agent sent.
struct AgentValue<'a>(&'a Value);

impl AgentValue<'_> {
    fn text(&self, name: &str) -> Option<String> {
        self.0[name].as_str().map(str::to_owned)
    }

    fn number(&self, name: &str) -> Option<Number> {
        self.0[name].as_number().cloned()
    }

    fn object(&self, name: &str) -> Option<Object> {
        self.0[name].as_object().cloned()
    }

    fn some(&self, name: &str) -> Option<Value> {
        self.0.get(name).filter(|value| !value.is_null()).cloned()
    }

    /// Returns a list, without entries that are not objects.
    fn objects(&self, name: &str) -> Option<Vec<Object>> {
        Some(self.0[name].as_array()?.iter().filter_map(Value::as_object).cloned().collect())
    }
}

/// Returns the command line in a tool call's `rawInput`: `command` or `cmd`, as text or as
/// a list of words.
fn command(raw_input: &Value) -> Option<String> {
    ["command", "cmd"].iter().find_map(|name| match &raw_input[*name] {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.filter(|words| !words.is_empty()).map(shell_words::join)
        }
        _ => None,
    })
}

/// Returns the tokens of a turn by name (`inputTokens`, `outputTokens`, `totalTokens`,
/// ...). They come from the `usage` of the prompt's response, or from the place in its
/// `_meta` that some agents use.
#[must_use]
pub fn usage_of_turn(usage: Option<&Value>, meta: Option<&Value>) -> Option<Value> {
    let quota = meta.map(|meta| &meta["quota"]["token_count"]);
    [usage, quota].into_iter().flatten().find_map(|counts| {
        let counts = counts.as_object()?.iter().filter_map(|(name, count)| match count {
            Value::Number(count) => Some((camel_case(name), count)),
            _ => None,
        });
        let counts: Map<String, Value> =
            counts.take(MAX_USAGE_ENTRIES).map(|(name, count)| (name, number(count))).collect();
        (!counts.is_empty()).then(|| counts.into())
    })
}

fn number(count: &Number) -> Value {
    count.clone().into()
}

/// Converts `input_tokens` to `inputTokens`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut joined = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        joined.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        joined.push_str(letters.as_str());
    }
    joined
}

#[cfg(test)]
mod tests;
