//! Waits for several workers at once: for events, or until they have no open turn or ask a
//! question. Without event types, a wait checks states. It cannot miss a turn that ended before the
//! wait. The event that led to the state is looked up afterwards.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use subagent_protocol::api::{
    MAX_WORKERS, WaitMany, WaitMode, WaitRequest, WaitedFor, WaitedMany, WaitedWorker, WorkerOutcome,
};
use subagent_protocol::event::{Event, StoredEvent};
use subagent_protocol::state::WorkerState;
use subagent_protocol::until::Until;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::watch;

use super::follow_below::EventScope;
use super::questions_below::QuestionsBelow;
use super::wait::{asked_below, changed, seconds, sleep_for};
use crate::store::WorkerRow;
use crate::store::workers::rest;
use crate::supervisor::Supervisor;
use crate::supervisor::events::wait::wait;
use crate::supervisor::shared::{ending_error, is_ending};
use crate::supervisor::worker::Snapshot;

/// Waits until one or all of the workers match. Returns the outcome of each.
///
/// # Errors
/// `INVALID_ARGUMENT`, `WORKER_NOT_FOUND`, `EVENT_NOT_FOUND`, `CURSOR_EXPIRED`,
/// `WAIT_TIMEOUT{items}`. `DAEMON_NOT_RUNNING` if the daemon is ending.
pub(crate) async fn wait_many(
    supervisor: &Supervisor,
    request: WaitMany,
    sight: EventScope,
) -> Result<WaitedMany> {
    Until::parse(request.until.as_deref())?;
    let limit = seconds("timeoutSeconds", request.timeout_seconds)?;
    let rows = rows_of(supervisor, &request.workers).await?;
    let mut found: Vec<Option<(WorkerOutcome, Option<Event>)>> = vec![None; rows.len()];
    let mut waits: FuturesUnordered<_> = rows
        .iter()
        .zip(&request.workers)
        .enumerate()
        .map(|(index, (row, wanted))| {
            let request = &request;
            async move { (index, wait_one(supervisor, row, wanted, request, sight).await) }
        })
        .collect();
    let over = async {
        while let Some((index, outcome)) = waits.next().await {
            found[index] = Some(outcome?);
            if request.mode == WaitMode::Any {
                break;
            }
        }
        Ok::<(), Error>(())
    };
    tokio::select! {
        biased;
        over = over => over?,
        () = sleep_for(limit) => {}
    }
    // Also reports workers that match already, in addition to the first one.
    while let Some(Some((index, outcome))) = futures_util::FutureExt::now_or_never(waits.next()) {
        found[index] = Some(outcome?);
    }
    drop(waits);
    if request.until.is_none() {
        // To know it may take a read, which a look at a pending wait does not await.
        for (row, found) in rows.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            *found = Resting::of(supervisor, row, sight).now(supervisor).await?;
        }
    }
    let mut items = Vec::with_capacity(rows.len());
    for (row, found) in rows.iter().zip(found) {
        let (outcome, matched_event) = found.unwrap_or((WorkerOutcome::Waiting, None));
        let view = supervisor.view(row).await;
        items.push(WaitedWorker {
            worker_id: row.worker_id.clone(),
            name: row.name.clone(),
            label: row.agent.label.clone(),
            outcome,
            state: view.state,
            unreachable: view.unreachable,
            matched_event,
        });
    }
    let done = items.iter().filter(|item| item.outcome != WorkerOutcome::Waiting).count();
    let is_over = match request.mode {
        WaitMode::Any => done > 0,
        WaitMode::All => done == items.len(),
    };
    // A worker may have come to rest just before the limit.
    if is_over {
        return Ok(WaitedMany { mode: request.mode, count: items.len(), items, done });
    }
    let message = format!("{done} of {} workers were done in time; their turns go on", items.len());
    Err(Error::new(Code::WaitTimeout, message)
        .retryable()
        .with("timeoutSeconds", request.timeout_seconds)
        .with("mode", request.mode.as_str())
        .with("items", json!(items))
        .recommend("wait again: what has happened in between counts"))
}

async fn rows_of(supervisor: &Supervisor, wanted: &[WaitedFor]) -> Result<Vec<WorkerRow>> {
    if wanted.is_empty() || wanted.len() > MAX_WORKERS {
        let message = format!("a wait is for 1 to {MAX_WORKERS} workers, not {}", wanted.len());
        return Err(Error::new(Code::InvalidArgument, message).with("field", "workers"));
    }
    let mut rows: Vec<WorkerRow> = Vec::with_capacity(wanted.len());
    for one in wanted {
        let row = supervisor.row(&one.worker_id).await?;
        if rows.iter().any(|other| other.id == row.id) {
            let message = format!("the worker {} is named twice", row.worker_id);
            return Err(Error::new(Code::InvalidArgument, message).with("workerId", row.worker_id.as_str()));
        }
        rows.push(row);
    }
    Ok(rows)
}

