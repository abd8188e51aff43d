//! What ends a prompt of a task by itself, at work: its calls are counted, and told, as their records are taken in, its time by
//! the account of its worker.
//!
//! What is known here a daemon that is started anew finds in the store: nothing is counted twice, and no time is lost.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use subagent_protocol::budget::Scope;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::record::{Record, RecordType};
use subagent_protocol::task_terms::TaskTerms;
use subagent_protocol::{Error, Result, tool_calls};
use tokio::time::Instant;

use super::actor::Actor;
use crate::core::task::TaskEnding;
use crate::core::task_limits::{Meter, Ran};
use crate::core::worker::State;
use crate::core::{Fact, Input, Worker};
use crate::steady::steady;
use crate::store::{accounts, task_limits};
use crate::supervisor::entropy;

/// After a failure of the store it is asked again so much later.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// What is known of the limits of a worker's task.
#[derive(Default)]
pub(super) struct TaskLimits {
    /// Whether all of it was read.
    known: bool,
    /// The name of the task, and what its prompts keep to; `None` of a worker that has no task.
    task: Option<(Arc<str>, TaskTerms)>,
    /// The prompt that is open, or was the last.
    pub(super) open: Option<Open>,
    /// Whether it is to be looked at.
    stale: bool,
    /// Whether the store failed: then nothing is looked at before `at`.
    failed: bool,
    /// When to look at it again.
    pub(super) at: Option<Instant>,
}

/// A prompt, and what it has used.
#[derive(Clone)]
pub(super) struct Open {
    turn: u64,
    /// Of its task.
    name: Arc<str>,
    meter: Meter,
}

impl Open {
    /// `ends`: something ends it already.
    fn new(turn: u64, (name, terms): &(Arc<str>, TaskTerms), ends: bool) -> Self {
        Self { turn, name: Arc::clone(name), meter: Meter::new(terms.max_steps, terms.timeout_ms, ends) }
    }

    pub(super) fn steps(&self) -> u64 {
        self.meter.steps.count()
    }

    fn over(&mut self, ran: Ran) -> Option<(TaskEnding, String)> {
        let ending = self.meter.look(ran)?;
        Some((ending, self.meter.reason(ending)))
    }
}

/// A step of the open prompt of a task.
pub(super) struct Step {
    /// What is told of it.
    pub(super) told: Fact,
    /// What is to happen if it is one step too many.
    pub(super) over: Option<Input>,
}

/// Counts a record of the open prompt of a task, if it is a step: in the transaction of the record, and once.
pub(super) fn step(
    record: &Record<'_>,
    prompt: &mut Option<Open>,
    task: &WorkerId,
    worker: &Worker,
) -> Option<Step> {
    let prompt = prompt.as_mut()?;
    if !is_step(record, prompt) {
        return None;
    }
    let tool = record.b.and_then(|body| tool_calls::name_of(record.t, body.get()));
    let data = json!({"id": task, "name": *prompt.name, "steps": prompt.steps(), "tool": tool});
    let told = Fact::Event { event_type: EventType::SubagentProgress, data, turn: None };
    // What came first counts.
    let open = worker.turn().is_some_and(|turn| turn.cancel.is_none());
    let over = prompt.over(Ran::default()).filter(|_| open);
    Some(Step { told, over: over.map(|(ending, reason)| Input::EndTask { ending, reason }) })
}

/// Takes notice of a record of this prompt. Says whether it is the first that speaks of its call.
fn is_step(record: &Record<'_>, open: &mut Open) -> bool {
    let speaks = match record.t {
        RecordType::ApprovalRequested => true,
        RecordType::Update | RecordType::ChildUpdate => {
            record.k.as_deref().is_some_and(|kind| tool_calls::KINDS.contains(&kind))
        }
        _ => false,
    };
    let body = record.b.filter(|_| speaks && record.turn == Some(open.turn));
    let id = body.and_then(|body| tool_calls::id_of(record.t, body.get()));
    id.is_some_and(|id| open.meter.steps.see(&id))
}

