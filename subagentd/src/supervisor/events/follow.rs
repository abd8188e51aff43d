//! Reads the events of a worker page by page. Holds no lock or transaction between pages.

use std::sync::Arc;

use subagent_protocol::event::StoredEvent;
use subagent_protocol::ids::{EventId, WorkerId};
use subagent_protocol::{Code, Error, Result};
use tokio::sync::watch;

use super::follow_below::{EventScope, TasksBelow};
use super::wait::changed;
use crate::store::events::{self, history};
use crate::store::{Connection, EventPage, EventQuery, RowId, Store, WorkerRow, retention, tasks};
use crate::supervisor::Supervisor;
use crate::supervisor::shared::{ending_error, is_ending};
use crate::supervisor::worker::Snapshot;

/// Reads a worker's events after a cursor, including task events that its stream contains.
pub(crate) struct WorkerFollower {
    store: Store,
    worker: RowId,
    worker_id: WorkerId,
    after: i64,
    floor: i64,
    end: FollowUntil,
    below: TasksBelow,
    raw: bool,
}

/// Where a follower stops.
enum FollowUntil {
    /// At the event that was the newest when reading began.
    At(i64),
    /// When the worker is over; until then the follower waits for new events. `news` is `None` if
    /// the actor has ended, so no event of the worker will follow.
    WithWorker { news: Option<watch::Receiver<Arc<Snapshot>>>, ending: watch::Receiver<bool> },
}

impl WorkerFollower {
    /// Returns the next page, at most [`crate::store::events::PAGE_EVENTS`] events in order, each as a line
    /// of JSON. Returns an empty page at the end. A follower of new events waits until the worker
    /// is over and no task below it is open. Cancel safe.
    ///
    /// # Errors
    /// `DAEMON_NOT_RUNNING` if the daemon is ending: continue at the last cursor with the next
    /// daemon. `CURSOR_EXPIRED` if events were deleted before they were read.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>> {
        loop {
            let (up_to, over) = match &mut self.end {
                FollowUntil::At(up_to) => (*up_to, true),
                FollowUntil::WithWorker { news, .. } => match news {
                    Some(news) => (news.borrow_and_update().last_seq, false),
                    None => (i64::MAX, true),
                },
            };
            let mut waits = false;
            if self.below.may_be()
                && let (mark, true) = self.below.look(over)
            {
                let (page, lines, open) = self.joined_page().await?;
                (self.after, self.floor) = (page.seen, page.floor);
                if page.end {
                    self.below.looked(mark);
                }
                if !lines.is_empty() {
                    return Ok(lines);
                }
                if !page.end {
                    continue;
                }
                waits = open;
            } else if up_to > self.after {
                let (page, lines) = self.page(up_to).await?;
                (self.after, self.floor) = (page.seen, page.floor);
                if !lines.is_empty() {
                    return Ok(lines);
                }
                if !page.end {
                    continue;
                }
            }
            match &mut self.end {
                FollowUntil::At(_) => return Ok(Vec::new()),
                FollowUntil::WithWorker { news, ending } => {
                    if *ending.borrow() {
                        // The actors ended because the daemon is ending, not because their workers
                        // are over.
                        return Err(ending_error());
                    }
                    if over && !waits {
                        return Ok(Vec::new());
                    }
                    tokio::select! {
                        // The actor has ended. Its last events are read before the follower reports
                        // the end.
                        is_alive = changed(news.as_mut()), if !over => if !is_alive {
                            *news = None;
                        },
                        () = self.below.changed() => {}
                        () = is_ending(ending) => return Err(ending_error()),
                    }
                }
            }
        }
    }

    /// Returns the next page of the worker's own events and its task events, their lines, and
    /// whether one of the tasks is open.
    async fn joined_page(&self) -> Result<(EventPage<()>, Vec<u8>, bool)> {
        let up_to = match self.end {
            FollowUntil::At(up_to) => up_to,
            FollowUntil::WithWorker { .. } => i64::MAX,
        };
        let query = EventQuery { worker: self.worker, after: self.after, up_to, floor: self.floor };
        let (worker_id, raw, all) = (self.worker_id.clone(), self.raw, self.below.all());
        let read = self.store.read(move |connection| {
            let mut lines = Vec::new();
            let joined = tasks::events::page(connection, query, all, |event, below| match below {
                None => write_line(&event, &worker_id, raw, &mut lines),
                Some(below) => {
                    let written = match all && !event.event_type.is_of_tasks() {
                        true => event.write_line_above(&worker_id, below, raw, &mut lines),
                        false => event.write_line_with_path(below, raw, &mut lines),
                    };
                    written.map_err(|error| unwritable(event.seq, &error))
                }
            })?;
            Ok((joined.page, lines, joined.open))
        });
        read.await
    }

    /// Returns the next page up to an event, and its lines. The lines are written while rows are
    /// read, so that no event is copied.
    async fn page(&self, up_to: i64) -> Result<(EventPage<()>, Vec<u8>)> {
        let query = EventQuery { worker: self.worker, after: self.after, up_to, floor: self.floor };
        let (worker_id, raw) = (self.worker_id.clone(), self.raw);
        let read = self.store.read(move |connection| {
            let mut lines = Vec::new();
            let page =
                events::page(connection, query, |event| write_line(&event, &worker_id, raw, &mut lines))?;
            Ok((page, lines))
        });
        read.await
    }
}

