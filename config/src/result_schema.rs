//! Validates the JSON in a result against a JSON Schema. Must not fetch referenced schemas.
//! Untrusted schemas go through [`ResultSchema::bounded`]. Validation recurses and its time is not
//! limited: callers need [`STACK_BYTES`] and a timeout.

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

/// Maximum size of a definition's schema as JSON in bytes, and its maximum nesting.
pub const MAX_SCHEMA_BYTES: usize = 32 * 1024;
const MAX_SCHEMA_DEPTH: usize = 64;
/// Maximum memory of a compiled pattern in a definition's schema, in bytes.
const MAX_PATTERN_MEMORY: usize = 64 * 1024;
/// Enough stack for the deepest schema, with references, and the deepest JSON.
pub const STACK_BYTES: usize = 256 * 1024 * 1024;
/// Maximum number of reported errors.
const MAX_ERRORS: usize = 20;
/// Maximum length of a reported error in characters.
const MAX_ERROR_CHARS: usize = 500;

/// References. With `unevaluated*`, the time doubles with each reference.
const LEADS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct ResultSchema(Validator);

/// The reason why a value is not a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// The place as a JSON pointer; empty for the root.
    pub at: String,
    /// Description of the problem.
    pub error: String,
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = if self.at.is_empty() { "its top" } else { &self.at };
        write!(f, "is not a JSON Schema at {at}: {}", self.error)
    }
}

/// The result of a validation.
#[derive(Debug, PartialEq)]
pub struct ResultValidation {
    /// The JSON in the message; null if there is none.
    pub result: Value,
    /// The errors as `{message, path}`; empty if the result is valid.
    pub errors: Vec<Value>,
}

impl ResultSchema {
    /// Compiles a trusted schema.
    ///
    /// # Errors
    /// The value is not a schema, or refers to another document.
    pub fn of(schema: &Value) -> Result<Self, SchemaError> {
        jsonschema::options().offline().build(schema).map(Self).map_err(SchemaError::of)
    }

    /// Compiles an untrusted schema.
    ///
    /// # Errors
    /// Those of [`ResultSchema::of`], a schema that is too large, or a pattern without a linear time bound.
    pub fn bounded(schema: &Value) -> Result<Self, SchemaError> {
        let too = |error: String| SchemaError { at: String::new(), error };
        if is_deeper(schema, MAX_SCHEMA_DEPTH) {
            return Err(too(format!("its parts lie more than {MAX_SCHEMA_DEPTH} deep in each other")));
        }
        if has_key(schema, &["unevaluatedItems", "unevaluatedProperties"]) && has_key(schema, &LEADS) {
            let advice = "say what may be there with `items`, `properties` and `additionalProperties`";
            return Err(too(format!(
                "`unevaluatedItems` and `unevaluatedProperties` are not read beside a `$ref`; {advice}"
            )));
        }
        let bytes = schema.to_string().len();
        if bytes > MAX_SCHEMA_BYTES {
            return Err(too(format!("it has {bytes} bytes as JSON; at most {MAX_SCHEMA_BYTES} are read")));
        }
        let patterns =
            PatternOptions::regex().size_limit(MAX_PATTERN_MEMORY).dfa_size_limit(MAX_PATTERN_MEMORY);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        with_stack(|| options.build(schema).map(Self).map_err(SchemaError::of))
            .unwrap_or_else(|why| Err(too(why)))
    }

    /// Validates the JSON in a message.
    #[must_use]
    pub fn check(&self, message: &str) -> ResultValidation {
        let result = match json_of(message) {
            Ok(result) => result,
            Err(problem) => {
                return ResultValidation {
                    result: Value::Null,
                    errors: vec![json!({"message": problem, "path": ""})],
                };
            }
        };
        // Listing errors takes memory per step; a plain check does not.
        if self.0.is_valid(&result) {
            return ResultValidation { result, errors: Vec::new() };
        }
        let error = |error: jsonschema::ValidationError<'_>| {
            let message: String = error.masked().to_string().chars().take(MAX_ERROR_CHARS).collect();
            let path: String = error.instance_path().to_string().chars().take(MAX_ERROR_CHARS).collect();
            json!({"message": message, "path": path})
        };
        let errors = self.0.iter_errors(&result).take(MAX_ERRORS).map(error).collect();
        ResultValidation { result, errors }
    }
}

impl SchemaError {
    fn of(error: jsonschema::ValidationError<'_>) -> Self {
        let text: String = error.to_string().chars().take(MAX_ERROR_CHARS).collect();
        Self { at: error.instance_path().to_string(), error: text }
    }
}

/// Whether one of the keys occurs at any depth.
fn has_key(value: &Value, keys: &[&str]) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| has_key(item, keys)),
        Value::Object(entries) => {
            entries.iter().any(|(key, entry)| keys.contains(&key.as_str()) || has_key(entry, keys))
        }
        _ => false,
    }
}

/// Runs a function on a thread with [`STACK_BYTES`] of stack.
///
/// # Errors
/// The thread cannot start, or panics.
pub fn with_stack<T: Send>(read: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, read);
        reader
            .map_err(|error| format!("it cannot be read: {error}"))
            .and_then(|thread| thread.join().map_err(|_| "its reader failed".to_owned()))
    })
}

/// Whether the nesting is deeper than `most`.
fn is_deeper(value: &Value, most: usize) -> bool {
    let Some(left) = most.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, left)),
        Value::Object(entries) => entries.values().any(|entry| is_deeper(entry, left)),
        _ => false,
    }
}

/// Returns the JSON in a message: all of it, its only fenced block, or its only block marked `json`.
fn json_of(message: &str) -> Result<Value, String> {
    let whole = match serde_json::from_str(message.trim()) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let blocks = fenced(message);
    let marked: Vec<&CodeBlock<'_>> = blocks.iter().filter(|block| block.is_json).collect();
    let only = match (&marked[..], &blocks[..]) {
        (&[only], _) | ([], [only]) => only,
        ([], []) => return Err(format!("the message is not JSON ({whole}) and has no code block")),
        _ => {
            return Err("the message has several code blocks; mark one of them, and only one, as json".into());
        }
    };
    serde_json::from_str(only.text)
        .map_err(|error| format!("the code block in line {} is not JSON: {error}", only.line))
}

/// A code block between lines of at least three backticks.
struct CodeBlock<'a> {
    is_json: bool,
    text: &'a str,
    line: usize,
}

fn fenced(message: &str) -> Vec<CodeBlock<'_>> {
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
                blocks.push(CodeBlock { is_json, text: &message[from..begins], line: first });
                open = None;
            }
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests;
