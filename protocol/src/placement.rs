//! What the daemon and `subagent-runtime submit` say to each other: one request on standard input,
//! one answer on standard output.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::start::RuntimeStart;

/// The request of a start, as one JSON object. It contains the agent's environment and secrets, and
/// is therefore never put on a command line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmitRequest {
    /// Absolute folder of the placed workers there. Each worker has a folder of its own below it.
    pub root: PathBuf,
    /// The runtime to start. Its folder, socket, log and boot id are replaced there.
    pub start: RuntimeStart,
}

/// The answer, one JSON line after [`crate::stream::MAGIC`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "submit", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SubmitAnswer {
    /// This runtime runs and listens. The same request gives the same answer while it lives.
    Started {
        /// The process of the runtime.
        process: ProcessId,
        /// The boot of that machine.
        boot_id: String,
    },
    /// No process of this request runs.
    Failed {
        /// Why it was not started.
        reason: SubmitFailure,
        /// Description for the user.
        message: String,
    },
}

/// Why a runtime was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SubmitFailure {
    /// Another runtime of the worker, or what its agent left, still runs.
    Busy,
    /// A later runtime or a newer daemon was there before, or this runtime has ended already.
    Superseded,
    /// A disk is full.
    StorageFull,
    /// A signal ended the runtime before it listened.
    Killed,
    /// Anything else; the message describes it.
    Other,
}
