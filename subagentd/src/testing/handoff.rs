//! Generated handoffs, for a bench and for tests.

use subagent_protocol::ids::{EventId, SnapshotId, TurnId};
use subagent_protocol::state::{TurnStatus, WorkerState};
use subagent_protocol::time::Timestamp;

use crate::handoff::{
    HandoffFacts, HandoffSource, Paths, Risks, SnapshotTurn, TurnText, checkpoint, markdown, work,
};

/// A generated handoff. It is rendered as often as the caller wants.
pub struct UsualHandoff(HandoffFacts);

impl UsualHandoff {
    /// Generates a handoff of 23 turns.
    #[must_use]
    pub fn generate() -> Self {
        Self(facts())
    }

    /// Renders both files: `handoff.md` and `checkpoint.json`.
    #[must_use]
    pub fn render(&self) -> (String, serde_json::Value) {
        (markdown::render(&self.0), checkpoint::render(&self.0))
    }
}

fn facts() -> HandoffFacts {
    let turn = |number: u8| SnapshotTurn {
        id: TurnId::from_random([number; 5]),
        instruction: "Look at the tests and tell what is missing. ".repeat(20),
        status: TurnStatus::Completed,
        note: None,
        usage: None,
    };
    let text = |number: u8| TurnText {
        turn: TurnId::from_random([number; 5]),
        text: "A line of what the agent has said.\n".repeat(300),
        cut: true,
    };
    HandoffFacts {
        turns: (1..=23).map(turn).collect(),
        turns_in_all: 40,
        texts: (1..=3).map(text).collect(),
        ..without_turns()
    }
}

/// The handoff of an idle worker that has had no turn.
pub(crate) fn without_turns() -> HandoffFacts {
    HandoffFacts {
        snapshot_id: SnapshotId::from_random([1; 5]),
        created_at: Timestamp(0),
        source: HandoffSource {
            worker_id: "w_0123456789".into(),
            controller_id: "ctl_0123456789".into(),
            launcher: "demo".into(),
            role: "default".into(),
            cwd: "/ws".into(),
            label: "worker".into(),
            state: WorkerState::Idle,
            last_error: None,
        },
        up_to: EventId(7),
        turns: vec![],
        turns_in_all: 0,
        texts: vec![],
        work: work::WorkerActivity::default(),
        pending: vec![],
        queued: vec![],
        risks: Risks::default(),
        workspace: None,
        summary: None,
        paths: Paths { handoff: "/ws/h/handoff.md".into(), checkpoint: "/ws/h/checkpoint.json".into() },
    }
}
