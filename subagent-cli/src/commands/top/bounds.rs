//! How much of what agents say is kept for a screen. Pure.

use serde_json::Value;

/// Of a message or thought the end is kept, of other texts the beginning: this many bytes.
pub(super) const MAX_TEXT: usize = 64 * 1024;

/// Cuts all texts of a value, and says how much is missing.
pub(super) fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_TEXT => {
            let kept = text.floor_char_boundary(MAX_TEXT);
            let missing = text.len() - kept;
            text.truncate(kept);
            text.push_str(&format!("... ({missing} bytes more)"));
            text.shrink_to_fit();
        }
        Value::Array(values) => values.iter_mut().for_each(cut),
        Value::Object(members) => members.values_mut().for_each(cut),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_character_wherever_it_is() {
        let mut value = json!({"a": [{"b": "ä".repeat(MAX_TEXT)}, 1], "c": "short"});
        cut(&mut value);
        let text = value["a"][0]["b"].as_str().unwrap();
        assert!(text.ends_with("ä... (65536 bytes more)"), "{}", &text[MAX_TEXT - 2..]);
        assert_eq!((&value["c"], &value["a"][1]), (&json!("short"), &json!(1)));
    }
}
