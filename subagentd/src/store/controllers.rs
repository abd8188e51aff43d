//! Rows of controllers and their owners.

use rusqlite::{Connection, params};
use sha2::{Digest as _, Sha256};
use subagent_protocol::api::ControllerHandle;
use subagent_protocol::ids::{ControllerId, InstanceId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::error::StoreError;
use super::rows::{self, RowId};
use super::tx::{Tx, signed};

/// A controller as stored.
#[derive(Debug, Clone)]
pub(crate) struct ControllerRow {
    /// Primary key of the row.
    pub id: RowId,
    /// Public id of the controller.
    pub controller_id: ControllerId,
    /// Label shown to users.
    pub label: String,
    /// Key of the workspace that it controls.
    pub workspace_key: String,
}

/// An active ownership as stored.
#[derive(Debug, Clone)]
pub(crate) struct OwnerRow {
    /// Id of the owner instance.
    pub instance_id: InstanceId,
    /// Epoch of the ownership; rises with each one.
    pub epoch: u64,
    /// Process of the owner.
    pub process: ProcessId,
    /// Boot id under which that process runs.
    pub boot_id: String,
    /// Start of the ownership.
    pub created_at: Timestamp,
}

/// An ownership to store.
#[derive(Debug)]
pub(crate) struct NewOwner {
    /// Id of the owner instance.
    pub instance_id: InstanceId,
    /// Process of the owner.
    pub process: ProcessId,
    /// Boot id under which that process runs.
    pub boot_id: String,
    /// The secret token; only its hash is stored.
    pub token: String,
}

/// The caller's handle, checked in the transaction of the change. `None` if the request has none.
#[derive(Debug, Clone)]
pub(crate) struct OwnerCheck(pub Option<ControllerHandle>);

/// The validity of a handle for a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandleValidity {
    /// The handle of the current owner.
    Current,
    /// A former handle, or one that never existed.
    Stale,
    /// A handle of another controller.
    OfAnother,
    /// The epoch is not a number.
    NoEpoch,
}

/// Makes the owner's handle mandatory for changes of this controller's workers. This is
/// permanent.
pub(crate) fn require_handle(tx: &Tx<'_>, controller: RowId) -> Result<()> {
    tx.execute("UPDATE controllers SET require_handle = 1 WHERE id = ?1", [controller.0])?;
    Ok(())
}

/// Ends the active ownership of a controller, if there is one.
pub(crate) fn release_owner(tx: &Tx<'_>, controller: RowId, now: Timestamp) -> Result<()> {
    if subagent_failpoint::sabotaged("owner.keep") {
        return tx.execute("DROP INDEX IF EXISTS one_active_owner", []).map(drop);
    }
    tx.execute(
        "UPDATE owners SET released_at = ?2 WHERE controller = ?1 AND released_at IS NULL",
        params![controller.0, now.0],
    )?;
    Ok(())
}

/// Creates a controller, or updates its label.
pub(crate) fn upsert(
    tx: &Tx<'_>,
    controller_id: &ControllerId,
    label: Option<&str>,
    workspace_key: &str,
    now: Timestamp,
) -> Result<ControllerRow> {
    tx.execute(
        "INSERT INTO controllers (controller_id, label, workspace_key, created_at, updated_at)
         VALUES (?1, coalesce(?2, 'default-manager'), ?3, ?4, ?4)
         ON CONFLICT (controller_id) DO UPDATE
         SET label = coalesce(?2, label), workspace_key = ?3, updated_at = ?4",
        params![controller_id.as_str(), label, workspace_key, now.0],
    )?;
    by_id(tx.connection, controller_id.as_str())?
        .ok_or_else(|| StoreError::BadRow(format!("controller {controller_id} vanished")).into())
}

/// Stores a new owner, ends the previous ownership and returns the new epoch.
pub(crate) fn insert_owner(tx: &Tx<'_>, controller: RowId, owner: &NewOwner, now: Timestamp) -> Result<u64> {
    release_owner(tx, controller, now)?;
    let epoch: i64 = rows::one(
        tx.connection,
        "SELECT coalesce(max(epoch), 0) + 1 FROM owners WHERE controller = ?1",
        [controller.0],
        |row| row.get(0),
    )?;
    tx.execute(
        "INSERT INTO owners (controller, instance_id, epoch, token_hash, pid, start_time, boot_id, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            controller.0,
            owner.instance_id.as_str(),
            epoch,
            hash(&owner.token),
            owner.process.pid,
            signed(owner.process.start_time),
            owner.boot_id,
            now.0,
        ],
    )?;
    Ok(epoch.unsigned_abs())
}

fn hash(token: &str) -> Vec<u8> {
    Sha256::digest(token.as_bytes()).to_vec()
}

