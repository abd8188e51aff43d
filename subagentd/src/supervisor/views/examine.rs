//! Collects what only the daemon knows for `subagent doctor`: the database, and each worker's state
//! beside its files. Must not change anything.

use std::time::Duration;

use subagent_protocol::Result;
use subagent_protocol::api::{Examination, ExaminedWorker};
use subagent_protocol::ids::WorkerId;

use crate::store::{Cursor, WorkerRow, gaps, known_workers, workers};
use crate::supervisor::Supervisor;
use crate::supervisor::runtimes::journal;

/// Time limit of the database's own checks. A larger database is reported as partially examined.
const CHECKS: Duration = Duration::from_secs(10);

/// Stored facts of a worker beside its row.
struct WorkerFacts {
    row: WorkerRow,
    gaps: u64,
    set_aside: Option<String>,
}

/// Examines the database and all workers, or one worker alone.
pub(crate) async fn examine(supervisor: &Supervisor, only: Option<&WorkerId>) -> Result<Examination> {
    // An agent can ask about its own worker. It must not start checks of the database.
    let database = supervisor.shared.store.examine(only.is_none().then_some(CHECKS)).await?;
    let wanted = only.cloned();
    let (stored, known_workers) = supervisor
        .shared
        .store
        .read(move |connection| {
            let look = |row: WorkerRow| {
                let unusable = workers::load(connection, &row).err().map(|error| error.message);
                let set_aside = if row.state == "stopped" { None } else { unusable };
                Ok(WorkerFacts { gaps: gaps(connection, row.id)?, set_aside, row })
            };
            let rows = match &wanted {
                Some(wanted) => workers::get(connection, wanted.as_str())?.into_iter().collect(),
                None => workers::list(connection, None)?,
            };
            let known = if wanted.is_none() { Some(known_workers(connection)?) } else { None };
            Ok((rows.into_iter().map(look).collect::<Result<Vec<_>>>()?, known))
        })
        .await?;
    Ok(Examination {
        database,
        workers: stored.into_iter().map(|stored| examined(supervisor, stored)).collect(),
        all_workers: only.is_none(),
        known_workers,
    })
}

fn examined(supervisor: &Supervisor, WorkerFacts { row, gaps, set_aside }: WorkerFacts) -> ExaminedWorker {
    let id = row.worker_id.as_str();
    // Does not wait: a worker that is not settled is reported as stored.
    let live = supervisor.roster.live(id).ok().map(|handle| handle.snapshot.borrow().clone());
    // A worker whose creation was interrupted has no actor until a request needs it.
    let has_actor = live.is_some() || row.state == "stopped" || row.incarnation == 0;
    let directory = supervisor.shared.setup.state_dir.join("runtimes").join(id);
    let cursor: Cursor = live.as_ref().map_or(row.runtime.cursor, |live| live.journal.cursor);
    let unsettled = (!has_actor).then(|| "it was set aside when the daemon started".to_owned());
    ExaminedWorker {
        worker_id: id.to_owned(),
        state: live
            .as_ref()
            .map_or_else(|| row.state.clone(), |live| live.public_state().as_str().to_owned()),
        set_aside: set_aside.or(unsettled),
        runtime: live.as_ref().and_then(|live| live.runtime),
        runtime_version: live.as_ref().and_then(|live| live.runtime_version.clone()),
        unresponsive: live.as_ref().is_some_and(|live| live.unresponsive),
        unread_bytes: journal::unread(&directory, cursor),
        gaps,
        misread: live.as_ref().map_or(0, |live| live.journal.misread),
    }
}
