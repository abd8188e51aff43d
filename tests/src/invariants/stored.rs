//! Everything acknowledged to a user is in the database: no crash can lose it.

use rusqlite::{Connection, OptionalExtension, params};

use super::evidence::Evidence;
use super::remains;

pub(super) fn check(evidence: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let known = &evidence.acknowledged;
    let mut violations = Vec::new();
    let has_lost = |worker: &str, seq: i64| -> rusqlite::Result<bool> {
        Ok(remains::of(database, worker)?.has_lost(seq))
    };

    let mut event = database.prepare(
        "SELECT w.worker_id, iif(e.type = '', 'progress.message', e.type), t.turn_id, e.internal FROM events e JOIN workers w ON w.id = e.worker
         LEFT JOIN turns t ON t.id = e.turn WHERE e.seq = ?1",
    )?;
    for seen in &known.events {
        let stored: Option<(String, String, Option<String>, bool)> = event
            .query_row([seen.event.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .optional()?;
        let expected = (seen.worker.clone(), seen.event_type.clone(), seen.turn.clone(), false);
        let gone = stored.is_none() && has_lost(&seen.worker, seen.event.0)?;
        if !gone && stored.as_ref() != Some(&expected) {
            violations.push(format!("{seen:?} was shown, stored is {stored:?}"));
        }
    }

    let mut turn = database.prepare(
        "SELECT w.worker_id, t.message_seq, t.status FROM turns t JOIN workers w ON w.id = t.worker
         WHERE t.turn_id = ?1",
    )?;
    let mut turn = |id: &str| -> rusqlite::Result<Option<(String, i64, String)>> {
        turn.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
    };
    for (id, (worker, message)) in &known.turns {
        match turn(id)? {
            Some((of, seq, _)) if of == *worker && seq == message.0 => {}
            None if has_lost(worker, message.0)? => {}
            other => violations
                .push(format!("turn {id} of {worker} was accepted with {message}, stored is {other:?}")),
        }
    }
    for id in &known.canceled {
        match turn(id)? {
            Some((_, _, status)) if status == "canceled" => {}
            None if let Some((worker, message)) = known.turns.get(id)
                && has_lost(worker, message.0)? => {}
            other => violations.push(format!("turn {id} was canceled, stored is {other:?}")),
        }
    }

    let mut approval = database.prepare(
        "SELECT a.status, a.option_id, a.decided_seq FROM approvals a JOIN workers w ON w.id = a.worker
         WHERE a.request_id = ?1 AND w.worker_id = ?2",
    )?;
    for (id, decision) in &known.decisions {
        let stored: Option<(String, Option<String>, Option<i64>)> = approval
            .query_row(params![id, decision.worker], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let good = stored.as_ref().is_some_and(|(status, option, seq)| {
            let status_fits = match decision.delivery.as_str() {
                "pending" => matches!(status.as_str(), "decided" | "delivered" | "undelivered"),
                settled => status == settled,
            };
            status_fits
                && option.as_deref().unwrap_or("cancelled") == decision.option
                && *seq == Some(decision.event.0)
        });
        // A request outside a turn, below the mark, may have been decided above it.
        let gone = stored.is_none()
            && (has_lost(&decision.worker, decision.event.0)?
                || (remains::of(database, &decision.worker)? != remains::Kept::Above(0)
                    && event.exists([decision.event.0])?));
        if !good && !gone {
            violations.push(format!("{id} was decided: {decision:?}, stored is {stored:?}"));
        }
    }

    let mut worker = database.prepare("SELECT state FROM workers WHERE worker_id = ?1")?;
    for (id, expected) in
        known.started.iter().map(|id| (id, None)).chain(known.stopped.iter().map(|id| (id, Some("stopped"))))
    {
        if remains::of(database, id)? == remains::Kept::Nothing {
            continue;
        }
        let state: Option<String> = worker.query_row([id], |row| row.get(0)).optional()?;
        if state.is_none() || (expected.is_some() && state.as_deref() != expected) {
            violations
                .push(format!("worker {id} was {}, stored is {state:?}", expected.unwrap_or("started")));
        }
    }
    Ok(violations)
}
