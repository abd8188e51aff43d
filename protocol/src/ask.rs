//! What the command line asks of an agent for a moment, without a worker: one [`Ask`] on the standard input of
//! `subagent-runtime ask`, and [`Said`] by [`Said`] on its standard output, a line of JSON each.
//!
//! The input stays open for as long as the answer is wanted. It holds the environment of the agent and so is never
//! written anywhere.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::start::AgentCommand;

/// Everything that must be known to ask.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// The protocol of the command line.
    pub protocol: u32,
    /// The agent to run.
    pub agent: AgentCommand,
    /// Whether the agent's working directory was made for this alone and goes with its end.
    pub temporary_cwd: bool,
    /// What to ask.
    pub question: Question,
    /// Deadlines.
    pub deadlines: Deadlines,
}

/// What is asked, after `initialize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "q", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Question {
    /// What it is and offers: a session is made and closed.
    Handshake,
    /// To log somebody in.
    Login {
        /// The id of the method; `None` takes the only one.
        method: Option<String>,
    },
    /// To log everybody out.
    Logout,
    /// Its sessions.
    ListSessions {
        /// Only those of this folder.
        cwd: Option<String>,
    },
    /// To delete a session.
    DeleteSession {
        /// Which.
        session_id: String,
    },
}

/// Deadlines, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deadlines {
    /// From the start of the agent to its answer to `initialize`.
    pub initialize_ms: u64,
    /// For each request after it.
    pub request_ms: u64,
    /// For each step of the end.
    pub stop_grace_ms: u64,
}

/// One line of the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Said {
    /// What the agent wrote on its standard error; only while somebody is being logged in.
    Stderr {
        /// With U+FFFD for what is not UTF-8.
        text: String,
    },
    /// The last line: nothing is left of the agent.
    Done(Box<Answer>),
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    /// What was gone through, in order.
    pub phases: Vec<PhaseTime>,
    /// The answer to `initialize`.
    pub initialize: Option<Value>,
    /// The answer to `session/new`.
    pub session: Option<Value>,
    /// The agent's sessions, as it told them.
    pub sessions: Vec<Value>,
    /// Whether it has more than were taken.
    pub truncated: bool,
    /// The method by which somebody is logged in, as the agent told it.
    pub method: Option<Value>,
    /// Why it did not come to the end that was asked for.
    pub error: Option<Error>,
}

/// How long something took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// `spawn`, `initialize`, `session`, `authenticate`, `logout`, `list`, `delete`, `end`.
    pub phase: String,
    /// In milliseconds.
    pub millis: u64,
}

/// The standard ways to log in. What an agent offers besides cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginKind {
    /// The agent does it by itself when it is told to.
    Agent,
    /// The agent's program does it at a terminal.
    Terminal,
    /// Variables of the environment do it.
    EnvVar,
}

impl LoginKind {
    /// That of a method in `authMethods`; one that names no type is the agent's. A command for a terminal wins over all
    /// but the standard types that need no agent.
    #[must_use]
    pub fn of(method: &Value) -> Option<Self> {
        match method["type"].as_str() {
            Some("terminal") => Some(Self::Terminal),
            Some("env_var") => Some(Self::EnvVar),
            _ if terminal_command(method).is_some() => Some(Self::Terminal),
            Some("agent") => Some(Self::Agent),
            None if method["type"].is_null() => Some(Self::Agent),
            _ => None,
        }
    }
}

/// The command that a method of an older kind wants run at a terminal: `_meta["terminal-auth"]`, with `command`, and
/// perhaps `args` and `env`. A method of the type `terminal` names none: there it is the agent's own.
#[must_use]
pub fn terminal_command(method: &Value) -> Option<&Value> {
    let command = &method["_meta"][TERMINAL_AUTH];
    let named = command["command"].as_str().is_some_and(|program| !program.trim().is_empty());
    (named && method["type"] != "terminal").then_some(command)
}

/// The key in `_meta` of a method, and of the client's capabilities if it understands it.
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
        let line = serde_json::to_string(&Said::Stderr { text: "x".to_owned() }).unwrap();
        assert_eq!(line, r#"{"t":"stderr","text":"x"}"#);
        let question = Question::DeleteSession { session_id: "s".to_owned() };
        assert_eq!(serde_json::to_string(&question).unwrap(), r#"{"q":"deleteSession","sessionId":"s"}"#);
        let done: Said = serde_json::from_str(r#"{"t":"done","phases":[],"newer":1}"#).unwrap();
        assert!(matches!(done, Said::Done(answer) if *answer == Answer::default()));
    }
}
