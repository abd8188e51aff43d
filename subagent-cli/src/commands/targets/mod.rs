//! What a command can answer without the daemon: whether the workspace has state, and whether a
//! worker can exist.

pub(crate) mod contract_form;
pub(crate) mod resend_environment;
pub(crate) mod selected;
pub(crate) mod several;

use subagent_config::Workspace;
use subagent_protocol::Code;

use crate::context::path_value;
use crate::failure::{Failure, Result};

/// Whether anything was ever started in this workspace.
///
/// If not, a command that only reads makes no state dir and starts no daemon: there is nothing to
/// read.
pub(crate) fn has_state(workspace: &Workspace) -> bool {
    let here = || !matches!(workspace.state_dir.try_exists(), Ok(false));
    workspace.there.as_ref().map_or_else(here, |there| there.is_used)
}

/// Returns the worker's id, unless there can be no such worker.
///
/// An empty id would change the path of the request, and without a state dir there are no workers.
///
/// # Errors
/// `WORKER_NOT_FOUND`.
pub(crate) fn named_worker<'a>(worker_id: &'a str, workspace: &Workspace) -> Result<&'a str> {
    let message = match worker_id {
        "" => "an empty text names no worker; `subagent worker list` shows them".to_owned(),
        _ if has_state(workspace) => return Ok(worker_id),
        _ => format!("there is no worker {worker_id}: nothing was started in this workspace so far"),
    };
    Err(Failure::new(Code::WorkerNotFound, message)
        .with("workerId", worker_id)
        .with("stateDbPath", path_value(&workspace.db_path))
        .recommend("list the workers with `subagent worker list`; check --cwd and SUBAGENT_STATE_DIR"))
}
