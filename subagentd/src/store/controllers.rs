//! Rows of controllers and their owners.

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest as _, Sha256};
use subagent_protocol::api::Handle;
use subagent_protocol::ids::{ControllerId, InstanceId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::error::StoreError;
use super::rows::{self, RowId};
use super::tx::{Tx, signed};

/// A controller as it is stored.
#[derive(Debug, Clone)]
pub struct ControllerRow {
    /// Its key.
    pub id: RowId,
    /// Its id.
    pub controller_id: ControllerId,
    /// Its label.
    pub label: String,
    /// Its workspace.
    pub workspace_key: String,
}

/// An owner as it is stored.
#[derive(Debug, Clone)]
pub struct OwnerRow {
    /// The ownership.
    pub instance_id: InstanceId,
    /// Its epoch.
    pub epoch: u64,
    /// The owner's process.
    pub process: ProcessId,
    /// Since when.
    pub created_at: Timestamp,
}

/// An ownership to be stored.
#[derive(Debug)]
pub struct NewOwner {
    /// Its id.
    pub instance_id: InstanceId,
    /// The owner's process.
    pub process: ProcessId,
    /// The secret; only its hash is stored.
    pub token: String,
}

/// The handle of a caller, to be checked in the transaction of the change.
#[derive(Debug, Clone)]
pub struct OwnerCheck(pub Option<Handle>);

impl Tx<'_> {
    /// Checks that the caller may change things of this controller: without a handle it may.
    ///
    /// # Errors
    /// `INVALID_CONTROLLER_HANDLE`.
    pub fn check_owner(&self, check: &OwnerCheck, controller: &ControllerRow) -> Result<()> {
        let Some(handle) = &check.0 else { return Ok(()) };
        if verify(self.connection, handle, controller)? {
            return Ok(());
        }
        Err(Error::new(
            Code::InvalidControllerHandle,
            "the owner handle in SUBAGENT_CTL_* is not the current one: somebody has taken over, or it was released",
        )
        .with("controllerId", controller.controller_id.as_str())
        .recommend("unset SUBAGENT_CTL_ID, SUBAGENT_CTL_EPOCH and SUBAGENT_CTL_TOKEN, or own the controller again"))
    }

    /// Makes a controller, or changes its label.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn upsert_controller(
        &self,
        controller_id: &ControllerId,
        label: Option<&str>,
        workspace_key: &str,
        now: Timestamp,
    ) -> Result<ControllerRow> {
        self.execute(
            "INSERT INTO controllers (controller_id, label, workspace_key, created_at, updated_at)
             VALUES (?1, coalesce(?2, 'default-manager'), ?3, ?4, ?4)
             ON CONFLICT (controller_id) DO UPDATE
             SET label = coalesce(?2, label), workspace_key = ?3, updated_at = ?4",
            params![controller_id.as_str(), label, workspace_key, now.0],
        )?;
        by_id(self.connection, controller_id.as_str())?
            .ok_or_else(|| StoreError::BadRow(format!("controller {controller_id} vanished")).into())
    }

    /// Makes somebody the owner, ends the ownership before, and gives the new epoch.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn insert_owner(&self, controller: RowId, owner: &NewOwner, now: Timestamp) -> Result<u64> {
        self.execute(
            "UPDATE owners SET released_at = ?2 WHERE controller = ?1 AND released_at IS NULL",
            params![controller.0, now.0],
        )?;
        let epoch: i64 = self
            .connection
            .query_row(
                "SELECT coalesce(max(epoch), 0) + 1 FROM owners WHERE controller = ?1",
                [controller.0],
                |row| row.get(0),
            )
            .map_err(StoreError::from)?;
        self.execute(
            "INSERT INTO owners (controller, instance_id, epoch, token_hash, pid, start_time, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                controller.0,
                owner.instance_id.as_str(),
                epoch,
                hash(&owner.token),
                owner.process.pid,
                signed(owner.process.start_time),
                now.0,
            ],
        )?;
        Ok(epoch.unsigned_abs())
    }
}

fn hash(token: &str) -> Vec<u8> {
    Sha256::digest(token.as_bytes()).to_vec()
}

/// Whether the handle is that of the controller's owner.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE` for a handle that cannot be one of this controller, `STORAGE_ERROR`.
pub(crate) fn verify(connection: &Connection, handle: &Handle, controller: &ControllerRow) -> Result<bool> {
    let Ok(epoch) = handle.epoch.parse::<i64>() else {
        return Err(Error::new(Code::InvalidControllerHandle, "SUBAGENT_CTL_EPOCH is not a whole number"));
    };
    if handle.controller_id != controller.controller_id.as_str() {
        return Err(Error::new(
            Code::InvalidControllerHandle,
            "the owner handle in SUBAGENT_CTL_* is for another controller",
        )
        .with("envControllerId", handle.controller_id.as_str())
        .with("targetControllerId", controller.controller_id.as_str()));
    }
    let stored: Option<Vec<u8>> = connection
        .query_row(
            "SELECT token_hash FROM owners WHERE controller = ?1 AND epoch = ?2 AND released_at IS NULL",
            params![controller.id.0, epoch],
            |row| row.get(0),
        )
        .optional()
        .map_err(StoreError::from)?;
    // Hashes are compared, so the time that it takes tells nothing about the token.
    Ok(stored.is_some_and(|stored| stored == hash(&handle.token)))
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<ControllerRow> {
    Ok(ControllerRow {
        id: RowId(row.get(0)?),
        controller_id: rows::parsed(row, 1)?,
        label: row.get(2)?,
        workspace_key: row.get(3)?,
    })
}

/// The controller with this id.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn by_id(connection: &Connection, controller_id: &str) -> Result<Option<ControllerRow>> {
    let sql = "SELECT id, controller_id, label, workspace_key FROM controllers WHERE controller_id = ?1";
    Ok(connection.query_row(sql, [controller_id], read).optional().map_err(StoreError::from)?)
}

/// The controller of this workspace.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn by_workspace(connection: &Connection, workspace_key: &str) -> Result<Option<ControllerRow>> {
    let sql = "SELECT id, controller_id, label, workspace_key FROM controllers WHERE workspace_key = ?1";
    Ok(connection.query_row(sql, [workspace_key], read).optional().map_err(StoreError::from)?)
}

/// The owner of a controller.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn owner(connection: &Connection, controller: RowId) -> Result<Option<OwnerRow>> {
    let sql = "SELECT instance_id, epoch, pid, start_time, created_at FROM owners
               WHERE controller = ?1 AND released_at IS NULL";
    let row = connection.query_row(sql, [controller.0], |row| {
        Ok(OwnerRow {
            instance_id: rows::parsed(row, 0)?,
            epoch: rows::unsigned(row, 1)?,
            process: ProcessId { pid: row.get(2)?, start_time: rows::unsigned(row, 3)? },
            created_at: Timestamp(row.get(4)?),
        })
    });
    Ok(row.optional().map_err(StoreError::from)?)
}
