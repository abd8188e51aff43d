//! Checks of a schedule or a trigger before it is stored.

use std::path::Path;

use subagent_protocol::api::ScheduledWork;
use subagent_protocol::schedule::{MAX_NAME_BYTES, When, is_name};
use subagent_protocol::time::Timestamp;
use subagent_protocol::trigger::{TriggerSource, is_sha256};
use subagent_protocol::{Code, Error, Result};

use super::context::{ScheduleContext, zone};
use super::watching::Globs;
use crate::schedule::{Times, template};
use crate::store::Connection;
use crate::store::schedules::{ScheduleKind, trigger_sources};
use crate::supervisor;

/// Schedules and triggers of a state dir.
const MAX_SCHEDULES: usize = 1000;
/// Maximum length of a command, in bytes.
const MAX_COMMAND: usize = 16 * 1024;
/// Maximum time of one run, in seconds.
const MAX_RUN_SECONDS: u64 = 3600;
/// Maximum time between two runs, in seconds: a hundred years.
const MAX_EVERY_SECONDS: u64 = 36_600 * 24 * 3600;
/// Shortest and longest time to wait for further changes, in milliseconds.
const DEBOUNCE: std::ops::RangeInclusive<u64> = 10..=3_600_000;

pub(super) fn wrong(field: &str, problem: String) -> Error {
    Error::new(Code::InvalidArgument, problem).with("field", field)
}

/// Refuses a name that cannot be used.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`.
pub(super) fn check_name(kind: ScheduleKind, name: &str) -> Result<()> {
    if !is_name(name) {
        let message = format!(
            "a {}'s name has 1 to {MAX_NAME_BYTES} letters, digits, `-`, `_` and `.`, and begins with a letter or digit",
            kind.word()
        );
        return Err(wrong("name", message));
    }
    Ok(())
}

/// Checks when it fires, and returns its first time.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`, with `neverComes` if no time is left.
pub(super) fn first_time(when: &When, timezone: &str, now: Timestamp) -> Result<Timestamp> {
    let zone = zone(timezone).map_err(|problem| wrong("timezone", problem))?;
    let times = Times::of(when, zone, now).map_err(|problem| wrong("when", problem))?;
    let never = || wrong("when", "this time never comes".to_owned()).with("neverComes", true);
    times.next(now).ok_or_else(never)
}

/// Checks when it fires. Returns the time of a schedule that fires once, if that time has passed.
///
/// # Errors
/// As [`first_time`].
pub(super) fn passed_time(when: &When, timezone: &str, now: Timestamp) -> Result<Option<Timestamp>> {
    match (first_time(when, timezone, now), when) {
        (Err(error), When::At(_)) if error.details.contains_key("neverComes") => {
            let zone = zone(timezone).map_err(|problem| wrong("timezone", problem))?;
            Ok(Times::of(when, zone, now).map_err(|problem| wrong("when", problem))?.last(now))
        }
        (found, _) => found.map(|_| None),
    }
}

/// Refuses one more than there may be.
///
/// # Errors
/// `INVALID_ARGUMENT{limit}`.
pub(super) fn check_room(count: usize) -> Result<()> {
    if count < MAX_SCHEDULES {
        return Ok(());
    }
    let message = format!("there are {MAX_SCHEDULES} schedules and triggers already");
    Err(Error::new(Code::InvalidArgument, message).with("limit", MAX_SCHEDULES).recommend(
        "remove one that is no longer needed with `subagent schedule rm` or `subagent trigger rm`",
    ))
}

