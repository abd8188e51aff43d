//! The end of the worktree of a worker, when nothing else of the worker is left.

use super::actor::Actor;
use super::own_worktree::OwnWorktree;
use crate::supervisor::shared::is_ending;
use crate::supervisor::worktrees;

/// Removes the worktree if nothing would be lost. Returns whether that has come to an end: a daemon
/// that ends leaves it to the next one.
pub(super) async fn end(actor: &mut Actor) -> bool {
    if !actor.spec.has_worktree || actor.shared.is_copy(actor.identity.id) {
        return true;
    }
    actor.worktree = OwnWorktree::Unknown;
    let mut ending = actor.shared.ending.subscribe();
    tokio::select! {
        biased;
        () = is_ending(&mut ending) => false,
        () = worktrees::finish(&actor.shared, actor.identity.id, actor.identity.worker_id.as_str()) => true,
    }
}
