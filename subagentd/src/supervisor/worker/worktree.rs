//! The worktree of the worker: made before its first runtime, looked after when nothing of the worker is left.

use super::actor::Actor;
use super::own_worktree::OwnWorktree;
use crate::supervisor::shared::is_ending;
use crate::supervisor::worktrees::{self, Making};
use subagent_core::model::{LifecycleState, WorkerInput};

impl Actor {
    /// Whether a runtime has to wait for the worktree; if so, its making has begun.
    pub(super) fn waits_for_worktree(&mut self) -> bool {
        if !self.spec.has_worktree || matches!(self.worktree, OwnWorktree::Ready) {
            return false;
        }
        if matches!(self.worktree, OwnWorktree::Unknown) {
            self.worktree =
                OwnWorktree::Making(Making::begin(&self.shared, self.id, self.worker_id.as_str()));
        }
        true
    }

    /// The making has ended: the runtime that waited for it starts, or has failed.
    pub(super) async fn worktree_made(&mut self, made: subagent_protocol::Result<()>) {
        match made {
            Ok(()) => {
                self.worktree = OwnWorktree::Ready;
                self.start_runtime().await;
            }
            Err(error) => {
                self.worktree = OwnWorktree::Unknown;
                self.apply(WorkerInput::SpawnFailed { error }).await;
            }
        }
    }

    /// A worker that is to stop needs no worktree any more.
    pub(super) fn drop_making(&mut self) {
        if matches!(self.worker.state, LifecycleState::Stopping(_))
            && matches!(self.worktree, OwnWorktree::Making(_))
        {
            self.worktree = OwnWorktree::Unknown;
        }
    }

    /// Removes the worktree if nothing would be lost. Returns whether that has come to an end: a daemon that ends
    /// leaves it to the next one.
    pub(super) async fn end_worktree(&mut self) -> bool {
        if !self.spec.has_worktree || self.shared.is_copy(self.id) {
            return true;
        }
        self.worktree = OwnWorktree::Unknown;
        let mut ending = self.shared.ending.subscribe();
        tokio::select! {
            biased;
            () = is_ending(&mut ending) => false,
            () = worktrees::finish(&self.shared, self.id, self.worker_id.as_str()) => true,
        }
    }
}
