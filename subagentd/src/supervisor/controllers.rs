//! Controllers: who owns the workers of a workspace.

use serde_json::{Value, json};
use subagent_config::proc;
use subagent_protocol::api::{
    ControllerChoice, ControllerInitialized, ControllerStatus, InitController, OwnerGranted, OwnerView,
};
use subagent_protocol::ids::{ControllerId, InstanceId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::{Code, Error, Result};

use super::{Caller, Supervisor, entropy};
use crate::store::{Connection, ControllerRow, Durability, NewOwner, OwnerRow, controllers};

impl Supervisor {
    /// Makes the caller the owner of a controller.
    ///
    /// The result holds the secret, so it is not kept for repetitions: a request that is repeated with its key, whose
    /// answer may have been lost, makes a new epoch with a new secret, as long as the ownership is still that of its
    /// process. Another request of the owner needs the handle.
    ///
    /// # Errors
    /// `CONTROLLER_OWNERSHIP_CONFLICT` while another owner lives, or when the workspace belongs to another controller;
    /// `INVALID_ARGUMENT` for an id that is none; `IDEMPOTENCY_CONFLICT`.
    pub async fn init_controller(
        &self,
        caller: Caller,
        request: InitController,
    ) -> Result<ControllerInitialized> {
        let what = serde_json::to_string(&request).map_err(|error| {
            Error::new(Code::Internal, format!("a request cannot be written down: {error}"))
        })?;
        let (check, key) = self.guarded(caller, &format!("controller init {what}"));
        let handle = check.0;
        let InitController { choice, label, owner } = request;
        let fresh = ControllerId::from_random(entropy::random()?);
        let instance_id = InstanceId::from_random(entropy::random()?);
        let (token, now) = (entropy::token()?, entropy::now());
        self.shared
            .store
            .write(Durability::Full, 1, move |tx| {
                let repeated = match &key {
                    Some((key, fingerprint)) => tx.recall(key, fingerprint)?.is_some(),
                    None => false,
                };
                let named = choice.controller_id.as_deref().or(choice.hinted_controller_id.as_deref());
                let holder = controllers::by_workspace(tx.connection(), &choice.workspace_key)?;
                let controller_id = match (named, &holder) {
                    (Some(named), _) => {
                        named.parse().map_err(|error: subagent_protocol::ids::InvalidId| {
                            Error::new(Code::InvalidArgument, error.to_string()).with("controllerId", named)
                        })?
                    }
                    (None, Some(holder)) => holder.controller_id.clone(),
                    (None, None) => fresh,
                };
                if let Some(holder) = holder.filter(|holder| holder.controller_id != controller_id) {
                    return Err(Error::new(
                        Code::ControllerOwnershipConflict,
                        format!("the workspace belongs to controller {}", holder.controller_id),
                    )
                    .with("workspaceKey", choice.workspace_key.as_str()));
                }
                if let Some(existing) = controllers::by_id(tx.connection(), controller_id.as_str())?
                    && let Some(current) = controllers::owner(tx.connection(), existing.id)?
                    && is_alive(current.process)
                {
                    let owns = match &handle {
                        Some(handle) => controllers::verify(tx.connection(), handle, &existing)?,
                        None => false,
                    };
                    // The key tells that it was this very request that made this process the owner.
                    let owns = owns || (repeated && current.process == owner);
                    if !owns {
                        return Err(Error::new(
                            Code::ControllerOwnershipConflict,
                            format!(
                                "controller {controller_id} has an owner: process {}, epoch {}",
                                current.process.pid, current.epoch
                            ),
                        )
                        .with("controllerId", controller_id.as_str())
                        .recommend(
                            "use the owner's SUBAGENT_CTL_* variables, or let that process end first",
                        ));
                    }
                }
                let row =
                    tx.upsert_controller(&controller_id, label.as_deref(), &choice.workspace_key, now)?;
                let new = NewOwner { instance_id: instance_id.clone(), process: owner, token: token.clone() };
                let epoch = tx.insert_owner(row.id, &new, now)?;
                if let (Some((key, fingerprint)), false) = (&key, repeated) {
                    tx.remember(key, fingerprint, instance_id.as_str(), now)?;
                }
                Ok(ControllerInitialized {
                    controller_id: controller_id.clone(),
                    label: row.label,
                    workspace_key: row.workspace_key,
                    owner: OwnerGranted {
                        controller_id,
                        instance_id,
                        epoch,
                        pid: owner.pid,
                        created_at: now,
                        token,
                    },
                })
            })
            .await
    }

    /// Who owns what, and what the caller's handle is worth.
    ///
    /// # Errors
    /// `CONTROLLER_NOT_FOUND{controllerId}` for an explicit id that does not exist.
    pub async fn controller_status(
        &self,
        caller: Caller,
        choice: ControllerChoice,
    ) -> Result<ControllerStatus> {
        self.shared
            .store
            .read(move |connection| {
                let controller = find(connection, &choice, None)?;
                let owner = match &controller {
                    Some(controller) => controllers::owner(connection, controller.id)?,
                    None => None,
                };
                let env_handle = match (&caller.handle, &controller) {
                    (None, _) => json!({"present": false, "valid": false}),
                    (Some(handle), _) if handle.epoch.parse::<i64>().is_err() => {
                        json!({"present": true, "valid": false, "reason": "ENV_EPOCH_NOT_INTEGER"})
                    }
                    (Some(handle), controller) => {
                        let valid = match controller {
                            // A handle of another controller is simply not valid here.
                            Some(controller) => controllers::verify(connection, handle, controller).unwrap_or(false),
                            None => false,
                        };
                        let epoch = handle.epoch.parse::<i64>().map_or(Value::Null, Value::from);
                        json!({"present": true, "valid": valid, "controllerId": handle.controller_id, "epoch": epoch})
                    }
                };
                let (controller_id, label, workspace_key) = match controller {
                    Some(row) => (Some(row.controller_id), Some(row.label), row.workspace_key),
                    None => (None, None, choice.workspace_key),
                };
                Ok(ControllerStatus {
                    controller_id,
                    label,
                    workspace_key,
                    state: if owner.is_some() { "active" } else { "dormant" }.to_owned(),
                    active_owner: owner.map(owner_view),
                    env_handle,
                })
            })
            .await
    }

    /// The controller that a new worker would get, with the caller's handle checked.
    ///
    /// # Errors
    /// `CONTROLLER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub async fn resolve_controller(&self, caller: Caller, choice: ControllerChoice) -> Result<String> {
        let (owner, _) = self.guarded(caller, "");
        let state_db = self.shared.store.path().display().to_string();
        self.shared
            .store
            .read(move |connection| {
                let row = required(connection, &choice, owner.0.as_ref(), &state_db)?;
                if let Some(handle) = &owner.0
                    && !controllers::verify(connection, handle, &row)?
                {
                    return Err(stale(&row));
                }
                Ok(row.controller_id.as_str().to_owned())
            })
            .await
    }
}

