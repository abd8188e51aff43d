//! The table definitions, and the migrations between their versions.

use rusqlite::{Connection, TransactionBehavior};

/// `PRAGMA application_id` of our databases: "SubA".
pub const APPLICATION_ID: i64 = 0x5375_6241;

/// Newest schema version; equals the number of migrations.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// Migration n turns version n into version n + 1. A released migration is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/001.sql"),
    include_str!("schema/002.sql"),
    include_str!("schema/003.sql"),
    include_str!("schema/004.sql"),
    include_str!("schema/005.sql"),
    include_str!("schema/006.sql"),
    include_str!("schema/007.sql"),
    include_str!("schema/008.sql"),
    include_str!("schema/009.sql"),
    include_str!("schema/010.sql"),
    include_str!("schema/011.sql"),
    include_str!("schema/012.sql"),
    include_str!("schema/013.sql"),
    include_str!("schema/014.sql"),
    include_str!("schema/015.sql"),
    include_str!("schema/016.sql"),
];

pub(in crate::store) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(usize::try_from(version).unwrap_or(0)) {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute_batch(sql)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", i64::try_from(step + 1).unwrap_or(i64::MAX))?;
        tx.commit()?;
    }
    Ok(())
}

/// Whether the tables match the newest schema exactly.
pub(super) fn is_current(connection: &Connection) -> rusqlite::Result<bool> {
    let mut empty = Connection::open_in_memory()?;
    migrate(&mut empty)?;
    Ok(tables(connection)? == tables(&empty)?)
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<(String, String, Option<String>)>> {
    let sql = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name";
    connection.prepare(sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
}
