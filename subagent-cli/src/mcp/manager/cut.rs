//! Size limits of answers in bytes, because a model reads all of it. Pure.

use serde_json::{Value, json};
use subagent_protocol::json;

/// Maximum size of a page of events.
pub(super) const MAX_PAGE_BYTES: usize = 64 * 1024;
/// Maximum size of an agent's request in a question.
pub(super) const MAX_REQUEST_BYTES: usize = 8 * 1024;

/// Truncates a long value to `{"truncated": true, "bytes": ..., "start": "..."}`.
pub(super) fn cut(value: &Value, max_bytes: usize) -> Value {
    let text = value.to_string();
    if text.len() <= max_bytes {
        return value.clone();
    }
    let shown = |length: usize| {
        let start = &text[..text.floor_char_boundary(length)];
        json!({"truncated": true, "bytes": text.len(), "start": start})
    };
    let (mut length, mut found) = (max_bytes, shown(0));
    // Quoting makes the text longer.
    while length > 0 {
        let tried = shown(length);
        let bytes = tried.to_string().len();
        if bytes <= max_bytes {
            found = tried;
            break;
        }
        length = length.saturating_sub((bytes - max_bytes).div_ceil(2).max(1));
    }
    found
}

/// Returns the events that fit into a page, at least one, truncated if necessary; and whether events were
/// omitted.
pub(super) fn page(events: Vec<Value>, max_bytes: usize) -> (Vec<Value>, bool) {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for mut event in events {
        let length = event.to_string().len() + 1;
        if bytes + length > max_bytes {
            if !page.is_empty() {
                return (page, true);
            }
            let data = event.get("data").cloned().unwrap_or_default();
            let rest = length - data.to_string().len();
            json::extend(&mut event, [("data", cut(&data, max_bytes.saturating_sub(rest)))]);
        }
        bytes += event.to_string().len() + 1;
        page.push(event);
    }
    (page, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_that_is_too_long_is_cut_inside_its_limit() {
        assert_eq!(cut(&json!({"a": 1}), 100), json!({"a": 1}));
        for filler in ["a", "\u{e4}", "\"", "\u{1}", "\\"] {
            for max in [100, 101, 1000, MAX_REQUEST_BYTES] {
                let long = json!({"command": filler.repeat(20_000)});
                let cut = cut(&long, max);
                assert!(cut.to_string().len() <= max, "{filler:?} {max}");
                assert_eq!(
                    (&cut["truncated"], &cut["bytes"]),
                    (&json!(true), &json!(long.to_string().len()))
                );
                assert!(
                    max < 200 || cut["start"].as_str().unwrap().len() > max / 20,
                    "{filler:?} {max}: {cut}"
                );
            }
        }
    }

    #[test]
    fn a_page_holds_what_fits_and_never_nothing() {
        let event =
            |number: usize, bytes: usize| json!({"eventId": number, "data": {"text": "x".repeat(bytes)}});
        let events: Vec<Value> = (0..10).map(|number| event(number, 1000)).collect();
        let (found, more) = page(events.clone(), 3500);
        assert_eq!((found.len(), more), (3, true));
        let (found, more) = page(events, MAX_PAGE_BYTES);
        assert_eq!((found.len(), more), (10, false));
        let (found, more) = page(vec![event(1, 100_000), event(2, 1)], MAX_PAGE_BYTES);
        assert_eq!((found.len(), more), (1, true));
        assert_eq!((&found[0]["eventId"], &found[0]["data"]["truncated"]), (&json!(1), &json!(true)));
        assert!(found[0].to_string().len() <= MAX_PAGE_BYTES);
    }
}