fn stale(row: &ControllerRow) -> Error {
    Error::new(Code::InvalidControllerHandle, "the owner handle in SUBAGENT_CTL_* is not the current one")
        .with("controllerId", row.controller_id.as_str())
}

/// The controller that is meant: named, that of the handle, hinted, or that of the workspace.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND` for a named one that does not exist.
pub(super) fn find(
    connection: &Connection,
    choice: &ControllerChoice,
    handle: Option<&subagent_protocol::api::Handle>,
) -> Result<Option<ControllerRow>> {
    if let Some(named) = &choice.controller_id {
        return match controllers::by_id(connection, named)? {
            Some(row) => Ok(Some(row)),
            None => Err(Error::new(Code::ControllerNotFound, format!("there is no controller {named}"))
                .with("controllerId", named.as_str())),
        };
    }
    let hinted =
        handle.map(|handle| handle.controller_id.as_str()).or(choice.hinted_controller_id.as_deref());
    if let Some(hinted) = hinted
        && let Some(row) = controllers::by_id(connection, hinted)?
    {
        return Ok(Some(row));
    }
    controllers::by_workspace(connection, &choice.workspace_key)
}

/// As [`find`], for whoever needs one.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND{workspaceKey,stateDbPath}`.
pub(super) fn required(
    connection: &Connection,
    choice: &ControllerChoice,
    handle: Option<&subagent_protocol::api::Handle>,
    state_db: &str,
) -> Result<ControllerRow> {
    let with = |error: Error| {
        error.with("workspaceKey", choice.workspace_key.as_str()).with("stateDbPath", state_db)
    };
    find(connection, choice, handle).map_err(with)?.ok_or_else(|| {
        with(
            Error::new(Code::ControllerNotFound, "this workspace has no controller yet")
                .recommend("run `subagent controller init` in the workspace")
                .with("recommendedCommand", "subagent controller init"),
        )
    })
}

