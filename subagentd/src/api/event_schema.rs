//! Checks the generated JSON Schemas against `docs/events.schema.json` and
//! `docs/hooks.schema.json`. Update them with `UPDATE_OPENAPI=1 cargo test -p subagentd
//! event_schema`.

use std::path::Path;

use serde_json::Value;
use subagent_protocol::data::schema;

#[test]
fn the_schema_is_what_the_types_say() {
    is_current("events.schema.json", &schema::events());
}

#[test]
fn the_schema_of_hooks_is_what_the_types_say() {
    is_current("hooks.schema.json", &schema::hooks());
}

fn is_current(name: &str, schema: &Value) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    let mut text = serde_json::to_string_pretty(schema).unwrap();
    text.push('\n');
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let how = "run `UPDATE_OPENAPI=1 cargo test -p subagentd event_schema`";
    assert!(kept == text, "docs/{name} is out of date: {how}");
}
