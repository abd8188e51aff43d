//! Schedules: what is started at which times, and what became of each time.

use serde::{Deserialize, Serialize};

use super::controllers::ControllerChoice;
use super::tasks::RunTask;
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
    /// Whose schedule it is.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Its name, unique in the state dir.
    pub name: String,
    /// When it fires.
    pub when: When,
    /// The time zone by its IANA name; without one UTC.
    #[serde(default = "utc")]
    pub timezone: String,
    /// What happens to times at which no daemon was there.
    #[serde(default = "once")]
    pub missed: Missed,
    /// What happens while an earlier firing is running.
    #[serde(default = "queue")]
    pub overlap: Overlap,
    /// The number of failed firings in a row that pauses it; zero: never.
    #[serde(default = "max_failures")]
    pub max_failures: u32,
    /// What it starts.
    pub work: ScheduledWork,
}

fn utc() -> String {
    "UTC".to_owned()
}

const fn once() -> Missed {
    Missed::Once
}

const fn queue() -> Overlap {
    Overlap::Queue
}

const fn max_failures() -> u32 {
    MAX_FAILURES
}

/// What a schedule starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum ScheduledWork {
    /// A task of a manager, whose agent gets the environment in which the daemon was started: `env` of its place is not kept.
    Task(Box<RunTask>),
    /// A message to a worker.
    Send(ScheduledMessage),
}

/// A message that a schedule sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduledMessage {
    /// The worker: its id, its name, or the beginning of its id. Its id is kept.
    pub worker: String,
    /// The message.
    pub text: String,
}

words! {
    /// Who fires a schedule at its next time.
    Attendant {
        /// The daemon of a service manager, or one in the foreground.
        Service = "service",
        /// The daemon in the background: it stays until then.
        Daemon = "daemon",
        /// No daemon, unless a command starts one before.
        Unattended = "unattended",
    }
}

/// A schedule. Data of `schedule.added`, `schedule.shown`, `schedule.paused` and `schedule.resumed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub controller_id: ControllerId,
    /// When it fires.
    pub when: When,
    /// Its time zone.
    pub timezone: String,
    /// What happens to times at which no daemon was there.
    pub missed: Missed,
    /// What happens while an earlier firing is running.
    pub overlap: Overlap,
    /// The number of failed firings in a row that pauses it; zero: never.
    pub max_failures: u32,
    /// What it starts.
    pub work: ScheduledWork,
    /// The next time at which it fires; null if it is paused or none comes any more.
    pub next_at: Option<Timestamp>,
    /// Who will be there then; null without a next time.
    pub attendant: Option<Attendant>,
    /// How many firings have failed in a row.
    pub failures: u32,
    /// Why it does not fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<SchedulePause>,
    /// More about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// Its newest firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_firing: Option<FiringView>,
    /// When it was added.
    pub created_at: Timestamp,
}

/// `GET /v1/schedules`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedules {
    /// By name.
    pub items: Vec<ScheduleView>,
    /// How many there are.
    pub count: usize,
}

/// What became of one time of a schedule.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FiringView {
    /// The schedule.
    pub schedule: String,
    /// The time for which it fired.
    pub at: Timestamp,
    /// Whether a person asked for it.
    pub manual: bool,
    /// How many missed times before it do not fire, at most 1000.
    pub left_out: u64,
    /// How far it is.
    pub status: FiringStatus,
    /// The task, or the worker that got the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The turn of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Why it was left out, or could not be started, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// When it was noticed.
    pub created_at: Timestamp,
    /// When its task or turn was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When its end was noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// `GET /v1/schedules/{schedule}/log`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Firings {
    /// Newest first.
    pub items: Vec<FiringView>,
    /// How many there are.
    pub count: usize,
}

/// `POST /v1/schedules/{schedule}/pause` and the other changes of a schedule.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeSchedule {}

/// Data of `schedule.removed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleRemoved {
    /// Its name.
    pub name: String,
}

/// Data of the event `schedule.fired`, of the worker that a schedule has given a task or a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleFired {
    /// The schedule.
    pub schedule: String,
    /// The time for which it fired.
    pub at: Timestamp,
    /// How many missed times before it do not fire, at most 1000.
    pub left_out: u64,
}

/// Data of the event `schedule.paused`, of the worker of the newest firing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SchedulePaused {
    /// The schedule.
    pub schedule: String,
    /// Why it does not fire any more.
    pub reason: SchedulePause,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}
