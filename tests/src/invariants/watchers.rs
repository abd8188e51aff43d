//! A watcher sees each event once, in order, and without omissions between the first
//! and the last one.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use super::evidence::Evidence;
use super::recorder::ALL;
use super::remains;

pub(super) fn check(evidence: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut violations = Vec::new();
    let between = "SELECT e.seq FROM events e JOIN workers w ON w.id = e.worker
         WHERE ?1 IN (w.worker_id, '*') AND e.internal = 0 AND e.seq > ?2 AND e.seq <= ?3";
    let mut own = database.prepare(&format!("{between} ORDER BY e.seq"))?;
    let knows_tasks = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('tasks'))";
    let mut joined = if database.query_row(knows_tasks, [], |row| row.get(0))? {
        Some(database.prepare(&format!(
            "WITH RECURSIVE below (id) AS (
               SELECT t.worker FROM tasks t JOIN workers w ON w.id = t.parent WHERE w.worker_id = ?1
               UNION SELECT t.worker FROM tasks t JOIN below b ON t.parent = b.id)
             {between} UNION SELECT e.seq FROM events e WHERE e.worker IN (SELECT id FROM below) AND e.internal = 0
               AND (?4 OR e.type LIKE 'subagent.%' OR e.type LIKE 'approval.%' OR e.type LIKE 'elicitation.%'
                 OR e.type = 'policy.violated') AND e.seq > ?2 AND e.seq <= ?3 ORDER BY 1"
        ))?)
    } else {
        None
    };
    // Nothing is kept of a removed task, and its parent is unknown here.
    let mut is_there = database.prepare("SELECT EXISTS (SELECT 1 FROM events WHERE seq = ?1)")?;
    for watched in &evidence.acknowledged.watched {
        let Some(last) = watched.events.last() else { continue };
        let ascending = watched.events.is_sorted_by(|one, next| one < next);
        let is_lost: Box<dyn Fn(i64) -> bool> = if watched.worker == ALL {
            Box::new(|_| false)
        } else {
            let kept = remains::of(database, &watched.worker)?;
            Box::new(move |seq| kept.has_lost(seq))
        };
        let from = watched.from.map_or(0, |cursor| cursor.0);
        let stored = match &mut joined {
            Some(joined) if watched.worker != ALL => joined
                .query_map(params![watched.worker, from, last.0, watched.tree], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<i64>>>()?,
            _ => own
                .query_map(params![watched.worker, from, last.0], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<i64>>>()?,
        };
        let of_others: BTreeSet<i64> = (evidence.acknowledged.events.iter())
            .filter(|seen| watched.worker != ALL && seen.worker != watched.worker)
            .map(|seen| seen.event.0)
            .collect();
        // Deleted events cannot be compared, but their order can.
        let mut printed = Vec::new();
        for seq in watched.events.iter().map(|event| event.0) {
            let is_kept = match of_others.contains(&seq) {
                true => is_there.query_row([seq], |row| row.get(0))?,
                false => !is_lost(seq),
            };
            if is_kept {
                printed.push(seq);
            }
        }
        if stored != printed || !ascending {
            let missing: Vec<&i64> = stored.iter().filter(|seq| !printed.contains(seq)).collect();
            let strange: Vec<&i64> = printed.iter().filter(|seq| !stored.contains(seq)).collect();
            violations.push(format!(
                "a watcher of {} from {from}: not printed {missing:?}, printed but not stored {strange:?}, \
                 {} printed, {} stored",
                watched.worker,
                printed.len(),
                stored.len()
            ));
        }
    }
    Ok(violations)
}
