//! Questions of the command line to an agent without a worker. `subagent-runtime ask` reads one
//! [`AgentQuery`] from standard input and writes [`AgentQueryOutput`] lines to standard output, as
//! JSON.

// The input stays open while the answer is wanted. It contains the agent's environment and is
// therefore never stored.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::details::AuthStatus;
use crate::error::Error;
use crate::lenient::{self, Lenient};
use crate::start::AgentProgram;

/// Everything required for a question.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentQuery {
    /// Protocol version of the command line.
    pub protocol: u32,
    /// The agent to run.
    pub agent: AgentProgram,
    /// Whether the agent's working directory is temporary and removed at the end.
    pub temporary_cwd: bool,
    /// The question to ask.
    pub question: AgentQuestion,
    /// Deadlines of the requests.
    pub deadlines: Deadlines,
}

/// The question that follows `initialize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "q", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentQuestion {
    /// Identity and offers: opens and closes a session.
    Handshake,
    /// Logs the user in.
    Login {
        /// Id of the method; `None` uses the only one.
        method: Option<String>,
    },
    /// Logs all users out.
    Logout,
    /// Lists the agent's sessions.
    ListSessions {
        /// Only sessions of this folder.
        cwd: Option<String>,
    },
    /// Deletes one session of the agent.
    DeleteSession {
        /// Id of the session.
        session_id: String,
    },
}

/// Deadlines of a question, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deadlines {
    /// From the agent's start to its response to `initialize`.
    pub initialize_ms: u64,
    /// For each later request.
    pub request_ms: u64,
    /// For each step of the end.
    pub stop_grace_ms: u64,
}

/// One line of output.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentQueryOutput {
    /// The agent's stderr, only during a login.
    Stderr {
        /// With U+FFFD for invalid UTF-8.
        text: String,
    },
    /// The last line: no process of the agent is left.
    Done(Box<AgentQueryResult>),
}

/// The result of a question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentQueryResult {
    /// The completed phases, in order.
    pub phases: Vec<PhaseTime>,
    /// The response to `initialize`.
    pub initialize: Option<Value>,
    /// The response to `session/new`.
    pub session: Option<Value>,
    /// The agent's sessions, as it reported them.
    pub sessions: Vec<Value>,
    /// Whether there are more sessions than these.
    pub truncated: bool,
    /// The login method that was used, as reported by the agent.
    pub method: Option<Value>,
    /// The last login status that the agent reported by itself.
    pub auth_status: Option<AuthStatus>,
    /// Why the question failed.
    pub error: Option<Error>,
}

/// The duration of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// `spawn`, `initialize`, `session`, `authenticate`, `logout`, `list`, `delete`, `end`.
    pub phase: String,
    /// Duration in milliseconds, rounded down.
    pub millis: u64,
}

/// The standard login methods. Others cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginKind {
    /// The agent logs in by itself on request.
    Agent,
    /// The agent's program logs in at a terminal.
    Terminal,
    /// Environment variables provide the login.
    EnvVar,
}

/// A login method in `authMethods`, as an agent offers it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LoginMethod<'a> {
    /// The agent's id of it.
    #[serde(borrow)]
    pub id: Lenient<&'a str>,
    /// Name of the method for display.
    pub name: Lenient<&'a str>,
    /// Description of the method for display.
    pub description: Lenient<&'a str>,
    /// The method's `type`; null if it has none.
    #[serde(rename = "type")]
    pub kind: Value,
}

impl LoginKind {
    /// Returns the kind of a method in `authMethods`; one without a type is the agent's. A terminal
    /// command takes precedence over all but the standard types that need no agent.
    #[must_use]
    pub fn of(method: &Value) -> Option<Self> {
        let LoginMethod { kind, .. } = lenient::read(method);
        match kind.as_str() {
            Some("terminal") => Some(Self::Terminal),
            Some("env_var") => Some(Self::EnvVar),
            _ if terminal_command(method).is_some() => Some(Self::Terminal),
            Some("agent") => Some(Self::Agent),
            None if kind.is_null() => Some(Self::Agent),
            _ => None,
        }
    }
}

/// Returns the terminal command of an older kind of method: `_meta["terminal-auth"]`, with
/// `command`, and optionally `args` and `env`. A method of the type `terminal` has none: it uses
/// the agent's own command.
#[must_use]
pub fn terminal_command(method: &Value) -> Option<&Value> {
    let command = &method["_meta"][TERMINAL_AUTH];
    let named = command["command"].as_str().is_some_and(|program| !program.trim().is_empty());
    (named && method["type"] != "terminal").then_some(command)
}

/// The key in `_meta` of a method, and of the client's capabilities if it supports it.
pub const TERMINAL_AUTH: &str = "terminal-auth";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_type_of_a_method_may_be_missing_or_unknown() {
        assert_eq!(LoginKind::of(&json!({"id": "x"})), Some(LoginKind::Agent));
        assert_eq!(LoginKind::of(&json!({"id": "x", "type": "terminal"})), Some(LoginKind::Terminal));
        assert_eq!(LoginKind::of(&json!({"id": "x", "type": "env_var"})), Some(LoginKind::EnvVar));
        assert_eq!(LoginKind::of(&json!({"id": "x", "type": "_palm"})), None);
        assert_eq!(LoginKind::of(&json!({"id": "x", "type": 7})), None);
        let meta = json!({"terminal-auth": {"command": "agent", "args": ["login"]}});
        let older = json!({"id": "x", "_meta": meta});
        assert_eq!(LoginKind::of(&older), Some(LoginKind::Terminal));
        assert_eq!(terminal_command(&older).unwrap()["args"][0], "login");
        let both = json!({"id": "x", "type": "terminal", "_meta": meta});
        assert_eq!((LoginKind::of(&both), terminal_command(&both)), (Some(LoginKind::Terminal), None));
        for nothing in [json!(true), json!({"command": " "}), json!({"command": 7})] {
            let method = json!({"id": "x", "_meta": {"terminal-auth": nothing}});
            assert_eq!(LoginKind::of(&method), Some(LoginKind::Agent), "{method}");
        }
    }

    #[test]
    fn lines_look_as_agreed() {
        let line = serde_json::to_string(&AgentQueryOutput::Stderr { text: "x".to_owned() }).unwrap();
        assert_eq!(line, r#"{"t":"stderr","text":"x"}"#);
        let question = AgentQuestion::DeleteSession { session_id: "s".to_owned() };
        assert_eq!(serde_json::to_string(&question).unwrap(), r#"{"q":"deleteSession","sessionId":"s"}"#);
        let done: AgentQueryOutput = serde_json::from_str(r#"{"t":"done","phases":[],"newer":1}"#).unwrap();
        assert!(matches!(done, AgentQueryOutput::Done(answer) if *answer == AgentQueryResult::default()));
    }
}