/// Checks that the caller may change this controller: with the owner's handle, or without a handle
/// unless the controller requires one.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE`.
pub(crate) fn check_owner(
    connection: &Connection,
    check: &OwnerCheck,
    controller: &ControllerRow,
) -> Result<()> {
    let error = |message: &str| Error::new(Code::InvalidControllerHandle, message);
    let id = controller.controller_id.as_str();
    let Some(handle) = &check.0 else {
        if !requires_handle(connection, controller.id)? {
            return Ok(());
        }
        let message = "this controller was initialised with --require-handle: only its owner's handle can \
                       change its workers, and SUBAGENT_CTL_ID, _EPOCH and _TOKEN are not all set";
        return Err(error(message).with("controllerId", id).with("requireHandle", true).recommend(
            "set the three variables as `controller init --print-env` printed them; if they are lost, \
             `subagent controller attach --takeover --print-env` gives new ones",
        ));
    };
    match worth(connection, handle, controller)? {
        HandleValidity::Current => Ok(()),
        _ if subagent_failpoint::sabotaged("handle.trust") => Ok(()),
        HandleValidity::NoEpoch => Err(error("SUBAGENT_CTL_EPOCH is not a whole number")),
        HandleValidity::OfAnother => Err(error("the owner handle in SUBAGENT_CTL_* is for another controller")
            .with("envControllerId", handle.controller_id.as_str())
            .with("targetControllerId", id)),
        HandleValidity::Stale => Err(error(
            "the owner handle in SUBAGENT_CTL_* is not the current one: another owner has taken over, or it was released",
        )
        .with("controllerId", id)
        .recommend("unset SUBAGENT_CTL_ID, SUBAGENT_CTL_EPOCH and SUBAGENT_CTL_TOKEN, or own the controller again")),
    }
}

/// Same as [`check_owner`], for a controller id.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE`.
pub(crate) fn check_owner_of(
    connection: &Connection,
    check: &OwnerCheck,
    controller_id: &ControllerId,
) -> Result<()> {
    match by_id(connection, controller_id.as_str())? {
        Some(controller) => check_owner(connection, check, &controller),
        None => Err(StoreError::BadRow(format!("controller {controller_id} is gone")).into()),
    }
}

/// Classifies a handle for a controller.
pub(crate) fn worth(
    connection: &Connection,
    handle: &ControllerHandle,
    controller: &ControllerRow,
) -> Result<HandleValidity> {
    let Some(epoch) = handle.epoch_number() else { return Ok(HandleValidity::NoEpoch) };
    if handle.controller_id != controller.controller_id.as_str() {
        return Ok(HandleValidity::OfAnother);
    }
    let stored: Option<Vec<u8>> = rows::optional(
        connection,
        "SELECT token_hash FROM owners WHERE controller = ?1 AND epoch = ?2 AND released_at IS NULL",
        params![controller.id.0, epoch],
        |row| row.get(0),
    )?;
    // Hashes are compared, so the duration does not reveal the token.
    let current = stored.is_some_and(|stored| stored == hash(&handle.token));
    Ok(if current { HandleValidity::Current } else { HandleValidity::Stale })
}

/// Whether changes of this controller's workers require the owner's handle.
pub(crate) fn requires_handle(connection: &Connection, controller: RowId) -> Result<bool> {
    let sql = "SELECT require_handle FROM controllers WHERE id = ?1";
    rows::one(connection, sql, [controller.0], |row| row.get(0))
}

/// Lists all controllers, or those of one workspace, newest first.
pub(crate) fn list(connection: &Connection, workspace_key: Option<&str>) -> Result<Vec<ControllerRow>> {
    let sql = "SELECT id, controller_id, label, workspace_key FROM controllers
               WHERE ?1 IS NULL OR workspace_key = ?1 ORDER BY id DESC";
    rows::all(connection, sql, [workspace_key], read)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<ControllerRow> {
    Ok(ControllerRow {
        id: RowId(row.get(0)?),
        controller_id: rows::parsed(row, 1)?,
        label: row.get(2)?,
        workspace_key: row.get(3)?,
    })
}

/// Lists the controllers that have a worker that is not stopped.
pub(crate) fn with_workers(connection: &Connection) -> Result<Vec<ControllerRow>> {
    let sql = "SELECT id, controller_id, label, workspace_key FROM controllers c
               WHERE EXISTS (SELECT 1 FROM workers w WHERE w.controller = c.id AND w.state <> 'stopped') ORDER BY id";
    rows::all(connection, sql, [], read)
}

/// Finds a controller by its public id.
pub(crate) fn by_id(connection: &Connection, controller_id: &str) -> Result<Option<ControllerRow>> {
    let sql = "SELECT id, controller_id, label, workspace_key FROM controllers WHERE controller_id = ?1";
    rows::optional(connection, sql, [controller_id], read)
}

/// Finds the controller of a workspace.
pub(crate) fn by_workspace(connection: &Connection, workspace_key: &str) -> Result<Option<ControllerRow>> {
    let sql = "SELECT id, controller_id, label, workspace_key FROM controllers WHERE workspace_key = ?1";
    rows::optional(connection, sql, [workspace_key], read)
}

/// Returns the active owner of a controller.
pub(crate) fn owner(connection: &Connection, controller: RowId) -> Result<Option<OwnerRow>> {
    let sql = "SELECT instance_id, epoch, pid, start_time, boot_id, created_at FROM owners
               WHERE controller = ?1 AND released_at IS NULL";
    rows::optional(connection, sql, [controller.0], |row| {
        Ok(OwnerRow {
            instance_id: rows::parsed(row, 0)?,
            epoch: rows::unsigned(row, 1)?,
            process: ProcessId { pid: row.get(2)?, start_time: rows::unsigned(row, 3)? },
            boot_id: row.get(4)?,
            created_at: Timestamp(row.get(5)?),
        })
    })
}
