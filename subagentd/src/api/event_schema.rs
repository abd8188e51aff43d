//! The JSON Schema of events, held against `docs/events.schema.json`.
//! `UPDATE_OPENAPI=1 cargo test -p subagentd event_schema` writes it anew.

use std::path::Path;

use subagent_protocol::data::schema;

#[test]
fn the_schema_is_what_the_types_say() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/events.schema.json");
    let mut text = serde_json::to_string_pretty(&schema::events()).unwrap();
    text.push('\n');
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let how = "run `UPDATE_OPENAPI=1 cargo test -p subagentd event_schema`";
    assert!(kept == text, "docs/events.schema.json is out of date: {how}");
}
