//! Controllers: the ownership of a workspace's workers.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::budget::Limits;
use crate::ids::{ControllerId, InstanceId};
use crate::process::ProcessId;
use crate::time::Timestamp;

/// Proof of ownership of a controller, from the caller's environment.
#[derive(Clone, PartialEq, Eq)]
pub struct ControllerHandle {
    /// Id of the controller, as unchecked text.
    pub controller_id: String,
    /// The epoch as unchecked text: invalid numbers are reported and not ignored.
    pub epoch: String,
    /// The secret of the ownership.
    pub token: String,
}

impl ControllerHandle {
    /// Returns the epoch; `None` if it is not an integer. A number out of range becomes the largest
    /// one, which no owner has.
    #[must_use]
    pub fn epoch_number(&self) -> Option<i64> {
        use std::num::IntErrorKind;
        match self.epoch.parse::<i64>() {
            Ok(epoch) => Some(epoch),
            Err(error) => match error.kind() {
                IntErrorKind::PosOverflow => Some(i64::MAX),
                IntErrorKind::NegOverflow => Some(i64::MIN),
                _ => None,
            },
        }
    }

    /// Returns the public part of a handle, and whether it is the owner's.
    #[must_use]
    pub fn shown(&self, valid: bool) -> Value {
        match self.epoch_number() {
            Some(epoch) => {
                json!({"present": true, "valid": valid, "controllerId": self.controller_id, "epoch": epoch})
            }
            None => json!({"present": true, "valid": false, "reason": "ENV_EPOCH_NOT_INTEGER"}),
        }
    }

    /// Returns the same for a caller without a handle.
    #[must_use]
    pub fn shown_none() -> Value {
        json!({"present": false, "valid": false})
    }
}

// The token is a secret: it must not reach a log through a debug print.
impl std::fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({} epoch {})", self.controller_id, self.epoch)
    }
}

/// Selects a controller: the first of these that is present.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllerChoice {
    /// Id named explicitly by the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_id: Option<String>,
    /// Id in the workspace's `controller.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hinted_controller_id: Option<String>,
    /// The workspace, whose controller is used otherwise.
    pub workspace_key: String,
}

/// `POST /v1/controllers`: makes the caller the owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitController {
    /// The controller; a new one is created if there is none.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// The label. If absent, an existing controller keeps its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Require the owner's handle for changes of workers from now on. False changes nothing.
    #[serde(default)]
    pub require_handle: bool,
    /// The budget shared by its workers, for a new controller only.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub budget: Limits,
    /// The owner's process, the caller's session leader: the ownership ends with it.
    pub owner: ProcessId,
}

/// `POST /v1/controllers/attach`: makes the caller the owner of an existing controller.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AttachController {
    /// The controller to attach to.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Take it over even from a live owner.
    #[serde(default)]
    pub takeover: bool,
    /// The owner's process, the caller's session leader: the ownership ends with it.
    pub owner: ProcessId,
}

/// `POST /v1/controllers/release`: ends an ownership.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReleaseController {
    /// The controller to release.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Release any owner, without checking the caller's handle.
    #[serde(default)]
    pub force: bool,
}

/// Data of `controller.initialized` and `controller.attached`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllerInitialized {
    /// Id of the controller.
    pub controller_id: ControllerId,
    /// Label of the controller.
    pub label: String,
    /// Workspace of the controller.
    pub workspace_key: String,
    /// Whether changes of its workers require the owner's handle.
    pub require_handle: bool,
    /// The new ownership, with its secret.
    pub owner: OwnerGranted,
}

/// A new ownership, with the secret that is shown only once.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerGranted {
    /// Id of the controller.
    pub controller_id: ControllerId,
    /// Id of the ownership.
    pub instance_id: InstanceId,
    /// The epoch of the ownership: 1, 2, 3, ...
    pub epoch: u64,
    /// Pid of the owner's process.
    pub pid: i32,
    /// Start of the ownership.
    pub created_at: Timestamp,
    /// The secret. Only its hash is stored.
    pub token: String,
}

impl std::fmt::Debug for OwnerGranted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnerGranted({} epoch {})", self.controller_id, self.epoch)
    }
}

/// Data of the response `controller.status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Id of the controller; null without one.
    pub controller_id: Option<ControllerId>,
    /// Label of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Key of the workspace.
    pub workspace_key: String,
    /// Whether changes of its workers require the owner's handle; absent without a controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_handle: Option<bool>,
    /// `active` with an owner, otherwise `dormant`.
    pub state: String,
    /// The present owner; null without one.
    pub active_owner: Option<OwnerView>,
    /// The validity of the caller's handle.
    pub env_handle: Value,
}

/// An owner, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerView {
    /// Id of the ownership.
    pub instance_id: InstanceId,
    /// Epoch of the ownership.
    pub epoch: u64,
    /// Pid of the owner's process.
    pub pid: i32,
    /// Start of the ownership.
    pub created_at: Timestamp,
}

/// Data of the response `controller.released`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllerReleased {
    /// Id of the controller.
    pub controller_id: ControllerId,
    /// Whether there was an owner.
    pub released: bool,
    /// `NO_ACTIVE_OWNER` if there was no owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The ownership that has ended.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = EndedIfAny))]
    pub ended: Option<OwnershipEnded>,
}

/// An ownership that has ended; without fields if there was none.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only its schema is used")]
struct EndedIfAny {
    /// End of the ownership.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released_at: Option<Timestamp>,
    /// Id of the ownership.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance_id: Option<InstanceId>,
    /// Epoch of the ownership.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
}

/// An ownership that has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnershipEnded {
    /// End of the ownership.
    pub released_at: Timestamp,
    /// Id of the ownership.
    pub instance_id: InstanceId,
    /// Epoch of the ownership.
    pub epoch: u64,
}

/// Data of the response `controller.recovered`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllersRecovered {
    /// Number of the controllers.
    pub count: usize,
    /// The controllers, newest first.
    pub items: Vec<RecoveredController>,
    /// The requested workspace; null for all.
    pub workspace_filter: Option<String>,
}

/// A controller, and whether its owner is alive.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecoveredController {
    /// Id of the controller.
    pub controller_id: ControllerId,
    /// Label of the controller.
    pub label: String,
    /// Workspace of the controller.
    pub workspace_key: String,
    /// Whether changes of its workers require the owner's handle.
    pub require_handle: bool,
    /// State of its ownership.
    pub state: Ownership,
    /// The present owner; null without one.
    pub active_owner: Option<RecoveredOwner>,
}

/// The state of a controller's ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum Ownership {
    /// There is no owner.
    Dormant,
    /// The owner's process is alive.
    Active,
    /// The owner's process has ended.
    Orphaned,
    /// It is unknown whether the owner's process is alive.
    Conflicted,
}

/// An owner, and whether its process is alive.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecoveredOwner {
    /// The owner without its secret.
    #[serde(flatten)]
    pub owner: OwnerView,
    /// Whether its process is alive; null if unknown.
    pub alive: Option<bool>,
}
