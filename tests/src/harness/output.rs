//! What a command said, and what the contract wants of every output.

use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Map, Value};

/// The result of a command that has ended.
#[derive(Debug, Clone)]
#[must_use]
pub struct Output {
    /// The command, for people.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
}

impl Output {
    /// The data of a success with `--json`.
    ///
    /// # Panics
    /// When it is no success, or its output is not as the contract wants it.
    #[track_caller]
    pub fn data(&self) -> Value {
        assert_eq!(self.status.code(), Some(0), "it should have succeeded\n{self}");
        let mut envelope = self.document();
        assert_eq!((&envelope["schemaVersion"], &envelope["ok"]), (&"v1".into(), &true.into()), "{self}");
        envelope["data"].take()
    }

    /// The data of a success with `--json` of this type.
    ///
    /// # Panics
    /// As [`Output::data`], and when the type is another one.
    #[track_caller]
    pub fn data_of(&self, kind: &str) -> Value {
        let data = self.data();
        assert_eq!(self.document()["type"], kind, "{self}");
        data
    }

    /// The error of a failure with `--json`: `{code, message, retryable, details}`.
    ///
    /// # Panics
    /// When it is no failure with this code, or its output is not as the contract wants it.
    #[track_caller]
    pub fn error(&self, code: &str) -> Value {
        let error = self.any_error();
        assert_eq!(error["code"], code, "{self}");
        error
    }

    /// The error of a failure with `--json`, whatever its code.
    ///
    /// # Panics
    /// When it is no failure, or its output is not as the contract wants it.
    #[track_caller]
    pub fn any_error(&self) -> Value {
        assert_eq!(self.status.code(), Some(1), "it should have failed with exit code 1\n{self}");
        let mut envelope = self.document();
        assert_eq!((&envelope["ok"], &envelope["type"]), (&false.into(), &"error".into()), "{self}");
        let error = envelope["error"].take();
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{self}");
        assert!(error["retryable"].is_boolean(), "{self}");
        assert!(error.get("details").is_none_or(|details| details != &Value::Object(Map::new())), "{self}");
        error
    }

    /// The one document on stdout: one line, keys sorted, `", "` and `": "` between, nothing escaped without need.
    ///
    /// # Panics
    /// When stdout is anything else.
    #[track_caller]
    pub fn document(&self) -> Value {
        let line = self.stdout.strip_suffix('\n').unwrap_or_else(|| panic!("no line end\n{self}"));
        let document: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error}\n{self}"));
        assert_eq!(line, as_in_the_contract(&document), "not written as the contract wants it");
        document
    }

    /// The lines of an NDJSON stream.
    ///
    /// # Panics
    /// When a line is no JSON.
    #[must_use]
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{self}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The standard output of a success.
    ///
    /// # Panics
    /// When it is none.
    #[track_caller]
    pub fn text(&self) -> &str {
        assert_eq!(self.status.code(), Some(0), "it should have succeeded\n{self}");
        &self.stdout
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, status, stdout, stderr, elapsed } = self;
        write!(f, "$ {command}\n{status} after {elapsed:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// The contract's form, written once more and independently of the product.
fn as_in_the_contract(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(as_in_the_contract).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            let members: Vec<String> = members
                .into_iter()
                .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), as_in_the_contract(value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        plain => plain.to_string(),
    }
}
