//! Stores the facts of a step of the rules, each in its table.
//! It must not decide anything: what a fact means is in `core`.

use rusqlite::params;
use serde_json::Value;
use subagent_core::model::Fact;
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use subagent_protocol::time::Timestamp;

use super::questions::{self, inbox};
use super::rows::{NewEvent, RowId};
use super::turns::{self, queue, tool_calls, usage};
use super::tx::Tx;
use super::{accounts, tasks, workers};

/// Stores the facts of a step. `asked_seq` is the event of the record that caused the step. Returns
/// the added events with their sequence numbers.
pub(crate) fn store(
    tx: &mut Tx<'_>,
    id: RowId,
    facts: &[Fact],
    asked_seq: Option<i64>,
    now: Timestamp,
) -> Result<Vec<(EventType, i64)>> {
    let mut added = Vec::new();
    for fact in facts {
        store_one(tx, id, fact, asked_seq, now, &mut added)?;
    }
    Ok(added)
}

fn store_one(
    tx: &mut Tx<'_>,
    id: RowId,
    fact: &Fact,
    asked_seq: Option<i64>,
    now: Timestamp,
    added: &mut Vec<(EventType, i64)>,
) -> Result<()> {
    tasks::store_fact(tx, id, fact, now)?;
    match fact {
        Fact::TurnOpened { no, id: turn_id, carrier } => turns::open(tx, id, *no, turn_id, *carrier)?,
        Fact::TurnQueued { .. }
        | Fact::TurnUnqueued { .. }
        | Fact::QueueOrdered { .. }
        | Fact::QueuedAppended { .. }
        | Fact::QueuedTurnOpened { .. } => added.extend(queue::store_fact(tx, id, fact, now)?),
        Fact::TurnDispatching { no } => turns::begin_dispatch(tx, id, *no)?,
        Fact::TurnRetried { no } => turns::mark_retried(tx, id, *no)?,
        Fact::TurnCancel { no, cancel } => turns::cancel(tx, id, *no, cancel)?,
        Fact::TurnUsed { no, tokens, counts } => usage::store_tokens(tx, id, *no, *tokens, counts)?,
        Fact::TurnClosed { no, status, dispatched } => {
            let end_seq = newest(added, EventType::ends_turn);
            turns::close(tx, id, *no, *status, *dispatched, end_seq)?;
            if subagent_failpoint::sabotaged("turn.end_twice") {
                let end = (EventType::TurnFailed, &serde_json::json!({}));
                store_event(tx, id, end, Some(*no), now, added)?;
            }
        }
        Fact::ApprovalOpened { request_id, kind, turn } => {
            let requested = |event_type| event_type == EventType::ApprovalRequested;
            let asked_seq = asked_seq.or_else(|| newest(added, requested));
            questions::open(tx, id, request_id, *kind, *turn, asked_seq)?;
        }
        Fact::ApprovalHeld { request_id } => questions::hold(tx, request_id)?,
        Fact::ApprovalReleased { request_id } => {
            added.push((EventType::ApprovalRequested, questions::release(tx, id, request_id, now)?));
        }
        Fact::ApprovalDecided { request_id, option_id, content, by_cancel } => {
            let decides = |event_type| {
                matches!(event_type, EventType::ApprovalDecided | EventType::ElicitationAnswered)
            };
            let decided_seq = newest(added, decides);
            let content = content.as_ref().map(|content| &content.0);
            questions::decide(tx, request_id, option_id.as_deref(), content, *by_cancel, decided_seq)?;
        }
        Fact::ApprovalClosed { request_id, status } => questions::close(tx, request_id, *status)?,
        Fact::TaskEnding(_) | Fact::TaskCause { .. } => {}
        Fact::Inbox(fact) => inbox::store(tx, id, fact)?,
        Fact::Event { event_type, data, turn } => {
            store_event(tx, id, (*event_type, data), *turn, now, added)?
        }
        Fact::LastError(error) => workers::update_last_error(tx, id, error.as_ref())?,
        Fact::DesiredStop => workers::stop(tx, id)?,
        Fact::Spent(spent) => accounts::spend(tx, id, spent, now, added)?,
    }
    Ok(())
}

fn store_event(
    tx: &mut Tx<'_>,
    id: RowId,
    (event_type, data): (EventType, &Value),
    turn: Option<u64>,
    now: Timestamp,
    added: &mut Vec<(EventType, i64)>,
) -> Result<()> {
    if let Some(turn) = turn.filter(|_| event_type.ends_turn()) {
        tool_calls::close_open(tx, id, turn, now)?;
    }
    let payload = &data.to_string();
    let event = NewEvent { number: None, turn, at: now, event_type, kind: None, record: None, payload };
    let seq = tx.insert_event(id, &event)?;
    // The prompt of a recovered turn is unknown.
    let recovered = event_type == EventType::TurnStarted && data["recovered"] == true;
    if event_type == EventType::MessageSent || recovered {
        tx.execute(
            "UPDATE turns SET message_seq = ?2 WHERE worker = ?1 AND status = 'accepted'",
            params![id.0, seq],
        )?;
    }
    added.push((event_type, seq));
    Ok(())
}

/// Returns the newest added event of a matching type.
fn newest(added: &[(EventType, i64)], is_wanted: impl Fn(EventType) -> bool) -> Option<i64> {
    added.iter().rev().find(|(event_type, _)| is_wanted(*event_type)).map(|(_, seq)| *seq)
}
