//! A watcher sees each event once, in order, and none is left out between the first and the last that it saw.

use rusqlite::{Connection, params};

use super::evidence::Evidence;
use super::kept;
use super::recorder::ALL;

pub(super) fn check(evidence: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut violations = Vec::new();
    let mut between = database.prepare(
        "SELECT e.seq FROM events e JOIN workers w ON w.id = e.worker
         WHERE ?1 IN (w.worker_id, '*') AND e.internal = 0 AND e.seq > ?2 AND e.seq <= ?3 ORDER BY e.seq",
    )?;
    for watched in &evidence.acknowledged.watched {
        let Some(last) = watched.events.last() else { continue };
        let ascending = watched.events.is_sorted_by(|one, next| one < next);
        let is_lost: Box<dyn Fn(i64) -> bool> = if watched.worker == ALL {
            Box::new(|_| false)
        } else {
            let kept = kept::of(database, &watched.worker)?;
            Box::new(move |seq| kept.has_lost(seq))
        };
        let from = watched.from.map_or(0, |cursor| cursor.0);
        let stored = between.query_map(params![watched.worker, from, last.0], |row| row.get(0))?;
        let stored = stored.collect::<rusqlite::Result<Vec<i64>>>()?;
        // What is not kept any more cannot be compared, but its order can.
        let printed: Vec<i64> =
            watched.events.iter().map(|event| event.0).filter(|seq| !is_lost(*seq)).collect();
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
