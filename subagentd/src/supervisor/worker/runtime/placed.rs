//! The stream of a placed runtime, from its worker's actor.

use std::io;

use subagent_core::model::Fact;
use subagent_protocol::data::EventData;
use subagent_protocol::data::workers::Reached;
use subagent_protocol::state::Desired;
use subagent_protocol::{Code, Error};

use super::gone;
use crate::store::{Durability, Tx, workers};
use crate::supervisor::runtimes::link::RuntimeConnection;
use crate::supervisor::runtimes::place::{DialPosition, RuntimePlace};
use crate::supervisor::worker::actor::Actor;

pub(super) fn position(actor: &Actor) -> DialPosition {
    DialPosition {
        cursor: actor.journal.cursor,
        epoch: actor.shared.epoch(),
        incarnation: actor.runtime.incarnation,
        is_known: actor.runtime.may_live && actor.runtime.stored_process.is_some(),
    }
}

/// Opens a stream with a connection to the runtime. `dial` connects in the background.
pub(super) fn connect(actor: &mut Actor, desired: Desired) -> io::Result<RuntimeConnection> {
    let (at, process) = (position(actor), actor.runtime.stored_process);
    let RuntimePlace::Placed(placed) = &mut actor.runtime.place else {
        return Err(io::Error::other("the worker is not placed"));
    };
    if let Some(runtime) = &mut actor.runtime.live {
        runtime.see_stream();
    }
    let opened = placed.connect(at, desired, process);
    let Some(runtime) = &mut actor.runtime.live else { return opened.map(|(link, _)| link) };
    let reason = opened.as_ref().err().map(|error| {
        let message = format!("the connection to the place cannot be started: {error}");
        Error::new(Code::PlacementUnreachable, message).retryable()
    });
    runtime.reach.is_awaited(reason);
    let (link, exit) = opened?;
    runtime.exit = Some(exit);
    Ok(link)
}

/// Returns whether no process of the agent is left, as far as is proved.
pub(super) fn is_guard_gone(actor: &mut Actor) -> bool {
    let at = position(actor);
    let RuntimePlace::Placed(placed) = &mut actor.runtime.place else { return false };
    if let Some(error) = placed.fenced() {
        actor.runtime.fenced = Some(error);
        return false;
    }
    placed.is_guard_gone(at)
}

/// Reports that the place does not answer. Requests are accepted from now on: they are stored, and
/// sent when the place answers.
pub(crate) async fn is_unreachable(actor: &mut Actor) {
    let waits = actor.runtime.place.waits_for_turn();
    if waits && actor.runtime.live.as_mut().is_some_and(|runtime| runtime.reach.waits()) {
        return;
    }
    actor.runtime.settled = true;
    let reported = actor.runtime.live.as_mut().and_then(|runtime| runtime.reach.report());
    let Some(unreachable) = reported else { return };
    tracing::warn!(worker = %actor.identity.worker_id, reason = ?unreachable.reason, "a worker is unreachable");
    note(actor, EventData::WorkerUnreachable(unreachable)).await;
}

/// Whether the place answers: then nothing is given up.
pub(crate) fn answers(actor: &Actor) -> bool {
    let place = &actor.runtime.place;
    match &actor.runtime.live {
        Some(runtime) => place.is_reached() || runtime.reach.unreachable().is_none(),
        // An engine with a queue proves the end, and not the place itself.
        None => place.queue_kind().is_none() && (place.is_reached() || place.is_end_proved()),
    }
}

/// Whether the owner may give up the runtime: its place does not answer, or its end is not proved.
///
/// # Errors
/// `INVALID_WORKER_STATE{state}`.
pub(crate) fn may_give_up(actor: &Actor) -> Result<(), Error> {
    if !answers(actor) && actor.runtime.place.is_placed() {
        return Ok(());
    }
    let state = actor.worker.public_state();
    let message = "the worker's runtime can be reached, so no second one is started beside it";
    Err(Error::new(Code::InvalidWorkerState, message)
        .with("state", state.as_str())
        .recommend("restart the worker without --accept-duplicate"))
}

/// Treats the runtime as gone, without proof. The place ends it before it starts the next one. A worker
/// that waits for the proof of an end waits no more.
pub(crate) async fn give_up(actor: &mut Actor) {
    actor.runtime.queue.asks_no_more();
    actor.runtime.queue.is_given_up = actor.stops();
    if let RuntimePlace::Placed(placed) = &mut actor.runtime.place {
        placed.give_up().await;
    }
    if actor.runtime.live.is_some() {
        // The rest of its journal is there.
        actor.journal.damaged = true;
        gone::gone(actor).await;
    } else {
        // A stop that waits for the proof goes on.
        actor.runtime.leftovers.at = None;
    }
}

/// The place has answered.
pub(crate) async fn is_reached(actor: &mut Actor) {
    actor.runtime.place.greeted();
    if let RuntimePlace::Placed(placed) = &actor.runtime.place
        && let Some(boot_id) = placed.boot_id()
    {
        is_in_boot(actor, boot_id, false).await;
    }
    let Some(runtime) = &mut actor.runtime.live else { return };
    runtime.is_reached();
    let (since, is_first) = runtime.reach.answers();
    if since.is_some() || (is_first && was_unreachable(actor).await) {
        note(actor, EventData::WorkerReached(Reached { since })).await;
    }
}

/// Takes the present boot of the place's machine. It is stored if the runtime was started in it: a
/// place that was never heard before cannot have been given a prompt before.
pub(super) async fn is_in_boot(actor: &mut Actor, boot_id: String, is_of_runtime: bool) {
    let is_unknown = actor.runtime.boot_id.as_deref().is_some_and(str::is_empty);
    let is_news = actor.runtime.boot_id.as_ref() != Some(&boot_id);
    if is_news && (is_of_runtime || is_unknown) {
        let (id, stored) = (actor.identity.id, boot_id.clone());
        let write = move |tx: &mut Tx<'_>| workers::update_boot_id(tx, id, &stored);
        if let Err(error) = actor.shared.store.write(Durability::Full, 1, write).await {
            tracing::warn!(worker = %actor.identity.worker_id, %error, "the boot of a place could not be stored");
        }
        actor.runtime.boot_id = Some(boot_id.clone());
    }
    actor.runtime.place_boot = Some(boot_id);
}

/// Returns whether an earlier daemon has reported the worker as unreachable, and none as reached.
async fn was_unreachable(actor: &Actor) -> bool {
    let id = actor.identity.id;
    let read = actor.shared.store.read(move |connection| workers::is_unreachable(connection, id)).await;
    read.unwrap_or_else(|error| {
        tracing::warn!(worker = %actor.identity.worker_id, %error, "it is unknown whether a worker was unreachable");
        false
    })
}

async fn note(actor: &mut Actor, data: EventData) {
    let turn = actor.worker.turn().map(|turn| turn.no);
    actor.note(vec![Fact::Event { data, turn }]).await;
}
