//! The connection of an actor to the live runtime of its worker.

use std::time::Duration;

use subagent_protocol::process::ProcessId;
use subagent_protocol::state::Desired;
use subagent_protocol::{Code, Error};

use super::placed;
use crate::store::{Durability, Tx, workers};
use crate::supervisor::runtimes::link::RuntimeConnection;
use crate::supervisor::runtimes::place::RuntimePlace;
use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::ingest::{self, Goal};

/// Connects to the live runtime, or schedules another attempt.
pub(crate) async fn connect(actor: &mut Actor) {
    let desired = if actor.stops() { Desired::Stop } else { Desired::Run };
    if actor.runtime.place.may_vanish() {
        // A new stream begins at the cursor, and nothing may be there any more to send the rest again.
        ingest::ingest_or_retry(actor, Goal::Some).await;
    }
    let link = match actor.runtime.place {
        RuntimePlace::Local => {
            RuntimeConnection::connect(&actor.identity.socket, actor.shared.generation(), desired).await
        }
        RuntimePlace::Placed(_) => placed::connect(actor, desired),
    };
    let pause = if link.is_ok() { Duration::ZERO } else { actor.runtime.place.next_pause() };
    let Some(runtime) = &mut actor.runtime.live else { return };
    if let Err(error) = &link {
        tracing::warn!(worker = %actor.identity.worker_id, %error, "a runtime cannot be reached");
    }
    runtime.connected(link, pause);
    let broken = "the connection to the worker's runtime broke; what the agent accepted is stored. Try again";
    actor.settings.fail(&Error::new(Code::BackendSocketUnreachable, broken).retryable());
}

/// Stores the processes of a live runtime. If that fails, its next hello repeats them.
pub(crate) async fn store_processes(actor: &Actor, process: ProcessId, guard: Option<ProcessId>) {
    let id = actor.identity.id;
    let write = move |tx: &mut Tx<'_>| workers::update_processes(tx, id, Some(process), guard);
    if let Err(error) = actor.shared.store.write(Durability::Full, 1, write).await {
        tracing::warn!(worker = %actor.identity.worker_id, %error, "a runtime's process could not be stored");
    }
}
