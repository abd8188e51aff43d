//! Acquires and releases the ownership of controllers, each in one transaction. A handle only
//! proves that the caller is the owner. Taking over and releasing by force need no handle, even if
//! the controller requires one for changes of workers: a lost token must not lock the user out.

use std::fs;
use std::io::ErrorKind;

use subagent_protocol::api::{
    AttachController, ControllerChoice, ControllerHandle, ControllerInitialized, ControllerReleased,
    InitController, OwnerGranted, OwnershipEnded, ReleaseController,
};
use subagent_protocol::ids::{ControllerId, InstanceId, InvalidId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::{Code, Error, Result};

use super::{alive, required};
use crate::store::{
    ControllerRow, Durability, HandleValidity, NewOwner, Tx, accounts, controllers, requests,
};
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// A claim to the ownership of a controller.
struct Claim {
    instance_id: InstanceId,
    token: String,
    process: ProcessId,
    boot_id: String,
    handle: Option<ControllerHandle>,
    key: Option<(String, String)>,
    now: subagent_protocol::time::Timestamp,
}

/// Makes the caller the owner of a workspace's controller. Creates the controller if there is
/// none.
///
/// The result contains the secret, so it is not stored for repetitions. A request repeated with
/// its key creates a new epoch and secret, as long as the current ownership is the one that it
/// created. Another request of the owner needs the handle.
///
/// # Errors
/// `CONTROLLER_OWNERSHIP_CONFLICT` while another owner lives, or if the workspace belongs to
/// another controller. `INVALID_ARGUMENT` for an invalid id. `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn init_controller(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: InitController,
) -> Result<ControllerInitialized> {
    let claim = claim(supervisor, caller, "controller init", &request, request.owner)?;
    let fresh = ControllerId::from_random(entropy::random()?);
    request.budget.check()?;
    let InitController { choice, label, require_handle, budget, .. } = request;
    supervisor
        .shared
        .store
        .write(Durability::Full, 1, move |tx| {
            let controller_id = controller_to_init(tx, &choice, fresh)?;
            let earlier = claim.earlier(tx)?;
            let existing = controllers::by_id(tx.connection(), controller_id.as_str())?;
            if let Some(existing) = &existing {
                claim.check_free(tx, existing, earlier.as_deref())?;
            }
            let key = &choice.workspace_key;
            let row = controllers::upsert(tx, &controller_id, label.as_deref(), key, claim.now)?;
            if existing.is_none() {
                accounts::open_for_controller(tx, row.id, budget)?;
            }
            if require_handle {
                controllers::require_handle(tx, row.id)?;
            }
            claim.grant(tx, row)
        })
        .await
}

/// Makes the caller the owner of an existing controller. Repetitions work as for
/// [`init_controller`].
///
/// # Errors
/// `CONTROLLER_NOT_FOUND`. `CONTROLLER_OWNERSHIP_CONFLICT` while another owner lives, unless
/// the request is a takeover. `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn attach_controller(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: AttachController,
) -> Result<ControllerInitialized> {
    let claim = claim(supervisor, caller, "controller attach", &request, request.owner)?;
    let AttachController { choice, takeover, .. } = request;
    supervisor
        .shared
        .store
        .write(Durability::Full, 1, move |tx| {
            let earlier = claim.earlier(tx)?;
            let row = required(tx.connection(), &choice, None)?;
            if !takeover {
                claim.check_free(tx, &row, earlier.as_deref())?;
            }
            claim.grant(tx, row)
        })
        .await
}

