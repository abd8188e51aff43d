//! Deletes the data of removed workers and data beyond the retention: in small steps between other
//! work, after the start, after each removal, and daily. Every step can be interrupted and resumes
//! from marks in the store. Deletes only what a FULL commit marked.

use std::collections::HashSet;
use std::time::Duration;

use subagent_protocol::Result;
use subagent_protocol::time::Timestamp;
use tokio::time::Instant;

use super::orphaned_files;
use super::removal::AT_ONCE;
use crate::or_never::sleep_until;
use crate::store::removal::{self, EventDeletion, Removal};
use crate::store::{Durability, ForeignKeys, RowId, WorkerRow, retention, workers};
use crate::supervisor::cleanup::removal::{forget, retention_cutoff, stopped_before};
use crate::supervisor::runtimes::carrier;
use crate::supervisor::shared::{SupervisorState, is_ending};
use crate::supervisor::tasks::task_archive::archive_tasks;
use crate::supervisor::{Supervisor, entropy};

/// Interval of the retention.
const EVERY: Duration = Duration::from_secs(24 * 3600);
/// Delay after a failure, such as a full disk.
const RETRY: Duration = Duration::from_secs(60);

/// Runs until the daemon ends.
pub(crate) async fn run(supervisor: Supervisor) {
    let shared = &supervisor.shared;
    let mut ending = shared.ending.subscribe();
    let mut expire_at = shared.setup.retention.map(|_| Instant::now());
    let mut archive_at = Instant::now();
    loop {
        let work = async {
            let mut archived = Ok(());
            if archive_at <= Instant::now() {
                archived = archive_tasks(&supervisor).await.map(|wait| archive_at = Instant::now() + wait);
            }
            let mut expired = Ok(());
            if let Some(age) = shared.setup.retention
                && expire_at.is_some_and(|at| at <= Instant::now())
            {
                expired = expire(&supervisor, age).await;
                if expired.is_ok() {
                    expire_at = Some(Instant::now() + EVERY);
                }
            }
            // Explicit removals proceed even if the retention failed.
            finish_removals(shared).await.and(expired).and(archived)
        };
        let done = tokio::select! {
            biased;
            () = is_ending(&mut ending) => return,
            done = work => done,
        };
        let wake_at = match done {
            Ok(()) => Some(expire_at.map_or(archive_at, |at| at.min(archive_at))),
            Err(_) if *ending.borrow() => return,
            Err(error) => {
                tracing::error!(%error, "old data cannot be deleted; trying again");
                Some(Instant::now() + RETRY)
            }
        };
        tokio::select! {
            () = is_ending(&mut ending) => return,
            () = shared.changes.removals.notified() => {}
            () = sleep_until(wake_at) => {}
        }
    }
}

/// Deletes everything of the workers that are marked as removed, and returns disk space.
async fn finish_removals(shared: &SupervisorState) -> Result<()> {
    let mut stuck = HashSet::new();
    let mut silent_hosts = HashSet::new();
    let mut deleted = false;
    loop {
        let found = shared.store.read(removal::unfinished).await?;
        let Some(next) = found.into_iter().find(|found| !stuck.contains(&found.id)) else { break };
        deleted = true;
        if !finish(shared, &next, &mut silent_hosts).await? {
            // Its files cannot be removed; the log has the reason. The next daemon tries again.
            stuck.insert(next.id);
        }
    }
    if deleted { give_back(shared).await } else { Ok(()) }
}

/// Deletes everything of one worker. Returns whether nothing is left.
async fn finish(
    shared: &SupervisorState,
    removal: &Removal,
    silent_hosts: &mut HashSet<String>,
) -> Result<bool> {
    let id = removal.id;
    loop {
        delete_events(shared, EventDeletion::all(id)).await?;
        repeat(shared, ForeignKeys::Checked, move |c| removal::delete_references(c, id)).await?;
        repeat(shared, ForeignKeys::KnownToBeNone, move |c| removal::delete_turns(c, id)).await?;
        // What a copy of a worker names there belongs to the original.
        if let Some(placement) = removal.placement.as_ref().filter(|_| !shared.is_copy(id)) {
            carrier::discard(placement, &shared.setup, &removal.worker_id, silent_hosts).await;
        }
        subagent_failpoint::hit("remove.before_files");
        if !orphaned_files::remove_all_of(shared, removal.worker_id.as_str()).await {
            return Ok(false);
        }
        subagent_failpoint::hit("remove.after_files");
        if shared.store.chore(ForeignKeys::KnownToBeNone, move |c| removal::delete_worker(c, id)).await? {
            tracing::info!(worker = %removal.worker_id, "everything of a removed worker is deleted");
            return Ok(true);
        }
    }
}

