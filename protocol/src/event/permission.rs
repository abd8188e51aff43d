//! The subject of a permission request, from all of the agent's data about its tool call. Pure.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::ApprovalOption;
use crate::clean::one_line;
use crate::fields;
use crate::lenient::{self, Lenient};

/// Maximum number of characters of a command, path or address in a sentence.
const MAX_SUBJECT_CHARS: usize = 500;
/// The endings of a text that an agent shortened.
const ELLIPSES: [&str; 2] = ["...", "…"];
/// The keys that agents use for the path of a file, and for an address.
const PATHS: [&str; 6] = ["file_path", "path", "filePath", "filepath", "absolute_path", "notebook_path"];
const ADDRESSES: [&str; 2] = ["url", "uri"];

/// Adds earlier data that the request omits or shortens to its call.
pub(super) fn complete(call: &mut Map<String, Value>, earlier: Map<String, Value>) {
    for (name, value) in earlier {
        match call.get_mut(&name) {
            Some(Value::Object(current)) if name == "rawInput" => add_arguments(current, value),
            Some(Value::Array(current)) if name == "content" && !current.is_empty() => {
                add_parts(current, value)
            }
            Some(current) if name == "kind" && *current == "other" => *current = value,
            Some(current) if !fields::says_nothing(current) && !shortens(current, &value) => {}
            _ => drop(call.insert(name, value)),
        }
    }
}

fn add_arguments(current: &mut Map<String, Value>, earlier: Value) {
    let Value::Object(earlier) = earlier else { return };
    for (name, value) in earlier {
        if current.get(&name).is_none_or(|current| fields::says_nothing(current) || shortens(current, &value))
        {
            current.insert(name, value);
        }
    }
}

/// A request with a diff shows its whole subject. Another one may contain a summary of data that
/// its call has in full.
fn add_parts(current: &mut Vec<Value>, earlier: Value) {
    let Value::Array(earlier) = earlier else { return };
    if !current.iter().any(is_diff) {
        let new: Vec<Value> = earlier.into_iter().filter(|part| !current.contains(part)).collect();
        current.extend(new);
    }
}

/// The tool call of a request, as far as its sentence is made of it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PermissionCall<'a> {
    #[serde(borrow)]
    kind: Lenient<&'a str>,
    title: Lenient<&'a str>,
    raw_input: Value,
    content: Value,
    locations: Value,
}

/// A part of its content, or a location.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PermissionPlace {
    #[serde(rename = "type")]
    kind: Value,
    path: Value,
}

/// The params of `session/request_permission`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PermissionAsk {
    pub(super) tool_call: Value,
    pub(super) options: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PermissionOption {
    option_id: Lenient<String>,
    name: Lenient<String>,
    kind: Lenient<String>,
}

/// The possible answers; an entry without an id is none.
pub(super) fn options(options: &Value) -> Vec<ApprovalOption> {
    let option = |entry: &Value| {
        let PermissionOption { option_id, name, kind } = lenient::read(entry);
        let id = option_id.0?;
        let (alias, label) = (id.to_lowercase(), name.0.unwrap_or_else(|| id.clone()));
        Some(ApprovalOption { id, alias, label, kind: kind.0 })
    };
    options.as_array().into_iter().flatten().filter_map(option).collect()
}

fn is_diff(part: &Value) -> bool {
    lenient::read::<PermissionPlace>(part).kind == "diff"
}

/// Whether a text is the beginning of another one, with an ellipsis.
fn shortens(current: &Value, earlier: &Value) -> bool {
    let (Some(current), Some(earlier)) = (current.as_str(), earlier.as_str()) else { return false };
    let stem = ELLIPSES.iter().find_map(|ellipsis| current.trim_end().strip_suffix(ellipsis));
    stem.is_some_and(|stem| {
        !stem.trim().is_empty() && earlier.len() > stem.len() && earlier.starts_with(stem)
    })
}

/// Returns a sentence for people: the kind of tool and its action.
pub(super) fn message(call: &Value) -> String {
    let PermissionCall { kind, title, .. } = lenient::read(call);
    let kind = kind.0.unwrap_or("other");
    let title = title.0.map(str::trim).filter(|title| !title.is_empty());
    let subject = subject(call).filter(|subject| title.is_none_or(|title| !names(title, subject)));
    let words: Vec<&str> = title.into_iter().chain(subject.as_deref()).collect();
    match words.as_slice() {
        [] => format!("Permission requested for {kind}"),
        words => format!("Permission requested for {kind}: {}", words.join(": ")),
    }
}

