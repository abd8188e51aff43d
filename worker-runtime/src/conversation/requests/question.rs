//! The open permission requests and elicitations. Both wait for an answer without a time limit.

use subagent_protocol::ids::RequestId;
use subagent_protocol::state::QuestionKind;

/// Maximum number of open requests, so that an agent cannot fill the memory.
pub(in crate::conversation) const MAX_OPEN: usize = 256;

pub(in crate::conversation) struct PendingQuestion {
    pub(in crate::conversation) id: RequestId,
    pub(in crate::conversation) asker: Asker,
    pub(in crate::conversation) turn: Option<u64>,
    pub(in crate::conversation) kind: QuestionKind,
}

/// The requester that waits for the answer.
pub(in crate::conversation) enum Asker {
    /// The agent, with its request id as JSON text.
    Agent(String),
    /// One of its client requests, by our number.
    Call(u64),
}

/// All open requests; rarely more than two.
#[derive(Default)]
pub(in crate::conversation) struct PendingQuestions {
    pub(in crate::conversation) open: Vec<PendingQuestion>,
}

impl PendingQuestions {
    pub(in crate::conversation) fn ids(&self) -> Vec<RequestId> {
        self.open.iter().map(|open| open.id.clone()).collect()
    }

    pub(in crate::conversation) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(in crate::conversation) fn is_full(&self) -> bool {
        self.open.len() >= MAX_OPEN
    }

    pub(in crate::conversation) fn take(
        &mut self,
        which: impl Fn(&PendingQuestion) -> bool,
    ) -> Vec<PendingQuestion> {
        self.open.extract_if(.., |open| which(open)).collect()
    }
}
