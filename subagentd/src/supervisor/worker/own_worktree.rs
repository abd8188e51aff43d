//! What a daemon knows of the worktree of one of its workers.

use std::sync::Arc;

use subagent_protocol::Result;

use super::identity::Identity;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::worktrees::Making;

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
    pub(super) fn is_awaited(&mut self, shared: &Arc<SupervisorState>, identity: &Identity) -> bool {
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

    /// Waits until the making has ended; forever if there is none.
    pub(super) async fn made(&mut self) -> Result<()> {
        match self {
            Self::Making(making) => making.done().await,
            Self::Unknown | Self::Ready => std::future::pending().await,
        }
    }
}