/// What would be started has to exist now.
///
/// # Errors
/// Those of giving its task, `WORKER_NOT_FOUND`, `WORKER_STOPPED`.
pub(super) async fn check_work(context: &ScheduleContext, work: &mut ScheduledWork) -> Result<()> {
    match work {
        ScheduledWork::Task(task) => {
            supervisor::tasks::spawn::check_task(&context.supervisor, &context.with_environment(task)).await
        }
        ScheduledWork::Send(message) => {
            if message.text.trim().is_empty() {
                return Err(wrong("text", "the message is empty".to_owned()));
            }
            message.worker = supervisor::addresses::find(&context.supervisor, &message.worker).await?;
            let worker = message.worker.clone();
            let read = move |connection: &Connection| trigger_sources::cannot_be_sent_to(connection, &worker);
            match context.stream.store.read(read).await? {
                Some(error) => Err(error),
                None => Ok(()),
            }
        }
    }
}

/// What a trigger waits for and what it starts have to exist now.
///
/// # Errors
/// Those of adding a trigger about its source, its text and its work.
pub(super) async fn check_trigger(
    context: &ScheduleContext,
    source: &mut TriggerSource,
    work: &mut ScheduledWork,
) -> Result<()> {
    template::check(text_of(work)).map_err(|problem| wrong("text", problem))?;
    let task = check_source(context, source).await?;
    check_work(context, work).await?;
    if let (Some(task), ScheduledWork::Send(message)) = (task, work)
        && message.worker == task
    {
        let message = "the message would run the task again, and its end would send the message again";
        return Err(wrong("work", message.to_owned()).with("workerId", task));
    }
    Ok(())
}

/// What a trigger waits for has to exist now. Returns the worker of the task that it waits for.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`, `WORKER_NOT_FOUND`, `WORKER_STOPPED`.
async fn check_source(context: &ScheduleContext, source: &mut TriggerSource) -> Result<Option<String>> {
    check_form(source)?;
    match source {
        TriggerSource::After { worker, .. } => {
            *worker = supervisor::addresses::find(&context.supervisor, worker).await?;
            let id = worker.clone();
            let read = move |connection: &Connection| trigger_sources::task_of_source(connection, &id);
            return context.stream.store.read(read).await;
        }
        TriggerSource::Command { cwd: folder, .. } | TriggerSource::Files { folder, .. } => {
            check_folder(context, folder).await?;
        }
        TriggerSource::Request {} | TriggerSource::Webhook { .. } => {}
    }
    Ok(None)
}

/// Checks what needs neither the store nor the file system.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`.
pub(super) fn check_form(source: &TriggerSource) -> Result<()> {
    let refused = |problem: &str| Err(wrong("source", problem.to_owned()));
    match source {
        TriggerSource::Request {} | TriggerSource::After { .. } => {}
        TriggerSource::Command { command, every_seconds, timeout_seconds, .. } => {
            if command.trim().is_empty() || command.len() > MAX_COMMAND || command.contains('\0') {
                return refused("the command is empty, too long, or has a NUL character");
            }
            if !(1..=MAX_EVERY_SECONDS).contains(every_seconds) {
                return refused("a command runs every second, or less often");
            }
            if !(1..=MAX_RUN_SECONDS).contains(timeout_seconds) {
                return refused("the deadline of a command is 1 to 3600 seconds");
            }
        }
        TriggerSource::Files { globs, debounce_ms, .. } => {
            Globs::new(globs).map_err(|problem| wrong("source", problem))?;
            if !DEBOUNCE.contains(debounce_ms) {
                return refused("the time to wait for further changes is 10 ms to an hour");
            }
        }
        TriggerSource::Webhook { token_sha256 } => {
            if !token_sha256.as_deref().is_some_and(is_sha256) {
                return refused("a webhook needs the SHA-256 of its token, as 64 lowercase digits");
            }
        }
    }
    Ok(())
}

async fn check_folder(context: &ScheduleContext, folder: &Path) -> Result<()> {
    let looked_at = folder.to_owned();
    if folder.is_absolute() && context.folders.look(folder, move || looked_at.is_dir()).await? {
        return Ok(());
    }
    Err(wrong("source", format!("{} is not the absolute path of a folder", folder.display())))
}

fn text_of(work: &ScheduledWork) -> &str {
    match work {
        ScheduledWork::Task(task) => &task.prompt,
        ScheduledWork::Send(message) => &message.text,
    }
}
