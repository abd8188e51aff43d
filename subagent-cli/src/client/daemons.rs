//! Finds this user's running daemons of all workspaces by their sockets.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_config::{Environment, RuntimeDir};
use subagent_protocol::api::{DaemonInfo, DaemonShown};
use subagent_protocol::process::ProcessId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, OLDEST_PROTOCOL, PROTOCOL};
use tokio::time::{Instant, timeout_at};

use super::ApiRequest;
use super::connect::link;
use super::exchange::exchange;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::{OutputFormat, complain};

/// Timeout for one daemon's answer.
const LIMIT: Duration = Duration::from_secs(5);

/// A daemon that listens but does not identify itself.
#[derive(Debug)]
pub struct Unreachable {
    /// Path of its socket.
    pub socket: PathBuf,
    /// The reason for the failure.
    pub failure: Failure,
}

impl Unreachable {
    /// Returns the JSON form.
    #[must_use]
    pub fn shown(&self) -> Value {
        let Failure { code, message, .. } = &self.failure;
        json!({"socket": path_value(&self.socket), "error": {"code": code, "message": message}})
    }

    /// Prints a warning in text format.
    pub fn warn(&self, context: &CliContext) {
        if context.format == OutputFormat::Text {
            complain(&format!("Warning: {} is left out: {}", self.socket.display(), self.failure));
        }
    }
}

/// Returns the running daemons by state dir, and those that do not identify themselves.
pub async fn daemons(env: &Environment) -> (Vec<DaemonShown>, Vec<Unreachable>) {
    let (mut found, mut unreachable) = (Vec::new(), Vec::new());
    for socket in RuntimeDir::daemon_sockets(env) {
        match ask(socket.clone()).await {
            Ok(Some(shown)) => found.push(shown),
            // A killed daemon leaves its socket.
            Ok(None) => {}
            Err(failure) => unreachable.push(Unreachable { socket, failure }),
        }
    }
    found.sort_by(|one: &DaemonShown, other| one.info.state_dir.cmp(&other.info.state_dir));
    found.dedup_by(|one, other| one.info.state_dir == other.info.state_dir);
    (found, unreachable)
}

async fn ask(socket: PathBuf) -> Result<Option<DaemonShown>> {
    let deadline = Instant::now() + LIMIT;
    let silent =
        || Failure::new(Code::DaemonUnresponsive, "it accepts connections but does not answer").retryable();
    // Only its socket is known.
    let unknown = DaemonInfo {
        protocol: PROTOCOL,
        oldest_protocol: OLDEST_PROTOCOL,
        version: String::new(),
        process: ProcessId { pid: 0, start_time: 0 },
        generation: 0,
        socket,
        state_dir: PathBuf::new(),
        state_folder: None,
        mode: String::new(),
        ending: false,
        started_at: Timestamp(0),
    };
    let linked = match link(unknown, deadline).await {
        Err(failure) if failure.is(Code::DaemonUnresponsive) => return Err(silent()),
        linked => linked?,
    };
    let Some(mut link) = linked else { return Ok(None) };
    match timeout_at(deadline, exchange::<Value>(&mut link, &ApiRequest::get("/v1/daemon"), None)).await {
        Err(_) => Err(silent()),
        // The daemon is stopping.
        Ok(Err(_)) => Ok(None),
        Ok(Ok(answer)) => serde_json::from_value(answer?)
            .map(Some)
            .map_err(|error| Failure::internal(format!("the daemon's answer is incomplete: {error}"))),
    }
}
