//! The connection of an actor to the live runtime of its worker.

use subagent_protocol::state::Desired;
use subagent_protocol::{Code, Error};

use crate::supervisor::runtimes::link::RuntimeConnection;
use crate::supervisor::worker::actor::Actor;

/// Connects to the live runtime, or schedules another attempt.
pub(crate) async fn connect(actor: &mut Actor) {
    let desired = if actor.stops() { Desired::Stop } else { Desired::Run };
    let link = RuntimeConnection::connect(&actor.identity.socket, actor.shared.generation(), desired).await;
    let Some(runtime) = &mut actor.runtime.live else { return };
    if let Err(error) = &link {
        tracing::warn!(worker = %actor.identity.worker_id, %error, "a runtime cannot be reached");
    }
    runtime.connected(link);
    let broken = "the connection to the worker's runtime broke; what the agent accepted is stored. Try again";
    actor.settings.fail(&Error::new(Code::BackendSocketUnreachable, broken).retryable());
}
