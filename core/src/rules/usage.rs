//! Usage that follows from an input.

use subagent_protocol::record::TurnEnd;
use subagent_protocol::{budget, fields};

use super::transition::TransitionBuilder;
use crate::model::{Approval, Fact, RuntimeTurn, Spent, Worker};

/// Returns whether time counts: a turn runs and does not wait for an answer.
#[must_use]
pub fn runs(worker: &Worker) -> bool {
    worker.turn().is_some()
        && !worker.holds_turn()
        && !worker.approvals.values().any(|asked| asked.approval == Approval::Pending)
}

/// Adds the usage that follows from the step itself.
pub(super) fn spend(next: &mut TransitionBuilder, before: &Worker) {
    if next.facts.iter().any(|fact| matches!(fact, Fact::TurnOpened { .. } | Fact::QueuedTurnOpened { .. })) {
        next.facts.push(Fact::Spent(Spent::Opened));
    }
    let now = runs(&next.worker);
    if now != runs(before) {
        next.facts.push(Fact::Spent(Spent::Clock { runs: now, at: None }));
    }
}

/// Adds the usage of an ended turn. A turn whose prompt was not sent has none.
pub(super) fn spend_turn(next: &mut TransitionBuilder, turn: &RuntimeTurn, end: Option<&TurnEnd>) {
    if !turn.dispatching {
        return;
    }
    let (usage, meta) = match end {
        Some(TurnEnd::Answered { usage, meta, .. }) => (usage.as_ref(), meta.as_ref()),
        Some(TurnEnd::Failed { .. }) | None => (None, None),
    };
    let tokens = budget::tokens(usage, meta);
    if let Some(counts) = fields::usage_of_turn(usage, meta) {
        next.facts.push(Fact::TurnUsed { no: turn.no, tokens, counts });
    }
    next.facts.push(Fact::Spent(Spent::Closed { tokens }));
}
