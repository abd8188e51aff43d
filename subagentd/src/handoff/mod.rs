//! What a worker leaves to its successor: facts in, `handoff.md` and `checkpoint.json` out.
//!
//! Must not do I/O or know the store. Every part is bounded here, and nothing that an agent wrote can look like a
//! heading of ours (see `subagent_protocol::markdown`).

pub mod checkpoint;
pub mod markdown;
#[cfg(test)]
mod tests;
pub mod work;

use subagent_protocol::api::WorkspaceStatus;
use subagent_protocol::ids::{EventId, RequestId, SnapshotId, TurnId};
use subagent_protocol::state::{TurnStatus, WorkerState};
use subagent_protocol::time::Timestamp;

use work::Work;

/// The largest `handoff.md`, in bytes. The bounds of its parts are such that it cannot become larger.
pub const MOST_BYTES: usize = 256 * 1024;
/// How many of the first turns are told ...
pub const FIRST_TURNS: u32 = 3;
/// ... and of the last.
pub const LAST_TURNS: u32 = 20;
/// Of so many of the last turns the agent's text is told, and how much of it, in bytes.
pub const TEXTS: usize = 3;
/// See [`TEXTS`].
pub const TEXT_BYTES: usize = 12 * 1024;

/// A worker, as far as it concerns its successor.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// When it is made.
    pub created_at: Timestamp,
    /// Who it is about.
    pub source: Source,
    /// The newest event that is told.
    pub up_to: EventId,
    /// The first and the last turns, in order.
    pub turns: Vec<Turn>,
    /// How many turns there are in all.
    pub turns_in_all: u64,
    /// The agent's text in the last turns that have any, in order.
    pub texts: Vec<Text>,
    /// Plan, tool calls and context.
    pub work: Work,
    /// The permission requests that nobody has decided.
    pub pending: Vec<Pending>,
    /// The messages that wait in the queue, in order.
    pub queued: Vec<Waiting>,
    /// What the successor should not rely on.
    pub risks: Risks,
    /// What git says, if it was asked.
    pub workspace: Option<WorkspaceStatus>,
    /// What another agent says of it, if one was asked.
    pub summary: Option<String>,
    /// The files to be written.
    pub paths: Paths,
}

/// The worker itself.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its id.
    pub worker_id: String,
    /// Its controller.
    pub controller_id: String,
    /// The name of its launcher.
    pub launcher: String,
    /// Its role.
    pub role: String,
    /// Where it works.
    pub cwd: String,
    /// Its label.
    pub label: String,
    /// Its state.
    pub state: WorkerState,
    /// The error to show.
    pub last_error: Option<String>,
}

/// A turn.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// What was asked; empty for a message of blocks alone.
    pub instruction: String,
    /// How it ended; `accepted` while it is open.
    pub status: TurnStatus,
    /// What its last event says beside that: stop reason, error, reason of a cancel.
    pub note: Option<String>,
    /// What it cost in tokens.
    pub usage: Option<serde_json::Value>,
}

/// What the agent said in a turn.
#[derive(Debug, Clone)]
pub struct Text {
    /// The turn.
    pub turn: TurnId,
    /// The end of the text.
    pub text: String,
    /// Whether it began earlier.
    pub cut: bool,
}

/// An open permission request.
#[derive(Debug, Clone)]
pub struct Pending {
    /// Its id.
    pub request_id: RequestId,
    /// What it is for.
    pub message: String,
}

/// A message that was accepted and not begun.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The turn that it would be.
    pub turn_id: TurnId,
    /// The beginning of its text.
    pub text: String,
}

/// What the successor should not rely on.
#[derive(Debug, Clone, Default)]
pub struct Risks {
    /// How often records of the journal were missing.
    pub gaps: usize,
    /// How often the agent's session was lost, and with it its context.
    pub contexts_lost: usize,
    /// How often its runtime died.
    pub runtimes_lost: usize,
    /// Whether only the newest events were looked at for plan, files and commands.
    pub not_all_seen: bool,
}

/// The files of a snapshot, absolute.
#[derive(Debug, Clone)]
pub struct Paths {
    /// `handoff.md`.
    pub handoff: String,
    /// `checkpoint.json`.
    pub checkpoint: String,
}

impl Facts {
    /// The worker's last turn.
    #[must_use]
    pub fn source_turn(&self) -> Option<&Turn> {
        self.turns.last()
    }
}
