//! Reads controllers: their owners, whether those are alive, the validity of a handle, and the
//! controller that a request selects. Must not change anything. `ownership` does.

pub(crate) mod budgets;
pub(crate) mod ownership;

use std::io;

use serde_json::Value;
use subagent_config::proc::{self, ProcessEntry};
use subagent_protocol::api::{
    ControllerChoice, ControllerHandle, ControllerStatus, ControllersRecovered, OwnerView, Ownership,
    RecoveredController, RecoveredOwner,
};
use subagent_protocol::{Code, Error, Result};

use super::{ApiCaller, Supervisor};
use crate::store::{Connection, ControllerRow, HandleValidity, OwnerCheck, OwnerRow, controllers};

/// Returns the owner of a controller, and whether the caller's handle is valid.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND{controllerId}` for an explicit id that does not exist.
pub(crate) async fn controller_status(
    supervisor: &Supervisor,
    caller: ApiCaller,
    choice: ControllerChoice,
) -> Result<ControllerStatus> {
    supervisor
        .shared
        .store
        .read(move |connection| {
            let controller = find(connection, &choice, None)?;
            let owner = match &controller {
                Some(controller) => controllers::owner(connection, controller.id)?,
                None => None,
            };
            let env_handle = env_handle(connection, caller.handle.as_ref(), controller.as_ref())?;
            let require_handle = match &controller {
                Some(controller) => Some(controllers::requires_handle(connection, controller.id)?),
                None => None,
            };
            let (controller_id, label, workspace_key) = match controller {
                Some(row) => (Some(row.controller_id), Some(row.label), row.workspace_key),
                None => (None, None, choice.workspace_key),
            };
            Ok(ControllerStatus {
                controller_id,
                label,
                workspace_key,
                require_handle,
                state: if owner.is_some() { "active" } else { "dormant" }.to_owned(),
                active_owner: owner.map(owner_view),
                env_handle,
            })
        })
        .await
}

/// Lists all controllers, or those of one workspace, with the state of their owners. Changes
/// nothing.
pub(crate) async fn recover_controllers(
    supervisor: &Supervisor,
    workspace_key: Option<String>,
) -> Result<ControllersRecovered> {
    let boot_id = supervisor.shared.boot_id.clone();
    supervisor
        .shared
        .store
        .read(move |connection| {
            let recovered = |row: ControllerRow| {
                let owner = controllers::owner(connection, row.id)?
                    .map(|owner| RecoveredOwner { alive: alive(&owner, &boot_id), owner: owner_view(owner) });
                Ok(RecoveredController {
                    require_handle: controllers::requires_handle(connection, row.id)?,
                    state: ownership(owner.as_ref()),
                    active_owner: owner,
                    controller_id: row.controller_id,
                    label: row.label,
                    workspace_key: row.workspace_key,
                })
            };
            let rows = controllers::list(connection, workspace_key.as_deref())?;
            let items: Vec<_> = rows.into_iter().map(recovered).collect::<Result<_>>()?;
            Ok(ControllersRecovered { count: items.len(), items, workspace_filter: workspace_key })
        })
        .await
}

/// Returns the controller that a new worker would belong to. Checks the caller's handle.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
pub(crate) async fn resolve_controller(
    supervisor: &Supervisor,
    caller: ApiCaller,
    choice: ControllerChoice,
) -> Result<String> {
    let owner = OwnerCheck(caller.handle);
    let state_db = supervisor.shared.store.path().display().to_string();
    supervisor
        .shared
        .store
        .read(move |connection| {
            let row = of_new_worker(connection, &choice, &owner, &state_db)?;
            Ok(row.controller_id.as_str().to_owned())
        })
        .await
}

/// Returns the selected controller: the named one, that of the handle, the hinted one, or that of
/// the workspace, in this order.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND` if the named controller, or that of the handle, does not exist.
pub(super) fn find(
    connection: &Connection,
    choice: &ControllerChoice,
    handle: Option<&ControllerHandle>,
) -> Result<Option<ControllerRow>> {
    let of_handle = handle.map(|handle| handle.controller_id.as_str());
    if let Some(named) = choice.controller_id.as_deref().or(of_handle) {
        return match controllers::by_id(connection, named)? {
            Some(row) => Ok(Some(row)),
            None => Err(Error::new(Code::ControllerNotFound, format!("there is no controller {named}"))
                .with("controllerId", named)),
        };
    }
    if let Some(hinted) = choice.hinted_controller_id.as_deref()
        && let Some(row) = controllers::by_id(connection, hinted)?
    {
        return Ok(Some(row));
    }
    controllers::by_workspace(connection, &choice.workspace_key)
}

