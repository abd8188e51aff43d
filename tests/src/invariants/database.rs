//! The database is sound, for SQLite and for its own references.

use rusqlite::Connection;

use super::evidence::Evidence;
use super::none_of;

pub(super) fn check(_: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut violations = Vec::new();
    let mut statement = database.prepare("PRAGMA quick_check")?;
    for line in statement.query_map([], |row| row.get::<_, String>(0))? {
        let line = line?;
        if line != "ok" {
            violations.push(line);
        }
    }
    violations.extend(none_of(database, "a reference leads nowhere", "PRAGMA foreign_key_check")?);
    Ok(violations)
}
