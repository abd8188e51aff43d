//! Epochs of a controller increase by one without a gap, at most the newest has an owner, and
//! each was granted once.

use rusqlite::{Connection, OptionalExtension, params};

use super::evidence::Evidence;
use super::rows::none_of;

pub(super) fn check(evidence: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut violations = none_of(
        database,
        "the epochs of a controller are not 1, 2, 3, ...",
        "SELECT c.controller_id, count(o.id) AS owners, count(DISTINCT o.epoch) AS different,
                min(o.epoch) AS first, max(o.epoch) AS last
         FROM controllers c LEFT JOIN owners o ON o.controller = c.id GROUP BY c.id
         HAVING owners <> different OR coalesce(first, 1) <> 1
             OR (coalesce(last, 0) <> owners AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'restored_at'))",
    )?;
    violations.extend(none_of(
        database,
        "an owner that is not the newest was never released",
        "SELECT c.controller_id, o.instance_id, o.epoch FROM owners o JOIN controllers c ON c.id = o.controller
         WHERE o.released_at IS NULL
           AND EXISTS (SELECT 1 FROM owners n WHERE n.controller = o.controller AND n.epoch > o.epoch)",
    )?);
    violations.extend(none_of(
        database,
        "two owners have the same token, or one has none",
        // A restore that could not read the replaced database keeps epochs without an owner.
        "SELECT count(*) AS owners, min(epoch) AS epoch FROM owners WHERE pid <> 0 OR released_at IS NULL
         GROUP BY token_hash HAVING owners > 1 OR length(token_hash) < 16",
    )?);
    let mut known = database.prepare("SELECT count(*) FROM controllers WHERE controller_id = ?1")?;
    let mut owner = database.prepare(
        "SELECT o.instance_id FROM owners o JOIN controllers c ON c.id = o.controller
         WHERE c.controller_id = ?1 AND o.epoch = ?2",
    )?;
    for granted in &evidence.acknowledged.granted {
        let found: i64 = known.query_row([&granted.controller], |row| row.get(0))?;
        if found == 0 && !evidence.acknowledged.all_attempted {
            // In a test with several state directories, it belongs to another one.
            continue;
        }
        let stored: Option<String> =
            owner.query_row(params![granted.controller, granted.epoch], |row| row.get(0)).optional()?;
        if stored.as_deref() != Some(granted.instance.as_str()) {
            violations.push(format!("{granted:?} was granted, stored is {stored:?}"));
        }
    }
    Ok(violations)
}
