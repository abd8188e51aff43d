//! How deep a JSON value that is shown may be nested. Pure.
//!
//! Readers of JSON give up at 128 levels. What an agent sent may have nearly as many, and is shown inside of an event
//! inside of an envelope: one such value must not make a whole list of events unreadable.

use serde_json::Value;

/// Most levels of a value inside of an event or a record. Around it there are fewer than 20 more.
const MOST_SHOWN: usize = 100;

/// The value with `null` for what is nested too deep to be read wherever it is shown.
#[must_use]
pub fn shown(mut value: Value) -> Value {
    cut(&mut value, MOST_SHOWN);
    value
}

fn cut(value: &mut Value, left: usize) {
    if left == 0 && (value.is_array() || value.is_object()) {
        *value = Value::Null;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| cut(item, left - 1)),
        Value::Object(members) => members.values_mut().for_each(|member| cut(member, left - 1)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> Value {
        serde_json::from_str(&format!("{}{}", "[".repeat(levels), "]".repeat(levels))).unwrap()
    }

    #[test]
    fn what_fits_is_kept_and_what_does_not_is_null() {
        assert_eq!(shown(nested(MOST_SHOWN)), nested(MOST_SHOWN));
        for levels in [MOST_SHOWN + 1, 127] {
            let text = shown(nested(levels)).to_string();
            assert_eq!(text, format!("{}null{}", "[".repeat(MOST_SHOWN), "]".repeat(MOST_SHOWN)));
        }
        let flat = serde_json::json!({"a": [1, "x", null, {"b": {}}]});
        assert_eq!(shown(flat.clone()), flat);
    }
}
