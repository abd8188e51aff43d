//! JSON as every program here prints it: keys sorted by code point, separators `", "` and `":
//! "`, no unnecessary escapes.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use serde_json::{Map, Value};

/// Returns the value as one line, without a newline at its end.
#[must_use]
pub fn line(value: Value) -> String {
    written(value, Spaced)
}

/// Writes the result of [`line()`] and a newline. Sorts the keys in place.
///
/// # Errors
///
/// The error of the writer.
pub fn write_line(value: &mut Value, out: &mut impl io::Write) -> io::Result<()> {
    write(value, Spaced, &mut *out)?;
    out.write_all(b"\n")
}

/// Adds members to an object, and replaces those of the same name. A null becomes an object.
pub fn extend<const N: usize>(document: &mut Value, members: [(&str, Value); N]) {
    if document.is_null() {
        *document = Value::Object(Map::new());
    }
    if let Value::Object(document) = document {
        document.extend(members.map(|(name, value)| (name.to_owned(), value)));
    }
}

/// Returns the value indented by two spaces, with a newline at its end.
#[must_use]
pub fn indented(value: Value) -> String {
    written(value, PrettyFormatter::new()) + "\n"
}

fn written(mut value: Value, formatter: impl Formatter) -> String {
    let mut bytes = Vec::with_capacity(256);
    // Neither a Value nor a Vec can fail here; a parser would notice an empty line.
    let _ = write(&mut value, formatter, &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

fn write(value: &mut Value, formatter: impl Formatter, out: &mut impl io::Write) -> io::Result<()> {
    // The workspace preserves the order of keys (another crate enables that in serde_json).
    value.sort_all_objects();
    Ok(value.serialize(&mut Serializer::with_formatter(out, formatter))?)
}

/// Like serde_json's compact form, with one space after each comma and colon.
struct Spaced;

impl Spaced {
    fn separate<W: ?Sized + io::Write>(writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
}

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        Self::separate(writer, first)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        Self::separate(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth_and_separators_have_a_space() {
        let value = json!({"ok": true, "data": {"b": [1, {"z": null, "a": 2.0}], "a": {}}, "Z": []});
        assert_eq!(
            line(value),
            r#"{"Z": [], "data": {"a": {}, "b": [1, {"a": 2.0, "z": null}]}, "ok": true}"#
        );
    }

    #[test]
    fn a_file_for_people_is_indented_and_ends_with_a_newline() {
        assert_eq!(indented(json!({"b": ["ü"], "a": 2})), "{\n  \"a\": 2,\n  \"b\": [\n    \"ü\"\n  ]\n}\n");
    }

    #[test]
    fn only_necessary_escapes_are_written() {
        assert_eq!(
            line(json!("ä\u{1f600}\u{2028}/\"\\\n\u{1}\u{7f}")),
            "\"ä\u{1f600}\u{2028}/\\\"\\\\\\n\\u0001\u{7f}\""
        );
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_is_one_line_that_reads_back(value in values()) {
            let text = line(value.clone());
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
