//! Waits for an event by notification, with the time limits of the request.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_protocol::api::{LatestEvent, WaitRequest};
use subagent_protocol::event::{Event, EventType, StoredEvent};
use subagent_protocol::ids::TurnId;
use subagent_protocol::state::WorkerState;
use subagent_protocol::until::Until;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::watch;
use tokio::time::Instant;

use super::collected::Collected;
use super::follow_below::EventScope;
use super::questions_below::QuestionsBelow;
use crate::or_never::{or_never, sleep_until};
use crate::store::{EventQuery, WorkerRow, events};
use crate::supervisor::Supervisor;
use crate::supervisor::events::follow::cursor;
use crate::supervisor::events::questions_below::open_below;
use crate::supervisor::orders::brief;
use crate::supervisor::policy::is_decided_by_rule;
use crate::supervisor::shared::{ending_error, is_ending};
use crate::supervisor::worker::Snapshot;

/// The result of a wait.
#[derive(Debug)]
pub(crate) struct WaitMatch {
    /// The first event that matched.
    pub matched_event: Event,
    /// The worker's state after the match.
    pub state: WorkerState,
    /// The agent's text up to the match.
    pub collected: Collected,
}

/// What a wait looks for.
struct WaitTargets {
    until: Until,
    /// The only turn whose events count.
    only: Option<TurnId>,
    /// The turn whose text is collected.
    collect: Option<TurnId>,
}

/// The part of an event that a wait needs.
enum WaitEvent {
    /// An event that may match, completely.
    Event(Box<StoredEvent>),
    /// Progress that cannot match. `of_turn`: it belongs to the turn that counts. `part`: its text,
    /// if that is collected. Most events are of this kind and are not copied.
    Progress { of_turn: bool, part: Option<CollectedPart> },
}

/// A part of the collected text.
enum CollectedPart {
    Piece(String),
    ToolCall,
}

impl WaitTargets {
    fn look(&self, event: StoredEvent<&str>) -> WaitEvent {
        if !event.event_type.is_progress() || self.until.matches(event.event_type, event.kind.as_deref()) {
            return WaitEvent::Event(Box::new(event.owned()));
        }
        let is_of = |turn: &TurnId| event.turn_id.as_ref() == Some(turn);
        let concerns = self.only.as_ref().is_none_or(is_of);
        let part = match concerns && self.collect.as_ref().is_some_and(is_of) {
            true if event.is_tool_call() => Some(CollectedPart::ToolCall),
            true => event.text().map(|text| CollectedPart::Piece(text.into_owned())),
            false => None,
        };
        WaitEvent::Progress { of_turn: concerns && self.only.is_some(), part }
    }
}

/// The deadlines of a wait.
struct WaitDeadlines {
    all: Option<Instant>,
    quiet: Option<Duration>,
    quiet_until: Option<Instant>,
}

