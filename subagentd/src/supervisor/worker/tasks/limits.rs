//! Step and time limits of a task's prompt. Steps are counted when their records are read, and time
//! by the account of the worker. A restarted daemon restores both from the store, so nothing is
//! counted twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use subagent_core::model::{Fact, LifecycleState, TaskEnding, Worker, WorkerInput};
use subagent_core::task::limits::{PromptLimits, PromptTime};
use subagent_protocol::budget::Scope;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::record::{JournalRecord, RecordType};
use subagent_protocol::task_terms::TaskTerms;
use subagent_protocol::{Error, Result, tool_calls};
use tokio::time::Instant;

use crate::steady::steady;
use crate::store::{accounts, tasks};
use crate::supervisor::entropy;
use crate::supervisor::worker::actor::Actor;

/// Delay after a failure of the store.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// State of the limits of a worker's task.
#[derive(Default)]
pub(crate) struct TaskLimitState {
    /// Whether the store was read.
    known: bool,
    /// Name and terms of the task. `None` for a worker without a task.
    task: Option<(Arc<str>, TaskTerms)>,
    /// The open or last prompt.
    pub(crate) open: Option<PromptUsage>,
    /// Whether the limits must be checked.
    stale: bool,
    /// Whether the store failed. Then the next check is at `at`.
    failed: bool,
    /// When to check again.
    pub(crate) at: Option<Instant>,
}

/// A prompt and its usage.
#[derive(Clone)]
pub(crate) struct PromptUsage {
    turn: u64,
    /// The name of the task.
    name: Arc<str>,
    meter: PromptLimits,
}

impl PromptUsage {
    /// `ends`: the prompt is being ended already.
    fn new(turn: u64, (name, terms): &(Arc<str>, TaskTerms), ends: bool) -> Self {
        Self {
            turn,
            name: Arc::clone(name),
            meter: PromptLimits::new(terms.max_steps, terms.timeout_ms, ends),
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        self.meter.steps.count()
    }

    fn over(&mut self, ran: PromptTime) -> Option<(TaskEnding, String)> {
        let ending = self.meter.look(ran)?;
        Some((ending, self.meter.reason(ending)))
    }
}

/// A step of the open prompt of a task.
pub(crate) struct PromptStep {
    /// The event that reports the step.
    pub(crate) progress: Fact,
    /// The input that ends the prompt, if the step exceeds the limit.
    pub(crate) over: Option<WorkerInput>,
}

/// Counts a record of the open prompt if it is a step, once, in the transaction of the record.
pub(crate) fn step(
    record: &JournalRecord<'_>,
    prompt: &mut Option<PromptUsage>,
    task: &WorkerId,
    worker: &Worker,
) -> Option<PromptStep> {
    let prompt = prompt.as_mut()?;
    if !is_step(record, prompt) {
        return None;
    }
    let tool = record.b.and_then(|body| tool_calls::name_of(record.t, body.get()));
    let data = json!({"id": task, "name": *prompt.name, "steps": prompt.steps(), "tool": tool});
    let progress = Fact::Event { event_type: EventType::SubagentProgress, data, turn: None };
    // An earlier cancel takes precedence.
    let open = worker.turn().is_some_and(|turn| turn.cancel.is_none());
    let over = prompt.over(PromptTime::default()).filter(|_| open);
    Some(PromptStep { progress, over: over.map(|(ending, reason)| WorkerInput::EndTask { ending, reason }) })
}

/// Records a call of this prompt. Returns whether this is the first record of the call.
fn is_step(record: &JournalRecord<'_>, open: &mut PromptUsage) -> bool {
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

impl TaskLimitState {
    /// Updates the state from committed facts.
    pub(crate) fn see(&mut self, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::TurnOpened { no, .. } | Fact::QueuedTurnOpened { no, .. } => {
                    self.open = self.task.as_ref().map(|task| PromptUsage::new(*no, task, false));
                }
                Fact::Spent(_) => self.stale = true,
                _ => {}
            }
        }
    }

    /// Returns the number of counted steps of the prompt.
    pub(crate) fn steps(&self) -> u64 {
        self.open.as_ref().map_or(0, PromptUsage::steps)
    }

    /// Requires a check when the timer fires.
    pub(crate) fn is_due(&mut self) {
        (self.at, self.failed, self.stale) = (None, false, true);
    }
}

impl Actor {
    /// Reads the terms of the worker's task and the usage of its open prompt.
    pub(crate) async fn recall_task_limits(&mut self) {
        if !self.tasks.is_task() {
            self.task_limits.known = true;
            return;
        }
        let (id, turn) = (self.id, self.worker.turn().map(|open| (open.no, open.cancel.is_some())));
        let read = self.shared.store.read(move |connection| {
            let Some((name, terms)) = tasks::limits::terms(connection, id)? else { return Ok(None) };
            let task = (Arc::from(name), terms);
            let mut open = turn.map(|(turn, ends)| PromptUsage::new(turn, &task, ends));
            if let Some(PromptUsage { turn, meter, .. }) = &mut open {
                tasks::limits::calls(connection, id, *turn, |call| {
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

    /// Ends the open prompt of a task if its time is over. Returns whether there is work to do now.
    pub(crate) async fn look_at_task_limits(&mut self) -> bool {
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
        let LifecycleState::Turn(turn) = &self.worker.state else { return false };
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
            // One millisecond after the limit, never before it.
            let left = open.meter.left(ran).and_then(|millis| millis.checked_add(1));
            self.task_limits.at =
                left.and_then(|left| Instant::now().checked_add(Duration::from_millis(left)));
            return false;
        };
        self.end_task(ending, reason).await;
        true
    }

    async fn ran(&self) -> Result<PromptTime> {
        let id = self.id;
        let read = self.shared.store.read(move |connection| {
            let before = tasks::limits::ran_before(connection, id)?;
            Ok(PromptTime::of(
                &accounts::account(connection, Scope::Worker, id)?,
                before,
                steady(entropy::now()),
            ))
        });
        read.await
    }
}
