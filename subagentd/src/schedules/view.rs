//! Schedules as they are shown.

use subagent_protocol::api::{ScheduleView, ScheduledWork};
use subagent_protocol::schedule::SchedulePause;
use subagent_protocol::{Code, Error, Result};

use super::context::{Context, times};
use crate::store::schedules::{self, ScheduleRow};
use crate::store::workers;
use crate::supervisor::{Stream, entropy};

/// Why no message can be sent to a worker, if that is so.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn trouble(stream: &Stream, worker: &str) -> Result<Option<Error>> {
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

/// A schedule with its next time.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn schedule(context: &Context, row: ScheduleRow) -> Result<ScheduleView> {
    let of = row.clone();
    let last = context.stream.store.read(move |connection| schedules::log(connection, &of, 1)).await?.pop();
    let trouble = match &row.work {
        ScheduledWork::Send(message) if row.paused != Some(SchedulePause::WorkerGone) => {
            trouble(&context.stream, &message.worker).await?
        }
        _ => None,
    };
    let now = entropy::now();
    let next = match row.paused {
        Some(_) => None,
        None => times(&row).ok().and_then(|times| times.next(now)),
    };
    Ok(ScheduleView {
        attendant: next.map(|next| context.stay.attendant(next, now)),
        next_at: next,
        name: row.name,
        controller_id: row.controller_id,
        when: row.times.when,
        timezone: row.times.timezone,
        missed: row.times.missed,
        overlap: row.times.overlap,
        max_failures: row.times.max_failures,
        work: row.work,
        failures: row.failures,
        paused: row.paused,
        error: row.error.or(trouble),
        last_firing: last,
        created_at: row.created_at,
    })
}
