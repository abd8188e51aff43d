//! JSON as people and scripts get it from this project: keys sorted, `, ` and `: ` between, non-ASCII as it is.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use serde_json::{Map, Serializer, Value};

/// One line, without its newline.
pub(super) fn one_line(value: &Value) -> String {
    written(value, Spaced)
}

/// Indented by two spaces, with a newline at the end.
pub(super) fn indented(value: &Value) -> String {
    written(value, PrettyFormatter::new()) + "\n"
}

fn written(value: &Value, formatter: impl Formatter) -> String {
    let mut text = Vec::new();
    // A JSON value can always be written to memory.
    let _ = sorted(value).serialize(&mut Serializer::with_formatter(&mut text, formatter));
    String::from_utf8_lossy(&text).into_owned()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(Map::from_iter(pairs))
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value = json!({ "b": [{ "d": null, "c": "ü" }, 1], "a": {}, "e": [] });
        assert_eq!(one_line(&value), r#"{"a": {}, "b": [{"c": "ü", "d": null}, 1], "e": []}"#);
        let text = indented(&json!({ "b": 1, "a": 2 }));
        assert_eq!(text, "{\n  \"a\": 2,\n  \"b\": 1\n}\n");
    }
}
