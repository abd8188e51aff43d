//! The smallest value that fits a JSON schema, for an agent's requests outside the conversation
//! (which model to use, who speaks next). Pure. Covers the part of JSON Schema that vendors accept
//! for structured output: `type` in either case, `enum`, `minimum`, `minItems`, `required`.

use serde_json::{Map, Value, json};

use super::script::ModelResponseStep;

/// Returns the response to a request outside a turn: a value of the wanted shape, or a text.
pub(super) fn aside(body: &Value) -> Vec<ModelResponseStep> {
    let schemas = [
        "/output_config/format/schema",
        "/output_format/schema",
        "/response_format/json_schema/schema",
        "/text/format/schema",
    ];
    let schema = schemas.iter().find_map(|place| body.pointer(place));
    vec![ModelResponseStep::Text(
        schema.map_or_else(|| "An aside".into(), |schema| sample(schema).to_string()),
    )]
}

/// Returns a value that `schema` allows; an empty object without a schema.
pub(super) fn sample(schema: &Value) -> Value {
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        return first.clone();
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("object").to_ascii_lowercase();
    match kind.as_str() {
        "string" => json!("sample"),
        // 1 instead of 0: scores and ranks begin there, and rarely declare it in the schema.
        "integer" | "number" => {
            schema.get("minimum").filter(|value| value.is_number()).cloned().unwrap_or(json!(1))
        }
        "boolean" => json!(false),
        "null" => Value::Null,
        "array" => {
            let wanted = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            (0..wanted).map(|_| sample(schema.get("items").unwrap_or(&Value::Null))).collect()
        }
        _ => Value::Object(object(schema)),
    }
}

fn object(schema: &Value) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    required
        .filter_map(Value::as_str)
        .map(|name| {
            let property = schema.get("properties").and_then(|properties| properties.get(name));
            (name.to_owned(), sample(property.unwrap_or(&Value::Null)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_a_routing_question() {
        let schema = json!({
            "type": "OBJECT",
            "properties": {"reason": {"type": "STRING"}, "score": {"type": "INTEGER"}, "more": {"type": "STRING"}},
            "required": ["reason", "score"],
        });
        assert_eq!(sample(&schema), json!({"reason": "sample", "score": 1}));
    }

    #[test]
    fn takes_what_the_schema_prescribes() {
        assert_eq!(sample(&json!({"type": "string", "enum": ["user", "model"]})), json!("user"));
        assert_eq!(sample(&json!({"type": "number", "minimum": 2.5})), json!(2.5));
        assert_eq!(
            sample(&json!({"type": "array", "minItems": 2, "items": {"type": "boolean"}})),
            json!([false, false])
        );
        assert_eq!(sample(&Value::Null), json!({}));
    }
}
