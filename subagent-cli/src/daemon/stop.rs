//! `subagentd stop`: asks the running daemon to stop and waits for its end.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::api::{ControllerHandle, StopDaemon};
use tokio::time::Instant;

use crate::client::{ApiRequest, DaemonClient, REQUEST_LIMIT, block_on, ended, running_or_forgotten};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Maximum time for stopping all workers.
const WORKERS_LIMIT: Duration = Duration::from_secs(120);

/// Waits for what [`stopped`] does.
pub(crate) fn stop(
    workers: bool,
    handle: Option<ControllerHandle>,
    state_dir: PathBuf,
) -> Result<CliOutcome> {
    block_on(stopped(workers, handle, state_dir))
}

/// Stops the daemon and waits for its end. `workers` also stops all workers, on behalf of this handle's
/// owner.
///
/// # Errors
/// `DAEMON_UNRESPONSIVE`, `STOP_INCOMPLETE`, `FORBIDDEN_FROM_WORKER`, `INVALID_CONTROLLER_HANDLE`.
pub(crate) async fn stopped(
    workers: bool,
    handle: Option<ControllerHandle>,
    state_dir: PathBuf,
) -> Result<CliOutcome> {
    let deadline = Instant::now() + REQUEST_LIMIT;
    let Some(shown) = running_or_forgotten(&state_dir, deadline).await? else {
        let data = json!({"stopped": false, "pid": null, "workers": workers, "reason": "NOT_RUNNING"});
        return Ok(CliOutcome::report("daemon.stopped", data, "subagentd is not running".to_owned()));
    };
    let mut client = DaemonClient::of_running(state_dir.clone()).in_the_name_of(handle);
    let limit = if workers { WORKERS_LIMIT } else { REQUEST_LIMIT };
    let ask = ApiRequest::change("/v1/daemon/stop", &StopDaemon { workers })?.within(Some(limit));
    let reported = match client.ask(&ask).await {
        // Another daemon may have replaced it and answered.
        Ok(_) => client.daemon().cloned().unwrap_or(shown.info),
        // The daemon is gone, as requested. With `workers` their state would be unknown.
        Err(failure) if failure.is(Code::DaemonNotRunning) && !workers => shown.info,
        Err(failure) => return Err(failure),
    };
    let pid = reported.process.pid;
    if !ended(&reported, Instant::now() + limit).await? {
        return Err(Failure::new(
            Code::DaemonUnresponsive,
            format!("the daemon (pid {pid}) was asked to end and has not ended yet"),
        )
        .with("pid", pid)
        .retryable()
        .recommend(format!("try again, or look at its log; ending it (kill {pid}) is safe: workers go on")));
    }
    let data = json!({"stopped": true, "pid": pid, "workers": workers});
    Ok(CliOutcome::report("daemon.stopped", data, format!("subagentd stopped (pid={pid})")))
}