async fn wait_one(
    supervisor: &Supervisor,
    row: &WorkerRow,
    wanted: &WaitedFor,
    request: &WaitMany,
    sight: EventScope,
) -> Result<(WorkerOutcome, Option<Event>)> {
    if request.until.is_none() {
        return at_rest(supervisor, row, sight).await;
    }
    let request = WaitRequest {
        until: request.until.clone(),
        from_event_id: wanted.from_event_id.clone(),
        include_history: request.include_history,
        ..WaitRequest::default()
    };
    match wait(supervisor, row.worker_id.as_str(), request, sight).await {
        Ok(waited) => Ok((WorkerOutcome::Matched, Some(waited.matched_event))),
        Err(error) if error.code == Code::WorkerStopped => Ok((WorkerOutcome::Stopped, None)),
        Err(error) if error.code == Code::StorageError => Ok((WorkerOutcome::Error, None)),
        Err(error) => Err(error),
    }
}

/// Waits until the worker has no open turn, or the worker or a task below it asks a question.
async fn at_rest(
    supervisor: &Supervisor,
    row: &WorkerRow,
    sight: EventScope,
) -> Result<(WorkerOutcome, Option<Event>)> {
    let mut ending = supervisor.shared.ending.subscribe();
    let mut resting = Resting::of(supervisor, row, sight);
    loop {
        if let Some(found) = resting.now(supervisor).await? {
            return Ok(found);
        }
        if *ending.borrow() {
            return Err(ending_error());
        }
        tokio::select! {
            () = resting.changed() => {}
            () = is_ending(&mut ending) => return Err(ending_error()),
        }
    }
}

/// Returns the outcome of a worker in this state, if it has one.
async fn rests(
    supervisor: &Supervisor,
    row: &WorkerRow,
    state: WorkerState,
) -> Result<Option<(WorkerOutcome, Option<Event>)>> {
    let id = row.id;
    let view = |event: StoredEvent| (WorkerOutcome::Matched, Some(event.view(&row.worker_id, false)));
    let otherwise = match state {
        WorkerState::Starting | WorkerState::Running | WorkerState::Canceling => return Ok(None),
        WorkerState::WaitingApproval => {
            // `None` if the question was just answered. The state will change.
            let asked = supervisor.shared.store.read(move |connection| rest::open_question(connection, id));
            return Ok(asked.await?.map(view));
        }
        WorkerState::Idle => WorkerOutcome::Idle,
        WorkerState::Error => WorkerOutcome::Error,
        WorkerState::Stopped => WorkerOutcome::Stopped,
    };
    let ended = supervisor.shared.store.read(move |connection| rest::last_end(connection, id)).await?;
    Ok(Some(ended.map_or((otherwise, None), view)))
}

/// Whether a worker has no open turn or asks a question, and when to check again.
struct Resting<'a> {
    row: &'a WorkerRow,
    /// `None` for a worker without an actor.
    news: Option<watch::Receiver<Arc<Snapshot>>>,
    below: Option<QuestionsBelow>,
}

impl<'a> Resting<'a> {
    fn of(supervisor: &Supervisor, row: &'a WorkerRow, sight: EventScope) -> Self {
        let handle = supervisor.roster.live(row.worker_id.as_str()).ok();
        let news = handle.as_ref().map(|handle| handle.follow());
        let below = (sight != EventScope::Alone)
            .then(|| QuestionsBelow::after(&supervisor.shared.store, row, handle.as_ref(), 0));
        Self { row, news, below }
    }

    /// What the worker has now; `None` while its turn goes on.
    async fn now(&mut self, supervisor: &Supervisor) -> Result<Option<(WorkerOutcome, Option<Event>)>> {
        if let Some(below) = &mut self.below
            && let Some(asked) = below.oldest_open().await?
        {
            return Ok(Some((WorkerOutcome::Matched, Some(asked.view()))));
        }
        let state = match &mut self.news {
            Some(news) => {
                let now = news.borrow_and_update();
                // The head of the queue starts or is paused by itself.
                (now.settled && !now.worker.goes_on_alone()).then(|| now.worker.public_state())
            }
            None => Some(supervisor.view(self.row).await.state),
        };
        match state {
            Some(state) => rests(supervisor, self.row, state).await,
            None => Ok(None),
        }
    }

    /// Ends when there may be another answer.
    async fn changed(&mut self) {
        let is_over = tokio::select! {
            changed = changed(self.news.as_mut()) => !changed,
            () = asked_below(self.below.as_mut()) => false,
        };
        if is_over {
            self.news = None;
        }
    }
}
