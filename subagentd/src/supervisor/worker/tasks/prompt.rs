//! The open prompt of a task: its steps and its time, counted against the terms of the task.

use crate::supervisor::worker::STORE_RETRY;
use std::sync::Arc;
use subagent_core::model::{Fact, TaskEnding, Worker, WorkerInput};
use subagent_core::task::limits::{PromptLimits, PromptTime};
use subagent_protocol::data::EventData;
use subagent_protocol::data::tasks::SubagentProgress;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::record::{JournalRecord, RecordType};
use subagent_protocol::task_terms::TaskTerms;
use subagent_protocol::{Error, tool_calls};
use tokio::time::Instant;

/// State of the limits of a worker's task.
#[derive(Default)]
pub(crate) struct TaskLimitState {
    /// Whether the store was read.
    pub(crate) known: bool,
    /// Name and terms of the task. `None` for a worker without a task.
    pub(crate) task: Option<(Arc<str>, TaskTerms)>,
    /// The open or last prompt.
    pub(crate) open: Option<PromptUsage>,
    /// Whether the limits must be checked.
    pub(crate) stale: bool,
    /// Whether the store failed. Then the next check is at `at`.
    pub(crate) has_failed: bool,
    /// When to check again.
    pub(crate) at: Option<Instant>,
}

/// A prompt and its usage.
#[derive(Clone)]
pub(crate) struct PromptUsage {
    pub(crate) turn: u64,
    /// The name of the task.
    name: Arc<str>,
    pub(crate) meter: PromptLimits,
}

impl PromptUsage {
    /// `ends`: the prompt is being ended already.
    pub(crate) fn new(turn: u64, (name, terms): &(Arc<str>, TaskTerms), ends: bool) -> Self {
        Self {
            turn,
            name: Arc::clone(name),
            meter: PromptLimits::new(terms.max_steps, terms.timeout_ms, ends),
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        self.meter.steps.count()
    }

    pub(crate) fn over(&mut self, ran: PromptTime) -> Option<(TaskEnding, String)> {
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
    let data =
        SubagentProgress { id: task.clone(), name: prompt.name.to_string(), steps: prompt.steps(), tool };
    let progress = Fact::Event { data: EventData::SubagentProgress(data), turn: None };
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

    /// Schedules another check after a failure of the store.
    pub(crate) fn failed(&mut self, worker: &WorkerId, error: &Error) {
        tracing::warn!(%worker, %error, "the limits of a task cannot be looked at; trying again");
        self.has_failed = true;
        self.at = Some(Instant::now() + STORE_RETRY);
    }

    /// Requires a check when the timer fires.
    pub(crate) fn is_due(&mut self) {
        (self.at, self.has_failed, self.stale) = (None, false, true);
    }
}
