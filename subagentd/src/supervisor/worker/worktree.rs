//! The worktree of the worker: made before its first runtime, looked after when nothing of the worker is left.

use super::actor::Actor;
use crate::core::Input;
use crate::core::worker::State;
use crate::supervisor::shared::is_ending;
use crate::supervisor::worktrees::{self, Making};

/// The worktree as far as this daemon knows it.
#[derive(Default)]
pub(super) enum Place {
    /// Not looked at yet, or none is needed.
    #[default]
    Unknown,
    /// It is being made.
    Making(Making),
    /// It is there.
    Ready,
}

impl Place {
    /// Waits until the making has ended; forever if there is none.
    pub(super) async fn made(&mut self) -> subagent_protocol::Result<()> {
        match self {
            Self::Making(making) => making.done().await,
            Self::Unknown | Self::Ready => std::future::pending().await,
        }
    }
}

impl Actor {
    /// Whether a runtime has to wait for the worktree; if so, its making has begun.
    pub(super) fn waits_for_worktree(&mut self) -> bool {
        if !self.spec.has_worktree || matches!(self.place, Place::Ready) {
            return false;
        }
        if matches!(self.place, Place::Unknown) {
            self.place = Place::Making(Making::begin(&self.shared, self.id, self.worker_id.as_str()));
        }
        true
    }

    /// The making has ended: the runtime that waited for it starts, or has failed.
    pub(super) async fn worktree_made(&mut self, made: subagent_protocol::Result<()>) {
        match made {
            Ok(()) => {
                self.place = Place::Ready;
                self.start_runtime().await;
            }
            Err(error) => {
                self.place = Place::Unknown;
                self.apply(Input::SpawnFailed { error }).await;
            }
        }
    }

    /// A worker that is to stop needs no worktree any more.
    pub(super) fn drop_making(&mut self) {
        if matches!(self.worker.state, State::Stopping(_)) && matches!(self.place, Place::Making(_)) {
            self.place = Place::Unknown;
        }
    }

    /// Removes the worktree if nothing would be lost. Returns whether that has come to an end: a daemon that ends
    /// leaves it to the next one.
    pub(super) async fn end_worktree(&mut self) -> bool {
        if !self.spec.has_worktree || self.shared.is_copy(self.id) {
            return true;
        }
        self.place = Place::Unknown;
        let mut ending = self.shared.ending.subscribe();
        tokio::select! {
            biased;
            () = is_ending(&mut ending) => false,
            () = worktrees::finish(&self.shared, self.id, self.worker_id.as_str()) => true,
        }
    }
}
