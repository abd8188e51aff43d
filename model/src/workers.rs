//! All workers as a view shows them: a snapshot, and the events that follow it. What events do not
//! say (usage, budgets, worktrees, a worker that was removed) is that of the snapshot; a view that
//! wants it newer takes another one.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use subagent_protocol::api::{Doing, OverviewItem, OverviewShown};
use subagent_protocol::event::{Event, EventType};
use subagent_protocol::ids::{EventId, RequestId, TurnId, WorkerId};
use subagent_protocol::lenient::{self, Lenient, ObjectField};
use subagent_protocol::state::{QuestionKind, WorkerState};
use subagent_protocol::time::Timestamp;

use crate::Activity;

/// Maximum number of open questions of a worker that a view keeps.
const MAX_NEEDS: usize = 256;

/// Something that a worker asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The id of the question.
    pub request_id: RequestId,
    /// Whether `approve` answers it, or `answer`.
    pub kind: QuestionKind,
    /// What it is about, in the agent's words.
    pub subject: String,
    /// When the worker asked.
    pub since: Timestamp,
}

/// What a view does with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// It waits for its owner.
    Needs,
    /// It has a turn, is being started, or is parked with something to do.
    Working,
    /// It has nothing to do, or failed.
    Done,
}

/// A worker as a view shows it: its snapshot and the later events.
#[derive(Debug)]
pub struct OverviewRow {
    /// The worker in the snapshot.
    pub snapshot: OverviewItem,
    /// The newest state of the worker.
    pub state: WorkerState,
    /// When the worker entered this state.
    pub since: Timestamp,
    /// When its last event was written.
    pub last_event_at: Option<Timestamp>,
    /// The open turn, if there is one.
    pub active_turn_id: Option<TurnId>,
    /// What it asks, the oldest first.
    pub needs: Vec<Need>,
    /// How many messages wait for it.
    pub waiting: usize,
    /// Whether they wait until the queue is resumed.
    pub is_paused: bool,
    /// Until when nothing is sent to its agent, because its provider limits the rate of requests.
    pub parked_until: Option<Timestamp>,
    /// Since when its place does not answer: everything else is the last that was heard.
    pub unreachable_since: Option<Timestamp>,
    /// Why it failed last.
    pub last_error: Option<String>,
    activity: Activity,
    /// Of the messages that wait, those that were queued after the snapshot.
    queued: HashSet<String>,
}

impl OverviewRow {
    fn new(item: &OverviewItem) -> Self {
        let need = |asked: &subagent_protocol::api::InboxItem| Need {
            request_id: asked.request_id.clone(),
            kind: asked.kind,
            subject: asked.subject.clone(),
            since: asked.created_at,
        };
        Self {
            state: item.state,
            since: item.since,
            last_event_at: item.last_event_at,
            active_turn_id: item.active_turn_id.clone(),
            needs: item.questions.iter().map(need).collect(),
            waiting: item.queue.as_ref().map_or(0, |queue| queue.length),
            is_paused: item.queue.as_ref().is_some_and(|queue| queue.paused),
            parked_until: item.parked.map(|parked| parked.until),
            unreachable_since: item.unreachable.as_ref().map(|unreachable| unreachable.since),
            last_error: item.last_error.clone(),
            activity: Activity::after(item.doing.clone().unwrap_or_default()),
            queued: HashSet::new(),
            snapshot: item.clone(),
        }
    }

    /// Returns the id of the worker.
    #[must_use]
    pub fn worker_id(&self) -> &WorkerId {
        &self.snapshot.worker_id
    }

    /// What the open turn is at; `None` without one.
    #[must_use]
    pub fn doing(&self) -> Option<Doing> {
        self.active_turn_id.as_ref().map(|_| self.activity.doing())
    }

    /// Where a view shows it.
    #[must_use]
    pub fn group(&self) -> Group {
        match self.state {
            WorkerState::WaitingApproval => Group::Needs,
            _ if !self.needs.is_empty() => Group::Needs,
            WorkerState::Starting | WorkerState::Running | WorkerState::Canceling => Group::Working,
            // It goes on by itself.
            WorkerState::Idle | WorkerState::Error if self.parked_until.is_some() && self.has_work() => {
                Group::Working
            }
            WorkerState::Idle | WorkerState::Error | WorkerState::Stopped => Group::Done,
        }
    }

    /// Whether a message waits or a turn is held.
    fn has_work(&self) -> bool {
        self.waiting > 0 || self.active_turn_id.is_some()
    }

    fn enter(&mut self, state: WorkerState, at: Timestamp) {
        if self.state != state {
            (self.state, self.since) = (state, at);
        }
    }

