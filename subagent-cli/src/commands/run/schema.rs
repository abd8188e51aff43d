//! The JSON Schema of `--result-schema`, and the JSON in a message that is held against it. Nothing is fetched for it.

use std::path::Path;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::context::path_value;
use crate::failure::{Failure, Result};
use crate::input::read_text;

/// More errors of a result are not listed.
const MOST_ERRORS: usize = 20;

/// A schema that can be held against something.
pub(super) struct Schema(Validator);

/// What came of it.
#[derive(Debug, PartialEq)]
pub(super) struct Checked {
    /// The JSON in the message; null if there is none.
    pub(super) result: Value,
    /// What is wrong with it: `{message, path}`; none if it is right.
    pub(super) errors: Vec<Value>,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// `INVALID_INPUT{path,error,line,column}` for a file that is no JSON, `INVALID_INPUT{path,error,position}` for JSON
    /// that is no schema.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let schema: Value = serde_json::from_str(&read_text(path)?).map_err(|error| {
            Failure::input(format!("--result-schema {} is not JSON: {error}", path.display()))
                .with("path", path_value(path))
                .with("error", error.to_string())
                .with("line", error.line())
                .with("column", error.column())
        })?;
        let no_schema = |at: String, error: String| {
            let shown = if at.is_empty() { "its top" } else { &at };
            let message = format!("--result-schema {} is no JSON Schema at {shown}: {error}", path.display());
            Failure::input(message)
                .with("path", path_value(path))
                .with("error", error)
                .with("position", at)
                .recommend("correct the schema; a `$ref` has to lead to a place inside the file")
        };
        match jsonschema::validator_for(&schema) {
            Ok(validator) => Ok(Self(validator)),
            Err(error) => Err(no_schema(error.instance_path().to_string(), error.to_string())),
        }
    }

    /// Holds a message against it.
    pub(super) fn check(&self, message: &str) -> Checked {
        let result = match json_of(message) {
            Ok(result) => result,
            Err(problem) => {
                return Checked {
                    result: Value::Null,
                    errors: vec![json!({"message": problem, "path": ""})],
                };
            }
        };
        let error = |error: jsonschema::ValidationError<'_>| {
            let message: String = error.masked().to_string().chars().take(500).collect();
            json!({"message": message, "path": error.instance_path().to_string()})
        };
        let errors = self.0.iter_errors(&result).take(MOST_ERRORS).map(error).collect();
        Checked { result, errors }
    }
}

/// The JSON in a message: the whole of it, or its only fenced block, or the only one that is marked `json`.
fn json_of(message: &str) -> std::result::Result<Value, String> {
    let whole = match serde_json::from_str(message.trim()) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let blocks = fenced(message);
    let marked: Vec<&Block<'_>> = blocks.iter().filter(|block| block.is_json).collect();
    let only = match (&marked[..], &blocks[..]) {
        (&[only], _) | ([], [only]) => only,
        ([], []) => return Err(format!("the message is no JSON ({whole}) and has no code block")),
        _ => {
            return Err("the message has several code blocks; mark one of them, and only one, as json".into());
        }
    };
    serde_json::from_str(only.text)
        .map_err(|error| format!("the code block in line {} is no JSON: {error}", only.line))
}

/// A code block between lines of at least three backticks.
struct Block<'a> {
    is_json: bool,
    text: &'a str,
    line: usize,
}

fn fenced(message: &str) -> Vec<Block<'_>> {
    let ticks = |line: &str| line.len() - line.trim_start_matches('`').len();
    let (mut blocks, mut open, mut at) = (Vec::new(), None, 0);
    for (number, line) in message.split_inclusive('\n').enumerate() {
        let begins = at;
        at += line.len();
        let line = line.trim();
        let count = ticks(line);
        match open {
            None if count >= 3 => {
                let mark = line[count..].split_whitespace().next().unwrap_or_default();
                open = Some((count, at, mark.eq_ignore_ascii_case("json"), number + 1));
            }
            Some((fence, from, is_json, first)) if count >= fence && count == line.len() => {
                blocks.push(Block { is_json, text: &message[from..begins], line: first });
                open = None;
            }
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schema(text: &str) -> Result<Schema> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("schema.json");
        std::fs::write(&path, text).unwrap();
        Schema::read(&path)
    }

    #[test]
    fn the_json_is_found_where_it_may_be() {
        let one = json!({"a": 1});
        for message in [
            "{\"a\": 1}",
            " \n{\"a\": 1}\n",
            "Here it is:\n```json\n{\"a\": 1}\n```\nBye.",
            "```\n{\"a\": 1}\n```",
            "````JSON title\n{\"a\":\n1}\n````",
            "```sh\nls\n```\nand\n```json\n{\"a\": 1}\n```\n",
        ] {
            assert_eq!(json_of(message).as_ref(), Ok(&one), "{message}");
        }
        for (message, why) in [
            ("I did it.", "has no code block"),
            ("", "has no code block"),
            ("```json\n{\"a\": 1}", "has no code block"),
            ("x\n```json\n{a}\n```", "line 2"),
            ("```json\n1\n```\n```json\n2\n```", "several"),
            ("```\n1\n```\n```\n2\n```", "several"),
        ] {
            let error = json_of(message).unwrap_err();
            assert!(error.contains(why), "{message}: {error}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        let failure = schema("{\n  \"type\": object\n}").err().unwrap();
        assert_eq!(
            (&failure.details["line"], failure.details["column"].as_u64() > Some(0)),
            (&json!(2), true)
        );
        let failure = schema(r#"{"properties": {"a": {"type": "objekt"}}}"#).err().unwrap();
        assert_eq!(failure.details["position"], "/properties/a/type", "{failure}");
        for outside in ["https://example.com/schema.json", "file:///etc/passwd", "other.json"] {
            let failure = schema(&json!({"properties": {"a": {"$ref": outside}}}).to_string()).err().unwrap();
            assert!(failure.is(subagent_protocol::Code::InvalidInput), "{outside}: {failure}");
        }
        assert!(schema("true").is_ok() && schema("7").is_err());
    }

    #[test]
    fn what_is_wrong_with_a_result_is_listed() {
        let text = r#"{"type": "object", "required": ["verdict"], "properties": {"n": {"maximum": 3}}}"#;
        let schema = schema(text).unwrap();
        assert_eq!(schema.check(r#"{"verdict": "ok"}"#).errors, Vec::<Value>::new());
        let checked = schema.check(r#"{"n": 4}"#);
        let paths: Vec<&Value> = checked.errors.iter().map(|error| &error["path"]).collect();
        assert_eq!((paths.len(), checked.result), (2, json!({"n": 4})));
        assert!(paths.contains(&&json!("/n")) && paths.contains(&&json!("")));
        let none = schema.check("no JSON");
        assert_eq!((none.result, none.errors.len()), (Value::Null, 1));
    }

    proptest! {
        #[test]
        fn no_message_is_too_much(message in "[`a-z{}\" \n0-9:]{0,200}") {
            let _ = json_of(&message);
        }
    }
}
