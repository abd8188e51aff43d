//! Stores the failure of a hook as an event.

use subagent_core::model::Fact;
use subagent_protocol::hook::HookFailed;

use crate::store::{Durability, RowId, facts};
use crate::supervisor::entropy;
use crate::supervisor::shared::SupervisorState;

/// Stores the failure of a worker's hook. If that fails, it is only logged.
pub(crate) async fn journal(shared: &SupervisorState, id: RowId, failed: HookFailed) {
    let (fact, now) = (Fact::hook_failed(&failed, None), entropy::now());
    let write = shared.store.write(Durability::Full, 1, move |tx| facts::store(tx, id, &[fact], None, now));
    match write.await {
        Ok(added) => added.iter().for_each(|(_, seq)| shared.changes.noted(id, *seq)),
        Err(error) => tracing::error!(?failed, %error, "a hook's failure could not be journaled"),
    }
}
