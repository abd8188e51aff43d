//! Tasks in a worker's actor: its own task and those that it created. `core` and the store decide
//! what ends a task and which turn may start. An actor re-checks everything on start, so a missed
//! notification is harmless.

pub(crate) mod limits;
pub(crate) mod prompt;
pub(crate) mod result;
pub(crate) mod state;

use subagent_core::model::{QueuePosition, Queued, RuntimeStatus, TaskEnding, WorkerInput};
use subagent_core::task;
use subagent_protocol::frame::HIBERNATE;
use subagent_protocol::ids::TurnId;

use super::actor::Actor;
use super::runtime::hibernation;
use crate::store::tasks;
use crate::store::tasks::ends::UndeliveredResult;
use crate::store::tasks::places::Concern;
use crate::supervisor::entropy;
use crate::supervisor::start::environment;

/// Reason in the journal of a runtime that ends because its task has ended.
const TASK_ENDED: &str = "the task has ended";

/// Checks the tasks if necessary. Returns whether there is work to do now.
pub(crate) async fn check(actor: &mut Actor) -> bool {
    if !actor.serves() || !(actor.tasks.is_task() || actor.tasks.gives()) {
        return false;
    }
    if actor.tasks.stale {
        (actor.tasks.stale, actor.tasks.again) = (false, None);
        let id = actor.identity.id;
        match actor.shared.store.read(move |connection| tasks::places::concern(connection, id)).await {
            Ok(concern) => {
                if follow(actor, concern).await {
                    return true;
                }
            }
            Err(error) => actor.tasks.look_later(&actor.identity.worker_id, &error),
        }
    }
    end_what_is_over(actor).await
}

async fn follow(actor: &mut Actor, concern: Concern) -> bool {
    let Concern { own, due, ring } = concern;
    if let Some(own) = &own {
        if own.ended && !actor.tasks.ended {
            subagent_failpoint::hit("task_end.after_commit");
        }
        actor.tasks.ended = own.ended;
    }
    if std::mem::take(&mut actor.tasks.changed) {
        actor.shared.changes.wake_actors(ring.into_iter().filter(|other| *other != actor.identity.id));
    }
    if actor.stops() {
        return false;
    }
    let completes_later = own.as_ref().is_some_and(|own| own.completes_later && !own.ended);
    if let Some(why) = own.and_then(|own| own.unwanted) {
        end_task(actor, TaskEnding::Cancelled, why).await;
        return true;
    }
    if completes_later && result::complete(actor).await {
        return true;
    }
    // Without an environment, no agent can be started. The message stays due until a client
    // sends one.
    if actor.worker.link == RuntimeStatus::None
        && !due.is_empty()
        && environment::read(&actor.identity.environment).is_err()
    {
        return false;
    }
    let is_due = !due.is_empty();
    for due in due {
        deliver_result(actor, due).await;
    }
    is_due
}

/// Queues the message about the end of a task, unless that was done before.
async fn deliver_result(actor: &mut Actor, due: UndeliveredResult) {
    let Ok(random) = entropy::random() else {
        actor.tasks.stale = true;
        return;
    };
    let turn_id = TurnId::from_random(random);
    let (message, input) = task::delivery(&due.text, &due.name, &due.task_id, due.status);
    let queued = Queued { turn_id: turn_id.clone(), message, input, sender: None };
    let input = WorkerInput::Enqueue { queued, urgency: QueuePosition::Delivered, most: usize::MAX };
    // A message that was queued before is refused, which is fine.
    let delivered = actor.apply_if(input, move |tx, _, _| tasks::ends::deliver(tx, &due, &turn_id)).await;
    subagent_failpoint::hit("task_delivery.after_commit");
    if delivered.is_ok() {
        actor.session.is_active();
    }
}

/// Ends the runtime of a task that is over. Keeps its session if the agent can resume it.
async fn end_what_is_over(actor: &mut Actor) -> bool {
    let Some(runtime) = &actor.runtime.live else {
        actor.tasks.rests = false;
        return false;
    };
    let may = actor.tasks.ended && !actor.tasks.rests && actor.worker.rests() && actor.settings.is_idle();
    if !may || !runtime.listens() {
        return false;
    }
    actor.tasks.rests = true;
    if actor.session.restores && runtime.can(HIBERNATE) {
        hibernation::hibernate(actor).await;
        actor.tasks.rests = actor.worker.sleeps();
        return actor.tasks.rests;
    }
    actor.runtime.terminate_for(TASK_ENDED);
    false
}

/// Terminates a runtime that refuses to hibernate, for example while a terminal of its agent
/// runs.
pub(crate) fn end_all_the_same(actor: &mut Actor) {
    if actor.tasks.ended && actor.worker.rests() {
        actor.tasks.rests = true;
        actor.runtime.terminate_for(TASK_ENDED);
    }
}

/// Ends the worker's task, unless it is over or ending.
pub(crate) async fn end_task(actor: &mut Actor, ending: TaskEnding, reason: String) {
    subagent_failpoint::hit("cancel.before_commit");
    actor.apply(WorkerInput::EndTask { ending, reason }).await;
    subagent_failpoint::hit("cancel.after_commit");
}
