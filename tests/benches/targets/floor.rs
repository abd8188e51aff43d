//! What SQLite alone can do. One thread inserts the daemon's stored rows again, with its schema,
//! batch size and durability, into a second database.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// As in the store: maximum number of events per transaction, ...
const BATCH: usize = 256;
/// ... and maximum time until a transaction is synced.
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// Rows of chunks, and the rows they refer to.
pub(crate) struct Floor {
    schema: Vec<String>,
    /// Tables that events refer to, with their rows.
    around: Vec<(String, Vec<Vec<Value>>)>,
    chunks: Vec<Vec<Value>>,
}

impl Floor {
    /// Reads the first rows of chunks from a database in use.
    pub(crate) fn of(database: &Path, count: usize) -> Self {
        let source = Connection::open(database).unwrap();
        let mut schema = source
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid")
            .unwrap();
        let schema = schema.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let around = ["controllers", "workers", "turns"];
        let around = around.map(|table| (table.to_owned(), rows(&source, &format!("SELECT * FROM {table}"))));
        let sql = "SELECT * FROM events WHERE type = '' ORDER BY seq";
        let chunks = rows(&source, &format!("{sql} LIMIT {count}"));
        assert_eq!(chunks.len(), count, "not enough chunks are stored");
        Self { schema, around: around.to_vec(), chunks }
    }

    /// Returns the rows per second into a new database at this path, which is removed afterwards.
    pub(crate) fn rate(&self, path: &Path) -> f64 {
        let mut database = Connection::open(path).unwrap();
        database.pragma_update(None, "auto_vacuum", "INCREMENTAL").unwrap();
        database.pragma_update(None, "journal_mode", "WAL").unwrap();
        database.pragma_update(None, "foreign_keys", true).unwrap();
        database.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        for sql in &self.schema {
            database.execute_batch(sql).unwrap();
        }
        for (table, rows) in &self.around {
            insert(&mut database, table, rows);
        }
        let begun = Instant::now();
        let mut synced = begun;
        for batch in self.chunks.chunks(BATCH) {
            let full = synced.elapsed() >= SYNC_AFTER;
            database
                .execute_batch(if full { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" })
                .unwrap();
            if full {
                synced = Instant::now();
            }
            insert(&mut database, "events", batch);
        }
        let took = begun.elapsed().as_secs_f64();
        drop(database);
        fs::remove_file(path).unwrap();
        self.chunks.len() as f64 / took
    }
}

fn rows(source: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = source.prepare(sql).unwrap();
    let columns = statement.column_count();
    let read = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
    statement.query_map([], read).unwrap().map(Result::unwrap).collect()
}

fn insert(database: &mut Connection, table: &str, rows: &[Vec<Value>]) {
    let Some(first) = rows.first() else { return };
    let marks = vec!["?"; first.len()].join(", ");
    let transaction = database.transaction().unwrap();
    {
        let mut statement =
            transaction.prepare_cached(&format!("INSERT INTO {table} VALUES ({marks})")).unwrap();
        for row in rows {
            statement.execute(params_from_iter(row)).unwrap();
        }
    }
    transaction.commit().unwrap();
}
