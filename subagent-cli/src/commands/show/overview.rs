//! The overview of a worker, as `show` and `diff` need it.

use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::Code;
use subagent_protocol::api::{WorkerList, WorkerView};
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::state::WorkerState;

use crate::client::{ApiRequest, DaemonClient, segment};
use crate::commands::targets::{has_state, named_worker};
use crate::context::present;
use crate::failure::{Failure, Result};
use crate::output::human::called;

/// The overview of the worker with this address; without one, of the only worker that is not stopped.
///
/// # Errors
/// `WORKER_NOT_FOUND`; `INVALID_ARGUMENT` for the id of something else, and where several workers could be meant.
pub(crate) async fn of(
    client: &mut DaemonClient,
    worker: Option<String>,
    workspace: &Workspace,
) -> Result<Value> {
    let worker = match present(worker) {
        Some(worker) => {
            check_kind(&worker)?;
            named_worker(&worker, workspace)?.to_owned()
        }
        None => only(client, workspace).await?,
    };
    client.ask(&ApiRequest::get(format!("/v1/workers/{}/overview", segment(&worker)))).await
}

/// The only worker that is not stopped.
async fn only(client: &mut DaemonClient, workspace: &Workspace) -> Result<String> {
    let workers = match has_state(workspace) {
        true => client.ask_for::<WorkerList>(&ApiRequest::get("/v1/workers")).await?.items,
        false => Vec::new(),
    };
    let live: Vec<&WorkerView> =
        workers.iter().filter(|worker| worker.state != WorkerState::Stopped).collect();
    match live.as_slice() {
        [one] => Ok(one.worker_id.to_string()),
        [] => Err(Failure::new(Code::WorkerNotFound, "no worker is running in this workspace")
            .recommend("name a stopped one: `subagent worker list` shows them")),
        several => {
            let names: Vec<&str> =
                several.iter().map(|worker| called(&worker.name, worker.worker_id.as_str())).collect();
            let message = format!("several workers are not stopped; name one of {}", names.join(", "));
            Err(Failure::argument(message).with("workers", names))
        }
    }
}

/// Refuses the id of something else, and names the command that shows it.
fn check_kind(worker: &str) -> Result<()> {
    let (kind, command) = if worker.parse::<TurnId>().is_ok() {
        ("turn", format!("subagent turn show {worker}"))
    } else if worker.parse::<RequestId>().is_ok() {
        ("request", format!("subagent approval show {worker}"))
    } else {
        return Ok(());
    };
    Err(Failure::argument(format!("{worker} is a {kind}, not a worker; `{command}` shows it"))
        .with("recommendedCommand", command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_other_kinds_are_refused_with_the_right_command() {
        for (id, command) in [
            ("turn_0123456789", "subagent turn show turn_0123456789"),
            ("ap_0123456789", "subagent approval show ap_0123456789"),
        ] {
            assert_eq!(check_kind(id).unwrap_err().details["recommendedCommand"], command);
        }
        for worker in ["w_0123456789", "turn_", "codex-1", ""] {
            check_kind(worker).unwrap();
        }
    }
}