/// Whether a title already names the subject, or just the file's name.
fn names(title: &str, subject: &str) -> bool {
    let name = subject.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(subject);
    title.contains(subject)
        || (subject.starts_with('/') && title.contains(name))
        || one_line(title) == subject
}

/// Returns the command, the file or the address.
fn subject(call: &Value) -> Option<String> {
    let PermissionCall { raw_input: input, content, locations, .. } = lenient::read(call);
    let text = |value: &Value| value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let place = |part: &Value| text(&lenient::read::<PermissionPlace>(part).path);
    let command = fields::of_request(call).remove("command").and_then(|command| text(&command));
    let file = || PATHS.iter().find_map(|key| text(&input[*key]));
    let changed = || content.as_array()?.iter().filter(|part| is_diff(part)).find_map(place);
    let located = || locations.as_array()?.iter().find_map(place);
    let address = || ADDRESSES.iter().find_map(|key| text(&input[*key]));
    let subject = command.or_else(file).or_else(changed).or_else(located).or_else(address)?;
    Some(one_line(&subject).chars().take(MAX_SUBJECT_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn completed(call: Value, earlier: Value) -> Value {
        let (Value::Object(mut call), Value::Object(earlier)) = (call, earlier) else { panic!("objects") };
        complete(&mut call, earlier);
        Value::Object(call)
    }

    #[test]
    fn omitted_and_shortened_data_is_completed_from_earlier_data() {
        let earlier = json!({"kind": "execute", "title": "Run", "rawInput": {"command": "cargo test --workspace", "cwd": "/w"},
                          "content": [{"type": "diff", "path": "/w/a"}]});
        let asked = json!({"kind": "other", "title": "Bash", "rawInput": {"command": "cargo te..."},
                           "content": [{"type": "content"}]});
        let expected = json!({"kind": "execute", "title": "Bash",
                              "rawInput": {"command": "cargo test --workspace", "cwd": "/w"},
                              "content": [{"type": "content"}, {"type": "diff", "path": "/w/a"}]});
        assert_eq!(completed(asked, earlier.clone()), expected);
        let input = json!({"type": "content", "content": {"type": "text", "text": "{\"path\":\"a\",\"content\":\"new\"}"}});
        let summary = json!({"type": "content", "content": {"type": "text", "text": "Writing a"}});
        let found = completed(json!({"content": [summary]}), json!({"content": [summary, input]}));
        assert_eq!(found["content"], json!([summary, input]));
        let other = json!({"kind": "read", "title": "x", "rawInput": {"command": "ls..."}, "content": null});
        let found = completed(other, earlier);
        assert_eq!((&found["kind"], &found["rawInput"]["command"]), (&json!("read"), &json!("ls...")));
        assert_eq!(found["content"][0]["type"], "diff");
    }

    #[test]
    fn the_sentence_names_the_command_the_file_or_the_address() {
        let table = [
            (json!({}), "Permission requested for other"),
            (
                json!({"title": "Bash", "rawInput": {"command": "rm x"}}),
                "Permission requested for other: Bash: rm x",
            ),
            (
                json!({"kind": "execute", "title": "rm x", "rawInput": {"command": "rm x"}}),
                "Permission requested for execute: rm x",
            ),
            (
                json!({"kind": "edit", "title": "Write a.txt", "locations": [{"path": "/w/a.txt"}]}),
                "Permission requested for edit: Write a.txt",
            ),
            (
                json!({"kind": "edit", "title": "Write", "rawInput": {"file_path": "/w/a.txt"}}),
                "Permission requested for edit: Write: /w/a.txt",
            ),
            (
                json!({"kind": "edit", "content": [{"type": "diff", "path": "/w/b"}]}),
                "Permission requested for edit: /w/b",
            ),
            (
                json!({"kind": "fetch", "title": "Fetch", "rawInput": {"url": "https://x.example"}}),
                "Permission requested for fetch: Fetch: https://x.example",
            ),
        ];
        for (call, expected) in table {
            assert_eq!(message(&call), expected);
        }
    }
}