fn owner_view(owner: OwnerRow) -> OwnerView {
    OwnerView {
        instance_id: owner.instance_id,
        epoch: owner.epoch,
        pid: owner.process.pid,
        created_at: owner.created_at,
    }
}

fn is_alive(process: ProcessId) -> bool {
    proc::process(process.pid).is_ok_and(|found| found.start_time == process.start_time && !found.ended)
}

#[cfg(test)]
mod tests {
    use subagent_protocol::api::Handle;

    use super::super::testing::{folder, init, own_process, setup};
    use super::*;

    fn handle(granted: &ControllerInitialized) -> Handle {
        Handle {
            controller_id: granted.controller_id.to_string(),
            epoch: granted.owner.epoch.to_string(),
            token: granted.owner.token.clone(),
        }
    }

    async fn is_owner(
        supervisor: &Supervisor,
        dir: &std::path::Path,
        granted: &ControllerInitialized,
    ) -> bool {
        let caller = Caller { handle: Some(handle(granted)), idempotency_key: None };
        supervisor.resolve_controller(caller, super::super::testing::choice(dir)).await.is_ok()
    }

    #[tokio::test]
    async fn a_repetition_owns_again_and_another_request_of_the_same_process_does_not() {
        let dir = folder();
        let supervisor = Supervisor::open(setup(dir.path())).await.unwrap();
        let me = own_process();
        let first = init(&supervisor, dir.path(), me, Some("key")).await.unwrap();
        let again = init(&supervisor, dir.path(), me, Some("key")).await.unwrap();
        let third = init(&supervisor, dir.path(), me, Some("key")).await.unwrap();
        assert_eq!((first.owner.epoch, again.owner.epoch, third.owner.epoch), (1, 2, 3));
        assert_eq!(first.controller_id, third.controller_id);
        assert!(!is_owner(&supervisor, dir.path(), &first).await, "whoever has the lost answer owns nothing");
        assert!(!is_owner(&supervisor, dir.path(), &again).await);
        assert!(is_owner(&supervisor, dir.path(), &third).await);
        for key in [Some("other"), None] {
            let error = init(&supervisor, dir.path(), me, key).await.unwrap_err();
            assert_eq!(error.code, Code::ControllerOwnershipConflict, "{key:?}");
        }
        // Another process has another request, even if it uses the same key.
        let other = ProcessId { start_time: me.start_time + 1, ..me };
        let error = init(&supervisor, dir.path(), other, Some("key")).await.unwrap_err();
        assert_eq!(error.code, Code::IdempotencyConflict);
        assert!(is_owner(&supervisor, dir.path(), &third).await);
        supervisor.shutdown(false).await.unwrap();
    }

    #[tokio::test]
    async fn a_repetition_does_not_take_from_the_next_owner() {
        let dir = folder();
        let supervisor = Supervisor::open(setup(dir.path())).await.unwrap();
        let me = own_process();
        // An owner that has ended: nobody has this number and this start time.
        let gone = ProcessId { start_time: me.start_time + 1, ..me };
        let first = init(&supervisor, dir.path(), gone, Some("key")).await.unwrap();
        let next = init(&supervisor, dir.path(), me, Some("next")).await.unwrap();
        assert_eq!((first.owner.epoch, next.owner.epoch), (1, 2));
        let error = init(&supervisor, dir.path(), gone, Some("key")).await.unwrap_err();
        assert_eq!(error.code, Code::ControllerOwnershipConflict);
        assert!(is_owner(&supervisor, dir.path(), &next).await);
        supervisor.shutdown(false).await.unwrap();
    }
}
