//! Journals that a hook failed: through the actor of its worker, or without one where the worker has none.

use serde_json::Value;
use subagent_protocol::event::EventType;
use subagent_protocol::hook::HookFailed;
use tokio::sync::oneshot;

use super::shared::Shared;
use super::{entropy, worker};
use crate::core::Fact;
use crate::store::{Durability, RowId};

/// The event.
pub(super) fn fact(failed: &HookFailed, turn: Option<u64>) -> Fact {
    // Its parts are text and words: it can always be written down.
    let data = serde_json::to_value(failed).unwrap_or(Value::Null);
    Fact::Event { event_type: EventType::HookFailed, data, turn }
}

/// Stores that a hook of a worker failed. A failure to store it is only logged.
pub(super) async fn journal(shared: &Shared, id: RowId, handle: Option<&worker::Handle>, failed: HookFailed) {
    if let Some(handle) = handle {
        let (stored, done) = oneshot::channel();
        let message = worker::Message::HookFailed { failed: Box::new(failed.clone()), stored };
        if handle.send(message).is_ok() && done.await.is_ok() {
            return;
        }
    }
    let (fact, now) = (fact(&failed, None), entropy::now());
    let write = shared.store.write(Durability::Full, 1, move |tx| tx.store_facts(id, &[fact], None, now));
    if let Err(error) = write.await {
        tracing::error!(?failed, %error, "a hook's failure could not be journaled");
    }
}
