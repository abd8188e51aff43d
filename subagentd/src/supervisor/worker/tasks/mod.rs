//! Tasks in a worker's actor: its own task and those that it created. `core` and the store decide
//! what ends a task and which turn may start. An actor re-checks everything on start, so a missed
//! notification is harmless.

pub(crate) mod limits;
pub(crate) mod result;

use subagent_core::model::{
    Fact, LifecycleState, QueuePosition, Queued, RuntimeStatus, TaskEnding, WorkerInput,
};
use subagent_core::task;
use subagent_protocol::Error;
use subagent_protocol::frame::{HIBERNATE, RuntimeCommand};
use subagent_protocol::ids::TurnId;
use tokio::sync::watch;

use super::actor::Actor;
use super::runtime::LiveRuntime;
use crate::store::tasks;
use crate::store::tasks::ends::UndeliveredResult;
use crate::store::tasks::places::Concern;
use crate::supervisor::entropy;
use crate::supervisor::start::environment;

/// Reason in the journal of a runtime that ends because its task has ended.
const TASK_ENDED: &str = "the task has ended";

/// Task state of an actor.
pub(crate) struct Tasks {
    /// Whether the worker was created for a task.
    own: bool,
    /// Whether the worker may have created tasks.
    gives: bool,
    /// Whether its own task is over.
    ended: bool,
    /// Whether its runtime was ended because of that.
    rests: bool,
    /// Whether the tasks must be checked.
    stale: bool,
    /// Whether a change of this worker may concern others.
    changed: bool,
    /// Notified when a stored change concerns this worker.
    pub(crate) bell: watch::Receiver<u64>,
}

impl Tasks {
    pub(crate) const fn new(own: bool, gives: bool, bell: watch::Receiver<u64>) -> Self {
        Self { own, gives, ended: false, rests: false, stale: true, changed: false, bell }
    }

    /// Records a stored change that may concern this worker and others.
    pub(crate) const fn is_news(&mut self) {
        (self.stale, self.changed) = (true, true);
    }

    /// Returns whether the worker was created for a task.
    pub(crate) const fn is_task(&self) -> bool {
        self.own
    }

    /// Returns whether the worker may have created tasks.
    pub(crate) const fn gives(&self) -> bool {
        self.gives
    }

    /// Updates the state from committed facts.
    pub(crate) fn see(&mut self, facts: &[Fact]) {
        let matters = |fact: &Fact| !matches!(fact, Fact::Event { .. } | Fact::Spent(_) | Fact::Inbox(_));
        if facts.iter().any(matters) {
            self.stale = true;
            self.changed = true;
        }
        // A new turn began, so the earlier end of the runtime does not count.
        if facts.iter().any(|fact| matches!(fact, Fact::TurnOpened { .. } | Fact::QueuedTurnOpened { .. })) {
            self.rests = false;
        }
    }
}

impl Actor {
    /// Requires a check after a notification.
    pub(crate) fn is_rung(&mut self) {
        self.tasks.gives = true;
        self.tasks.stale = true;
        self.budgets.is_news();
    }

    /// Ends the worker's task, unless it is over or ending.
    pub(crate) async fn end_task(&mut self, ending: TaskEnding, reason: String) {
        subagent_failpoint::hit("cancel.before_commit");
        self.apply(WorkerInput::EndTask { ending, reason }).await;
        subagent_failpoint::hit("cancel.after_commit");
    }

    /// Checks the tasks if necessary. Returns whether there is work to do now.
    pub(crate) async fn look_after_tasks(&mut self) -> bool {
        if !self.settled || self.retry.is_some() || !(self.tasks.own || self.tasks.gives) {
            return false;
        }
        if self.tasks.stale {
            self.tasks.stale = false;
            let id = self.id;
            match self.shared.store.read(move |connection| tasks::places::concern(connection, id)).await {
                Ok(concern) => {
                    if self.follow_tasks(concern).await {
                        return true;
                    }
                }
                Err(error) => self.looks_at_tasks_later(&error),
            }
        }
        self.end_what_is_over().await
    }

    /// Schedules another check after a failure of the store.
    pub(crate) fn looks_at_tasks_later(&mut self, error: &Error) {
        self.tasks.stale = true;
        self.look_later(error);
    }

    async fn follow_tasks(&mut self, concern: Concern) -> bool {
        let Concern { own, due, ring } = concern;
        if let Some(own) = &own {
            if own.ended && !self.tasks.ended {
                subagent_failpoint::hit("task_end.after_commit");
            }
            self.tasks.ended = own.ended;
        }
        if std::mem::take(&mut self.tasks.changed) {
            self.shared.wake_actors(ring.into_iter().filter(|other| *other != self.id));
        }
        if matches!(self.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
            return false;
        }
        let completes_later = own.as_ref().is_some_and(|own| own.completes_later && !own.ended);
        if let Some(why) = own.and_then(|own| own.unwanted) {
            self.end_task(TaskEnding::Cancelled, why).await;
            return true;
        }
        if completes_later && self.complete_task().await {
            return true;
        }
        // Without an environment, no agent can be started. The message stays due until a client
        // sends one.
        if self.worker.link == RuntimeStatus::None
            && !due.is_empty()
            && environment::read(&self.environment).is_err()
        {
            return false;
        }
        let is_due = !due.is_empty();
        for due in due {
            self.deliver_result(due).await;
        }
        is_due
    }

    /// Queues the message about the end of a task, unless that was done before.
    async fn deliver_result(&mut self, due: UndeliveredResult) {
        let Ok(random) = entropy::random() else {
            self.tasks.stale = true;
            return;
        };
        let turn_id = TurnId::from_random(random);
        let (message, input) = task::delivery(&due.text, &due.name, &due.task_id, due.status);
        let queued = Queued { turn_id: turn_id.clone(), message, input, sender: None };
        let input = WorkerInput::Enqueue { queued, urgency: QueuePosition::Delivered, most: usize::MAX };
        // A message that was queued before is refused, which is fine.
        let delivered = self.apply_if(input, move |tx, _, _| tasks::ends::deliver(tx, &due, &turn_id)).await;
        subagent_failpoint::hit("task_delivery.after_commit");
        if delivered.is_ok() {
            self.is_active();
        }
    }

    /// Ends the runtime of a task that is over. Keeps its session if the agent can resume it.
    async fn end_what_is_over(&mut self) -> bool {
        let Some(runtime) = &self.runtime else {
            self.tasks.rests = false;
            return false;
        };
        let may = self.tasks.ended && !self.tasks.rests && self.worker.rests() && self.settings.is_empty();
        if !may || !runtime.listens() {
            return false;
        }
        self.tasks.rests = true;
        if self.restores && hibernates(runtime) {
            self.hibernate().await;
            self.tasks.rests = self.sleeps();
            return self.tasks.rests;
        }
        self.terminate_for(TASK_ENDED);
        false
    }

    /// Terminates a runtime that refuses to hibernate, for example while a terminal of its agent
    /// runs.
    pub(crate) fn end_all_the_same(&mut self) {
        if self.tasks.ended && self.worker.rests() {
            self.tasks.rests = true;
            self.terminate_for(TASK_ENDED);
        }
    }

    fn terminate_for(&mut self, reason: &str) {
        self.command(RuntimeCommand::Terminate { reason: reason.to_owned() });
        // The runtime may miss the command, which is not repeated.
        self.ends_soon();
    }
}

fn hibernates(runtime: &LiveRuntime) -> bool {
    runtime.capabilities.iter().any(|known| known == HIBERNATE)
}