    /// The state of an open turn, which waits if something is asked.
    fn turn_state(&mut self, at: Timestamp) {
        if self.active_turn_id.is_some() && self.state != WorkerState::Canceling {
            let waits = !self.needs.is_empty();
            self.enter(if waits { WorkerState::WaitingApproval } else { WorkerState::Running }, at);
        }
    }

    /// A message does not wait any more, if it is one that did.
    fn takes(&mut self, turn: &str) {
        // Of those in the snapshot only their number is known. Unless the queue is paused, they come first.
        if self.queued.remove(turn) || (!self.is_paused && self.waiting > self.queued.len()) {
            self.waiting = self.waiting.saturating_sub(1);
        }
    }

    fn see(&mut self, event: &Event) {
        self.last_event_at = Some(event.ts);
        let data: WorkerEventData<'_> = lenient::read(&event.data);
        let turn = data.turn_id.0.or(event.turn_id.as_ref().map(TurnId::as_str)).unwrap_or_default();
        match event.event_type {
            EventType::TurnStarted => {
                self.takes(turn);
                self.active_turn_id.clone_from(&event.turn_id);
                self.enter(WorkerState::Running, event.ts);
            }
            EventType::TurnQueued => {
                self.waiting += usize::from(self.queued.insert(turn.to_owned()));
            }
            EventType::TurnDropped => {
                let is_known = self.queued.remove(turn);
                let waited = is_known || self.waiting > self.queued.len();
                self.waiting = self.waiting.saturating_sub(usize::from(waited));
            }
            EventType::QueuePaused => {
                (self.is_paused, self.waiting) = (true, data.length.0.unwrap_or(self.waiting));
            }
            EventType::QueueResumed => {
                (self.is_paused, self.waiting) = (false, data.length.0.unwrap_or(self.waiting));
            }
            EventType::WorkerParked => self.parked_until = data.until.0,
            EventType::WorkerUnparked => self.parked_until = None,
            EventType::WorkerUnreachable => self.unreachable_since = data.since.0,
            EventType::WorkerReached => self.unreachable_since = None,
            EventType::WorkerStarted | EventType::WorkerRestarted if self.active_turn_id.is_none() => {
                self.enter(WorkerState::Idle, event.ts);
            }
            EventType::WorkerStopped => {
                self.enter(WorkerState::Stopped, event.ts);
                self.active_turn_id = None;
                self.needs.clear();
                self.queued.clear();
                self.waiting = 0;
                self.parked_until = None;
                self.unreachable_since = None;
            }
            kind if kind.ends_turn() => {
                self.active_turn_id = None;
                self.enter(WorkerState::Idle, event.ts);
                match kind {
                    EventType::TurnFailed => self.last_error = data.error.0.message.0,
                    EventType::TurnCompleted => self.last_error = None,
                    _ => {}
                }
            }
            kind if kind.is_question() => {
                if let Some(need) = need(event, &data)
                    && self.needs.len() < MAX_NEEDS
                    && self.needs.iter().all(|known| known.request_id != need.request_id)
                {
                    self.needs.push(need);
                }
                self.turn_state(event.ts);
            }
            kind if kind.is_about_question() => {
                self.needs.retain(|need| Some(need.request_id.as_str()) != data.request_id.0);
                self.turn_state(event.ts);
            }
            _ => {}
        }
        self.activity.see_shown(event);
    }
}

/// The data of an event, as far as a row follows from it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WorkerEventData<'a> {
    #[serde(borrow)]
    turn_id: Lenient<&'a str>,
    length: Lenient<usize>,
    until: Lenient<Timestamp>,
    since: Lenient<Timestamp>,
    error: ObjectField<TurnError>,
    request_id: Lenient<&'a str>,
    command: Lenient<&'a str>,
    title: Lenient<&'a str>,
    url: Lenient<&'a str>,
    message: Lenient<&'a str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TurnError {
    message: Lenient<String>,
}

fn need(event: &Event, data: &WorkerEventData<'_>) -> Option<Need> {
    let kind = match event.event_type {
        EventType::ElicitationRequested => QuestionKind::Elicitation,
        _ => QuestionKind::Permission,
    };
    let mut said = [data.command, data.title, data.url, data.message].into_iter().filter_map(|word| word.0);
    let subject = said.find(|text| !text.trim().is_empty()).unwrap_or_default();
    let request_id = data.request_id.0?.parse().ok()?;
    Some(Need { request_id, kind, subject: subject.to_owned(), since: event.ts })
}

/// What an event has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The row of its worker.
    Row,
    /// Of the row of its worker only when its last event was.
    Seen,
    /// Nothing: it was seen before.
    Nothing,
    /// It is of a worker that the snapshot does not have: take another snapshot.
    Unknown,
}

