//! What a daemon knows of the worktree of one of its workers.

use subagent_protocol::Result;

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
    /// Waits until the making has ended; forever if there is none.
    pub(super) async fn made(&mut self) -> Result<()> {
        match self {
            Self::Making(making) => making.done().await,
            Self::Unknown | Self::Ready => std::future::pending().await,
        }
    }
}
