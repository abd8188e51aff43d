//! Reads the events of several workers as one stream, including workers that start meanwhile.

use std::collections::HashMap;

use serde_json::Value;
use subagent_protocol::api::LatestOfAll;
use subagent_protocol::children;
use subagent_protocol::ids::{EventId, WorkerId};
use subagent_protocol::tags::Selector;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::watch;

use super::follow::write_line;
use crate::store::{RowId, Store, events, workers};
use crate::supervisor::Supervisor;
use crate::supervisor::orders::brief;
use crate::supervisor::shared::{ending_error, is_ending};
use crate::supervisor::start::spec;

/// Selects workers and events.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventStreamFilter {
    /// Only workers of this controller.
    pub controller_id: Option<String>,
    /// Only workers with these tags.
    pub selector: Option<String>,
    /// Only this worker, for a caller that may not see others.
    pub only: Option<WorkerId>,
    /// Omits the progress of turns, except updates of child sessions.
    pub milestones: bool,
}

/// Reads the events of all selected workers after a cursor.
pub(crate) struct AllFollower {
    store: Store,
    chosen: EventStreamFilter,
    selector: Option<Selector>,
    /// The workers seen so far. The id is present if the worker is selected.
    known: HashMap<RowId, Option<WorkerId>>,
    after: i64,
    /// `None` if the reader stops at the event that was the newest when it began.
    news: Option<watch::Receiver<i64>>,
    up_to: i64,
    ending: watch::Receiver<bool>,
    raw: bool,
}

impl AllFollower {
    /// Returns the next events in order, each as a line of JSON. Empty at the end. A follower of
    /// new events waits for them and has no end. Cancel safe.
    ///
    /// # Errors
    /// `DAEMON_NOT_RUNNING` if the daemon is ending: continue at the last cursor with the next
    /// daemon. `STORAGE_ERROR`.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>> {
        loop {
            let newest = self.news.as_mut().map_or(0, |news| *news.borrow_and_update());
            let (after, up_to) = (self.after, self.up_to);
            let page = self.store.read(move |connection| events::all::page(connection, after, up_to)).await?;
            if page.events.iter().any(|(worker, _)| !self.known.contains_key(worker)) {
                self.learn(page.events.iter().map(|(worker, _)| *worker)).await?;
            }
            self.after = page.seen;
            let mut lines = Vec::new();
            for (worker, event) in page.events {
                let is_progress =
                    event.event_type.is_progress() && event.kind.as_deref() != Some(children::UPDATE);
                let is_wanted = !(self.chosen.milestones && is_progress);
                if let Some(Some(worker_id)) = self.known.get(&worker).filter(|_| is_wanted) {
                    write_line(&event, worker_id, self.raw, &mut lines)?;
                }
            }
            if !lines.is_empty() {
                return Ok(lines);
            }
            if !page.end {
                continue;
            }
            let Some(news) = &mut self.news else { return Ok(Vec::new()) };
            if *self.ending.borrow() {
                return Err(ending_error());
            }
            tokio::select! {
                // Numbers are committed in order, so the page contains all events up to its last one.
                changed = news.wait_for(|seq| *seq > newest.max(page.seen)) => if changed.is_err() {
                    return Err(ending_error());
                },
                () = is_ending(&mut self.ending) => return Err(ending_error()),
            }
        }
    }

    /// Determines which of the workers are selected.
    async fn learn(&mut self, met: impl Iterator<Item = RowId>) -> Result<()> {
        let controller = self.chosen.controller_id.clone();
        let rows =
            self.store.read(move |connection| workers::list(connection, controller.as_deref())).await?;
        for worker in met {
            self.known.entry(worker).or_default();
        }
        for row in rows {
            let fits = self.selector.as_ref().is_none_or(|selector| selector.matches(&spec::tags(&row)))
                && self.chosen.only.as_ref().is_none_or(|only| *only == row.worker_id);
            self.known.insert(row.id, fits.then_some(row.worker_id));
        }
        Ok(())
    }
}

/// Returns the newest event of all workers, or of the only visible one.
///
/// # Errors
/// `STORAGE_ERROR`, `WORKER_NOT_FOUND` for the visible one.
pub(crate) async fn latest_of_all(supervisor: &Supervisor, only: Option<WorkerId>) -> Result<LatestOfAll> {
    if let Some(only) = only {
        return Ok(LatestOfAll { event: supervisor.latest(&supervisor.row(only.as_str()).await?).await? });
    }
    let latest = supervisor.shared.store.read(events::all::latest).await?;
    Ok(LatestOfAll { event: latest.as_ref().map_or(Value::Null, brief) })
}

/// Returns a reader of the events of all selected workers after a cursor (`None`: from the
/// beginning).
///
/// # Errors
/// `INVALID_ARGUMENT{selector,position}`. `EVENT_NOT_FOUND{eventId}` for an invalid event id.
pub(crate) async fn follow_all(
    supervisor: &Supervisor,
    chosen: EventStreamFilter,
    from: Option<String>,
    follow: bool,
    raw: bool,
) -> Result<AllFollower> {
    let selector = chosen.selector.as_deref().map(Selector::parse).transpose()?;
    let after = match from {
        None => 0,
        Some(from) => {
            let EventId(seq) = from.parse().map_err(|_| {
                Error::new(Code::EventNotFound, "this is not an event id; take the cursor from an event")
                    .with("eventId", from.as_str())
            })?;
            seq
        }
    };
    let up_to = match follow {
        true => i64::MAX,
        false => supervisor.shared.store.read(events::all::last_seq).await?,
    };
    Ok(AllFollower {
        store: supervisor.shared.store.clone(),
        chosen,
        selector,
        known: HashMap::new(),
        after,
        news: follow.then(|| supervisor.shared.changes.news.subscribe()),
        up_to,
        ending: supervisor.shared.ending.subscribe(),
        raw,
    })
}