/// Ends the caller's ownership, or any owner's by force. Succeeds without an owner, so that
/// scripts can always call it at their end.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn release_controller(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: ReleaseController,
) -> Result<ControllerReleased> {
    let (check, key) = supervisor.guarded(caller, "controller release", &request)?;
    let (handle, now) = (check.0, entropy::now());
    let ReleaseController { choice, force } = request;
    supervisor
        .shared
        .store
        .write(Durability::Full, 1, move |tx| {
            let release = |tx: &mut Tx<'_>| {
                let row = required(tx.connection(), &choice, None)?;
                let owner = controllers::owner(tx.connection(), row.id)?;
                if owner.is_some() && !force {
                    check_release(tx, handle.as_ref(), &row)?;
                }
                controllers::release_owner(tx, row.id, now)?;
                Ok(ControllerReleased {
                    controller_id: row.controller_id,
                    released: owner.is_some(),
                    reason: owner.is_none().then(|| "NO_ACTIVE_OWNER".to_owned()),
                    ended: owner.map(|owner| OwnershipEnded {
                        released_at: now,
                        instance_id: owner.instance_id,
                        epoch: owner.epoch,
                    }),
                })
            };
            Ok(requests::once(tx, key.as_ref(), now, release)?.0)
        })
        .await
}

fn claim(
    supervisor: &Supervisor,
    caller: ApiCaller,
    what: &str,
    request: &impl serde::Serialize,
    process: ProcessId,
) -> Result<Claim> {
    let (check, key) = supervisor.guarded(caller, what, request)?;
    Ok(Claim {
        instance_id: InstanceId::from_random(entropy::random()?),
        token: entropy::token()?,
        process,
        boot_id: supervisor.shared.boot_id.clone(),
        handle: check.0,
        key,
        now: entropy::now(),
    })
}

impl Claim {
    /// Returns the instance that this same request created before, if it is a repetition.
    fn earlier(&self, tx: &Tx<'_>) -> Result<Option<String>> {
        match &self.key {
            Some((key, fingerprint)) => requests::recall(tx.connection(), key, fingerprint),
            None => Ok(None),
        }
    }

    /// Fails while another live process owns the controller.
    fn check_free(&self, tx: &Tx<'_>, row: &ControllerRow, earlier: Option<&str>) -> Result<()> {
        let Some(current) = controllers::owner(tx.connection(), row.id)? else { return Ok(()) };
        // An owner that may be alive keeps its ownership.
        let has_ended = alive(&current, &self.boot_id) == Some(false);
        let is_ours = earlier == Some(current.instance_id.as_str());
        let owns = match &self.handle {
            Some(handle) => controllers::worth(tx.connection(), handle, row)? == HandleValidity::Current,
            None => false,
        };
        if has_ended || is_ours || owns {
            return Ok(());
        }
        // A second shell usually wants to use the workspace, not to own it.
        let joined = match controllers::requires_handle(tx.connection(), row.id)? {
            true => "",
            false => {
                "go on without `controller init`: commands of this workspace need no owner's handle; to be its owner, "
            }
        };
        Err(Error::new(
            Code::ControllerOwnershipConflict,
            format!(
                "controller {} has an owner: process {}, epoch {}",
                row.controller_id, current.process.pid, current.epoch
            ),
        )
        .with("controllerId", row.controller_id.as_str())
        .recommend(format!(
            "{joined}use the owner's SUBAGENT_CTL_* variables, let that process end first, or take the workspace away \
             from it with `subagent controller attach --takeover`",
        )))
    }

    fn grant(self, tx: &Tx<'_>, row: ControllerRow) -> Result<ControllerInitialized> {
        let Self { instance_id, token, process, boot_id, key, now, .. } = self;
        let new = NewOwner { instance_id: instance_id.clone(), process, boot_id, token: token.clone() };
        let epoch = controllers::insert_owner(tx, row.id, &new, now)?;
        if let Some((key, fingerprint)) = &key {
            requests::remember(tx, key, fingerprint, instance_id.as_str(), now)?;
        }
        Ok(ControllerInitialized {
            controller_id: row.controller_id.clone(),
            label: row.label,
            workspace_key: row.workspace_key,
            require_handle: controllers::requires_handle(tx.connection(), row.id)?,
            owner: OwnerGranted {
                controller_id: row.controller_id,
                instance_id,
                epoch,
                pid: process.pid,
                created_at: now,
                token,
            },
        })
    }
}

