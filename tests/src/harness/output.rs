//! The output of a command, and the contract's requirements for every output.

use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Map, Value};

/// The result of a command that has ended.
#[derive(Debug, Clone)]
#[must_use]
pub struct Output {
    /// The command, for display.
    pub command: String,
    /// How the command ended.
    pub status: ExitStatus,
    /// Its complete standard output.
    pub stdout: String,
    /// Its complete standard error.
    pub stderr: String,
    /// The duration of the command.
    pub elapsed: Duration,
}

impl Output {
    /// Returns the data of a success with `--json`.
    ///
    /// # Panics
    ///
    /// If it failed, or its output violates the contract.
    #[track_caller]
    pub fn data(&self) -> Value {
        assert_eq!(self.status.code(), Some(0), "it should have succeeded\n{self}");
        let mut envelope = self.document();
        assert_eq!((&envelope["schemaVersion"], &envelope["ok"]), (&"v1".into(), &true.into()), "{self}");
        envelope["data"].take()
    }

    /// Returns the data of a success with `--json` of this type.
    ///
    /// # Panics
    ///
    /// Like [`Output::data`], and if the type differs.
    #[track_caller]
    pub fn data_of(&self, kind: &str) -> Value {
        let data = self.data();
        assert_eq!(self.document()["type"], kind, "{self}");
        data
    }

    /// Returns the error of a failure with `--json`: `{code, message, retryable, details}`.
    ///
    /// # Panics
    ///
    /// If it did not fail with this code, or its output violates the contract.
    #[track_caller]
    pub fn error(&self, code: &str) -> Value {
        let error = self.any_error();
        assert_eq!(error["code"], code, "{self}");
        error
    }

    /// Returns the error of a failure with `--json`, with any code.
    ///
    /// # Panics
    ///
    /// If it did not fail, or its output violates the contract.
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

    /// Returns the only document on stdout: one line, sorted keys, `", "` and `": "` as
    /// separators, no unnecessary escapes.
    ///
    /// # Panics
    ///
    /// If stdout contains anything else.
    #[track_caller]
    pub fn document(&self) -> Value {
        let line = self.stdout.strip_suffix('\n').unwrap_or_else(|| panic!("no line end\n{self}"));
        let document: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error}\n{self}"));
        assert_eq!(line, as_in_the_contract(&document), "not formatted as the contract requires");
        document
    }

    /// Parses the lines of an NDJSON stream.
    ///
    /// # Panics
    ///
    /// If a line is not JSON.
    #[must_use]
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{self}"));
        self.stdout.lines().map(parse).collect()
    }

    /// Returns the standard output of a success.
    ///
    /// # Panics
    ///
    /// If the command failed.
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

/// Formats JSON as the contract requires, independently of the product.
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
