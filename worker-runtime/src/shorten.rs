//! Shortens texts, and JSON whose shape must stay.
//!
//! Pure. Does not change values within the limit.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

/// Marks the place of a cut.
const ELLIPSIS: &str = "…";
/// Maximum length of a shortened text within JSON, in bytes. Encoded it may be twice as long.
const TEXT_BYTES: usize = 4096;
/// Maximum JSON length of one byte of text: `\u0000`.
const ESCAPED_BYTES: usize = 6;
/// With less space than this, a text is omitted.
const LEAST_BYTES: usize = 64;

/// Returns the text, or its beginning with an ellipsis, in at most `max` bytes.
pub(crate) fn text(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let kept = text.floor_char_boundary(max.saturating_sub(ELLIPSIS.len()));
    format!("{}{}", &text[..kept], if max < ELLIPSIS.len() { "" } else { ELLIPSIS })
}

/// Returns the value unchanged if its JSON has at most `max` bytes. Otherwise shortens long texts
/// and keeps only the first entries of lists and objects, in their order, to meet the limit.
pub(crate) fn value(value: &Value, max: usize) -> Value {
    if encoded_bytes(value) <= max {
        return value.clone();
    }
    let mut left = max;
    cut(value, &mut left).unwrap_or(Value::Null)
}

/// Returns `None` if no space is left for the value.
fn cut(value: &Value, left: &mut usize) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            *left = left.checked_sub(encoded_bytes(value))?;
            Some(value.clone())
        }
        Value::String(long) => {
            let max = (*left).min(2 * TEXT_BYTES);
            let mut kept = text(long, TEXT_BYTES);
            if encoded_bytes(&kept) > max {
                kept = (max >= LEAST_BYTES).then(|| text(long, (max - 2) / ESCAPED_BYTES))?;
            }
            *left = left.checked_sub(encoded_bytes(&kept))?;
            Some(kept.into())
        }
        Value::Array(items) => {
            *left = left.checked_sub("[]".len())?;
            Some(items.iter().map_while(|item| cut_entry(item, ",".len(), left)).collect())
        }
        Value::Object(entries) => {
            *left = left.checked_sub("{}".len())?;
            let entries = entries.iter().map_while(|(key, item)| {
                Some((key.clone(), cut_entry(item, encoded_bytes(key) + ":,".len(), left)?))
            });
            Some(Value::Object(entries.collect()))
        }
    }
}

fn cut_entry(item: &Value, around: usize, left: &mut usize) -> Option<Value> {
    *left = left.checked_sub(around)?;
    cut(item, left)
}

/// Returns the length of its JSON text.
fn encoded_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    struct ByteCounter(usize);
    impl Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    // Neither counting nor encoding text and JSON can fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Generates JSON of all shapes, some of it long.
    pub(crate) fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (any::<String>(), 0_usize..400).prop_map(|(text, times)| text.repeat(times).into()),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_fits_and_what_fits_stays(long in any_json(), max in 4_usize..20_000) {
            let short = value(&long, max);
            prop_assert!(short.to_string().len() <= max);
            prop_assert_eq!(long.to_string().len() <= max, short == long);
        }

        #[test]
        fn text_fits_and_what_fits_stays(long in ".{0,80}", max in 0_usize..200) {
            let short = text(&long, max);
            prop_assert!(short.len() <= max);
            prop_assert_eq!(long.len() <= max, short == long);
        }
    }

    #[test]
    fn the_first_fields_survive() {
        let error = json!({"code": "X", "message": "m".repeat(100_000), "retryable": false, "details": {"a": "b".repeat(100_000)}});
        let short = value(&error, 32 * 1024);
        assert_eq!((&short["code"], &short["retryable"]), (&json!("X"), &json!(false)));
        assert!(short["message"].as_str().unwrap().ends_with("m…"));
        assert!(short["details"]["a"].as_str().unwrap().len() > 1000);
    }
}
