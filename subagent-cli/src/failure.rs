//! The one error of all commands: what the error envelope holds and what a person reads on stderr.
//!
//! The code is text, not [`Code`]: an error of a daemon that is newer than this client passes through unchanged.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subagent_config::ConfigError;
use subagent_protocol::error::ErrorFacts;
use subagent_protocol::{Code, lenient};

/// The result of a command, or of one of its steps.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// An error with a stable code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Failure {
    /// The stable code of the error, such as `WORKER_BUSY`.
    pub code: Box<str>,
    /// What was wrong, where, and what to do next.
    pub message: String,
    /// Whether the same command may succeed later without a change.
    #[serde(default)]
    pub retryable: bool,
    /// Facts for programs; left out of the envelope if empty.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
    /// Whether the command line is at fault, `--input` included: the exit code is 2 then, else 1.
    #[serde(skip)]
    is_usage: bool,
}

/// An error as text. A newer daemon may know more codes.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct ErrorText<'a> {
    /// The code of the error; empty for a number of JSON-RPC.
    #[serde(deserialize_with = "lenient::or_default")]
    pub code: &'a str,
    /// The message of the error.
    #[serde(deserialize_with = "lenient::or_default")]
    pub message: &'a str,
}

impl Failure {
    /// An error that is not retryable and has no details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::of_code(code.as_str(), message)
    }

    /// The same with a code as text.
    pub fn of_code(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            retryable: false,
            details: Map::new(),
            is_usage: false,
        }
    }

    /// Wrong content of `--input`, of a text source or of `--blocks`.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidInput, message)
    }

    /// A flag with a value that makes no sense.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// A defect of this program, or a peer that breaks the protocol.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Returns the details that code acts on.
    #[must_use]
    pub fn facts(&self) -> ErrorFacts<'_> {
        ErrorFacts::of(&self.details)
    }

    /// Adds a fact, replacing one of the same name.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Says that trying again may help.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Marks the error as one after which the request may have been carried out.
    #[must_use]
    pub fn not_retryable(mut self) -> Self {
        self.retryable = false;
        self
    }

    /// Says what a person should do.
    #[must_use]
    pub fn recommend(self, action: impl Into<String>) -> Self {
        self.with("recommendedAction", action.into())
    }

    /// Says that the command line is at fault, as the parser of the command line does.
    #[must_use]
    pub fn wrong_usage(self) -> Self {
        self.wrong_usage_if(true)
    }

    /// The same if the form is not that of the contract, whose own mistakes in `--input` exit with 1.
    #[must_use]
    pub fn wrong_usage_if(mut self, is_new: bool) -> Self {
        self.is_usage = is_new;
        self
    }

    /// How a command that failed with this exits.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.is_usage { 2 } else { 1 }
    }

    /// Whether this is the error with this code.
    #[must_use]
    pub fn is(&self, code: Code) -> bool {
        &*self.code == code.as_str()
    }
}

impl From<subagent_protocol::Error> for Failure {
    fn from(error: subagent_protocol::Error) -> Self {
        Self {
            code: error.code.as_str().into(),
            message: error.message,
            retryable: error.retryable,
            details: error.details,
            is_usage: false,
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        subagent_protocol::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_code_of_a_newer_daemon_survives() {
        let text = r#"{"code":"NEW_CODE","message":"m","retryable":true,"details":{"a":1}}"#;
        let failure: Failure = serde_json::from_str(text).unwrap();
        assert_eq!(&*failure.code, "NEW_CODE");
        assert!(failure.retryable);
        assert_eq!(serde_json::to_string(&failure).unwrap(), text);
    }
}