/// The workers of a snapshot, kept current by the events after it.
#[derive(Debug)]
pub struct Workers {
    cursor: EventId,
    rows: Vec<OverviewRow>,
    /// Position of each worker in `rows`.
    positions: HashMap<WorkerId, usize>,
}

impl Workers {
    /// The workers of a snapshot.
    #[must_use]
    pub fn new(snapshot: &OverviewShown) -> Self {
        let rows: Vec<OverviewRow> = snapshot.items.iter().map(OverviewRow::new).collect();
        let positions = rows.iter().enumerate().map(|(at, row)| (row.worker_id().clone(), at)).collect();
        Self { cursor: snapshot.cursor, rows, positions }
    }

    /// The last event that was seen: the stream goes on behind it.
    #[must_use]
    pub fn cursor(&self) -> EventId {
        self.cursor
    }

    /// The workers, the newest first.
    #[must_use]
    pub fn rows(&self) -> &[OverviewRow] {
        &self.rows
    }

    /// Returns the row of a worker.
    #[must_use]
    pub fn row(&self, worker: &WorkerId) -> Option<&OverviewRow> {
        self.rows.get(*self.positions.get(worker)?)
    }

    /// What the workers ask, with their rows, the oldest question first.
    #[must_use]
    pub fn needs(&self) -> Vec<(&OverviewRow, &Need)> {
        let mut needs: Vec<_> =
            self.rows.iter().flat_map(|row| row.needs.iter().map(move |need| (row, need))).collect();
        needs.sort_by_key(|(_, need)| need.since);
        needs
    }

