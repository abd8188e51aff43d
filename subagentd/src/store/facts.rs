//! Stores the facts of a step of the rules, each in its table.
//! It must not decide anything: what a fact means is in `core`.

use rusqlite::params;
use serde_json::Value;
use subagent_core::model::Fact;
use subagent_protocol::Result;
use subagent_protocol::data::EventData;
use subagent_protocol::data::turns::TurnStarted;
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
        Fact::Event { data, turn } => {
            let is_recovered =
                matches!(data, EventData::TurnStarted(TurnStarted { recovered: Some(true), .. }));
            store_event(tx, id, (data.event_type(), &data.to_value()), *turn, now, added)?;
            if is_recovered {
                // The prompt of a recovered turn is unknown.
                note_message(tx, id, added)?;
            }
        }
        Fact::MessageSent { message, turn } => {
            store_event(tx, id, (EventType::MessageSent, message), Some(*turn), now, added)?;
            note_message(tx, id, added)?;
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
    added.push((event_type, tx.insert_event(id, &event)?));
    Ok(())
}

/// The event that was added last has the message of the open turn.
fn note_message(tx: &Tx<'_>, id: RowId, added: &[(EventType, i64)]) -> Result<()> {
    let seq = added.last().map(|(_, seq)| *seq);
    let sql = "UPDATE turns SET message_seq = ?2 WHERE worker = ?1 AND status = 'accepted'";
    tx.execute(sql, params![id.0, seq]).map(drop)
}

/// Returns the newest added event of a matching type.
fn newest(added: &[(EventType, i64)], is_wanted: impl Fn(EventType) -> bool) -> Option<i64> {
    added.iter().rev().find(|(event_type, _)| is_wanted(*event_type)).map(|(_, seq)| *seq)
}
