//! Triggers: work that events start, and the result of each firing.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::schedules::{Attendant, DeclarationProblem, FiringView, ScheduledWork, max_failures, queue};
use crate::api::controllers::ControllerChoice;
use crate::error::Error;
use crate::ids::ControllerId;
use crate::schedule::{Overlap, SchedulePause};
use crate::time::Timestamp;
use crate::trigger::TriggerSource;

/// `POST /v1/triggers`: adds a trigger.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AddTrigger {
    /// The controller that owns the trigger.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Name, unique among the triggers and schedules of the state directory.
    pub name: String,
    /// The occurrences that fire it.
    pub source: TriggerSource,
    /// Handling of occurrences at which an earlier firing is still running.
    #[serde(default = "queue")]
    pub overlap: Overlap,
    /// Number of consecutive failures after which it is paused; zero: never.
    #[serde(default = "max_failures")]
    pub max_failures: u32,
    /// The work to start. `{{payload}}` in its text is replaced by the payload, marked as data.
    pub work: ScheduledWork,
}

/// A trigger. It is the data of `trigger.added`, `trigger.shown`, `trigger.paused` and
/// `trigger.resumed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TriggerView {
    /// Name of the trigger.
    pub name: String,
    /// The controller that owns it.
    pub controller_id: ControllerId,
    /// The occurrences that fire it.
    pub source: TriggerSource,
    /// Handling of occurrences at which an earlier firing is still running.
    pub overlap: Overlap,
    /// Number of consecutive failures after which it is paused; zero: never.
    pub max_failures: u32,
    /// The work it starts.
    pub work: ScheduledWork,
    /// What notices the occurrences; null if it is paused, or if its source needs no observer.
    pub attendant: Option<Attendant>,
    /// Number of consecutive failed firings.
    pub failures: u32,
    /// Why it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<SchedulePause>,
    /// The error that paused it, or that keeps it from firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// The newest firing of the trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_firing: Option<FiringView>,
    /// Time when it was added.
    pub created_at: Timestamp,
    /// Absolute path of the config file that declares it; absent if a command added it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub declared_in: Option<PathBuf>,
}

/// `GET /v1/triggers`: all triggers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Triggers {
    /// The triggers, sorted by name.
    pub items: Vec<TriggerView>,
    /// Number of the triggers.
    pub count: usize,
    /// Triggers of the config file that are not in effect as they are declared there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<DeclarationProblem>,
}

/// `POST /v1/triggers/{trigger}/fire`: fires a trigger with a payload.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FireTrigger {
    /// The payload: at most 65,536 bytes, without NUL characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Identifier of the occurrence, 1 to 200 bytes. A trigger fires at most once for each: a
    /// second request returns the first firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<String>,
}

/// `POST /v1/triggers/{trigger}/deliver`: fires a trigger with a webhook, for the sender of its
/// token. `subagent panel` sends it.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliverTrigger {
    /// The token that was made with the trigger.
    pub token: String,
    /// The occurrence.
    #[serde(flatten)]
    pub fire: FireTrigger,
}

/// Without the token, which no log may hold.
impl fmt::Debug for DeliverTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliverTrigger").field("fire", &self.fire).finish_non_exhaustive()
    }
}

/// Data of the response `trigger.removed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TriggerRemoved {
    /// Name of the trigger.
    pub name: String,
}

/// Data of the event `trigger.fired`, of the worker that got a task or a message from a trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TriggerFired {
    /// Name of the trigger.
    pub trigger: String,
    /// The time of the firing.
    pub at: Timestamp,
    /// Identifier of the occurrence, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<String>,
}

/// Data of the event `trigger.paused`, of the worker of the newest firing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TriggerPaused {
    /// Name of the trigger.
    pub trigger: String,
    /// Why it no longer fires.
    pub reason: SchedulePause,
    /// The last error, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}
