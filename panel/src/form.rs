//! The fields of a form that an agent has described, as a page shows them. Labels are clean; names and
//! values are what an answer must hold, so they stay as they are. No I/O.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subagent_protocol::clean::{clean, one_line};
use subagent_protocol::lenient::{self, Lenient};

/// What the page needs of the schema of a form.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ShownFormSchema {
    properties: Lenient<Map<String, Value>>,
    required: Lenient<BTreeSet<String>>,
}

/// The schema of one field.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FieldSchema {
    r#type: Lenient<String>,
    title: Lenient<String>,
    description: Lenient<String>,
    format: Lenient<String>,
    r#enum: Lenient<Vec<Value>>,
    enum_names: Lenient<Vec<String>>,
    one_of: Lenient<Vec<ChoiceSchema>>,
    any_of: Lenient<Vec<ChoiceSchema>>,
    items: Lenient<Box<FieldSchema>>,
    default: Lenient<Value>,
}

#[derive(Deserialize)]
struct ChoiceSchema {
    r#const: Value,
    #[serde(default)]
    title: Lenient<String>,
}

/// A field as JSON for the page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownField {
    name: String,
    label: String,
    description: Option<String>,
    kind: FieldKind,
    /// The format of a text, such as `email`.
    format: Option<String>,
    required: bool,
    choices: Vec<ShownChoice>,
    /// The value that the agent proposes.
    usual: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum FieldKind {
    Yes,
    One,
    Many,
    Number,
    Integer,
    Text,
}

#[derive(Serialize)]
struct ShownChoice {
    value: Value,
    label: String,
}

/// Returns the fields of a form in their order. What cannot be read of its schema is left out.
pub(crate) fn fields(schema: &Value) -> Vec<ShownField> {
    let ShownFormSchema { properties, required } = lenient::read(schema);
    let required = required.0.unwrap_or_default();
    let properties = properties.0.unwrap_or_default();
    properties
        .into_iter()
        .map(|(name, field)| ShownField::of(lenient::take(field), required.contains(&name), name))
        .collect()
}

impl ShownField {
    fn of(field: FieldSchema, required: bool, name: String) -> Self {
        let FieldSchema {
            r#type,
            title,
            description,
            format,
            r#enum,
            enum_names,
            one_of,
            any_of: _,
            items,
            default,
        } = field;
        let of_items =
            items.0.map(|items| choices(items.r#enum, Lenient(None), items.any_of.0.or(items.one_of.0)));
        let own = choices(r#enum, enum_names, one_of.0);
        let (kind, choices) = match (r#type.0.as_deref(), of_items) {
            (Some("boolean"), _) => (FieldKind::Yes, Vec::new()),
            (Some("array"), Some(many)) if !many.is_empty() => (FieldKind::Many, many),
            _ if !own.is_empty() => (FieldKind::One, own),
            (Some("number"), _) => (FieldKind::Number, own),
            (Some("integer"), _) => (FieldKind::Integer, own),
            _ => (FieldKind::Text, own),
        };
        let usual = match (&kind, default.0) {
            // The person sends what stands there, so it must be what they see.
            (FieldKind::Text, Some(Value::String(text))) => Some(Value::String(one_line(&text))),
            (FieldKind::Many, usual) => usual.filter(Value::is_array),
            (_, usual) => usual,
        };
        Self {
            label: label(title.0.as_deref(), &name),
            description: description.0.map(|text| clean(&text).into_owned()),
            name,
            kind,
            format: format.0,
            required,
            choices,
            usual,
        }
    }
}

fn choices(
    listed: Lenient<Vec<Value>>,
    names: Lenient<Vec<String>>,
    titled: Option<Vec<ChoiceSchema>>,
) -> Vec<ShownChoice> {
    let Some(values) = listed.0 else {
        let titled = titled.unwrap_or_default().into_iter();
        return titled
            .map(|ChoiceSchema { r#const, title }| ShownChoice::of(r#const, title.0.as_deref()))
            .collect();
    };
    let mut names = names.0.unwrap_or_default().into_iter();
    values.into_iter().map(|value| ShownChoice::of(value, names.next().as_deref())).collect()
}

impl ShownChoice {
    fn of(value: Value, title: Option<&str>) -> Self {
        let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self { label: label(title, &plain), value }
    }
}

/// Returns the title, or the name if nothing of the title can be seen.
fn label(title: Option<&str>, name: &str) -> String {
    title.map(one_line).filter(|title| !title.is_empty()).unwrap_or_else(|| one_line(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(schema: &Value) -> Value {
        serde_json::to_value(fields(schema)).unwrap()
    }

    #[test]
    fn labels_are_clean_and_values_are_those_of_the_agent() {
        let hidden = "A\u{202e}B\u{200b}C";
        let schema = json!({"required": [hidden], "properties": {
            hidden: {"type": "string", "title": "\u{200b} ", "description": "\u{2066}d", "default": hidden, "format": "email"},
            "one": {"type": "string", "enum": [hidden, "b"], "enumNames": ["N\u{202e}1"], "default": "b"},
            "many": {"type": "array", "items": {"anyOf": [{"const": hidden, "title": "T\u{200b}1"}, {"const": 2}]}},
        }});
        let shown = shown(&schema);
        assert_eq!(shown[0]["name"], hidden);
        assert_eq!(shown[0]["label"], "ABC");
        assert_eq!(shown[0]["description"], "d");
        assert_eq!(shown[0]["usual"], "ABC");
        assert_eq!((&shown[0]["required"], &shown[0]["format"]), (&json!(true), &json!("email")));
        assert_eq!(
            shown[1]["choices"],
            json!([{"value": hidden, "label": "N1"}, {"value": "b", "label": "b"}])
        );
        assert_eq!((&shown[1]["kind"], &shown[1]["usual"]), (&json!("one"), &json!("b")));
        assert_eq!(shown[2]["kind"], "many");
        assert_eq!(
            shown[2]["choices"],
            json!([{"value": hidden, "label": "T1"}, {"value": 2, "label": "2"}])
        );
    }

    #[test]
    fn each_type_has_its_kind_and_nonsense_is_text_or_nothing() {
        let schema = json!({"properties": {
            "a": {"type": "boolean", "default": true}, "b": {"type": "number"}, "c": {"type": "integer"},
            "d": {"oneOf": [{"const": 1, "title": "one"}]}, "e": {"type": "array"}, "f": 7,
            "g": {"type": ["string"], "title": {}, "enum": "no", "items": 3}, "h": {"enum": []},
        }});
        let kinds: Vec<_> = fields(&schema).iter().map(|field| json!(field)["kind"].clone()).collect();
        assert_eq!(kinds, ["yes", "number", "integer", "one", "text", "text", "text", "text"]);
        for nonsense in [json!(null), json!([]), json!({"properties": []}), json!("x")] {
            assert!(fields(&nonsense).is_empty(), "{nonsense}");
        }
    }
}
