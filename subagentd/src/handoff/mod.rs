//! Handoff documents of a worker for its successor: facts in, `handoff.md` and `checkpoint.json`
//! out. It must not do I/O or know the store. Each part is bounded, and agent text cannot form
//! headings (see `subagent_protocol::markdown`).

pub(crate) mod checkpoint;
pub(crate) mod markdown;
#[cfg(test)]
mod tests;
pub(crate) mod work;

use subagent_protocol::api::WorkspaceStatus;
use subagent_protocol::ids::{EventId, RequestId, SnapshotId, TurnId};
use subagent_protocol::state::{TurnStatus, WorkerState};
use subagent_protocol::time::Timestamp;

use work::WorkerActivity;

/// Maximum size of `handoff.md` in bytes. The limits of its parts keep it below this.
#[cfg(test)]
const MAX_BYTES: usize = 256 * 1024;
/// Number of first turns that are included.
pub(crate) const FIRST_TURNS: u32 = 3;
/// Number of last turns that are included.
pub(crate) const LAST_TURNS: u32 = 20;
/// Number of last turns whose agent text is included.
pub(crate) const TEXTS: usize = 3;
/// Maximum size of each included agent text in bytes.
pub(crate) const TEXT_BYTES: usize = 12 * 1024;

/// All facts about a worker that its successor needs.
#[derive(Debug, Clone)]
pub(crate) struct HandoffFacts {
    /// Id of the snapshot.
    pub snapshot_id: SnapshotId,
    /// Creation time of the snapshot.
    pub created_at: Timestamp,
    /// The worker that the snapshot describes.
    pub source: HandoffSource,
    /// Newest event that is covered.
    pub up_to: EventId,
    /// First and last turns, in order.
    pub turns: Vec<SnapshotTurn>,
    /// Total number of turns.
    pub turns_in_all: u64,
    /// Agent text of the last turns that have any, in order.
    pub texts: Vec<TurnText>,
    /// Plan, tool calls and context usage.
    pub work: WorkerActivity,
    /// Undecided permission requests of the worker.
    pub pending: Vec<PendingPermission>,
    /// Queued messages in order.
    pub queued: Vec<QueuedMessage>,
    /// Facts that limit how far the successor can rely on this.
    pub risks: Risks,
    /// Output of git, if it was requested.
    pub workspace: Option<WorkspaceStatus>,
    /// Summary by another agent, if one was requested.
    pub summary: Option<String>,
    /// Paths of the files to write.
    pub paths: Paths,
}

/// The worker that a snapshot describes.
#[derive(Debug, Clone)]
pub(crate) struct HandoffSource {
    /// Public id of the worker.
    pub worker_id: String,
    /// Public id of its controller.
    pub controller_id: String,
    /// Name of the launcher that starts its agent.
    pub launcher: String,
    /// Role given at the start.
    pub role: String,
    /// Absolute working directory of the agent.
    pub cwd: String,
    /// Label shown to users.
    pub label: String,
    /// State when the snapshot was made.
    pub state: WorkerState,
    /// Last error as shown to users.
    pub last_error: Option<String>,
}

/// A turn of the worker in the snapshot.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotTurn {
    /// Public id of the turn.
    pub id: TurnId,
    /// Text of the prompt; empty for a message of blocks alone.
    pub instruction: String,
    /// Final status; `accepted` while the turn is open.
    pub status: TurnStatus,
    /// Further data of its last event: stop reason, error, or cancel reason.
    pub note: Option<String>,
    /// Token usage as the agent reported it.
    pub usage: Option<serde_json::Value>,
}

/// Agent text of one turn.
#[derive(Debug, Clone)]
pub(crate) struct TurnText {
    /// Public id of the turn.
    pub turn: TurnId,
    /// Last part of the text.
    pub text: String,
    /// Whether an earlier part was cut off.
    pub cut: bool,
}

/// An undecided permission request.
#[derive(Debug, Clone)]
pub(crate) struct PendingPermission {
    /// Public id of the request.
    pub request_id: RequestId,
    /// Text that describes the requested action.
    pub message: String,
}

/// A queued message, accepted but not begun.
#[derive(Debug, Clone)]
pub(crate) struct QueuedMessage {
    /// Turn id that it will have.
    pub turn_id: TurnId,
    /// First part of its text.
    pub text: String,
}

/// Counts of events that make the facts incomplete.
#[derive(Debug, Clone, Default)]
pub(crate) struct Risks {
    /// Number of gaps in the journal.
    pub gaps: usize,
    /// Number of lost agent sessions; each lost the agent's context.
    pub contexts_lost: usize,
    /// Number of times that the runtime died.
    pub runtimes_lost: usize,
    /// Whether only the newest events were read for plan, files and commands.
    pub not_all_seen: bool,
}

/// Absolute paths of a snapshot's files.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// Absolute path of `handoff.md`.
    pub handoff: String,
    /// Absolute path of `checkpoint.json`.
    pub checkpoint: String,
}

impl HandoffFacts {
    /// Returns the worker's last turn.
    #[must_use]
    pub(crate) fn source_turn(&self) -> Option<&SnapshotTurn> {
        self.turns.last()
    }
}
