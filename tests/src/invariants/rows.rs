//! Rows of a query as text, for the sentence of a violation.

use rusqlite::Connection;

/// Returns the rows of a query, each as one text, for a violation's sentence.
pub(super) fn rows(database: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = database.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map([], |row| {
        let mut text = Vec::new();
        for (index, name) in columns.iter().enumerate() {
            let value = match row.get_ref(index)? {
                rusqlite::types::ValueRef::Null => "null".to_owned(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Real(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(bytes) | rusqlite::types::ValueRef::Blob(bytes) => {
                    String::from_utf8_lossy(bytes).into_owned()
                }
            };
            text.push(format!("{name} {value}"));
        }
        Ok(text.join(", "))
    })?;
    rows.collect()
}

/// Returns a violation for each row of a query.
pub(super) fn none_of(database: &Connection, what: &str, sql: &str) -> rusqlite::Result<Vec<String>> {
    Ok(rows(database, sql)?.into_iter().map(|row| format!("{what}: {row}")).collect())
}