/// Waits for the first matching event after the cursor. Questions of tasks below the worker
/// count.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `EVENT_NOT_FOUND`, `CURSOR_EXPIRED`, `INVALID_ARGUMENT`. `WAIT_TIMEOUT`
/// and `WAIT_NO_PROGRESS`, with a diagnosis. `DAEMON_NOT_RUNNING` if the daemon is ending.
pub(crate) async fn wait(
    supervisor: &Supervisor,
    worker: &str,
    request: WaitRequest,
    sight: EventScope,
) -> Result<WaitMatch> {
    let until = Until::parse(request.until.as_deref())?;
    let mut patience = WaitDeadlines::of(&request)?;
    let row = supervisor.row(worker).await?;
    let handle = supervisor.roster.live(worker).ok();
    let mut news = handle.as_ref().map(|handle| handle.follow());
    let mut after = match (&request.from_event_id, request.include_history, &news) {
        (Some(event_id), _, _) => cursor(supervisor, &row, event_id).await?,
        (None, true, _) => 0,
        (None, false, Some(news)) => news.borrow().last_seq,
        (None, false, None) => i64::MAX,
    };
    let mut below = (sight != EventScope::Alone)
        .then(|| QuestionsBelow::after(&supervisor.shared.store, &row, handle.as_ref(), after));
    let mut ending = supervisor.shared.ending.subscribe();
    let mut collected = Collected::default();
    let mut meaningful = Value::Null;
    // Events from before the wait do not prolong it.
    let mut is_news = false;
    let mut floor = 0;
    // Whether the only turn that counts has started.
    let mut begun = false;
    let wanted = Arc::new(WaitTargets {
        until,
        only: request.only_turn.clone(),
        collect: request.collect_turn.clone(),
    });
    loop {
        let newest = news.as_mut().map_or(i64::MAX, |news| news.borrow_and_update().last_seq);
        let asked = match &mut below {
            Some(below) => below.next(&wanted.until).await?,
            None => None,
        };
        // Of two matches, the first counts.
        let up_to = asked.as_ref().map_or(newest, |asked| newest.min(asked.event.seq));
        while up_to > after {
            let query = EventQuery { worker: row.id, after, up_to, floor };
            let sought = Arc::clone(&wanted);
            let page = supervisor
                .shared
                .store
                .read(move |connection| events::page(connection, query, |event| Ok(sought.look(event))));
            let page = page.await?;
            (after, floor) = (page.seen, page.floor);
            if is_news && !page.events.is_empty() {
                patience.something_happened();
            }
            for seen in page.events {
                let event = match seen {
                    WaitEvent::Event(event) => *event,
                    WaitEvent::Progress { of_turn, part } => {
                        begun |= of_turn;
                        match part {
                            Some(CollectedPart::Piece(text)) => collected.push(text),
                            Some(CollectedPart::ToolCall) => collected.tool_call(),
                            None => {}
                        }
                        continue;
                    }
                };
                if !event.event_type.is_progress() {
                    meaningful = brief(&event);
                }
                if request.only_turn.as_ref().is_some_and(|only| !concerns(&event, only, &mut begun)) {
                    continue;
                }
                let gone = request.only_turn.is_some()
                    && matches!(event.event_type, EventType::TurnDropped | EventType::QueuePaused);
                // A failed turn has no further events that could match.
                let failed = event.event_type == EventType::TurnFailed
                    && request.collect_turn.is_some()
                    && event.turn_id == request.collect_turn;
                let found = (failed || gone || wanted.until.matches(event.event_type, event.kind.as_deref()))
                    && !decided_by_rule(supervisor, &row, &event).await?;
                let matched_event = found.then(|| event.view(&row.worker_id, false));
                collected.add(event, request.collect_turn.as_ref());
                if let Some(matched_event) = matched_event {
                    let state = supervisor.view(&row).await.state;
                    return Ok(WaitMatch { matched_event, state, collected });
                }
            }
            if page.end {
                break;
            }
        }
        if let Some(asked) = asked {
            let state = supervisor.view(&row).await.state;
            return Ok(WaitMatch { matched_event: asked.view(), state, collected });
        }
        is_news = true;
        if *ending.borrow() {
            // The actors ended because the daemon is ending, not because their workers are
            // over.
            return Err(ending_error());
        }
        // The worker may be repaired during a wait with a time limit.
        if news.is_none() {
            let is_stopped = is_stopped(supervisor, worker).await?;
            if is_stopped || patience.is_endless() {
                return Err(nothing_can_come(supervisor, &row, is_stopped).await?);
            }
        }
        tokio::select! {
            changed = changed(news.as_mut()) => if !changed {
                news = None;
            },
            () = asked_below(below.as_mut()) => {}
            () = is_ending(&mut ending) => return Err(ending_error()),
            () = patience.over() => return Err(gave_up(supervisor, &row, &request, &patience, meaningful, sight).await?),
        }
    }
}

async fn decided_by_rule(supervisor: &Supervisor, row: &WorkerRow, event: &StoredEvent) -> Result<bool> {
    if !event.event_type.is_question() {
        return Ok(false);
    }
    let (worker, event) = (row.id, event.clone());
    supervisor.shared.store.read(move |connection| is_decided_by_rule(connection, worker, &event)).await
}

async fn is_stopped(supervisor: &Supervisor, worker: &str) -> Result<bool> {
    Ok(supervisor.row(worker).await?.state == WorkerState::Stopped.as_str())
}

async fn nothing_can_come(supervisor: &Supervisor, row: &WorkerRow, is_stopped: bool) -> Result<Error> {
    let error = match is_stopped {
        true => Error::new(Code::WorkerStopped, "the worker is stopped: no further event can come"),
        false => Error::new(Code::StorageError, "the worker was set aside: no further event can come"),
    };
    Ok(error
        .with("workerId", row.worker_id.as_str())
        .with("latestEvent", supervisor.latest(row).await?)
        .with("recommendedAction", "read what it did; --include-history or --from-event-id find past events")
        .with("recommendedCommand", format!("subagent watch --worker-id {}", row.worker_id)))
}

/// Returns the newest event of a worker, for use as a cursor.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn latest_event(supervisor: &Supervisor, worker: &str) -> Result<LatestEvent> {
    let row = supervisor.row(worker).await?;
    Ok(LatestEvent { event: supervisor.latest(&row).await?, worker_id: row.worker_id })
}

