//! Plain text for people: `key: value` lines and tab-separated rows. Pure.

use serde::Serialize;
use serde_json::Value;
use subagent_protocol::state::WorkerState;

use super::json;

/// A value as text: strings as they are, null as nothing, everything else as JSON.
#[must_use]
pub fn value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => json::line(other.clone()),
    }
}

/// The same as a part of a line: labels and roles are free text, and one of them must not look like another line or column.
fn cell(found: &Value) -> String {
    plain(&value(found))
}

/// Free text as a part of a line.
#[must_use]
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// `key: value` lines of these keys, in this order; a key that the data lack is left out.
#[must_use]
pub fn fields(data: &Value, keys: &[&str]) -> String {
    let lines: Vec<String> = keys
        .iter()
        .filter_map(|key| data.get(*key).map(|found| format!("{key}: {}", cell(found))))
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// `key: value` lines of all fields, in their order; a field without a value is left out.
#[must_use]
pub fn lines(fields: &impl Serialize) -> String {
    let fields = match serde_json::to_value(fields) {
        Ok(Value::Object(fields)) => fields,
        _ => return String::new(),
    };
    let given = fields.iter().filter(|(_, found)| !found.is_null() && *found != "");
    given
        .map(|(key, found)| format!("{key}: {}", cell(found)).trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// One line for each of `data.items`, its `keys` separated by tabs; `none` if there are no items.
#[must_use]
pub fn rows(data: &Value, keys: &[&str], none: &str) -> String {
    let items = data.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return none.to_owned();
    }
    let row = |item: &Value| keys.iter().map(|key| marked(item, key)).collect::<Vec<_>>().join("\t");
    items.iter().map(row).collect::<Vec<_>>().join("\n")
}

/// The cell of a key. What a worker was doing when its place was last heard is not its state now.
fn marked(item: &Value, key: &str) -> String {
    let shown = cell(item.get(key).unwrap_or(&Value::Null));
    let is_marked =
        matches!(key, "state" | "status") && item.get("unreachable").is_some_and(Value::is_object);
    mark(shown, is_marked)
}

/// The state of a worker, whose place may not answer.
#[must_use]
pub fn state(state: WorkerState, is_unreachable: bool) -> String {
    mark(state.as_str().to_owned(), is_unreachable)
}

fn mark(state: String, is_unreachable: bool) -> String {
    if is_unreachable { format!("{state} (unreachable)") } else { state }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_show_null_as_nothing_and_lists_as_json() {
        let data = json!({"a": "x", "b": null, "c": ["p", 1], "d": {"k": "v"}});
        assert_eq!(fields(&data, &["d", "c", "b", "a", "e"]), "d: {\"k\": \"v\"}\nc: [\"p\", 1]\nb:\na: x");
    }

    #[test]
    fn rows_have_tabs_or_a_word_for_none() {
        let data = json!({"items": [{"id": "w_1", "state": "idle"}, {"id": "w_2"}]});
        assert_eq!(rows(&data, &["id", "state"], "(none)"), "w_1\tidle\nw_2\t");
        assert_eq!(rows(&json!({"items": []}), &["id"], "(none)"), "(none)");
        let silent = json!({"items": [{"id": "w_1", "state": "running", "unreachable": {"since": "x"}}]});
        assert_eq!(rows(&silent, &["id", "state"], "(none)"), "w_1\trunning (unreachable)");
        let evil = json!({"items": [{"id": "a\tb\n\u{1b}c", "state": "idle"}], "id": "x\ny: z"});
        assert_eq!(rows(&evil, &["id", "state"], "(none)"), "a b  c\tidle");
        assert_eq!(fields(&evil, &["id"]), "id: x y: z");
    }
}
