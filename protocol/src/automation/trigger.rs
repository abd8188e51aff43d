//! Triggers: the occurrences that start work.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::state::words;

/// Maximum size of a payload, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;
/// Default number of seconds between two runs of a watched command.
pub const COMMAND_EVERY_SECONDS: u64 = 300;
/// Default deadline of one run of a watched command, in seconds.
pub const COMMAND_TIMEOUT_SECONDS: u64 = 60;
/// Default time without further changes after which changed files fire, in milliseconds.
pub const DEBOUNCE_MS: u64 = 2000;

/// Whether this is a SHA-256 as 64 lowercase hexadecimal digits.
#[must_use]
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

words! {
    /// How a turn or a task ended.
    EndStatus {
        /// The turn or the task succeeded.
        Completed = "completed",
        /// The turn or the task failed.
        Failed = "failed",
        /// The turn or the task was canceled.
        Canceled = "canceled",
    }
}

/// The occurrences that fire a trigger. A request (`trigger fire`) fires any trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum TriggerSource {
    /// Only requests fire it.
    Request {},
    /// The end of a task, or of each turn of a worker that is no task.
    #[serde(rename_all = "camelCase")]
    After {
        /// The worker: its id, its name, or a prefix of its id. The id is stored.
        worker: String,
        /// Only ends with this status; any if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<EndStatus>,
    },
    /// A command that runs in an interval. It fires when its standard output differs from that of
    /// the run before; the first run fires nothing.
    #[serde(rename_all = "camelCase")]
    Command {
        /// A command line for `sh -c`.
        command: String,
        /// Absolute path of its working directory.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        cwd: PathBuf,
        /// Seconds between two runs, 1 or more.
        #[serde(default = "every_seconds")]
        every_seconds: u64,
        /// Deadline of one run in seconds, 1 to 3600. After it, the command is killed.
        #[serde(default = "timeout_seconds")]
        timeout_seconds: u64,
    },
    /// Changed files below a folder.
    #[serde(rename_all = "camelCase")]
    Files {
        /// Absolute path of the folder.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        folder: PathBuf,
        /// Patterns of paths relative to the folder, 1 to 32. `*` matches no slash, `**` does.
        globs: Vec<String>,
        /// Milliseconds without further changes after which it fires, 10 to 3,600,000.
        #[serde(default = "debounce_ms")]
        debounce_ms: u64,
    },
    /// A POST with a token to `subagent panel`.
    #[serde(rename_all = "camelCase")]
    Webhook {
        /// SHA-256 of the token, as lowercase hexadecimal digits. Responses do not contain it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_sha256: Option<String>,
    },
}

const fn every_seconds() -> u64 {
    COMMAND_EVERY_SECONDS
}

const fn timeout_seconds() -> u64 {
    COMMAND_TIMEOUT_SECONDS
}

const fn debounce_ms() -> u64 {
    DEBOUNCE_MS
}
