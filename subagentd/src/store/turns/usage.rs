//! Token and cost usage of turns, stored in the transaction of the report.
//! The meaning of a report is defined in `subagent_core::accounts`.

use rusqlite::{Connection, params};
use serde_json::Value;
use subagent_core::accounts::{Account, CostReport};
use subagent_protocol::Result;
use subagent_protocol::budget::Money;
use subagent_protocol::state::Carrier;
use subagent_protocol::time::Timestamp;

use crate::store::rows::{self, RowId};
use crate::store::tx::{Tx, signed};
use crate::usage::UsedTurn;

/// Stores the tokens of a turn.
pub(in crate::store) fn store_tokens(
    tx: &Tx<'_>,
    worker: RowId,
    no: u64,
    tokens: Option<u64>,
    counts: &Value,
) -> Result<()> {
    let sql = "UPDATE turns SET tokens = ?3, counts = ?4 WHERE worker = ?1 AND no = ?2";
    tx.execute(sql, params![worker.0, signed(no), tokens.map(signed), counts.to_string()])?;
    Ok(())
}

/// Charges the cost reported before the first turn to that turn.
pub(in crate::store) fn charge_first_turn(tx: &Tx<'_>, worker: RowId, before: &Account) -> Result<()> {
    match before.cost_before_turns() {
        Some(money) => charge_last_turn(tx, worker, &money, false),
        None => Ok(()),
    }
}

/// Charges a reported cost to the last turn, and marks the earlier turns that the report
/// includes as priced.
pub(in crate::store) fn charge_turns(tx: &Tx<'_>, worker: RowId, priced: Option<CostReport>) -> Result<()> {
    let Some(CostReport { money, settled }) = priced else { return Ok(()) };
    if settled > 0 {
        let sql =
            "UPDATE turns SET priced = 1 WHERE id IN (SELECT id FROM turns WHERE worker = ?1 AND priced = 0
                     AND dispatched <> 'no' AND status <> 'accepted' ORDER BY no DESC LIMIT ?2)";
        tx.execute(sql, params![worker.0, signed(settled)])?;
    }
    charge_last_turn(tx, worker, &money, true)
}

fn charge_last_turn(tx: &Tx<'_>, worker: RowId, money: &Money, priced: bool) -> Result<()> {
    let sql = "UPDATE turns SET cost = coalesce(cost, 0) + ?2, currency = ?3, priced = max(priced, ?4)
               WHERE worker = ?1 AND no = (SELECT max(no) FROM turns WHERE worker = ?1 AND carrier = ?5)";
    let carrier = Carrier::Runtime.as_str();
    tx.execute(sql, params![worker.0, signed(money.micros), money.currency, priced, carrier])?;
    Ok(())
}

/// Passes all turns of existing workers to `see`, or those that began at `since` or later.
pub(crate) fn turns(
    connection: &Connection,
    since: Option<Timestamp>,
    see: &mut dyn FnMut(UsedTurn),
) -> Result<()> {
    // The start event of a turn may be deleted before the turn.
    let sql = "SELECT w.worker_id, w.name, w.launcher,
                 CASE WHEN t.status <> 'accepted' THEN t.model WHEN json_valid(w.details) THEN w.details ->> 'model' END,
                 coalesce(m.at, e.at), t.dispatched <> 'no', t.status <> 'accepted', t.tokens, t.counts, t.cost,
                 t.currency, t.priced
               FROM turns t JOIN workers w ON w.id = t.worker AND w.removed_at IS NULL
               LEFT JOIN events m ON m.seq = t.message_seq LEFT JOIN events e ON e.seq = t.end_seq
               WHERE ?1 IS NULL OR coalesce(m.at, e.at) >= ?1";
    rows::each(connection, sql, [since.map(|since| since.0)], |row| {
        see(read(row)?);
        Ok(())
    })
}

/// Returns when the worker's open turn began, else when its last turn ended; `None` if there is
/// none or it was deleted.
pub(crate) fn last_turn_at(connection: &Connection, worker: RowId) -> Result<Option<Timestamp>> {
    let sql = "SELECT e.at FROM turns t
               JOIN events e ON e.seq = CASE t.status WHEN 'accepted' THEN t.message_seq ELSE t.end_seq END
               WHERE t.worker = ?1 AND t.no = (SELECT max(no) FROM turns WHERE worker = ?1)";
    let at: Option<i64> = rows::optional(connection, sql, [worker.0], |row| row.get(0))?;
    Ok(at.map(Timestamp))
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<UsedTurn> {
    let count = |index| row.get::<_, Option<i64>>(index).map(|count| count.map(i64::unsigned_abs));
    let cost = count(9)?.zip(row.get::<_, Option<String>>(10)?);
    Ok(UsedTurn {
        worker_id: row.get(0)?,
        name: row.get(1)?,
        agent: row.get(2)?,
        model: row.get(3)?,
        at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        sent: row.get(5)?,
        ended: row.get(6)?,
        tokens: count(7)?,
        counts: row.get::<_, Option<String>>(8)?.and_then(|text| serde_json::from_str(&text).ok()),
        cost: cost.map(|(micros, currency)| Money { micros, currency }),
        priced: row.get(11)?,
    })
}
