//! Deletes what is left of removed workers, and what is older than the retention: in small pieces between other work,
//! after a start, after each removal, and once a day.
//!
//! All of it may be cut short at any point and goes on from the marks in the store. Nothing here decides anything that
//! was not marked in a FULL commit before.

use std::collections::HashSet;
use std::time::Duration;

use subagent_protocol::Result;
use subagent_protocol::time::Timestamp;
use tokio::time::Instant;

use super::removal::AT_ONCE;
use super::shared::{Shared, is_ending};
use super::{Supervisor, entropy, leftovers};
use crate::store::removal::{Removal, Sweep};
use crate::store::{Durability, References, RowId, WorkerRow, removal, retention, workers};

/// How often the retention is looked after.
const EVERY: Duration = Duration::from_secs(24 * 3600);
/// After a failure (a full disk) everything is tried again so much later.
const RETRY: Duration = Duration::from_secs(60);

/// Works until the daemon ends.
pub(super) async fn run(supervisor: Supervisor) {
    let shared = &supervisor.shared;
    let mut ending = shared.ending.subscribe();
    let mut expire_at = shared.setup.retention.map(|_| Instant::now());
    let mut archive_at = Instant::now();
    loop {
        let work = async {
            let mut archived = Ok(());
            if archive_at <= Instant::now() {
                archived = supervisor.archive_tasks().await.map(|wait| archive_at = Instant::now() + wait);
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
            // What somebody has removed goes, whatever the retention runs into.
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
                tracing::error!(%error, "what is over cannot be deleted; trying again");
                Some(Instant::now() + RETRY)
            }
        };
        let timer = async {
            match wake_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = is_ending(&mut ending) => return,
            () = shared.removals.notified() => {}
            () = timer => {}
        }
    }
}

/// Deletes everything of the workers that are marked as removed, and gives the space back.
async fn finish_removals(shared: &Shared) -> Result<()> {
    let mut stuck = HashSet::new();
    let mut deleted = false;
    loop {
        let found = shared.store.read(removal::unfinished).await?;
        let Some(next) = found.into_iter().find(|found| !stuck.contains(&found.id)) else { break };
        deleted = true;
        if !finish(shared, &next).await? {
            // Its files cannot be removed; the log says why. The next daemon tries again.
            stuck.insert(next.id);
        }
    }
    if deleted { give_back(shared).await } else { Ok(()) }
}

/// Deletes everything of one worker. Says whether nothing is left.
async fn finish(shared: &Shared, removal: &Removal) -> Result<bool> {
    let id = removal.id;
    loop {
        delete_events(shared, Sweep::all(id)).await?;
        repeat(shared, References::Checked, move |c| removal::delete_references(c, id)).await?;
        repeat(shared, References::KnownToBeNone, move |c| removal::delete_turns(c, id)).await?;
        subagent_failpoint::hit("remove.before_files");
        if !leftovers::remove_all_of(shared, removal.worker_id.as_str()).await {
            return Ok(false);
        }
        subagent_failpoint::hit("remove.after_files");
        if shared.store.chore(References::KnownToBeNone, move |c| removal::delete_worker(c, id)).await? {
            tracing::info!(worker = %removal.worker_id, "everything of a removed worker is deleted");
            return Ok(true);
        }
    }
}

async fn delete_events(shared: &Shared, mut sweep: Sweep) -> Result<()> {
    loop {
        let mut piece = sweep.clone();
        let job = move |c: &_| Ok((removal::delete_events(c, &mut piece)?, piece));
        let more;
        (more, sweep) = shared.store.chore(References::Checked, job).await?;
        if !more {
            return Ok(());
        }
    }
}

/// One piece after the other, until there are no more.
async fn repeat(
    shared: &Shared,
    references: References,
    piece: impl Fn(&crate::store::Connection) -> Result<bool> + Clone + Send + 'static,
) -> Result<()> {
    while shared.store.chore(references, piece.clone()).await? {}
    Ok(())
}

async fn give_back(shared: &Shared) -> Result<()> {
    repeat(shared, References::Checked, removal::give_back).await
}

/// Forgets the keys of requests that were made before.
pub(super) async fn forget_requests(shared: &Shared, cutoff: Timestamp) -> Result<()> {
    repeat(shared, References::Checked, move |c| retention::delete_requests(c, cutoff)).await
}

/// Marks what is older than the retention, and deletes what does not belong to a removed worker; nothing while the clock
/// is in doubt.
async fn expire(supervisor: &Supervisor, age: Duration) -> Result<()> {
    let shared = &supervisor.shared;
    let now = entropy::now();
    if !shared.store.write(Durability::Full, 1, move |tx| tx.trust_clock(now)).await? {
        tracing::warn!(
            %now,
            "the clock is more than a week beyond the last look of the retention: nothing is removed by it today"
        );
        return Ok(());
    }
    let cutoff = supervisor.cutoff(now, age).await?;
    let old = supervisor.stopped_before(cutoff).await?;
    for some in old.chunks(AT_ONCE) {
        let ids: Vec<RowId> = some.iter().map(|row| row.id).collect();
        let mark = move |tx: &mut crate::store::Tx<'_>| {
            ids.iter().try_for_each(|id| tx.mark_removed(*id, now).map(drop))
        };
        shared.store.write(Durability::Full, some.len(), mark).await?;
        tracing::info!(workers = some.len(), "workers that were stopped long ago are removed");
        supervisor.forget(some.iter().map(|row| row.worker_id.as_str()));
    }
    let rows = shared.store.read(|connection| workers::list(connection, None)).await?;
    let mut deleted = false;
    for row in rows.iter().filter(|row| row.state != "stopped") {
        deleted |= expire_events(shared, row, cutoff).await?;
    }
    forget_requests(shared, cutoff).await?;
    leftovers::remove(leftovers::find(shared, cutoff).await?).await;
    if deleted { give_back(shared).await } else { Ok(()) }
}

/// Deletes the events of a worker that are too old. Says whether there was any reason to look for them.
async fn expire_events(shared: &Shared, row: &WorkerRow, cutoff: Timestamp) -> Result<bool> {
    let id = row.id;
    let mark = shared.store.read(move |connection| retention::expirable(connection, id, cutoff)).await?;
    if mark > row.expired_seq {
        shared.store.write(Durability::Full, 1, move |tx| tx.mark_expired(id, mark)).await?;
        subagent_failpoint::hit("expire.after_mark");
    }
    // Also below an old mark: the daemon before may have been killed, or what was needed is not any more.
    let mark = mark.max(row.expired_seq);
    if mark == 0 {
        return Ok(false);
    }
    delete_events(shared, Sweep::up_to(id, mark)).await?;
    repeat(shared, References::Checked, move |c| retention::delete_approvals(c, id, mark)).await?;
    repeat(shared, References::KnownToBeNone, move |c| retention::delete_turns(c, id, mark)).await?;
    Ok(true)
}
