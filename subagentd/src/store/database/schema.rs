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

/// What all migrations together make of an empty database, in a part of their time: each change of a
/// table parses all tables again.
const NEWEST: &str = include_str!("schema/newest.sql");

/// Brings a database to [`VERSION`]; an empty one at once.
pub(in crate::store) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match version {
        0 => step(connection, NEWEST, VERSION),
        _ => migrate_from(connection, version),
    }
}

/// Runs the migrations after this version, each in a transaction of its own.
fn migrate_from(connection: &mut Connection, version: i64) -> rusqlite::Result<()> {
    let mut migrations = (1..).zip(MIGRATIONS).skip_while(|(to, _)| *to <= version);
    migrations.try_for_each(|(to, sql)| step(connection, sql, to))
}

fn step(connection: &mut Connection, sql: &str, version: i64) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(sql)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", version)?;
    tx.commit()
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    const HEAD: &str =
        "-- Written by `UPDATE_SCHEMA=1 cargo test --workspace --lib a_new_database`: what the migrations
-- of this folder make of an empty database.
";

    /// Returns the statements that make these tables and rows.
    fn script(connection: &Connection) -> String {
        let all =
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid";
        let mut select = connection.prepare(all).unwrap();
        let tables = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let mut statements: Vec<String> = tables.map(Result::unwrap).collect();
        let mut select = connection.prepare("SELECT key, value FROM meta ORDER BY key").unwrap();
        let rows = select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))).unwrap();
        let rows: Vec<String> =
            rows.map(Result::unwrap).map(|(key, value)| format!("('{key}', {value})")).collect();
        statements.push(format!("INSERT INTO meta VALUES {}", rows.join(", ")));
        HEAD.to_owned() + &statements.join(";\n") + ";\n"
    }

    fn rows(connection: &Connection) -> Vec<(String, i64)> {
        let mut names = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        let names: Vec<String> =
            names.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        let count = |name: &String| {
            connection.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| row.get(0)).unwrap()
        };
        names.iter().map(|name| (name.clone(), count(name))).collect()
    }

    #[test]
    fn a_new_database_is_what_all_migrations_make() {
        let mut migrated = Connection::open_in_memory().unwrap();
        migrate_from(&mut migrated, 0).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/database/schema/newest.sql");
        let script = script(&migrated);
        if env::var_os("UPDATE_SCHEMA").is_some_and(|value| value == "1") {
            return fs::write(path, script).unwrap();
        }
        assert_eq!(NEWEST, script, "UPDATE_SCHEMA=1 writes it");
        let mut new = Connection::open_in_memory().unwrap();
        migrate(&mut new).unwrap();
        assert!(is_current(&migrated).unwrap());
        assert_eq!((tables(&new).unwrap(), rows(&new)), (tables(&migrated).unwrap(), rows(&migrated)));
        for pragma in ["application_id", "user_version"] {
            let value =
                |one: &Connection| one.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).unwrap();
            assert_eq!(value(&new), value(&migrated), "{pragma}");
        }
    }

    #[test]
    fn a_database_of_any_version_becomes_the_newest() {
        for version in 1..=VERSION {
            let mut old = Connection::open_in_memory().unwrap();
            for (to, sql) in (1..=version).zip(MIGRATIONS) {
                step(&mut old, sql, to).unwrap();
            }
            migrate(&mut old).unwrap();
            assert!(is_current(&old).unwrap(), "from version {version}");
        }
    }
}
