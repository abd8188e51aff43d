//! Schedules and triggers as they are shown.

use subagent_protocol::api::{Attendant, FiringView, ScheduleView, ScheduledWork, TriggerView};
use subagent_protocol::schedule::{FiringStatus, SchedulePause};
use subagent_protocol::trigger::TriggerSource;
use subagent_protocol::{Error, Result};

use super::commands::next_run;
use super::context::{ScheduleContext, times};
use crate::store::Connection;
use crate::store::schedules::{FiringSource, ScheduleRow, firings, trigger_sources};
use crate::supervisor::entropy;

/// What keeps the work from being started or going on, if that is known.
async fn work_trouble(
    context: &ScheduleContext,
    row: &ScheduleRow,
    last: Option<&FiringView>,
) -> Result<Option<Error>> {
    if let ScheduledWork::Send(message) = &row.work
        && row.paused != Some(SchedulePause::WorkerGone)
    {
        let worker = message.worker.clone();
        let read = move |connection: &Connection| trigger_sources::cannot_be_sent_to(connection, &worker);
        if let Some(error) = context.stream.store.read(read).await? {
            return Ok(Some(error));
        }
    }
    match last.filter(|last| last.status == FiringStatus::Running).and_then(|last| last.worker_id.clone()) {
        Some(worker) => {
            let read = move |connection: &Connection| trigger_sources::is_held_up(connection, &worker);
            context.stream.store.read(read).await
        }
        None => Ok(None),
    }
}

async fn last_firing(context: &ScheduleContext, row: &ScheduleRow) -> Result<Option<FiringView>> {
    let of = row.clone();
    Ok(context.stream.store.read(move |connection| firings::log(connection, &of, 1)).await?.pop())
}

/// A trigger; `None` for a schedule.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn trigger(context: &ScheduleContext, row: ScheduleRow) -> Result<Option<TriggerView>> {
    let last_firing = last_firing(context, &row).await?;
    let mut trouble = work_trouble(context, &row, last_firing.as_ref()).await?;
    let attendant = attendant(context, &row);
    let FiringSource::Trigger { mut source } = row.times.starter else { return Ok(None) };
    if let TriggerSource::After { worker, .. } = &source
        && trouble.is_none()
    {
        let worker = worker.clone();
        let read = move |connection: &Connection| trigger_sources::has_no_ends(connection, &worker);
        trouble = context.stream.store.read(read).await?;
    }
    if let TriggerSource::Webhook { token_sha256 } = &mut source {
        *token_sha256 = None;
    }
    Ok(Some(TriggerView {
        name: row.name,
        controller_id: row.controller_id,
        source,
        overlap: row.times.overlap,
        max_failures: row.times.max_failures,
        work: row.work,
        attendant,
        failures: row.failures,
        paused: row.paused,
        error: row.error.or(trouble),
        last_firing,
        created_at: row.created_at,
        declared_in: row.times.declared.map(|declared| declared.file),
    }))
}

/// What runs the command of a trigger next, or watches its files.
fn attendant(context: &ScheduleContext, row: &ScheduleRow) -> Option<Attendant> {
    let FiringSource::Trigger { source } = &row.times.starter else { return None };
    let now = entropy::now();
    match source {
        _ if row.paused.is_some() => None,
        TriggerSource::Command { every_seconds, .. } => {
            Some(context.stay.attendant(next_run(row, *every_seconds, now), now))
        }
        TriggerSource::Files { .. } => Some(context.stay.attendant(now, now)),
        TriggerSource::Request {} | TriggerSource::After { .. } | TriggerSource::Webhook { .. } => None,
    }
}

/// A schedule with its next time; `None` for a trigger.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn schedule(context: &ScheduleContext, row: ScheduleRow) -> Result<Option<ScheduleView>> {
    let last_firing = last_firing(context, &row).await?;
    let trouble = work_trouble(context, &row, last_firing.as_ref()).await?;
    let now = entropy::now();
    let next = match row.paused {
        Some(_) => None,
        None => times(&row).ok().flatten().and_then(|(times, _)| times.next(now)),
    };
    // Its only time was left out.
    let left_out = || {
        let is_last = row.paused.is_none() && next.is_none();
        let last = last_firing.as_ref().filter(|last| is_last && last.status == FiringStatus::Skipped);
        last.and_then(|last| last.error.clone())
    };
    let error = row.error.clone().or(trouble).or_else(left_out);
    let FiringSource::Times { when, timezone, missed } = row.times.starter else { return Ok(None) };
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
        error,
        last_firing,
        created_at: row.created_at,
        declared_in: row.times.declared.map(|declared| declared.file),
    }))
}