/// Appends the line of an event.
///
/// # Errors
/// `INTERNAL_ERROR` if the event cannot be serialized.
pub(crate) fn write_line<P: AsRef<str>>(
    event: &StoredEvent<P>,
    worker_id: &WorkerId,
    raw: bool,
    lines: &mut Vec<u8>,
) -> Result<()> {
    event.write_line(worker_id, raw, lines).map_err(|error| unwritable(event.seq, &error))
}

fn unwritable(seq: i64, error: &serde_json::Error) -> Error {
    let event_id = EventId(seq).to_string();
    let message = format!("event {event_id} cannot be written as JSON: {error}");
    Error::new(Code::Internal, message).with("eventId", event_id)
}

/// Returns a reader of the events after a cursor (`None`: from the beginning).
///
/// # Errors
/// `WORKER_NOT_FOUND`, `EVENT_NOT_FOUND{workerId,eventId}`,
/// `CURSOR_EXPIRED{workerId,eventId,oldestEventId}`.
pub(crate) async fn follow(
    supervisor: &Supervisor,
    worker: &str,
    from: Option<String>,
    follow: bool,
    raw: bool,
    sight: EventScope,
) -> Result<WorkerFollower> {
    // The roster is asked before the store is read, so that one of them knows of the first
    // task.
    let live = supervisor.roster.live(worker).ok();
    let row = supervisor.row(worker).await?;
    let after = match from {
        Some(from) => cursor(supervisor, &row, &from).await?,
        None => 0,
    };
    let live = live.or_else(|| supervisor.roster.live(worker).ok());
    let gives = live.as_ref().map(|handle| handle.gives.subscribe());
    let (newest_task_event, news) =
        (supervisor.shared.store.newest_task_event(), supervisor.shared.changes.news.subscribe());
    let end = if follow {
        let news = live.map(|handle| handle.follow());
        FollowUntil::WithWorker { news, ending: supervisor.shared.ending.subscribe() }
    } else {
        let last = match (sight, row.agent.has_tasks) {
            (EventScope::Alone, _) | (_, false) => events::last_seq,
            (_, true) => |connection: &Connection, _| events::all::last_seq(connection),
        };
        let id = row.id;
        FollowUntil::At(supervisor.shared.store.read(move |connection| last(connection, id)).await?)
    };
    Ok(WorkerFollower {
        store: supervisor.shared.store.clone(),
        worker: row.id,
        worker_id: row.worker_id,
        after,
        floor: 0,
        end,
        below: TasksBelow::new(sight, row.agent.has_tasks, gives, newest_task_event, news),
        raw,
    })
}

/// Returns the sequence number of a cursor given by a user: an event of the worker or of a task
/// below it.
pub(crate) async fn cursor(supervisor: &Supervisor, row: &WorkerRow, event_id: &str) -> Result<i64> {
    let not_found = || {
        Error::new(
            Code::EventNotFound,
            "the worker has no such event; take the cursor from one of its events",
        )
        .with("workerId", row.worker_id.as_str())
        .with("eventId", event_id)
    };
    let EventId(seq) = event_id.parse().map_err(|_| not_found())?;
    let id = row.id;
    let found = supervisor.shared.store.read(move |connection| {
        let _moment = history::one_moment(connection)?;
        if let Some(kept) = retention::kept(connection, id)?
            && (1..=kept.expired_seq).contains(&seq)
            && !retention::is_of_another(connection, id, seq)?
        {
            return Err(retention::cursor_expired(connection, id, &kept, EventId(seq))?);
        }
        if events::get(connection, id, seq)?.is_some() || tasks::events::is_of_one(connection, id, seq)? {
            // Sequence numbers are global.
            return Ok(Some(seq));
        }
        match retention::kept(connection, id)? {
            Some(kept) if tasks::events::may_have_been_of_one(connection, id, seq)? => {
                Err(retention::cursor_expired(connection, id, &kept, EventId(seq))?)
            }
            _ => Ok(None),
        }
    });
    found.await?.ok_or_else(not_found)
}
