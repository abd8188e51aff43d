//! Schedules: work at certain times, and the result of each time.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::api::controllers::ControllerChoice;
use crate::api::tasks::RunTask;
use crate::error::Error;
use crate::ids::{ControllerId, TurnId, WorkerId};
use crate::schedule::{FiringStatus, MAX_FAILURES, Missed, Overlap, SchedulePause, When};
use crate::state::words;
use crate::time::Timestamp;

/// `POST /v1/schedules`: adds a schedule.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AddSchedule {
    /// The controller that owns the schedule.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Name, unique in the state directory.
    pub name: String,
    /// The times at which it fires.
    pub when: When,
    /// IANA name of the time zone; UTC if absent.
    #[serde(default = "utc")]
    pub timezone: String,
    /// Handling of times at which no daemon was running.
    #[serde(default = "once")]
    pub missed: Missed,
    /// Handling of times at which an earlier firing is still running.
    #[serde(default = "queue")]
    pub overlap: Overlap,
    /// Number of consecutive failures after which it is paused; zero: never.
    #[serde(default = "max_failures")]
    pub max_failures: u32,
    /// The work to start.
    pub work: ScheduledWork,
}

fn utc() -> String {
    "UTC".to_owned()
}

const fn once() -> Missed {
    Missed::Once
}

pub(in crate::api) const fn queue() -> Overlap {
    Overlap::Queue
}

pub(super) const fn max_failures() -> u32 {
    MAX_FAILURES
}

/// The work that a schedule starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum ScheduledWork {
    /// A manager's task. Its agent gets the environment of the daemon's start: `env` of its
    /// place is not stored.
    Task(Box<RunTask>),
    /// A message to a worker.
    Send(ScheduledMessage),
}

/// A message that a schedule sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduledMessage {
    /// The worker: its id, its name, or a prefix of its id. The id is stored, but the name of an
    /// entry of a config file stays: it is looked up at each firing.
    pub worker: String,
    /// Text of the message.
    pub text: String,
}

words! {
    /// What will run a schedule at its next time.
    Attendant {
        /// A daemon under a service manager, or in the foreground.
        Service = "service",
        /// The daemon in the background: it runs until then.
        Daemon = "daemon",
        /// No daemon, unless a command starts one before.
        Unattended = "unattended",
    }
}

/// A schedule. It is the data of `schedule.added`,
/// `schedule.shown`, `schedule.paused` and `schedule.resumed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView {
    /// Name of the schedule.
    pub name: String,
    /// The controller that owns it.
    pub controller_id: ControllerId,
    /// The times at which it fires.
    pub when: When,
    /// IANA name of its time zone.
    pub timezone: String,
    /// Handling of times at which no daemon was running.
    pub missed: Missed,
    /// Handling of times at which an earlier firing is still running.
    pub overlap: Overlap,
    /// Number of consecutive failures after which it is paused; zero: never.
    pub max_failures: u32,
    /// The work it starts.
    pub work: ScheduledWork,
    /// The next time it fires; null if paused or finished.
    pub next_at: Option<Timestamp>,
    /// What will run it then; null without a next time.
    pub attendant: Option<Attendant>,
    /// Number of consecutive failed firings.
    pub failures: u32,
    /// Why it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<SchedulePause>,
    /// The error that paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// The newest firing of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_firing: Option<FiringView>,
    /// Time when it was added.
    pub created_at: Timestamp,
    /// Absolute path of the config file that declares it; absent if a command added it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub declared_in: Option<PathBuf>,
}

/// `GET /v1/schedules`: all schedules.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedules {
    /// The schedules, sorted by name.
    pub items: Vec<ScheduleView>,
    /// Number of the schedules.
    pub count: usize,
    /// Schedules of the config file that are not in effect as they are declared there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<DeclarationProblem>,
}

/// Why a schedule or a trigger of the config file is not in effect as it is declared. An earlier
/// version of it stays.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeclarationProblem {
    /// Name of the schedule or the trigger; absent if the whole file cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Absolute path of the config file.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// Line of its name from 1, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The reason, with an advice.
    pub error: Error,
}

/// The result of one time of a schedule, or of one occurrence of a trigger.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FiringView {
    /// Name of the schedule or the trigger.
    pub schedule: String,
    /// The time for which it fired.
    pub at: Timestamp,
    /// Identifier of the occurrence, if a trigger fired for one that has an identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<String>,
    /// Whether a user requested it.
    pub manual: bool,
    /// Number of missed times before it that do not fire, at most 1000.
    pub left_out: u64,
    /// Status of the firing.
    pub status: FiringStatus,
    /// The task, or the worker that got the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The turn of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Why it was skipped, could not be started, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// Time when it was noticed.
    pub created_at: Timestamp,
    /// Time when its task or turn was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Time when its end was noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// `GET /v1/schedules/{schedule}/log`: the firings of a schedule.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Firings {
    /// The firings, newest first.
    pub items: Vec<FiringView>,
    /// Number of the firings.
    pub count: usize,
}

/// `POST /v1/schedules/{schedule}/pause` and the other changes of a schedule or a trigger.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeSchedule {}

/// Data of the response `schedule.removed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleRemoved {
    /// Name of the schedule.
    pub name: String,
}

/// Data of the event `schedule.fired`, of the worker that got a task or a message from a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleFired {
    /// Name of the schedule.
    pub schedule: String,
    /// The time for which it fired.
    pub at: Timestamp,
    /// Number of missed times before it that do not fire, at most 1000.
    pub left_out: u64,
}

/// Data of the event `schedule.paused`, of the worker of the newest firing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SchedulePaused {
    /// Name of the schedule.
    pub schedule: String,
    /// Why it no longer fires.
    pub reason: SchedulePause,
    /// The last error, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}
