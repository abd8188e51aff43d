//! How much of what agents say is kept for a screen. Pure.

use serde_json::Value;

/// Of a message, a thought and the output of a command the end is kept, of other texts the beginning: this many bytes.
pub(super) const MAX_TEXT: usize = 64 * 1024;

/// What a command has printed.
const TERMINAL_OUTPUT: &str = "terminalOutput";

/// Keeps the end of a text.
pub(super) fn keep_end(text: &mut String) {
    // Twice as much may gather, so that not every piece moves all of it.
    if text.len() > 2 * MAX_TEXT {
        let start = text.ceil_char_boundary(text.len() - MAX_TEXT);
        text.replace_range(..start, "... ");
    }
}

/// Cuts a member of an object.
pub(super) fn cut_member(key: &str, value: &mut Value) {
    match value {
        Value::String(text) if key == TERMINAL_OUTPUT => keep_end(text),
        value => cut(value),
    }
}

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
        Value::Object(members) => members.iter_mut().for_each(|(key, value)| cut_member(key, value)),
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

    #[test]
    fn of_the_output_of_a_command_the_end_is_kept() {
        let mut value = json!({"terminalOutput": format!("{}end", "ä".repeat(2 * MAX_TEXT))});
        cut(&mut value);
        let text = value["terminalOutput"].as_str().unwrap();
        assert!(text.starts_with("... ä") && text.ends_with("äend") && text.len() <= MAX_TEXT + 4);
    }
}
