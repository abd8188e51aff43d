//! Texts about a result that does not fit its schema: the repeated request to the agent, and the
//! error for the caller. Pure.

use subagent_protocol::clean::one_line;

use super::beginning;

use serde_json::Value;
use subagent_protocol::{Code, Error};

/// Maximum number of reported errors.
const MAX_REPORTED: usize = 5;

/// Maximum length of a path or message of an error, in characters.
const MAX_CHARS: usize = 300;

/// Returns path and message of the first errors. Each error is `{message, path}`.
fn first(errors: &[Value]) -> impl Iterator<Item = (String, String)> {
    let reported = |value: &Value| one_line(beginning(value.as_str().unwrap_or_default(), MAX_CHARS));
    errors.iter().take(MAX_REPORTED).map(move |error| (reported(&error["path"]), reported(&error["message"])))
}

fn line((path, message): (String, String)) -> String {
    if path.is_empty() { message } else { format!("at {path}: {message}") }
}

/// Returns the prompt that asks the agent for the result again.
#[must_use]
pub fn asked_again(errors: &[Value], schema: &Value) -> String {
    let wrong: Vec<String> = first(errors).map(|error| format!("- {}", line(error))).collect();
    format!(
        "Your last message is the result of this task, and does not fit the JSON Schema that it has to meet:\n{}\n\n\
         Say the result once more, as JSON that fits: nothing else, or in one code block that is marked json. You are asked \
         once. The schema:\n\n```json\n{schema:#}\n```",
        wrong.join("\n")
    )
}

/// Returns the error of a task whose result does not fit.
#[must_use]
pub fn not_met(errors: &[Value], why: &str) -> Error {
    let all: Vec<(String, String)> = first(errors).collect();
    let shown = all.first().cloned().map(line).unwrap_or_default();
    let message = format!("the result does not match its schema, {why}: {shown}");
    let reported: Vec<Value> = all
        .into_iter()
        .map(|(path, message)| serde_json::json!({"message": message, "path": path}))
        .collect();
    Error::new(Code::ResultSchemaNotMet, message).with("errors", reported)
}
