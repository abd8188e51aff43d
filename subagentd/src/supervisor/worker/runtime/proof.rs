//! The end of a runtime. Only the proof of a stream ends a placed one: a stream that breaks is dialed
//! again, and the turn goes on.

use subagent_core::model::RuntimeStatus;

use super::{gone, recovery, starting};
use crate::supervisor::worker::actor::Actor;

/// Handles the end of the runtime.
pub(crate) async fn on_end(actor: &mut Actor) {
    match actor.runtime.place.is_placed() {
        true => on_proof(actor).await,
        false => gone::on_exit(actor).await,
    }
}

/// The stream has proved that the runtime is gone. Its whole journal is in the mirror.
async fn on_proof(actor: &mut Actor) {
    actor.see_end();
    if recovery::begun_for_nothing(actor) {
        actor.runtime.live = None;
        actor.runtime.settled = true;
        actor.worker.link = RuntimeStatus::Starting;
        return starting::start_runtime(actor).await;
    }
    gone::gone(actor).await;
}
