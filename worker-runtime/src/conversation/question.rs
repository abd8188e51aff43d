//! The open permission requests and elicitations. Both wait for an answer without a time limit.

use subagent_protocol::ids::RequestId;
use subagent_protocol::state::QuestionKind;

/// Maximum number of open requests, so that an agent cannot fill the memory.
pub(super) const MAX_OPEN: usize = 256;

pub(super) struct PendingQuestion {
    pub(super) id: RequestId,
    pub(super) asker: Asker,
    pub(super) turn: Option<u64>,
    pub(super) kind: QuestionKind,
}

/// The requester that waits for the answer.
pub(super) enum Asker {
    /// The agent, with its request id as JSON text.
    Agent(String),
    /// One of its client requests, by our number.
    Call(u64),
}

/// All open requests; rarely more than two.
#[derive(Default)]
pub(super) struct PendingQuestions {
    pub(super) open: Vec<PendingQuestion>,
}

impl PendingQuestions {
    pub(super) fn ids(&self) -> Vec<RequestId> {
        self.open.iter().map(|open| open.id.clone()).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= MAX_OPEN
    }

    pub(super) fn take(&mut self, which: impl Fn(&PendingQuestion) -> bool) -> Vec<PendingQuestion> {
        self.open.extract_if(.., |open| which(open)).collect()
    }
}