/// Like [`find`], but the controller must exist.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND`, with `workspaceKey` if none was named.
pub(super) fn required(
    connection: &Connection,
    choice: &ControllerChoice,
    handle: Option<&ControllerHandle>,
) -> Result<ControllerRow> {
    find(connection, choice, handle)?.ok_or_else(|| {
        Error::new(Code::ControllerNotFound, "this workspace has no controller yet")
            .with("workspaceKey", choice.workspace_key.as_str())
            .recommend("run `subagent controller init` in the workspace")
            .with("recommendedCommand", "subagent controller init")
    })
}

/// Returns the controller for a new worker of this owner.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND{workspaceKey,stateDbPath}`, `INVALID_CONTROLLER_HANDLE`.
pub(super) fn of_new_worker(
    connection: &Connection,
    choice: &ControllerChoice,
    owner: &OwnerCheck,
    state_db: &str,
) -> Result<ControllerRow> {
    let row = required(connection, choice, owner.0.as_ref()).map_err(|error| {
        error.with("workspaceKey", choice.workspace_key.as_str()).with("stateDbPath", state_db)
    })?;
    controllers::check_owner(connection, owner, &row)?;
    Ok(row)
}

fn owner_view(owner: OwnerRow) -> OwnerView {
    OwnerView {
        instance_id: owner.instance_id,
        epoch: owner.epoch,
        pid: owner.process.pid,
        created_at: owner.created_at,
    }
}

/// Returns whether the owner's process is alive, or `None` if that is unknown.
pub(super) fn alive(owner: &OwnerRow, boot_id: &str) -> Option<bool> {
    alive_as(owner, boot_id, proc::process(owner.process.pid))
}

/// A pid identifies a process only together with its start time and boot id.
fn alive_as(owner: &OwnerRow, boot_id: &str, found: io::Result<ProcessEntry>) -> Option<bool> {
    if owner.boot_id != boot_id {
        return Some(false);
    }
    match found {
        Ok(found) => Some(found.start_time == owner.process.start_time && !found.ended),
        Err(error) if proc::is_gone(&error) => Some(false),
        Err(_) => None,
    }
}

fn ownership(owner: Option<&RecoveredOwner>) -> Ownership {
    match owner.map(|owner| owner.alive) {
        None => Ownership::Dormant,
        Some(Some(true)) => Ownership::Active,
        Some(Some(false)) => Ownership::Orphaned,
        Some(None) => Ownership::Conflicted,
    }
}

/// Describes the caller's handle without its secret.
fn env_handle(
    connection: &Connection,
    handle: Option<&ControllerHandle>,
    controller: Option<&ControllerRow>,
) -> Result<Value> {
    let Some(handle) = handle else { return Ok(ControllerHandle::shown_none()) };
    let valid = match controller {
        Some(controller) => controllers::worth(connection, handle, controller)? == HandleValidity::Current,
        None => false,
    };
    Ok(handle.shown(valid))
}

#[cfg(test)]
mod tests {
    use subagent_protocol::ids::InstanceId;
    use subagent_protocol::process::ProcessId;
    use subagent_protocol::time::Timestamp;

    use super::*;

    #[test]
    fn an_owner_lives_as_the_very_process_of_this_boot_and_of_what_is_unknown_nothing_is_said() {
        let owner = OwnerRow {
            instance_id: InstanceId::from_random([1; 6]),
            epoch: 1,
            process: ProcessId { pid: 7, start_time: 42 },
            boot_id: "this boot".into(),
            created_at: Timestamp(0),
        };
        let found = |start_time, ended| {
            Ok(ProcessEntry {
                pid: 7,
                parent: 1,
                session: 7,
                start_time,
                name: "sh".into(),
                ended,
                stopped: false,
            })
        };
        let error = |kind: io::ErrorKind| Err(io::Error::from(kind));
        let view = |alive| RecoveredOwner { owner: owner_view(owner.clone()), alive };
        for (boot_id, found, alive, state) in [
            ("this boot", found(42, false), Some(true), Ownership::Active),
            ("this boot", found(42, true), Some(false), Ownership::Orphaned),
            ("this boot", found(43, false), Some(false), Ownership::Orphaned),
            ("this boot", error(io::ErrorKind::NotFound), Some(false), Ownership::Orphaned),
            ("this boot", error(io::ErrorKind::PermissionDenied), None, Ownership::Conflicted),
            ("another boot", found(42, false), Some(false), Ownership::Orphaned),
        ] {
            let shown = format!("{boot_id} {found:?}");
            assert_eq!(alive_as(&owner, boot_id, found), alive, "{shown}");
            assert_eq!(ownership(Some(&view(alive))), state, "{shown}");
        }
        assert_eq!(ownership(None), Ownership::Dormant);
    }
}
