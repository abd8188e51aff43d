//! The fields of a `progress.update`, kind by kind; `docs/events.md` is the same as a table.
//!
//! Only what has the expected type is taken over, everything else stays in the raw text: whoever reads a field need
//! not look at its type. Nothing here fails.

use serde_json::{Map, Number, Value};

use crate::update::text;

/// More entries than these in what an agent says of its tokens are not shown.
const MOST_USAGE_ENTRIES: usize = 32;

/// The fields of a `progress.update` of this kind, from the `params` of the notification.
#[must_use]
pub fn of(kind: &str, params: &Value) -> Map<String, Value> {
    let mut fields = Fields { update: &params["update"], taken: Map::new() };
    match kind {
        "tool_call" | "tool_call_update" => {
            fields.text("title", "title");
            fields.text("kind", "toolKind");
            fields.text("status", "status");
            fields.what_a_tool_does();
        }
        "plan" => fields.objects("entries"),
        "usage" => {
            fields.number("used");
            fields.number("size");
            fields.object("cost");
        }
        "mode" => fields.text("currentModeId", "currentModeId"),
        "available_commands" => fields.objects("availableCommands"),
        "config_option" => fields.objects("configOptions"),
        "session_info" => {
            fields.text("title", "title");
            fields.text("updatedAt", "updatedAt");
        }
        "thought" | "user_message" => {
            fields.taken.insert("text".to_owned(), text(params).into());
        }
        "agent_message_chunk" => fields.object("content"),
        _ => {}
    }
    fields.taken
}

/// The fields of a permission request that say what it is asked for, from the `toolCall` of its `params`.
#[must_use]
pub fn of_request(tool_call: &Value) -> Map<String, Value> {
    let mut fields = Fields { update: tool_call, taken: Map::new() };
    fields.what_a_tool_does();
    fields.taken
}

/// Whether a value is as good as none.
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

struct Fields<'a> {
    update: &'a Value,
    taken: Map<String, Value>,
}

impl Fields<'_> {
    fn take(&mut self, from: &str, to: &str, fits: impl Fn(&Value) -> bool) {
        if let Some(value) = self.update.get(from).filter(|value| fits(value)) {
            self.taken.insert(to.to_owned(), value.clone());
        }
    }

    fn what_a_tool_does(&mut self) {
        self.text("toolCallId", "toolCallId");
        self.objects("locations");
        self.objects("content");
        self.some("rawInput");
        if let Some(command) = command(&self.update["rawInput"]) {
            self.taken.insert("command".to_owned(), command.into());
        }
    }

    fn text(&mut self, from: &str, to: &str) {
        self.take(from, to, Value::is_string);
    }

    fn number(&mut self, name: &str) {
        self.take(name, name, Value::is_number);
    }

    fn object(&mut self, name: &str) {
        self.take(name, name, Value::is_object);
    }

    fn some(&mut self, name: &str) {
        self.take(name, name, |value| !value.is_null());
    }

    /// A list; what is no object in it is left out.
    fn objects(&mut self, name: &str) {
        if let Some(items) = self.update.get(name).and_then(Value::as_array) {
            let objects: Vec<Value> = items.iter().filter(|item| item.is_object()).cloned().collect();
            self.taken.insert(name.to_owned(), objects.into());
        }
    }
}

/// The command line in a tool call's `rawInput`: `command` or `cmd`, as text or as a list of words.
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

/// What a turn cost in tokens, from the `usage` of the prompt's response, or else from the place in its `_meta` where
/// some agents have it: numbers by their names (`inputTokens`, `outputTokens`, `totalTokens`, ...).
#[must_use]
pub fn usage_of_turn(usage: Option<&Value>, meta: Option<&Value>) -> Option<Value> {
    let quota = meta.map(|meta| &meta["quota"]["token_count"]);
    [usage, quota].into_iter().flatten().find_map(|counts| {
        let counts = counts.as_object()?.iter().filter_map(|(name, count)| match count {
            Value::Number(count) => Some((camel_case(name), count)),
            _ => None,
        });
        let counts: Map<String, Value> =
            counts.take(MOST_USAGE_ENTRIES).map(|(name, count)| (name, number(count))).collect();
        (!counts.is_empty()).then(|| counts.into())
    })
}

fn number(count: &Number) -> Value {
    count.clone().into()
}

/// `input_tokens` as `inputTokens`.
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
