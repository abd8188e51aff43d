//! One run of a command of the user: the input and output of `subagent-runtime command`, as one
//! line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bytes64::Bytes64;

/// The command to run, and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRun {
    /// The program, looked up in the `PATH` of `env`, and its arguments.
    pub argv: Vec<String>,
    /// Absolute path of the working directory.
    pub cwd: PathBuf,
    /// The whole environment of the command.
    pub env: Vec<(Bytes64, Bytes64)>,
    /// The content of its standard input.
    pub stdin: String,
    /// The deadline in milliseconds. After it, the command is killed with its descendants.
    pub timeout_ms: u64,
    /// Number of bytes kept of each output; the rest is dropped.
    pub max_output_bytes: usize,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandResult {
    /// How the program ended.
    pub end: CommandEnd,
    /// The beginning of its standard output, as lossy UTF-8.
    pub stdout: String,
    /// The beginning of its standard error, as lossy UTF-8.
    pub stderr: String,
    /// Whether an output exceeded the limit.
    pub truncated: bool,
}

/// How the program of a run ended. Its descendants have ended in every case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum CommandEnd {
    /// The program exited by itself.
    Exited {
        /// Exit status of the program.
        code: i32,
    },
    /// Another process's signal ended it.
    Signaled {
        /// Number of the signal.
        signal: i32,
    },
    /// It was killed at the deadline.
    TimedOut,
    /// It could not be started.
    NotStarted {
        /// The system's error, as text.
        error: String,
    },
}
