//! Asking a daemon what it is.

use std::path::Path;

use subagent_protocol::Code;
use subagent_protocol::api::DaemonShown;

use super::{Ask, Client, PROBE_LIMIT};
use crate::failure::{Failure, Result};

/// The daemon that runs for this state dir, if one does. Starts none.
///
/// # Errors
/// `DAEMON_UNRESPONSIVE{pid}` for one that does not answer, `DAEMON_TOO_OLD`, `DAEMON_TOO_NEW`.
pub async fn running(state_dir: &Path) -> Result<Option<DaemonShown>> {
    match shown(&mut Client::of_running(state_dir.to_owned())).await {
        Ok(shown) => Ok(Some(shown)),
        Err(failure) if failure.is(Code::DaemonNotRunning) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The daemon of a client.
///
/// # Errors
/// The client's.
pub async fn shown(client: &mut Client) -> Result<DaemonShown> {
    let answer = client.ask(&Ask::get("/v1/daemon").within(Some(PROBE_LIMIT))).await?;
    serde_json::from_value(answer)
        .map_err(|error| Failure::internal(format!("the daemon's answer lacks something: {error}")))
}
