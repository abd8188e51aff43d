//! Where a worker is placed, and what the daemon and `subagent-runtime submit` say to each other:
//! one request on standard input after [`crate::stream::MAGIC`], one answer on standard output.

pub mod ssh;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::start::RuntimeStart;
use crate::stream::DaemonEpoch;

/// Folder of the placed workers on another machine, below the home there.
pub const PLACED_THERE: &str = "~/.local/state/subagent/placed";

/// Where the runtimes of a worker are started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Placement {
    /// On this machine, reached over a stream like those of another one. For tests.
    Loopback,
    /// On another machine, reached by the user's ssh client.
    Ssh(ssh::SshPlacement),
}

impl Placement {
    /// Returns the machine that is not the daemon's; `None` for the loopback.
    #[must_use]
    pub fn remote(&self) -> Option<&ssh::SshPlacement> {
        match self {
            Self::Loopback => None,
            Self::Ssh(ssh) => Some(ssh),
        }
    }

    /// Returns the placement as views show it; `None` for the loopback.
    #[must_use]
    pub fn view(&self) -> Option<PlacementView> {
        let ssh = self.remote()?;
        Some(PlacementView { kind: "ssh".to_owned(), name: ssh.name.clone(), host: ssh.host.clone() })
    }
}

/// The placement of a worker, as in `worker.listed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlacementView {
    /// Kind of the placement, which is `ssh`.
    pub kind: String,
    /// Name of the placement in the config file at the worker's start.
    pub name: String,
    /// The host, as ssh takes it.
    pub host: String,
}

/// The request of a start, as one JSON object. It contains the agent's environment and secrets, and
/// is therefore never put on a command line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmitRequest {
    /// The daemon's protocol of [`crate::stream`], which covers this request too.
    pub protocol: u32,
    /// The start of the daemon that asks.
    pub epoch: DaemonEpoch,
    /// Absolute folder of the placed workers there. Each worker has a folder of its own below it.
    /// Absent on another machine than the daemon's. Then root, working folder, program and the
    /// environment below that of the request are resolved there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
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
    /// The place serves another daemon. Nothing was done.
    Fenced {
        /// The generation of that daemon.
        generation: u64,
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
    /// A later runtime was there before, or this runtime has ended already.
    Superseded,
    /// The program there speaks another protocol.
    Incompatible,
    /// A disk is full.
    StorageFull,
    /// A signal ended the runtime before it listened.
    Killed,
    /// The working folder does not exist there.
    NoFolder,
    /// The program of the agent cannot be started there.
    NoProgram,
    /// Anything else; the message describes it.
    Other,
}
