//! Schedules and triggers as they are shown.

use subagent_protocol::api::{FiringView, ScheduleView, ScheduledWork, TriggerView};
use subagent_protocol::schedule::SchedulePause;
use subagent_protocol::trigger::TriggerSource;
use subagent_protocol::{Code, Error, Result};

use super::context::{ScheduleContext, times};
use crate::store::schedules::{self, ScheduleRow, Starter};
use crate::store::workers;
use crate::supervisor::{EventAccess, entropy};

/// Why no message can be sent to a worker, if that is so.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn trouble(stream: &EventAccess, worker: &str) -> Result<Option<Error>> {
    let id = worker.to_owned();
    let row = stream.store.read(move |connection| workers::get(connection, &id)).await?;
    Ok(match row {
        None => {
            let message = format!("there is no worker {worker}");
            Some(Error::new(Code::WorkerNotFound, message).with("workerId", worker))
        }
        Some(row) if matches!(row.state.as_str(), "stopping" | "stopped") => {
            let message = format!("the worker {} is stopped: nothing can be sent to it", row.name);
            Some(Error::new(Code::WorkerStopped, message).with("workerId", worker))
        }
        Some(_) => None,
    })
}

/// Why no turn of a worker ends any more, if that is so.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn source_trouble(stream: &EventAccess, worker: &str) -> Result<Option<Error>> {
    let found = trouble(stream, worker).await?;
    Ok(found.map(|error| match error.code {
        Code::WorkerStopped => {
            let message = format!("the worker {worker} is stopped: it has no turn that could end");
            Error::new(Code::WorkerStopped, message).with("workerId", worker)
        }
        _ => error,
    }))
}

/// Why the work cannot be started now, if that is known.
async fn work_trouble(context: &ScheduleContext, row: &ScheduleRow) -> Result<Option<Error>> {
    match &row.work {
        ScheduledWork::Send(message) if row.paused != Some(SchedulePause::WorkerGone) => {
            trouble(&context.stream, &message.worker).await
        }
        _ => Ok(None),
    }
}

async fn last_firing(context: &ScheduleContext, row: &ScheduleRow) -> Result<Option<FiringView>> {
    let of = row.clone();
    Ok(context.stream.store.read(move |connection| schedules::log(connection, &of, 1)).await?.pop())
}

/// A trigger; `None` for a schedule.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn trigger(context: &ScheduleContext, row: ScheduleRow) -> Result<Option<TriggerView>> {
    let (last_firing, mut trouble) = (last_firing(context, &row).await?, work_trouble(context, &row).await?);
    let Starter::Trigger { source } = row.times.starter else { return Ok(None) };
    if let TriggerSource::After { worker, .. } = &source
        && trouble.is_none()
    {
        trouble = source_trouble(&context.stream, worker).await?;
    }
    Ok(Some(TriggerView {
        name: row.name,
        controller_id: row.controller_id,
        source,
        overlap: row.times.overlap,
        max_failures: row.times.max_failures,
        work: row.work,
        attendant: None,
        failures: row.failures,
        paused: row.paused,
        error: row.error.or(trouble),
        last_firing,
        created_at: row.created_at,
    }))
}

/// A schedule with its next time; `None` for a trigger.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn schedule(context: &ScheduleContext, row: ScheduleRow) -> Result<Option<ScheduleView>> {
    let (last_firing, trouble) = (last_firing(context, &row).await?, work_trouble(context, &row).await?);
    let now = entropy::now();
    let next = match row.paused {
        Some(_) => None,
        None => times(&row).ok().flatten().and_then(|(times, _)| times.next(now)),
    };
    let Starter::Times { when, timezone, missed } = row.times.starter else { return Ok(None) };
    Ok(Some(ScheduleView {
        attendant: next.map(|next| context.stay.attendant(next, now)),
        next_at: next,
        name: row.name,
        controller_id: row.controller_id,
        when,
        timezone,
        missed,
        overlap: row.times.overlap,
        max_failures: row.times.max_failures,
        work: row.work,
        failures: row.failures,
        paused: row.paused,
        error: row.error.or(trouble),
        last_firing,
        created_at: row.created_at,
    }))
}