async fn delete_events(shared: &SupervisorState, mut sweep: EventDeletion) -> Result<()> {
    loop {
        let mut piece = sweep.clone();
        let job = move |c: &_| Ok((removal::delete_events(c, &mut piece)?, piece));
        let more;
        (more, sweep) = shared.store.chore(ForeignKeys::Checked, job).await?;
        if !more {
            return Ok(());
        }
    }
}

/// Repeats a step until nothing is left to do.
async fn repeat(
    shared: &SupervisorState,
    references: ForeignKeys,
    piece: impl Fn(&crate::store::Connection) -> Result<bool> + Clone + Send + 'static,
) -> Result<()> {
    while shared.store.chore(references, piece.clone()).await? {}
    Ok(())
}

async fn give_back(shared: &SupervisorState) -> Result<()> {
    repeat(shared, ForeignKeys::Checked, removal::give_back).await
}

/// Deletes idempotency keys of requests before the cutoff.
pub(crate) async fn forget_requests(shared: &SupervisorState, cutoff: Timestamp) -> Result<()> {
    repeat(shared, ForeignKeys::Checked, move |c| retention::delete_requests(c, cutoff)).await
}

/// Marks what is older than the retention, and deletes what does not belong to a removed worker.
/// Does nothing while the clock is in doubt.
async fn expire(supervisor: &Supervisor, age: Duration) -> Result<()> {
    let shared = &supervisor.shared;
    let now = entropy::now();
    if !shared.store.write(Durability::Full, 1, move |tx| retention::trust_clock(tx, now)).await? {
        tracing::warn!(
            %now,
            "the clock is more than a week ahead of the last retention run: nothing is removed today"
        );
        return Ok(());
    }
    let cutoff = retention_cutoff(supervisor, now, age).await?;
    let old = stopped_before(supervisor, cutoff).await?;
    for some in old.chunks(AT_ONCE) {
        let ids: Vec<RowId> = some.iter().map(|row| row.id).collect();
        let mark = move |tx: &mut crate::store::Tx<'_>| {
            ids.iter().try_for_each(|id| removal::mark(tx, *id, now).map(drop))
        };
        shared.store.write(Durability::Full, some.len(), mark).await?;
        tracing::info!(workers = some.len(), "workers that were stopped long ago are removed");
        forget(supervisor, some.iter().map(|row| row.worker_id.as_str()));
    }
    let rows = shared.store.read(|connection| workers::list(connection, None)).await?;
    let mut deleted = false;
    for row in rows.iter().filter(|row| row.state != "stopped") {
        deleted |= expire_events(shared, row, cutoff).await?;
    }
    forget_requests(shared, cutoff).await?;
    orphaned_files::remove(orphaned_files::find(shared, cutoff).await?).await;
    if deleted { give_back(shared).await } else { Ok(()) }
}

/// Deletes expired events of a worker. Returns whether there was a mark to delete up to.
async fn expire_events(shared: &SupervisorState, row: &WorkerRow, cutoff: Timestamp) -> Result<bool> {
    let id = row.id;
    let mark = shared.store.read(move |connection| retention::expirable(connection, id, cutoff)).await?;
    if mark > row.history.expired_seq {
        shared.store.write(Durability::Full, 1, move |tx| retention::mark_expired(tx, id, mark)).await?;
        subagent_failpoint::hit("expire.after_mark");
    }
    // Also deletes up to an old mark: the previous daemon may have been killed, or rows may no
    // longer be needed.
    let mark = mark.max(row.history.expired_seq);
    if mark == 0 {
        return Ok(false);
    }
    delete_events(shared, EventDeletion::up_to(id, mark)).await?;
    repeat(shared, ForeignKeys::Checked, move |c| retention::delete_approvals(c, id, mark)).await?;
    repeat(shared, ForeignKeys::KnownToBeNone, move |c| retention::delete_turns(c, id, mark)).await?;
    Ok(true)
}
