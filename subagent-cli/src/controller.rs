//! The controller that a worker of this workspace belongs to, and the process that owns it.

use subagent_config::proc::{self, ProcessEntry};
use subagent_config::{Workspace, controller_hint};
use subagent_protocol::Code;
use subagent_protocol::api::{
    ControllerChoice, ControllerHandle, ControllerInitialized, InitController, ReleaseController,
};
use subagent_protocol::budget::Limits;
use subagent_protocol::process::ProcessId;

use crate::client::{ApiRequest, DaemonClient, RequestPath};
use crate::failure::{Failure, Result};

/// Chooses the controller that was named, or else the workspace's.
pub(crate) fn choice(named: Option<&str>, workspace: &Workspace) -> ControllerChoice {
    ControllerChoice {
        controller_id: named.filter(|id| !id.is_empty()).map(str::to_owned),
        hinted_controller_id: match &workspace.there {
            Some(there) => there.controller_id.clone(),
            None => controller_hint::read_controller_id(&workspace.root),
        },
        workspace_key: workspace.root.to_string_lossy().into_owned(),
    }
}

/// Returns the request path that asks the daemon which controller a choice leads to.
pub(crate) fn resolve_path(choice: &ControllerChoice) -> RequestPath {
    RequestPath::new("/v1/controllers/resolve")
        .with("controllerId", choice.controller_id.as_deref())
        .with("hintedControllerId", choice.hinted_controller_id.as_deref())
        .with("workspaceKey", Some(&choice.workspace_key))
}

/// Makes sure that there is a controller for a worker of this workspace.
///
/// If the workspace has none yet, one is made and released at once. It has no owner afterwards, and
/// no hint file is left.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND` for one that was named, `INVALID_CONTROLLER_HANDLE`, and those of
/// [`DaemonClient::ask`].
pub(crate) async fn ensure(
    client: &mut DaemonClient,
    state_dir: &std::path::Path,
    named: Option<&str>,
    workspace: &Workspace,
    budget: Limits,
) -> Result<()> {
    let choice = choice(named, workspace);
    let missing = match client.ask(&ApiRequest::get(resolve_path(&choice))).await {
        Err(failure) if failure.is(Code::ControllerNotFound) && none_was_named(&failure) => failure,
        resolved => return resolved.map(drop),
    };
    let request = InitController {
        choice: choice.clone(),
        label: None,
        require_handle: false,
        budget,
        owner: owner()?,
    };
    let granted = match client.ask(&ApiRequest::change("/v1/controllers", &request)?).await {
        Ok(granted) => granted,
        // Another command was faster.
        Err(failure) if failure.is(Code::ControllerOwnershipConflict) => return Ok(()),
        Err(failure) if failure.is(Code::ControllerNotFound) => return Err(missing),
        Err(failure) => return Err(failure),
    };
    let granted: ControllerInitialized = serde_json::from_value(granted)
        .map_err(|error| Failure::internal(format!("the daemon's answer is incomplete: {error}")))?;
    let handle = ControllerHandle {
        controller_id: granted.controller_id.to_string(),
        epoch: granted.owner.epoch.to_string(),
        token: granted.owner.token.clone(),
    };
    let release = ReleaseController { choice, force: false };
    let mut owner = DaemonClient::of_running(state_dir.to_owned()).in_the_name_of(Some(handle));
    match owner.ask(&ApiRequest::change("/v1/controllers/release", &release)?).await {
        // Another owner has taken it over since.
        Err(failure) if failure.is(Code::InvalidControllerHandle) => Ok(()),
        released => released.map(drop),
    }
}

/// Whether the workspace has no controller, rather than that a named one does not exist.
pub(crate) fn none_was_named(failure: &Failure) -> bool {
    !failure.details.contains_key("controllerId")
}

/// Returns the process whose life bounds an ownership: the leader of the caller's session.
///
/// A command that leads its own session, or whose leader has ended, is over in a moment. Its parent
/// is the owner then.
///
/// # Errors
/// `INTERNAL_ERROR` if the system does not tell.
pub(crate) fn owner() -> Result<ProcessId> {
    let unknown =
        |error: std::io::Error| Failure::internal(format!("cannot find out which session this is: {error}"));
    let own_pid = nix::unistd::getpid().as_raw();
    let mut owner = proc::session_leader().map_err(unknown)?;
    if owner.pid == own_pid && owner.parent > 0 {
        owner = proc::process(owner.parent).map_err(unknown)?;
    }
    let ProcessEntry { pid, start_time, .. } = owner;
    Ok(ProcessId { pid, start_time })
}
