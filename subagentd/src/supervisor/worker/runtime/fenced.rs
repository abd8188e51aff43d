//! A worker whose place serves another daemon, with a copy of this state dir. Must not change
//! anything there, nor decide anything about the worker.

use subagent_protocol::Error;
use tokio::sync::watch;

use super::placed;
use crate::supervisor::shared::is_ending;
use crate::supervisor::worker::actor::Actor;

/// Maximum number of generations that another daemon may be ahead.
const MAX_LEAP: u64 = 1_000_000;

/// Refuses all requests until the daemon ends. Only another start of a daemon is served again.
pub(crate) async fn rest(actor: &mut Actor, error: Error, ending: &mut watch::Receiver<bool>) {
    tracing::error!(worker = %actor.identity.worker_id, %error, "another daemon has the worker");
    // The place may say anything. Each start of a daemon adds one.
    let is_plausible = |generation: &u64| generation.abs_diff(actor.shared.generation()) <= MAX_LEAP;
    if let Some(generation) = error.facts().generation.0.filter(is_plausible) {
        actor.shared.remember_generation(generation).await;
    }
    let refusal = error.clone().with("workerId", actor.identity.worker_id.as_str());
    actor.todo.clear();
    actor.runtime.queue.asks_no_more();
    if let Some(runtime) = &mut actor.runtime.live {
        runtime.link = None;
        runtime.reach.is_awaited(Some(error));
    }
    placed::is_unreachable(actor).await;
    loop {
        actor.publish();
        tokio::select! {
            biased;
            () = is_ending(ending) => return,
            message = actor.mailbox.recv() => match message {
                Some(message) => message.refuse(&actor.identity.worker_id, refusal.clone()),
                None => return,
            },
        }
    }
}
