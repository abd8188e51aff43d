//! What requests and the owner of schedules share.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use subagent_config::Environment;
use subagent_protocol::api::{Attendant, RunTask, ScheduledWork};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::schedule::{Missed, SchedulePause};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{Notify, watch};

use super::declarations::Declarations;
use super::folders::Folders;
use crate::schedule::{Times, template};
use crate::store::schedules::{self, FiringSource, ScheduleRow};
use crate::store::{Durability, RowId};
use crate::supervisor::{EventAccess, Supervisor, entropy};

/// How long to wait after a failure of the store.
pub(super) const STORE_RETRY: Duration = Duration::from_secs(1);

/// For how long this daemon is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Until its service manager or a person ends it.
    Service,
    /// In the background, for this many milliseconds without work.
    Idle(i64),
    /// In the background, without such an end.
    Background,
}

impl Stay {
    /// Who fires at this time.
    pub(super) fn attendant(self, next: Timestamp, now: Timestamp) -> Attendant {
        match self {
            Self::Service => Attendant::Service,
            Self::Idle(millis) if next.0.saturating_sub(now.0) > millis => Attendant::Unattended,
            Self::Idle(_) | Self::Background => Attendant::Daemon,
        }
    }
}

/// How many rounds have begun and ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    pub(super) begun: u64,
    pub(super) ended: u64,
}

pub(super) struct ScheduleContext {
    pub(super) supervisor: Supervisor,
    pub(super) stream: EventAccess,
    /// The environment in which the daemon was started.
    pub(super) environment: Environment,
    /// `subagent-runtime`, which runs commands.
    pub(super) runtime_program: PathBuf,
    pub(super) stay: Stay,
    /// Those of the user's config file.
    pub(super) declarations: Declarations,
    pub(super) folders: Folders,
    /// Told when a schedule or a firing was changed.
    pub(super) changed: Notify,
    /// The rounds of the owner.
    pub(super) rounds: watch::Sender<Rounds>,
    /// How many schedules have a next time or something that runs.
    pub(super) waiting: watch::Sender<usize>,
    /// Whether the daemon stays for schedules.
    pub(super) busy: watch::Sender<usize>,
    /// Triggers whose folders are watched.
    pub(super) watched: watch::Sender<HashSet<RowId>>,
}

impl ScheduleContext {
    /// A task as it is given: its agent gets the environment in which the daemon was started.
    pub(super) fn with_environment(&self, task: &RunTask) -> RunTask {
        let mut task = task.clone();
        if let Some(place) = &mut task.manager {
            let bytes = |text: &std::ffi::OsStr| Bytes64(text.as_bytes().to_vec());
            place.env =
                self.environment.vars.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
        }
        task
    }
}

/// The work of a firing: a trigger's payload is in its text.
pub(super) fn work(row: &ScheduleRow, payload: Option<&str>) -> ScheduledWork {
    let mut work = row.work.clone();
    if let FiringSource::Trigger { .. } = row.times.starter {
        let text = match &mut work {
            ScheduledWork::Task(task) => &mut task.prompt,
            ScheduledWork::Send(message) => &mut message.text,
        };
        *text = template::render(text, &row.name, payload.unwrap_or_default());
    }
    work
}

/// The times of a schedule; `None` of a trigger.
///
/// # Errors
/// A sentence about what is wrong.
pub(super) fn times(row: &ScheduleRow) -> std::result::Result<Option<(Times, Missed)>, String> {
    match &row.times.starter {
        FiringSource::Times { when, timezone, missed } => {
            Ok(Some((Times::of(when, zone(timezone)?, row.anchor)?, *missed)))
        }
        FiringSource::Trigger { .. } => Ok(None),
    }
}

/// A time zone of the system's database.
///
/// # Errors
/// A sentence about what is wrong.
pub(super) fn zone(name: &str) -> std::result::Result<TimeZone, String> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "/_+-".contains(char);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
        return Err(format!("{name:?} is not the name of a time zone, such as Europe/Berlin or UTC"));
    }
    TimeZone::get(name).map_err(|_| {
        format!("the time zone {name} is not known; names are like Europe/Berlin or UTC, and are read from /usr/share/zoneinfo (tzdata)")
    })
}

/// Whether the daemon could not do it, rather than that it cannot be done.
pub(super) const fn is_of_the_daemon(code: Code) -> bool {
    matches!(code, Code::StorageError | Code::StorageFull | Code::DaemonNotRunning | Code::TooManyOpenFiles)
}

/// Pauses a schedule or a trigger for a reason that is not a user's.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn pause(
    context: &ScheduleContext,
    id: RowId,
    reason: SchedulePause,
    error: Error,
) -> Result<()> {
    let now = entropy::now();
    let write =
        move |tx: &mut crate::store::Tx<'_>| schedules::ends::pause(tx, id, reason, Some(&error), now);
    if let Some((worker, seq)) = context.stream.store.write(Durability::Full, 1, write).await? {
        context.stream.noted(worker, seq);
    }
    Ok(())
}
