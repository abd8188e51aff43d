//! Compares JSON with a pattern exactly: no key may be missing or added, no type may differ.

// A string in a pattern names the expected type: `str`, `int`, `float`, `bool`, `list`, `object`,
// `any`, `ts` (a timestamp as the contract prints it), or the prefix of an id (`ctl`, `ci`, `w`,
// `turn`, `ev`, `ap`, `hs`, `sess`). A trailing `?` also allows null; `=text` is exactly that
// text. A key that ends with `!` may be absent. A list with one pattern means any number of such
// values. Other lists, numbers, bools and null stand for themselves.

use serde_json::Value;

/// The prefixes of ids, with their number of hex digits.
const IDS: &[(&str, usize)] =
    &[("ctl", 10), ("ci", 12), ("w", 10), ("turn", 10), ("ev", 12), ("ap", 10), ("hs", 10), ("sess", 12)];

/// Asserts that the value matches the pattern.
///
/// # Panics
///
/// With the path of the difference.
#[track_caller]
pub fn assert_shape(value: &Value, pattern: &Value) {
    let mut wrong = Vec::new();
    compare("", value, pattern, &mut wrong);
    assert!(wrong.is_empty(), "{}\nin {value:#}", wrong.join("\n"));
}

fn compare(path: &str, value: &Value, pattern: &Value, wrong: &mut Vec<String>) {
    match (pattern, value) {
        (Value::String(word), _) => {
            if !is(value, word) {
                wrong.push(format!("{path}: {value} is not {word:?}"));
            }
        }
        (Value::Object(patterns), Value::Object(members)) => {
            for (key, pattern) in patterns {
                let name = key.strip_suffix('!').unwrap_or(key);
                match members.get(name) {
                    Some(member) => compare(&format!("{path}.{name}"), member, pattern, wrong),
                    None if key.ends_with('!') => {}
                    None => wrong.push(format!("{path}.{name}: is missing")),
                }
            }
            for name in members.keys() {
                if !patterns.contains_key(name) && !patterns.contains_key(&format!("{name}!")) {
                    wrong.push(format!("{path}.{name}: is not in the contract"));
                }
            }
        }
        (Value::Array(patterns), Value::Array(items)) => match patterns.as_slice() {
            [pattern] => {
                for (index, item) in items.iter().enumerate() {
                    compare(&format!("{path}[{index}]"), item, pattern, wrong);
                }
            }
            _ if patterns.len() == items.len() => {
                for (index, (item, pattern)) in items.iter().zip(patterns).enumerate() {
                    compare(&format!("{path}[{index}]"), item, pattern, wrong);
                }
            }
            _ => wrong.push(format!("{path}: has {} items, not {}", items.len(), patterns.len())),
        },
        _ if value == pattern => {}
        _ => wrong.push(format!("{path}: {value} is not {pattern}")),
    }
}

fn is(value: &Value, word: &str) -> bool {
    if let Some(text) = word.strip_prefix('=') {
        return value == text;
    }
    if let Some(word) = word.strip_suffix('?') {
        return value.is_null() || is(value, word);
    }
    match word {
        "any" => true,
        "str" => value.is_string(),
        "int" => value.is_i64() || value.is_u64(),
        "float" => value.is_f64(),
        "bool" => value.is_boolean(),
        "list" => value.is_array(),
        "object" => value.is_object(),
        "ts" => value.as_str().is_some_and(is_timestamp),
        prefix => value.as_str().is_some_and(|text| is_id(text, prefix)),
    }
}

fn is_id(text: &str, prefix: &str) -> bool {
    let Some((_, digits)) = IDS.iter().find(|(known, _)| *known == prefix) else { return false };
    let hex = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_'));
    hex.is_some_and(|hex| {
        hex.len() == *digits && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Whether it looks like `2026-11-21T20:29:42+00:00`.
fn is_timestamp(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00+00:00"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differs(value: Value, pattern: Value) -> bool {
        let mut wrong = Vec::new();
        compare("", &value, &pattern, &mut wrong);
        !wrong.is_empty()
    }

    #[test]
    fn what_fits_fits() {
        assert_shape(
            &json!({"id": "w_0123456789", "at": "2026-11-21T20:29:42+00:00", "n": 1, "s": null, "l": [{"a": 1.5}], "o": "x"}),
            &json!({"id": "w", "at": "ts", "n": "int", "s": "str?", "l": [{"a": "float"}], "o!": "=x", "p!": "any"}),
        );
    }

    #[test]
    fn every_difference_is_seen() {
        for (value, pattern) in [
            (json!({}), json!({"a": "any"})),
            (json!({"a": 1}), json!({})),
            (json!({"a": 1}), json!({"a": "float"})),
            (json!({"a": null}), json!({"a!": "str"})),
            (json!("w_012345678"), json!("w")),
            (json!("w_0123456789"), json!("turn")),
            (json!("W_0123456789"), json!("w")),
            (json!("2026-11-21T20:29:42Z"), json!("ts")),
            (json!("idle"), json!("=running")),
            (json!([1, "x"]), json!(["int"])),
            (json!([1]), json!([])),
            (json!([]), json!([1, 2])),
            (json!(true), json!(false)),
            (json!("x"), json!("no such word")),
        ] {
            assert!(differs(value.clone(), pattern.clone()), "{value} {pattern}");
        }
    }
}