/// Selects the controller to create or take: the named one; the hinted one if it belongs to this
/// workspace or its workspace moved; that of the workspace; the hinted id if its database was
/// removed; a new one.
pub(crate) fn controller_to_init(
    tx: &Tx<'_>,
    choice: &ControllerChoice,
    fresh: ControllerId,
) -> Result<ControllerId> {
    let holder = controllers::by_workspace(tx.connection(), &choice.workspace_key)?;
    let controller_id = match (&choice.controller_id, &choice.hinted_controller_id) {
        (Some(named), _) => named.parse().map_err(|error: InvalidId| {
            Error::new(Code::InvalidArgument, error.to_string()).with("controllerId", named.as_str())
        })?,
        (None, Some(hinted)) => match (controllers::by_id(tx.connection(), hinted)?, &holder) {
            (Some(known), _) if known.workspace_key == choice.workspace_key || has_moved(&known) => {
                known.controller_id
            }
            (_, Some(holder)) => holder.controller_id.clone(),
            // The hint came with a copy of another workspace that still exists and keeps its
            // controller.
            (Some(_), None) => fresh,
            (None, None) => hinted.parse().unwrap_or(fresh),
        },
        (None, None) => holder.as_ref().map_or(fresh, |holder| holder.controller_id.clone()),
    };
    match holder.filter(|holder| holder.controller_id != controller_id) {
        None => Ok(controller_id),
        Some(holder) => Err(Error::new(
            Code::ControllerOwnershipConflict,
            format!("the workspace belongs to controller {}, not to {controller_id}", holder.controller_id),
        )
        .with("workspaceKey", choice.workspace_key.as_str())
        .recommend(format!("name it: --controller-id {}", holder.controller_id))),
    }
}

/// Returns whether the workspace of a controller is missing at its path. A path that cannot be read
/// counts as present.
fn has_moved(controller: &ControllerRow) -> bool {
    let found = fs::metadata(&controller.workspace_key);
    found.is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}

/// Checks that the caller is the owner, for a release without force.
fn check_release(tx: &Tx<'_>, handle: Option<&ControllerHandle>, row: &ControllerRow) -> Result<()> {
    let refused = |message: &str| {
        Error::new(Code::InvalidControllerHandle, message)
            .with("controllerId", row.controller_id.as_str())
            .recommend("set the owner's SUBAGENT_CTL_* variables, or use --force")
    };
    let Some(handle) = handle else {
        return Err(refused(
            "only the owner can release: SUBAGENT_CTL_ID, _EPOCH and _TOKEN are not all set",
        ));
    };
    match controllers::worth(tx.connection(), handle, row)? {
        HandleValidity::Current => Ok(()),
        HandleValidity::OfAnother => {
            Err(refused("the owner handle in SUBAGENT_CTL_* is for another controller")
                .with("envControllerId", handle.controller_id.as_str())
                .with("targetControllerId", row.controller_id.as_str()))
        }
        HandleValidity::NoEpoch => Err(refused("SUBAGENT_CTL_EPOCH is not a whole number")),
        HandleValidity::Stale => {
            let error = refused("the owner handle in SUBAGENT_CTL_* is not the current one");
            Err(match handle.epoch_number() {
                Some(epoch) => error.with("epoch", epoch),
                None => error,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use subagent_protocol::api::ControllerHandle;

    use super::*;
    use crate::supervisor::testing::{choice, folder, init, own_process, setup};

    fn handle(granted: &ControllerInitialized) -> ControllerHandle {
        ControllerHandle {
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
        let caller = ApiCaller { handle: Some(handle(granted)), idempotency_key: None };
        crate::supervisor::controllers::resolve_controller(supervisor, caller, choice(dir)).await.is_ok()
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
        assert!(!is_owner(&supervisor, dir.path(), &first).await, "the lost answer grants no ownership");
        assert!(!is_owner(&supervisor, dir.path(), &again).await);
        assert!(is_owner(&supervisor, dir.path(), &third).await);
        for key in [Some("other"), None] {
            let error = init(&supervisor, dir.path(), me, key).await.unwrap_err();
            assert_eq!(error.code, Code::ControllerOwnershipConflict, "{key:?}");
        }
        // Another process makes another request, even with the same key.
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
        // A dead owner: no process has this pid and start time.
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
