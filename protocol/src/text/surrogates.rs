//! JSON text with an escaped half of a surrogate pair (`"\ud83d"` without its other half). Programs
//! that cut UTF-16 text at any position write such text. RFC 8259 permits it, but Rust strings
//! cannot represent it. Only that half becomes U+FFFD. Must not repair anything else.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// Length of `\uXXXX`, in bytes.
const ESCAPE_BYTES: usize = 6;
const REPLACEMENT: &str = "\\ufffd";

/// Parses JSON text that may contain single halves of surrogate pairs; each becomes U+FFFD.
///
/// Text without them is parsed unchanged, at no extra cost.
///
/// # Errors
///
/// `serde_json`'s error for the original text.
pub fn parse<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| match replaced(text) {
        Cow::Owned(text) => serde_json::from_str(&text),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Replaces each escape of half of a surrogate pair by `\ufffd`; borrowed if there is none.
#[must_use]
pub fn replaced(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    // Text before this position is in `out` already.
    let mut taken = 0;
    let mut at = 0;
    // A backslash outside a string makes the text invalid anyway, so strings
    // need not be distinguished.
    while let Some(found) = text.as_bytes()[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        match (unit(text, at), unit(text, at + ESCAPE_BYTES)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 2 * ESCAPE_BYTES,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str(&text[taken..at]);
                out.push_str(REPLACEMENT);
                at += ESCAPE_BYTES;
                taken = at;
            }
            // The character after the backslash does not begin another escape. It may
            // be the last one.
            _ => at = (at + 2).min(text.len()),
        }
    }
    if taken == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[taken..]);
    Cow::Owned(out)
}

/// Returns the UTF-16 unit of the escape `\uXXXX` at this position, if there is one.
fn unit(text: &str, at: usize) -> Option<u32> {
    let digits = text.as_bytes().get(at..at + ESCAPE_BYTES)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn only_lone_halves_are_replaced() {
        for (text, expected) in [
            (r#""hello \ud83d""#, "hello \u{fffd}"),
            (r#""\uDE00 world""#, "\u{fffd} world"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\u0041\n""#, "\u{fffd}A\n"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\\\ud83d\\""#, "\\\u{fffd}\\"),
            (r#""ä\ud83dä""#, "ä\u{fffd}ä"),
        ] {
            assert_eq!(parse::<String>(text).unwrap(), expected, "{text}");
        }
        for text in [r#""\ud83d"#, r#""\ud83""#, r#""\x""#, "\\", "\\ä", "\"\\ud83d\\"] {
            assert!(parse::<Value>(text).is_err(), "{text}");
        }
    }

    /// Generates content of a JSON string.
    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-zä\u{1f600}]{0,3}",
            prop::sample::select(vec![r"\\", r"\n", r"\u0041", r"\/", r#"\""#, r"\u00e4"])
                .prop_map(str::to_owned),
            (0xd800_u32..=0xdfff, any::<bool>()).prop_map(|(unit, upper)| match upper {
                true => format!("\\u{unit:04X}"),
                false => format!("\\u{unit:04x}"),
            }),
            (0xd800_u32..=0xdbff, 0xdc00_u32..=0xdfff)
                .prop_map(|(high, low)| format!("\\u{high:04x}\\u{low:04x}")),
        ]
    }

    proptest! {
        #[test]
        fn halves_never_make_text_unreadable(pieces in prop::collection::vec(piece(), 0..12)) {
            let text = format!(r#"{{"k":["{}"],"n":1.50}}"#, pieces.concat());
            let repaired = replaced(&text);
            prop_assert!(serde_json::from_str::<Value>(&repaired).is_ok(), "{}", repaired);
            prop_assert_eq!(repaired.len(), text.len());
            prop_assert!(matches!(replaced(&repaired), Cow::Borrowed(_)), "nothing is left to replace");
            if serde_json::from_str::<Value>(&text).is_ok() {
                prop_assert_eq!(&*repaired, &*text);
            }
            prop_assert!(parse::<Value>(&text).is_ok());
        }

        #[test]
        fn valid_json_is_not_changed(words in prop::collection::vec(any::<String>(), 0..5)) {
            let plain = serde_json::to_string(&words).unwrap();
            prop_assert!(matches!(replaced(&plain), Cow::Borrowed(_)));
            // All of it as escapes, including pairs.
            let escaped: Vec<String> = words
                .iter()
                .map(|word| format!("\"{}\"", word.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>()))
                .collect();
            let escaped = format!("[{}]", escaped.join(","));
            prop_assert!(matches!(replaced(&escaped), Cow::Borrowed(_)));
            prop_assert_eq!(parse::<Vec<String>>(&escaped).unwrap(), words);
        }

        #[test]
        fn arbitrary_text_never_panics(text in r"[\\uda-fD0-9ä\x22]{0,60}") {
            let _ = replaced(&text);
        }
    }
}
