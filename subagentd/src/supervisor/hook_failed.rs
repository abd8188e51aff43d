//! Journals that a hook failed: through the actor of its worker, or without one where the worker has none.

use subagent_protocol::hook::HookFailed;
use tokio::sync::oneshot;

use super::shared::Shared;
use super::{entropy, worker};
use crate::core::Fact;
use crate::store::{Durability, RowId};

/// Stores that a hook of a worker failed. A failure to store it is only logged.
pub(super) async fn journal(shared: &Shared, id: RowId, handle: Option<&worker::Handle>, failed: HookFailed) {
    if let Some(handle) = handle {
        let (stored, done) = oneshot::channel();
        let message = worker::Message::HookFailed { failed: Box::new(failed.clone()), stored };
        if handle.send(message).is_ok() && done.await.is_ok() {
            return;
        }
    }
    let (fact, now) = (Fact::hook_failed(&failed, None), entropy::now());
    let write = shared.store.write(Durability::Full, 1, move |tx| tx.store_facts(id, &[fact], None, now));
    if let Err(error) = write.await {
        tracing::error!(?failed, %error, "a hook's failure could not be journaled");
    }
}
