//! Controllers: who owns the workers of a workspace.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::budget::Limits;
use crate::ids::{ControllerId, InstanceId};
use crate::process::ProcessId;
use crate::time::Timestamp;

/// Proof of ownership of a controller, as it comes in from the caller's environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Handle {
    /// The controller, unchecked text.
    pub controller_id: String,
    /// The epoch, unchecked text: what is no number is reported, not ignored.
    pub epoch: String,
    /// The secret.
    pub token: String,
}

impl Handle {
    /// Its epoch; `None` if it is no whole number. One beyond all numbers here is the largest: nobody's.
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

    /// What a caller is told of a handle, without its secret: whether it is the owner's.
    #[must_use]
    pub fn shown(&self, valid: bool) -> Value {
        match self.epoch_number() {
            Some(epoch) => {
                json!({"present": true, "valid": valid, "controllerId": self.controller_id, "epoch": epoch})
            }
            None => json!({"present": true, "valid": false, "reason": "ENV_EPOCH_NOT_INTEGER"}),
        }
    }

    /// What a caller without a handle is told of it.
    #[must_use]
    pub fn shown_none() -> Value {
        json!({"present": false, "valid": false})
    }
}

// The token is a secret: it must not reach a log through a debug print.
impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({} epoch {})", self.controller_id, self.epoch)
    }
}

/// Which controller is meant: the first of these that is there.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllerChoice {
    /// Named explicitly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_id: Option<String>,
    /// Found in the workspace's `controller.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hinted_controller_id: Option<String>,
    /// The workspace, whose controller is taken otherwise.
    pub workspace_key: String,
}

/// `POST /v1/controllers`: makes the caller the owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitController {
    /// Which one; without any, a new one is made.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Its label; an existing controller keeps its own without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// From now on its workers are changed with the owner's handle alone. False leaves it as it is.
    #[serde(default)]
    pub require_handle: bool,
    /// What its workers may use together, if it is made now. One that exists keeps what it has.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub budget: Limits,
    /// The process whose life is the ownership's: the caller's session leader.
    pub owner: ProcessId,
}

/// `POST /v1/controllers/attach`: makes the caller the owner of a controller that exists.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AttachController {
    /// Which one.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Also when somebody else owns it.
    #[serde(default)]
    pub takeover: bool,
    /// The process whose life is the ownership's: the caller's session leader.
    pub owner: ProcessId,
}

/// `POST /v1/controllers/release`: ends an ownership.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReleaseController {
    /// Which controller's.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Whoever it is, without a look at the caller's handle.
    #[serde(default)]
    pub force: bool,
}

/// Data of `controller.initialized` and `controller.attached`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllerInitialized {
    /// The controller.
    pub controller_id: ControllerId,
    /// Its label.
    pub label: String,
    /// Its workspace.
    pub workspace_key: String,
    /// Whether its workers are changed with the owner's handle alone.
    pub require_handle: bool,
    /// The new ownership.
    pub owner: OwnerGranted,
}

/// A new ownership, with the secret that is shown once.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerGranted {
    /// The controller.
    pub controller_id: ControllerId,
    /// The ownership.
    pub instance_id: InstanceId,
    /// Its epoch: 1, 2, 3, ...
    pub epoch: u64,
    /// The owner's process.
    pub pid: i32,
    /// Since when.
    pub created_at: Timestamp,
    /// The secret. Only its hash is stored.
    pub token: String,
}

impl std::fmt::Debug for OwnerGranted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnerGranted({} epoch {})", self.controller_id, self.epoch)
    }
}

/// Data of `controller.status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// The controller; null if there is none.
    pub controller_id: Option<ControllerId>,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its workspace.
    pub workspace_key: String,
    /// Whether its workers are changed with the owner's handle alone; absent if there is no controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_handle: Option<bool>,
    /// `active` with an owner, else `dormant`.
    pub state: String,
    /// The owner.
    pub active_owner: Option<OwnerView>,
    /// What the caller's handle is worth.
    pub env_handle: Value,
}

/// An owner, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerView {
    /// The ownership.
    pub instance_id: InstanceId,
    /// Its epoch.
    pub epoch: u64,
    /// The owner's process.
    pub pid: i32,
    /// Since when.
    pub created_at: Timestamp,
}

/// Data of `controller.released`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllerReleased {
    /// The controller.
    pub controller_id: ControllerId,
    /// Whether there was an owner.
    pub released: bool,
    /// `NO_ACTIVE_OWNER` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The ownership that has ended.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = EndedIfAny))]
    pub ended: Option<OwnershipEnded>,
}

/// An ownership that has ended; no field if there was none.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only its schema is used")]
struct EndedIfAny {
    /// When it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released_at: Option<Timestamp>,
    /// Which one it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance_id: Option<InstanceId>,
    /// Its epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
}

/// An ownership that has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnershipEnded {
    /// When.
    pub released_at: Timestamp,
    /// Which one.
    pub instance_id: InstanceId,
    /// Its epoch.
    pub epoch: u64,
}

/// Data of `controller.recovered`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ControllersRecovered {
    /// How many there are.
    pub count: usize,
    /// The controllers, the newest first.
    pub items: Vec<RecoveredController>,
    /// The workspace that was asked for; null: all.
    pub workspace_filter: Option<String>,
}

/// A controller, and whether its owner still lives.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecoveredController {
    /// The controller.
    pub controller_id: ControllerId,
    /// Its label.
    pub label: String,
    /// Its workspace.
    pub workspace_key: String,
    /// Whether its workers are changed with the owner's handle alone.
    pub require_handle: bool,
    /// What is known of its owner.
    pub state: Ownership,
    /// The owner.
    pub active_owner: Option<RecoveredOwner>,
}

/// What is known of a controller's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum Ownership {
    /// There is none.
    Dormant,
    /// Its process lives.
    Active,
    /// Its process has ended.
    Orphaned,
    /// It cannot be told whether its process lives.
    Conflicted,
}

/// An owner, and whether its process lives.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecoveredOwner {
    /// The owner.
    #[serde(flatten)]
    pub owner: OwnerView,
    /// Whether its process lives; null if that cannot be told.
    pub alive: Option<bool>,
}
