//! The ends of a worker's places in an engine's queue. They run beside the actor, because an engine may
//! be slow. What is not proved is tried again.

use std::time::Duration;

use subagent_protocol::data::workers::PendingPlace;
use subagent_protocol::{Code, Error};
use tokio::task::JoinSet;

use super::engine_queue::EndedPlaces;
use super::{gone, placed};
use crate::supervisor::entropy;
use crate::supervisor::runtimes::ended::{PlacesEnd, WorkerPlaces};
use crate::supervisor::worker::actor::Actor;

/// Longest delay before an engine is asked again.
const LAST_PAUSE: Duration = Duration::from_secs(10);
/// The same while the newest runtime lives.
const LAST_SUPERSEDED_PAUSE: Duration = Duration::from_secs(60);

/// Returns whether these places are proved to have ended. Otherwise that is asked for, and
/// [`ended`] goes on.
pub(super) fn have_ended(actor: &mut Actor, which: WorkerPlaces) -> bool {
    if *actor.runtime.queue.ends.proof(which) {
        return true;
    }
    if actor.runtime.queue.ends.asked == Some(WorkerPlaces::Superseded) && which != WorkerPlaces::Superseded {
        // These include them.
        actor.runtime.queue.ends.running = JoinSet::new();
    }
    if !actor.runtime.queue.ends.running.is_empty() {
        return false;
    }
    let (at, newest) = (placed::position(actor), actor.runtime.incarnation);
    match actor.runtime.place.ending(which, actor.runtime.clean_end, at) {
        None => {
            *actor.runtime.queue.ends.proof(which) = true;
            true
        }
        Some(ending) => {
            let ended = async move { EndedPlaces { which, newest, outcome: ending.await } };
            actor.runtime.queue.ends.asked = Some(which);
            actor.runtime.queue.ends.running.spawn(ended);
            false
        }
    }
}

/// A runtime lives. It may have been started beside one that its owner has given up.
pub(super) fn has_runtime(actor: &mut Actor) {
    if actor.runtime.place.may_vanish() {
        actor.runtime.leftovers.again(LAST_SUPERSEDED_PAUSE);
    }
}

/// Ends the places that the live runtime has superseded.
pub(super) fn end_superseded(actor: &mut Actor) {
    if actor.runtime.place.may_vanish() {
        // Nothing waits for this proof.
        have_ended(actor, WorkerPlaces::Superseded);
    }
}

/// An engine has answered.
pub(crate) async fn ended(actor: &mut Actor, EndedPlaces { which, newest, outcome }: EndedPlaces) {
    let longest = match which {
        WorkerPlaces::Superseded => LAST_SUPERSEDED_PAUSE,
        WorkerPlaces::Earlier | WorkerPlaces::Next => LAST_PAUSE,
    };
    match outcome {
        // They are tried again until the worker stops.
        Ok(PlacesEnd::Accepted) if !actor.stops() => actor.runtime.leftovers.again(longest),
        Ok(PlacesEnd::Proved | PlacesEnd::Accepted) => {
            // Another runtime may have begun meanwhile.
            *actor.runtime.queue.ends.proof(which) |= newest == actor.runtime.incarnation;
            if actor.stops() {
                actor.runtime.queue.waits = None;
            }
            gone::check_leftovers(actor).await;
        }
        Err(error) if error.code == Code::Fenced => actor.runtime.fenced = Some(error),
        Err(error) if actor.runtime.queue.is_given_up => {
            tracing::warn!(worker = %actor.identity.worker_id, %error, "a place that was given up may run on");
            *actor.runtime.queue.ends.proof(which) = true;
            gone::check_leftovers(actor).await;
        }
        Err(error) => {
            is_unproved(actor, &error);
            actor.runtime.leftovers.again(longest);
        }
    }
}

fn is_unproved(actor: &mut Actor, error: &Error) {
    let worker = &actor.identity.worker_id;
    tracing::warn!(%worker, %error, "it is not proved that the places of a worker have ended");
    let waits = actor.stops() && actor.runtime.live.is_none();
    if let (true, Some(engine)) = (waits, actor.runtime.place.queue_kind()) {
        let before = actor.runtime.queue.pending();
        let since = before.map_or_else(entropy::now, |pending| pending.since);
        let handle = before.map(|pending| pending.handle.clone()).unwrap_or_default();
        let pending =
            PendingPlace { since, engine: engine.to_owned(), handle, reason: error.message.clone() };
        actor.runtime.queue.wait_on(pending);
    }
}
