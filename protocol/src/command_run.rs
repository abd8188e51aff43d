//! One run of a command of the user: what `subagent-runtime command` reads from its standard input and writes to its
//! standard output, as one line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bytes64::Bytes64;

/// What to run, and how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRun {
    /// The program, looked up in the `PATH` of `env`, and its arguments.
    pub argv: Vec<String>,
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: Vec<(Bytes64, Bytes64)>,
    /// What it reads from its standard input.
    pub stdin: String,
    /// The deadline in milliseconds. After it, the command is killed with its descendants.
    pub timeout_ms: u64,
    /// Bytes of each output that are kept; the rest is read and dropped.
    pub max_output_bytes: usize,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandResult {
    /// How the program ended.
    pub end: CommandEnd,
    /// The beginning of its standard output, lossily as UTF-8.
    pub stdout: String,
    /// The beginning of its standard error, lossily as UTF-8.
    pub stderr: String,
    /// Whether an output was longer than the limit.
    pub truncated: bool,
}

/// How the program of a run ended. Its descendants have ended in every case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum CommandEnd {
    /// It exited.
    Exited {
        /// Its exit status.
        code: i32,
    },
    /// A signal of someone else ended it.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// It was killed at the deadline.
    TimedOut,
    /// It could not be started.
    NotStarted {
        /// What the system said.
        error: String,
    },
}
