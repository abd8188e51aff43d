//! Where the worker of a run belongs: to the workspace's controller. Where there is none yet one is made, which nobody
//! owns afterwards: a run takes nothing over from anybody, and leaves no hint file.

use subagent_config::Workspace;
use subagent_protocol::Code;
use subagent_protocol::api::{ControllerInitialized, Handle, InitController, ReleaseController};
use subagent_protocol::budget::Limits;

use crate::client::{Ask, Client};
use crate::commands::{controller_grant, worker_start};
use crate::failure::{Failure, Result};

/// Makes sure that there is a controller for the worker.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND` for one that was named, `INVALID_CONTROLLER_HANDLE`, and those of [`Client::ask`].
pub(crate) async fn ensure(
    client: &mut Client,
    state_dir: &std::path::Path,
    named: Option<&str>,
    workspace: &Workspace,
    budget: Limits,
) -> Result<()> {
    let choice = controller_grant::choice(named, workspace);
    let missing = match client.ask(&Ask::get(worker_start::resolve_path(&choice))).await {
        Err(failure) if failure.is(Code::ControllerNotFound) && is_nobodys(&failure) => failure,
        resolved => return resolved.map(drop),
    };
    let request = InitController {
        choice: choice.clone(),
        label: None,
        require_handle: false,
        budget,
        owner: controller_grant::owner()?,
    };
    let granted = match client.ask(&Ask::change("/v1/controllers", &request)?).await {
        Ok(granted) => granted,
        // Somebody else was faster.
        Err(failure) if failure.is(Code::ControllerOwnershipConflict) => return Ok(()),
        Err(failure) if failure.is(Code::ControllerNotFound) => return Err(missing),
        Err(failure) => return Err(failure),
    };
    let granted: ControllerInitialized = serde_json::from_value(granted)
        .map_err(|error| Failure::internal(format!("the daemon's answer lacks something: {error}")))?;
    let handle = Handle {
        controller_id: granted.controller_id.to_string(),
        epoch: granted.owner.epoch.to_string(),
        token: granted.owner.token.clone(),
    };
    let release = ReleaseController { choice, force: false };
    let mut owner = Client::of_running(state_dir.to_owned()).in_the_name_of(Some(handle));
    match owner.ask(&Ask::change("/v1/controllers/release", &release)?).await {
        // Somebody has taken it over since.
        Err(failure) if failure.is(Code::InvalidControllerHandle) => Ok(()),
        released => released.map(drop),
    }
}

/// Whether no controller was named that does not exist.
fn is_nobodys(failure: &Failure) -> bool {
    !failure.details.contains_key("controllerId")
}
