//! Values for the schemas of the description: mostly valid, sometimes not.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use subagent_tests::harness::Random;

/// At greater nesting depths, only required fields are generated.
const MAX_DEPTH: usize = 6;
/// One of this many values has a type other than the schema's.
const WRONG: u64 = 40;

/// Texts that often reveal errors in parsers.
const TEXTS: &[&str] = &[
    "",
    " ",
    "x",
    "0",
    "-1",
    "null",
    "w_0000000000",
    "turn_0000000000",
    "ev_000000000001",
    "ctl_0000000000",
    "turn.completed,turn.failed",
    "a=b",
    "execute(ls *)",
    "../../x",
    "%00%2e%2f",
    "two\nlines",
    "\u{0}",
    "\u{202e}\u{feff}é🙂",
    "'; DROP TABLE workers; --",
    "!say hello",
];

/// Numbers at the limits of types.
const NUMBERS: &[i64] =
    &[0, 1, -1, 2, 50, 255, 256, 65_536, i32::MAX as i64, u32::MAX as i64, i64::MAX, i64::MIN];

/// The generator of a request.
pub(super) struct Values<'a> {
    pub(super) random: Random,
    pub(super) document: &'a Value,
    /// One of this many optional fields is present.
    pub(super) optional: u64,
    /// Values of this world by the name of their field.
    pub(super) known: BTreeMap<&'static str, Vec<Value>>,
}

impl Values<'_> {
    pub(super) fn chance(&mut self, one_in: u64) -> bool {
        self.random.below(one_in) == 0
    }

    pub(super) fn text(&mut self) -> String {
        if self.chance(30) {
            return "long ".repeat(2_000);
        }
        (*self.random.pick(TEXTS)).to_owned()
    }

    /// Returns a value for a field with this name and schema.
    pub(super) fn value(&mut self, name: &str, schema: &Value, depth: usize) -> Value {
        // The time of a wait is always limited.
        let waits = name.starts_with("timeout");
        if !waits && !name.is_empty() && self.chance(WRONG) {
            return self.wrong();
        }
        if (waits || !self.chance(8))
            && let Some(known) = self.known.get(name)
        {
            return self.random.pick(known).clone();
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let schema = self.document.pointer(reference.trim_start_matches('#')).unwrap();
            return self.value(name, schema, depth + 1);
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let mut whole = Map::new();
            for part in parts {
                if let Value::Object(fields) = self.value("", part, depth) {
                    whole.extend(fields);
                }
            }
            return whole.into();
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let choice = self.random.pick(choices);
            return self.value(name, choice, depth + 1);
        }
        if let Some(words) = schema["enum"].as_array() {
            return self.random.pick(words).clone();
        }
        let of_type = match &schema["type"] {
            Value::Array(types) => self.random.pick(types).as_str().unwrap().to_owned(),
            of_type => of_type.as_str().unwrap_or("object").to_owned(),
        };
        match of_type.as_str() {
            "null" => Value::Null,
            "boolean" => self.chance(2).into(),
            "integer" => (*self.random.pick(NUMBERS)).into(),
            "number" => match self.random.below(4) {
                0 => json!(0.5),
                1 => json!(1e300),
                _ => (*self.random.pick(NUMBERS)).into(),
            },
            "string" if schema["pattern"].is_string() => json!("QQ=="),
            "string" => self.text().into(),
            "array" => self.array(name, schema, depth),
            _ => self.object(schema, depth),
        }
    }

    fn array(&mut self, name: &str, schema: &Value, depth: usize) -> Value {
        if let Some(items) = schema["prefixItems"].as_array() {
            return items.iter().map(|item| self.value(name, item, depth + 1)).collect();
        }
        let count = if depth > MAX_DEPTH { 0 } else { self.random.below(3) };
        (0..count).map(|_| self.value(name, &schema["items"], depth + 1)).collect()
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut fields = Map::new();
        let is_required = |name: &str| {
            schema["required"].as_array().is_some_and(|required| required.iter().any(|field| field == name))
        };
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let given = match is_required(name) {
                true => !self.chance(WRONG),
                // The limits of a wait are always present.
                false => name.starts_with("timeout") || (depth <= MAX_DEPTH && self.chance(self.optional)),
            };
            if given {
                fields.insert(name.clone(), self.value(name, schema, depth + 1));
            }
        }
        if self.chance(WRONG) {
            fields.insert("unheardOf".to_owned(), self.wrong());
        }
        fields.into()
    }

    /// Returns a value of any type.
    pub(super) fn wrong(&mut self) -> Value {
        let text = self.text();
        let values = [
            Value::Null,
            json!(true),
            json!(-3),
            json!(1.5),
            json!(text),
            json!([]),
            json!([[1]]),
            json!({"x": {}}),
        ];
        self.random.pick(&values).clone()
    }
}
