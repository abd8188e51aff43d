//! What the actor does by itself at a time. Each component keeps its own time; this file has the
//! only list of them.

use std::time::Duration;

use subagent_core::model::{Restart, WorkerInput};
use subagent_protocol::time::Timestamp;
use tokio::time::Instant;

use super::actor::Actor;
use super::ingest::{self, Goal};
use super::questions;
use super::runtime::{gone, hibernation, placed, recovery, starting};
use crate::supervisor::entropy;

/// A time at which the actor acts by itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deadline {
    /// Reads the journal again after a failure of the store.
    Journal,
    Leftovers,
    Revival,
    Budgets,
    Tasks,
    TaskLimits,
    Hibernation,
    Questions,
    Kill,
    Answer,
    Unreachable,
    Reconnect,
    /// Asks an engine's queue again.
    Place,
}

/// Returns the next deadline. Of several that are over, it is the first in the order of the list.
pub(super) fn next(actor: &Actor) -> Option<(Instant, Deadline)> {
    let (now, live) = (Instant::now(), actor.runtime.live.as_ref());
    let deadlines = [
        (actor.journal.retry, Deadline::Journal),
        (actor.runtime.leftovers.at, Deadline::Leftovers),
        (actor.runtime.revivals.at, Deadline::Revival),
        (actor.budgets.at, Deadline::Budgets),
        (actor.tasks.again, Deadline::Tasks),
        (actor.tasks.limits.at, Deadline::TaskLimits),
        (hibernation::hibernates_at(actor), Deadline::Hibernation),
        (questions::expires_at(actor), Deadline::Questions),
        (live.and_then(|live| live.kill_at), Deadline::Kill),
        (live.and_then(|live| live.answer_by), Deadline::Answer),
        (live.and_then(|live| live.reach.report_at()), Deadline::Unreachable),
        (live.and_then(|live| live.reconnect_at), Deadline::Reconnect),
        (waits_until(actor), Deadline::Place),
    ];
    let known = deadlines.into_iter().filter_map(|(at, deadline)| Some((at?.max(now), deadline)));
    known.min_by_key(|(at, _)| *at)
}

/// Returns when an engine's queue is asked again. A worker that stops gives its place up.
fn waits_until(actor: &Actor) -> Option<Instant> {
    let is_asking = !actor.runtime.queue.asking.is_empty();
    actor.runtime.queue.waits.as_ref().filter(|_| !is_asking && !actor.stops()).map(|wait| wait.at)
}

/// Waits for the deadline; forever without one.
pub(super) async fn reached(deadline: Option<(Instant, Deadline)>) -> Deadline {
    let Some((at, deadline)) = deadline else { return std::future::pending().await };
    tokio::time::sleep_until(at).await;
    deadline
}

/// Does what is due. Each part removes or renews its deadline.
pub(super) async fn act(actor: &mut Actor, deadline: Deadline) {
    match deadline {
        Deadline::Journal => {
            actor.journal.retry = None;
            match &actor.runtime.live {
                None if actor.runtime.may_live && actor.runtime.settled => gone::gone(actor).await,
                // The lock could not be checked, so a runtime may be alive.
                None => recovery::recover(actor).await,
                Some(_) => {
                    ingest::ingest_or_retry(actor, Goal::Some).await;
                }
            }
        }
        Deadline::Leftovers => gone::check_leftovers(actor).await,
        Deadline::Revival => {
            actor.runtime.revivals.at = None;
            starting::demand(actor, Duration::ZERO);
        }
        Deadline::Budgets => actor.budgets.is_due(),
        Deadline::Tasks => actor.tasks.is_due(),
        Deadline::TaskLimits => actor.tasks.limits.is_due(),
        Deadline::Hibernation => hibernation::hibernate(actor).await,
        Deadline::Questions => questions::expire(actor).await,
        Deadline::Kill => actor.runtime.kill(&actor.identity.worker_id),
        Deadline::Answer => {
            let is_to_end = actor.stops() || actor.worker.restart == Restart::Wanted;
            actor.runtime.is_silent(&actor.identity.worker_id, is_to_end);
        }
        Deadline::Unreachable => placed::is_unreachable(actor).await,
        Deadline::Reconnect => gone::reconnect(actor).await,
        Deadline::Place => starting::start_runtime(actor).await,
    }
}

/// Returns when a parked worker resumes by itself, on the clock of the wall. `None` until the actor is
/// settled.
pub(crate) fn unparks_at(actor: &Actor) -> Option<Timestamp> {
    actor.worker.unparks_at().filter(|_| actor.serves())
}

/// Ends the parking if its time is over.
pub(crate) async fn unpark_if_due(actor: &mut Actor) {
    if unparks_at(actor).is_some_and(|until| until <= entropy::now()) {
        subagent_failpoint::hit("unpark.before_commit");
        actor.apply(WorkerInput::ParkingOver).await;
        subagent_failpoint::hit("unpark.after_commit");
    }
}
