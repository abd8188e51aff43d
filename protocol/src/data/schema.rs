//! Generates the JSON Schemas of events and hook inputs, `docs/events.schema.json` and
//! `docs/hooks.schema.json`, from the types. They allow unknown fields and kinds, because later
//! versions add some.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::event_data::schema_of;
use super::progress::ToolCall;
use super::updates;
use crate::event::{Event, EventType};
use crate::hook_input::HookInput;

type CollectedSchemas = Vec<(String, RefOr<Schema>)>;

/// A type by its name, and all types it refers to.
pub(super) struct NamedSchema {
    name: String,
    schemas: CollectedSchemas,
}

pub(super) fn named<T: ToSchema + PartialSchema>() -> NamedSchema {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    NamedSchema { name: T::name().into_owned(), schemas }
}

/// Returns the schema of an event as it is shown.
///
/// # Panics
///
/// Never: schemas are valid JSON.
#[must_use]
pub fn events() -> Value {
    let mut types: BTreeMap<String, Value> = BTreeMap::new();
    let mut add = |named: NamedSchema| -> Value {
        for (name, schema) in named.schemas {
            types.entry(name).or_insert_with(|| definition(&schema));
        }
        json!({"$ref": reference(&named.name)})
    };
    let event = add(named::<Event>());
    let mut rules = Vec::new();
    for event_type in EventType::ALL {
        if let Some(named) = schema_of(*event_type) {
            let data = add(named);
            rules.push(rule("type", event_type.as_str(), json!({"properties": {"data": data}})));
        }
    }
    let update = json!({"$ref": reference("ProgressUpdate")});
    rules.push(rule("type", EventType::ProgressUpdate.as_str(), json!({"properties": {"data": update}})));
    let kinds: Vec<Value> =
        updates::kinds().into_iter().map(|(kind, named)| rule("kind", kind, add(named))).collect();
    add(named::<ToolCall>());
    types.insert("ProgressUpdate".to_owned(), progress_update(kinds));
    // A permission request contains everything known of a tool call except its status.
    if let Some(mut call) = types.get("ToolCall").map(|call| call["properties"].clone())
        && let Some(call) = call.as_object_mut()
        && let Some(asked) =
            types.get_mut("ApprovalRequested").and_then(|asked| asked["properties"].as_object_mut())
    {
        call.retain(|name, _| name != "status" && name != "closedBy");
        asked.append(call);
    }
    rules.insert(0, event);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event",
        "description": "An event as `watch` shows it; see events.md. Later versions may add fields and kinds.",
        "allOf": rules,
        "$defs": types,
    })
}

/// Returns the schema of a hook's standard input: `docs/hooks.schema.json`.
///
/// # Panics
///
/// Never: schemas are valid JSON.
#[must_use]
pub fn hooks() -> Value {
    let named = named::<HookInput>();
    let types: BTreeMap<String, Value> =
        named.schemas.iter().map(|(name, schema)| (name.clone(), definition(schema))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "HookInput",
        "description": "What a hook reads from its standard input; see hooks.md. Later versions may add fields.",
        "$ref": reference(&named.name),
        "$defs": types,
    })
}

/// Returns a condition: `then` applies if `name` has this value.
fn rule(name: &str, word: &str, then: Value) -> Value {
    json!({"if": {"properties": {name: {"const": word}}, "required": [name]}, "then": then})
}

fn progress_update(kinds: Vec<Value>) -> Value {
    json!({
        "type": "object",
        "description": "Anything else that the agent reported. A kind that stands not here has no fields.",
        "required": ["method", "kind"],
        "properties": {
            "method": {
                "type": ["string", "null"],
                "description": "What it was derived from; null of an option that the agent was not asked to set.",
            },
            "kind": {"type": "string", "description": "Which fields there are."},
            "sessionId": {
                "type": "string",
                "description": "Another session than the worker's, which the agent runs below it; absent of its own.",
            },
        },
        "allOf": kinds,
    })
}

fn reference(name: &str) -> String {
    format!("#/$defs/{name}")
}

fn definition(schema: &RefOr<Schema>) -> Value {
    let mut value = serde_json::to_value(schema).unwrap_or_default();
    adapt(&mut value);
    value
}

/// Makes references local to this document, and removes null from optional fields.
fn adapt(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(adapt),
        Value::Object(members) => {
            if let Some(Value::String(to)) = members.get_mut("$ref") {
                *to = to.replace("#/components/schemas/", "#/$defs/");
            }
            let required: Vec<Value> =
                members.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                for (name, property) in properties {
                    if !required.contains(&Value::String(name.clone())) {
                        not_null(property);
                    }
                }
            }
            members.values_mut().for_each(adapt);
        }
        _ => {}
    }
}

fn not_null(property: &mut Value) {
    let Value::Object(property) = property else { return };
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|word| word != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            property.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(either)) = property.get_mut("oneOf") {
        either.retain(|one| one["type"] != "null");
        if let [Value::Object(only)] = either.as_slice() {
            let only: Map<String, Value> = only.clone();
            property.remove("oneOf");
            property.extend(only.into_iter().filter(|(name, _)| name != "description"));
        }
    }
}