    /// Takes the next event of the stream. An event that comes again changes nothing.
    pub fn apply(&mut self, event: &Event) -> Applied {
        if event.event_id <= self.cursor {
            return Applied::Nothing;
        }
        match self.positions.get(&event.worker_id).and_then(|at| self.rows.get_mut(*at)) {
            None => Applied::Unknown,
            Some(row) => {
                self.cursor = event.event_id;
                row.see(event);
                // A piece of text, of which a turn has many.
                if event.event_type == EventType::ProgressMessage { Applied::Seen } else { Applied::Row }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const WORKER: &str = "w_0123456789";

    fn workers(more: Value) -> Workers {
        let used = json!({"used": 0, "limit": null, "unit": null, "unreported": 0});
        let mut item = json!({
            "workerId": WORKER, "name": "demo-1", "label": "", "controllerId": "ctl_0123456789", "launcher": "demo",
            "role": "default", "cwd": "/", "state": "idle", "since": "2026-11-21T20:29:42Z", "lastEventAt": null,
            "activeTurnId": null, "doing": null, "lastError": null, "questions": [], "queue": null, "task": null,
            "usage": {"turns": 0, "tokens": {"used": 0, "unreported": 0}, "cost": {"used": [], "unreported": 0}},
            "budget": {"turns": used, "wallTime": used, "tokens": used, "cost": used, "onLimit": "refuse", "onUnknown": "warn"},
            "worktree": null,
        });
        for (key, value) in more.as_object().unwrap() {
            item[key] = value.clone();
        }
        let shown =
            json!({"cursor": "ev_000000000010", "at": "2026-11-21T20:29:42Z", "count": 1, "items": [item]});
        Workers::new(&serde_json::from_value(shown).unwrap())
    }

    fn event(seq: i64, kind: &str, data: Value) -> Event {
        serde_json::from_value(json!({
            "schemaVersion": "v1", "eventId": EventId(seq), "ts": "2026-11-21T20:30:00Z", "workerId": WORKER, "type": kind,
            "data": data, "turnId": "turn_0123456789",
        }))
        .unwrap()
    }

    fn after(more: Value, events: &[(&str, Value)]) -> Workers {
        let mut workers = workers(more);
        for ((kind, data), seq) in events.iter().zip(17..) {
            let is_text = *kind == "progress.message";
            let expected = if is_text { Applied::Seen } else { Applied::Row };
            assert_eq!(workers.apply(&event(seq, kind, data.clone())), expected);
        }
        workers
    }

    #[test]
    fn a_turn_with_a_question_goes_through_the_groups() {
        let asked = json!({"requestId": "ap_0123456789", "title": "rm -rf build", "message": "may I?"});
        let story = [
            ("turn.started", json!({"turnId": "turn_0123456789"})),
            (
                "progress.update",
                json!({"kind": "tool_call", "toolCallId": "1", "title": "make", "status": "pending"}),
            ),
            ("approval.requested", asked.clone()),
            ("approval.decided", json!({"requestId": "ap_0123456789"})),
            ("turn.failed", json!({"error": {"message": "no luck"}})),
        ];
        let at = |count: usize| after(json!({}), &story[..count]);
        assert_eq!(at(0).rows()[0].group(), Group::Done);
        assert_eq!((at(1).rows()[0].state, at(1).rows()[0].group()), (WorkerState::Running, Group::Working));
        assert_eq!(at(2).rows()[0].doing().unwrap().tool.as_deref(), Some("make"));
        let asking = at(3);
        assert_eq!(
            (asking.rows()[0].state, asking.rows()[0].group()),
            (WorkerState::WaitingApproval, Group::Needs)
        );
        let needs = asking.needs();
        assert_eq!((needs.len(), needs[0].1.subject.as_str()), (1, "rm -rf build"));
        assert_eq!(at(4).rows()[0].state, WorkerState::Running);
        let ended = at(5);
        assert_eq!((ended.rows()[0].state, ended.rows()[0].doing()), (WorkerState::Idle, None));
        assert_eq!(ended.rows()[0].last_error.as_deref(), Some("no luck"));
        assert!(ended.rows()[0].since.to_string().contains("20:30:00"));
    }

    #[test]
    fn the_tool_of_the_snapshot_is_shown_until_a_call_ends() {
        let busy = json!({
            "state": "running", "activeTurnId": "turn_0123456789",
            "doing": {"tool": "make", "step": "fix", "stepsCompleted": 1, "steps": 2},
        });
        let doing = |events: &[(&str, Value)]| after(busy.clone(), events).rows()[0].doing().unwrap();
        assert_eq!(doing(&[("progress.message", json!({"text": "hm"}))]).tool.as_deref(), Some("make"));
        let over = json!({"kind": "tool_call_update", "toolCallId": "7", "status": "completed"});
        let after_it = doing(&[("progress.update", over)]);
        assert_eq!((after_it.tool, after_it.step.as_deref(), after_it.steps), (None, Some("fix"), 2));
    }

    #[test]
    fn messages_that_wait_are_counted_without_their_ids() {
        let queue = json!({"queue": {"length": 2, "paused": false}});
        let started = ("turn.started", json!({"turnId": "turn_0000000001"}));
        let queued = ("turn.queued", json!({"turnId": "turn_0000000003", "position": 2}));
        let waiting = |events: &[(&str, Value)]| after(queue.clone(), events).rows()[0].waiting;
        assert_eq!(waiting(&[started.clone(), queued.clone()]), 2);
        assert_eq!(waiting(&[queued.clone(), ("turn.dropped", json!({"turnId": "turn_0000000003"}))]), 2);
        let paused = ("queue.paused", json!({"length": 2, "reason": "turn_failed"}));
        assert_eq!(
            waiting(&[paused.clone(), started.clone()]),
            2,
            "a message past a paused queue did not wait"
        );
        assert_eq!(waiting(&[paused, ("queue.resumed", json!({"length": 2})), started]), 1);
        assert_eq!(waiting(&[("worker.stopped", json!({}))]), 0);
    }

    #[test]
    fn a_parked_worker_works_if_something_waits() {
        let parked = ("worker.parked", json!({"until": "2026-11-21T20:35:00Z", "reason": "rate_limit"}));
        let queued = ("turn.queued", json!({"turnId": "turn_0000000003", "position": 1}));
        let group = |events: &[(&str, Value)]| after(json!({}), events).rows()[0].group();
        assert_eq!(group(std::slice::from_ref(&parked)), Group::Done);
        assert_eq!(group(std::slice::from_ref(&queued)), Group::Done);
        assert_eq!(group(&[parked.clone(), queued.clone()]), Group::Working);
        assert_eq!(group(&[parked, queued, ("worker.unparked", json!({"reason": "due"}))]), Group::Done);
    }

    #[test]
    fn what_comes_again_or_from_elsewhere_changes_nothing() {
        let mut workers = workers(json!({}));
        assert_eq!(workers.apply(&event(16, "turn.started", json!({}))), Applied::Nothing);
        let mut other = event(17, "turn.started", json!({}));
        other.worker_id = "w_9876543210".parse().unwrap();
        assert_eq!(workers.apply(&other), Applied::Unknown);
        assert_eq!((workers.rows()[0].state, workers.cursor()), (WorkerState::Idle, EventId(16)));
        assert_eq!(workers.apply(&event(18, "turn.started", json!({}))), Applied::Row);
        assert_eq!(workers.apply(&event(18, "turn.completed", json!({}))), Applied::Nothing);
        assert_eq!(workers.rows()[0].state, WorkerState::Running);
    }
}
