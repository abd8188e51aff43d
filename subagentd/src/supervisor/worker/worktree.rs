//! The worktree of the worker: made before its first runtime, looked after when nothing else of the
//! worker is left.

use std::sync::Arc;

use subagent_protocol::Result;

use super::identity::WorkerIdentity;
use crate::supervisor::shared::{SupervisorState, is_ending};
use crate::supervisor::worktrees::{self, Making};

/// The worktree as far as this daemon knows it.
#[derive(Default)]
pub(super) enum OwnWorktree {
    /// Not looked at yet, or none is needed.
    #[default]
    Unknown,
    /// It is being made.
    Making(Making),
    Ready,
}

impl OwnWorktree {
    /// Returns whether a runtime has to wait for the worktree. Its making has begun then.
    pub(super) fn is_awaited(&mut self, shared: &Arc<SupervisorState>, identity: &WorkerIdentity) -> bool {
        if matches!(self, Self::Unknown) {
            *self = Self::Making(Making::begin(shared, identity.id, identity.worker_id.as_str()));
        }
        !matches!(self, Self::Ready)
    }

    /// Ends the making: a worker that stops needs no worktree.
    pub(super) fn drop_making(&mut self) {
        if matches!(self, Self::Making(_)) {
            *self = Self::Unknown;
        }
    }

    /// Removes the worktree if nothing would be lost. Returns whether that has come to an end: a
    /// daemon that ends leaves it to the next one.
    pub(super) async fn end(&mut self, shared: &Arc<SupervisorState>, identity: &WorkerIdentity) -> bool {
        *self = Self::Unknown;
        let mut ending = shared.ending.subscribe();
        tokio::select! {
            biased;
            () = is_ending(&mut ending) => false,
            () = worktrees::finish(shared, identity.id, identity.worker_id.as_str()) => true,
        }
    }

    /// Waits until the making has ended; forever if there is none.
    pub(super) async fn made(&mut self) -> Result<()> {
        match self {
            Self::Making(making) => making.done().await,
            Self::Unknown | Self::Ready => std::future::pending().await,
        }
    }
}
