//! Tasks of a worker at work: what is looked at when something has happened to its own task, or to those that it gave.
//!
//! What ends a task, and who may have its turn, is decided by the rules and by what is stored; here it is carried out. An
//! actor looks at everything of its own when it begins, so that nothing depends on having heard a bell.

use subagent_protocol::Error;
use subagent_protocol::frame::{Command, HIBERNATE};
use subagent_protocol::ids::TurnId;
use tokio::sync::watch;

use super::actor::Actor;
use super::runtime::Runtime;
use crate::core::queue::{Queued, Urgency};
use crate::core::task::{self, TaskEnding};
use crate::core::worker::{Link, State};
use crate::core::{Fact, Input};
use crate::store::task_ends::Due;
use crate::store::task_places::{self, Concern};
use crate::supervisor::{entropy, environment};

/// What the journal of a runtime says that ends because its task has.
const TASK_ENDED: &str = "the task has ended";

/// What the actor knows of tasks.
pub(super) struct Tasks {
    /// Whether the worker was made for one.
    own: bool,
    /// Whether it may have given some.
    gives: bool,
    /// Whether its own is over.
    ended: bool,
    /// Whether its runtime was told to end because of that.
    rests: bool,
    /// Whether they are to be looked at.
    stale: bool,
    /// Whether others may have something to look at because of this worker.
    changed: bool,
    /// Rung when something was stored that concerns this worker.
    pub(super) bell: watch::Receiver<u64>,
}

impl Tasks {
    pub(super) const fn new(own: bool, gives: bool, bell: watch::Receiver<u64>) -> Self {
        Self { own, gives, ended: false, rests: false, stale: true, changed: false, bell }
    }

    /// Something was stored that may concern this worker and others.
    pub(super) const fn is_news(&mut self) {
        (self.stale, self.changed) = (true, true);
    }

    /// Whether the worker was made for a task.
    pub(super) const fn is_task(&self) -> bool {
        self.own
    }

    /// Whether the worker may have given tasks.
    pub(super) const fn gives(&self) -> bool {
        self.gives
    }

    /// Sees what was committed.
    pub(super) fn see(&mut self, facts: &[Fact]) {
        let matters = |fact: &Fact| !matches!(fact, Fact::Event { .. } | Fact::Spent(_) | Fact::Inbox(_));
        if facts.iter().any(matters) {
            self.stale = true;
            self.changed = true;
        }
        // It has something to do again: what its runtime was told was for the end before.
        if facts.iter().any(|fact| matches!(fact, Fact::TurnOpened { .. } | Fact::QueuedTurnOpened { .. })) {
            self.rests = false;
        }
    }
}

impl Actor {
    /// Somebody has stored what concerns this worker.
    pub(super) fn is_rung(&mut self) {
        self.tasks.gives = true;
        self.tasks.stale = true;
        self.budgets.is_news();
    }

    /// Ends the worker's task, unless it is over or being ended.
    pub(super) async fn end_task(&mut self, ending: TaskEnding, reason: String) {
        subagent_failpoint::hit("cancel.before_commit");
        self.apply(Input::EndTask { ending, reason }).await;
        subagent_failpoint::hit("cancel.after_commit");
    }

    /// Looks at what concerns the worker if something has happened to it. Says whether something is to be done now.
    pub(super) async fn look_after_tasks(&mut self) -> bool {
        if !self.settled || self.retry.is_some() || !(self.tasks.own || self.tasks.gives) {
            return false;
        }
        if self.tasks.stale {
            self.tasks.stale = false;
            let id = self.id;
            match self.shared.store.read(move |connection| task_places::concern(connection, id)).await {
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

    /// After a failure of the store.
    pub(super) fn looks_at_tasks_later(&mut self, error: &Error) {
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
            self.shared.ring(ring.into_iter().filter(|other| *other != self.id));
        }
        if matches!(self.worker.state, State::Stopping(_) | State::Stopped) {
            return false;
        }
        let has_schema = own.as_ref().is_some_and(|own| own.has_schema && !own.ended);
        if let Some(why) = own.and_then(|own| own.unwanted) {
            self.end_task(TaskEnding::Cancelled, why).await;
            return true;
        }
        if has_schema && self.judge_result().await {
            return true;
        }
        // Without its environment no agent could be started for it: it stays due until somebody brings one.
        if self.worker.link == Link::None && !due.is_empty() && environment::read(&self.environment).is_err()
        {
            return false;
        }
        let is_due = !due.is_empty();
        for due in due {
            self.tell_end(due).await;
        }
        is_due
    }

    /// Puts the end of a task into the worker's queue, unless that was done.
    async fn tell_end(&mut self, due: Due) {
        let Ok(random) = entropy::random() else {
            self.tasks.stale = true;
            return;
        };
        let turn_id = TurnId::from_random(random);
        let (message, input) = task::delivery(&due.text, &due.name, &due.task_id, due.status);
        let queued = Queued { turn_id: turn_id.clone(), message, input, sender: None };
        let input = Input::Enqueue { queued, urgency: Urgency::Delivered, most: usize::MAX };
        // What was told before is refused, and that is all.
        let told = self.apply_if(input, move |tx, _, _| tx.deliver(&due, &turn_id)).await;
        subagent_failpoint::hit("task_delivery.after_commit");
        if told.is_ok() {
            self.is_active();
        }
    }

    /// The process of a task that is over ends: with its session kept, if the agent can take that up again.
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

    /// A runtime does not hibernate, as while a terminal of its agent runs: of a task that is over it ends all the same.
    pub(super) fn end_all_the_same(&mut self) {
        if self.tasks.ended && self.worker.rests() {
            self.tasks.rests = true;
            self.terminate_for(TASK_ENDED);
        }
    }

    fn terminate_for(&mut self, reason: &str) {
        self.command(Command::Terminate { reason: reason.to_owned() });
        // It may not hear it, and nothing would say it again.
        self.ends_soon();
    }
}

fn hibernates(runtime: &Runtime) -> bool {
    runtime.capabilities.iter().any(|known| known == HIBERNATE)
}