async fn gave_up(
    supervisor: &Supervisor,
    row: &WorkerRow,
    request: &WaitRequest,
    patience: &WaitDeadlines,
    meaningful: Value,
    sight: EventScope,
) -> Result<Error> {
    let view = supervisor.view(row).await;
    let latest = supervisor.latest(row).await?;
    let quiet = patience.quiet_is_over();
    let (code, message) = if quiet {
        (Code::WaitNoProgress, "nothing happened for the time that was set")
    } else {
        (Code::WaitTimeout, "the event did not come in time")
    };
    let message = match view.state.has_open_turn() && view.unreachable.is_none() {
        true => format!("{message}; the turn goes on"),
        false => message.to_owned(),
    };
    let diagnosis = match (view.state, view.unresponsive) {
        _ if view.unreachable.is_some() => {
            "the worker's place does not answer, so it is unknown what the worker does; wait again".to_owned()
        }
        (_, true) => "the worker's runtime is alive but does not answer".to_owned(),
        (state, _) if state.has_open_turn() => {
            format!("the worker is {state}; wait again from the latest event with --from-event-id")
        }
        (state, _) => format!(
            "the worker is {state}: no turn is open, so the event may have come before the wait began; \
             pass --from-event-id with the acceptedEventId of `send`, or --include-history"
        ),
    };
    let open = match sight {
        EventScope::Alone => None,
        _ => open_below(supervisor, row).await?,
    };
    let diagnosis = match &open {
        Some((asks, _)) => format!("{diagnosis}; {asks}"),
        None => diagnosis,
    };
    let mut error = Error::new(code, message)
        .retryable()
        .with("workerId", row.worker_id.as_str())
        .with("until", request.until.as_deref().unwrap_or(subagent_protocol::until::DEFAULT))
        .with("noProgressTimeoutSeconds", request.no_progress_timeout_seconds)
        .with("workerState", view.state.as_str())
        .with("latestEvent", latest)
        .with("lastMeaningfulEvent", meaningful)
        .with("diagnosis", diagnosis);
    if let Some(unreachable) = view.unreachable {
        error = error.with("unreachable", json!(unreachable));
    }
    if !quiet {
        error = error.with("timeoutSeconds", request.timeout_seconds);
    }
    if let Some((_, questions)) = open {
        error = error.with("questionsBelow", questions);
    }
    let mut command = format!("subagent wait --worker-id {}", row.worker_id);
    if let Some(until) = &request.until {
        let plain = until.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:,-".contains(&byte));
        // Quoted if a shell would interpret it.
        let quoted = if plain { until.clone() } else { format!("'{}'", until.replace('\'', "'\\''")) };
        command.push_str(&format!(" --until {quoted}"));
    }
    command.push_str(&match error.details["latestEvent"]["eventId"].as_str() {
        Some(latest) => format!(" --from-event-id {latest}"),
        None => " --include-history".to_owned(),
    });
    error = error.with("recommendedCommand", command);
    if let Some(turn_id) = request.collect_turn.as_ref().or(view.active_turn_id.as_ref()) {
        error = error.with("turnId", turn_id.as_str());
    }
    Ok(error)
}

/// Returns whether an event is about this turn. A pause of the queue is, while the turn is queued.
fn concerns(event: &StoredEvent, turn_id: &TurnId, begun: &mut bool) -> bool {
    *begun |= event.turn_id.as_ref() == Some(turn_id);
    match event.event_type {
        EventType::QueuePaused => !*begun,
        EventType::TurnQueued | EventType::TurnMoved | EventType::TurnDropped => {
            event.data()["turnId"] == turn_id.as_str()
        }
        _ => event.turn_id.as_ref() == Some(turn_id),
    }
}

impl WaitDeadlines {
    fn of(request: &WaitRequest) -> Result<Self> {
        let all = seconds("timeoutSeconds", request.timeout_seconds)?;
        let quiet = seconds("noProgressTimeoutSeconds", request.no_progress_timeout_seconds)?;
        let now = Instant::now();
        Ok(Self { all: all.map(|all| now + all), quiet, quiet_until: quiet.map(|quiet| now + quiet) })
    }

    fn something_happened(&mut self) {
        self.quiet_until = self.quiet.map(|quiet| Instant::now() + quiet);
    }

    fn is_endless(&self) -> bool {
        self.all.is_none() && self.quiet.is_none()
    }

    fn quiet_is_over(&self) -> bool {
        self.quiet_until.is_some_and(|until| until <= Instant::now())
    }

    async fn over(&self) {
        sleep_until([self.all, self.quiet_until].into_iter().flatten().min()).await;
    }
}

/// Maximum time limit in seconds. It avoids an overflow of the clock.
const LONGEST: f64 = 366.0 * 24.0 * 3600.0;

pub(crate) fn seconds(name: &str, value: f64) -> Result<Option<Duration>> {
    if !value.is_finite() || value < 0.0 {
        return Err(Error::new(Code::InvalidInput, format!("{name} must be a number of seconds, 0 or more"))
            .with("field", name));
    }
    Ok((value > 0.0).then(|| Duration::from_secs_f64(value.min(LONGEST))))
}

/// Waits for a change of a worker. Returns false if there will be none. Never returns without an
/// actor.
pub(in crate::supervisor) async fn changed(news: Option<&mut watch::Receiver<Arc<Snapshot>>>) -> bool {
    or_never(news.map(watch::Receiver::changed)).await.is_ok()
}

/// Waits for a question below a worker. Never returns if those do not count.
pub(crate) async fn asked_below(below: Option<&mut QuestionsBelow>) {
    or_never(below.map(QuestionsBelow::changed)).await;
}

/// Waits for this time. Never returns without a limit.
pub(crate) async fn sleep_for(limit: Option<Duration>) {
    or_never(limit.map(tokio::time::sleep)).await;
}