impl TaskLimits {
    /// Sees what was committed.
    pub(super) fn see(&mut self, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::TurnOpened { no, .. } | Fact::QueuedTurnOpened { no, .. } => {
                    self.open = self.task.as_ref().map(|task| Open::new(*no, task, false));
                }
                Fact::Spent(_) => self.stale = true,
                _ => {}
            }
        }
    }

    /// How many steps of its prompt are stored.
    pub(super) fn steps(&self) -> u64 {
        self.open.as_ref().map_or(0, Open::steps)
    }

    /// The time has come for which it was waited.
    pub(super) fn is_due(&mut self) {
        (self.at, self.failed, self.stale) = (None, false, true);
    }
}

impl Actor {
    /// Finds out what the task of the worker keeps to, if it has one, and what its open prompt has used.
    pub(super) async fn recall_task_limits(&mut self) {
        if !self.tasks.is_task() {
            self.task_limits.known = true;
            return;
        }
        let (id, turn) = (self.id, self.worker.turn().map(|open| (open.no, open.cancel.is_some())));
        let read = self.shared.store.read(move |connection| {
            let Some((name, terms)) = task_limits::terms(connection, id)? else { return Ok(None) };
            let task = (Arc::from(name), terms);
            let mut open = turn.map(|(turn, ends)| Open::new(turn, &task, ends));
            if let Some(Open { turn, meter, .. }) = &mut open {
                task_limits::calls(connection, id, *turn, |call| {
                    meter.steps.see(call);
                    !meter.steps.is_full()
                })?;
            }
            Ok(Some((task, open)))
        });
        match read.await {
            Ok(found) => {
                let limits = &mut self.task_limits;
                (limits.known, limits.stale) = (true, found.is_some());
                let (task, open) = found.unzip();
                (limits.task, limits.open) = (task, open.flatten());
            }
            Err(error) => self.limits_failed(&error),
        }
    }

    fn limits_failed(&mut self, error: &Error) {
        tracing::warn!(worker = %self.worker_id, %error, "the limits of a task cannot be looked at; trying again");
        self.task_limits.failed = true;
        self.task_limits.at = Some(Instant::now() + STORE_RETRY);
    }

    /// Ends the open prompt of a task if its time is over. Says whether something is to be done now.
    pub(super) async fn look_at_task_limits(&mut self) -> bool {
        if !self.settled || self.retry.is_some() || self.task_limits.failed {
            return false;
        }
        if !self.task_limits.known {
            self.recall_task_limits().await;
        }
        if self.task_limits.failed || !std::mem::take(&mut self.task_limits.stale) {
            return false;
        }
        self.task_limits.at = None;
        let State::Turn(turn) = &self.worker.state else { return false };
        let (no, canceled) = (turn.no, turn.cancel.is_some());
        if canceled || self.task_limits.open.as_ref().is_none_or(|open| open.turn != no) {
            return false;
        }
        let ran = match self.ran().await {
            Ok(ran) => ran,
            Err(error) => {
                self.task_limits.stale = true;
                self.limits_failed(&error);
                return false;
            }
        };
        let Some(open) = &mut self.task_limits.open else { return false };
        let Some((ending, reason)) = open.over(ran) else {
            // A moment later than its time is over, not earlier.
            let left = open.meter.left(ran).and_then(|millis| millis.checked_add(1));
            self.task_limits.at =
                left.and_then(|left| Instant::now().checked_add(Duration::from_millis(left)));
            return false;
        };
        self.end_task(ending, reason).await;
        true
    }

    async fn ran(&self) -> Result<Ran> {
        let id = self.id;
        let read = self.shared.store.read(move |connection| {
            let before = task_limits::ran_before(connection, id)?;
            Ok(Ran::of(&accounts::account(connection, Scope::Worker, id)?, before, steady(entropy::now())))
        });
        read.await
    }
}
