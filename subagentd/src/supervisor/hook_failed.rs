//! Journals that a hook failed: through the actor of its worker, or without one where the worker has none.

use serde_json::Value;
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use subagent_protocol::hook::HookFailed;
use subagent_protocol::ids::WorkerId;
use tokio::sync::oneshot;

use super::{Supervisor, entropy, worker};
use crate::core::Fact;
use crate::store::{Durability, RowId};

/// The event.
pub(super) fn fact(failed: &HookFailed, turn: Option<u64>) -> Fact {
    // Its parts are text and words: it can always be written down.
    let data = serde_json::to_value(failed).unwrap_or(Value::Null);
    Fact::Event { event_type: EventType::HookFailed, data, turn }
}

impl Supervisor {
    /// Stores that a hook of a worker failed.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, `STORAGE_FULL`.
    pub(super) async fn journal_hook_failed(
        &self,
        id: RowId,
        worker_id: &WorkerId,
        failed: HookFailed,
    ) -> Result<()> {
        if let Ok(handle) = self.roster.live(worker_id.as_str()) {
            let (stored, done) = oneshot::channel();
            let message = worker::Message::HookFailed { failed: Box::new(failed.clone()), stored };
            if handle.send(message).is_ok() && done.await.is_ok() {
                return Ok(());
            }
        }
        let (fact, now) = (fact(&failed, None), entropy::now());
        let store = &self.shared.store;
        store.write(Durability::Full, 1, move |tx| tx.store_facts(id, &[fact], None, now)).await.map(drop)
    }
}
