//! Limits the nesting of JSON values that are shown. Pure. JSON parsers stop at 128 levels. An
//! agent's value may have nearly as many, and is shown within an event within an envelope. One such
//! value must not make a whole list of events unreadable.

use serde_json::Value;

/// Maximum nesting of a value in an event or a record. Fewer than 20 levels surround it.
const MAX_SHOWN: usize = 100;

/// Replaces values that are nested too deeply by `null`.
#[must_use]
pub fn shown(mut value: Value) -> Value {
    cut(&mut value, MAX_SHOWN);
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
    fn values_beyond_the_maximum_depth_become_null() {
        assert_eq!(shown(nested(MAX_SHOWN)), nested(MAX_SHOWN));
        for levels in [MAX_SHOWN + 1, 127] {
            let text = shown(nested(levels)).to_string();
            assert_eq!(text, format!("{}null{}", "[".repeat(MAX_SHOWN), "]".repeat(MAX_SHOWN)));
        }
        let flat = serde_json::json!({"a": [1, "x", null, {"b": {}}]});
        assert_eq!(shown(flat.clone()), flat);
    }
}
