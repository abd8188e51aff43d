//! Archives inactive tasks: they are kept but hidden, their names become free, and their workers
//! are stopped, so that `worker rm`, `prune` and the retention apply to them. An open task below a
//! long-gone root is only hidden, because it may hold work.

use std::time::Duration;

use subagent_core::model::WorkerInput;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Result};

use crate::store::{Durability, OwnerCheck, Tx, WorkerRow, retention, tasks};
use crate::supervisor::orders::RequestTarget;
use crate::supervisor::start::stop::stop_with;
use crate::supervisor::worker::Also;
use crate::supervisor::{Supervisor, entropy};

/// Maximum time between two runs.
const EVERY: Duration = Duration::from_secs(24 * 3600);
/// Minimum time between two runs.
const AT_MOST: Duration = Duration::from_secs(60);

/// Archives the tasks that are due. Returns the time until the next run. Does nothing while the
/// clock is in doubt.
pub(crate) async fn archive_tasks(supervisor: &Supervisor) -> Result<Duration> {
    let store = &supervisor.shared.store;
    let now = entropy::now();
    if store.read(move |connection| tasks::archive::any_over(connection, now)).await? {
        let archive = move |tx: &mut Tx<'_>| match retention::trust_clock(tx, now)? {
            true => tasks::archive::archive_due(tx, now).map(Some),
            false => Ok(None),
        };
        match store.write(Durability::Full, 1, archive).await? {
            Some(archived) => tracing::info!(archived, "abandoned tasks are archived"),
            None => return Ok(EVERY),
        }
    }
    for row in store.read(tasks::archive::to_stop).await? {
        if let Err(error) = stop_archived(supervisor, &row, None).await {
            // The next run tries again.
            tracing::warn!(worker = %row.worker_id, %error, "the worker of an archived task is not stopped yet");
        }
    }
    Ok(wait(store.read(tasks::archive::next_due).await?, now))
}

/// Stops the worker of an archived task, if the check in the same transaction allows it.
pub(crate) async fn stop_archived(
    supervisor: &Supervisor,
    row: &WorkerRow,
    check: Option<Also>,
) -> Result<()> {
    match supervisor.reach(row, &OwnerCheck(None), &None).await {
        Ok(RequestTarget::Live(handle)) => {
            stop_with(supervisor, &handle, None, None, WorkerInput::Stop, check).await.map(drop)
        }
        Ok(RequestTarget::Replayed(_)) => Ok(()),
        Err(error) if error.code == Code::WorkerStopped => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the time until the next run.
fn wait(due: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = due.map(|due| u64::try_from(due.0.saturating_sub(now.0)).unwrap_or(0));
    left.map_or(EVERY, |left| Duration::from_millis(left).clamp(AT_MOST, EVERY))
}
