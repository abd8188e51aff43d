//! A worker with a task: its stored state, slots taken by other tasks, and ends from outside.

use subagent_core::model::{LastTurn, LifecycleState, TaskEnding, WorkerInput};
use subagent_core::task;
use subagent_protocol::api::TaskStatus;
use subagent_protocol::state::TurnStatus;

use super::Break;
use super::site::Site;
use super::world::WorldContext;

/// Stored state of a task.
#[derive(Default)]
pub(super) struct SimulatedTask {
    ending: Option<TaskEnding>,
    outcome: Option<TaskStatus>,
    /// Turn counts of the worker at the last check, and at the start of the current run.
    turns: usize,
    first: usize,
    /// Number of times the task has ended.
    pub(super) ends: u64,
}

impl Site {
    /// Whether a turn may begin. Without a task always; in a tree, others may hold all slots.
    pub(super) fn has_place(&self, env: &mut WorldContext) -> bool {
        self.task.is_none() || env.calm || env.random.below(3) != 0
    }

    /// Queues a message to an idle task if no slot is free.
    pub(super) fn in_its_place(&self, input: WorkerInput, env: &mut WorldContext) -> WorkerInput {
        let idle = matches!(self.checker.worker.state, LifecycleState::Idle | LifecycleState::Error);
        if !idle || self.has_place(env) {
            return input;
        }
        input.clone().waiting(None).unwrap_or(input)
    }

    /// Begins a new run of an ended task, in the step that adds the work.
    pub(super) fn goes_on(&mut self, env: &WorldContext) {
        let turns = self.checker.rows.turns.len();
        let Some(task) = self.task.as_mut().filter(|task| task.outcome.is_some()) else { return };
        if env.broken != Some(Break::EndIsKept) {
            (task.ending, task.outcome, task.first) = (None, None, turns);
        }
    }

    /// Resumes the queue. For a task, its next turn begins in the same step only if a slot is free.
    pub(super) fn resume_queue(&mut self, env: &mut WorldContext) {
        let queue = &self.checker.worker.queue;
        let (gated, was_paused) = (queue.gated, queue.paused.is_some());
        if self.task.is_some() && self.has_place(env) {
            self.checker.worker.queue.gated = false;
        }
        self.order(WorkerInput::ResumeQueue, env);
        self.checker.worker.queue.gated = gated;
        let queue = &self.checker.worker.queue;
        // Also while the worker starts: queued messages begin when it has a session.
        if was_paused && queue.paused.is_none() && !queue.turns.is_empty() {
            self.goes_on(env);
        }
    }

    /// Ends the task by request or limit.
    pub(super) fn end_task(&mut self, env: &mut WorldContext) {
        if !self.serves(env) {
            return;
        }
        let ending = *env.random.pick(&[TaskEnding::Cancelled, TaskEnding::TimedOut]);
        let stops =
            matches!(self.checker.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped);
        self.order(WorkerInput::EndTask { ending, reason: "enough".to_owned() }, env);
        if let Some(task) = self.task.as_mut().filter(|task| !stops && task.outcome.is_none()) {
            task.ending = task.ending.or(Some(ending));
        }
    }

    /// Ends the task if its worker's state implies it. An ended task stays ended until it gets
    /// another message.
    pub(super) fn check_task(&mut self) {
        let (worker, rows) = (&self.checker.worker, &self.checker.rows);
        let Some(task) = &mut self.task else { return };
        if rows.turns.len() > task.turns {
            if task.outcome.take().is_some() {
                task.first = task.turns;
            }
            // A turn that begins after an end was requested later than that end.
            (task.ending, task.turns) = (None, rows.turns.len());
        }
        if task.outcome.is_none() {
            let mut run = rows.turns.values().skip(task.first);
            let last = run.rfind(|turn| turn.status != TurnStatus::Accepted);
            let last = last.map(|turn| LastTurn { status: turn.status, lost: false });
            task.outcome = task::outcome(worker, task.ending, last);
            task.ends += u64::from(task.outcome.is_some());
            let wanted = task.ending.map(TaskEnding::status);
            let kept = task.outcome.is_none() || wanted.is_none() || task.outcome == wanted;
            assert!(kept, "a task that was to end as {wanted:?} ended as {:?}", task.outcome);
        }
        let goes_on = worker.turn().is_some() || worker.goes_on_alone();
        assert!(task.outcome.is_none() || !goes_on, "a task is over, and something of it goes on");
        assert!(
            task.outcome.is_some() || worker.state != LifecycleState::Stopped,
            "a task goes on, and nothing of it lives"
        );
    }
}
