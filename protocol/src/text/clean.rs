//! Makes foreign text harmless for a terminal and for a document. Pure. Labels, titles, messages
//! and errors come from agents and from others who write to them. No text may move the cursor, set
//! a title, write to the clipboard, imitate other text or hide text.

use std::borrow::Cow;

/// Removes control characters except `\n` and tabs, escape sequences, and invisible or
/// direction-changing marks. All other line ends become `\n`.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_unsafe) {
        cleaned.push_str(&rest[..at]);
        let tail = &rest[at..];
        if tail.starts_with(ends_line) && !tail.starts_with("\r\n") {
            cleaned.push('\n');
        }
        rest = &tail[sequence(tail)..];
    }
    cleaned.push_str(rest);
    Cow::Owned(cleaned)
}

/// The same as one line: line ends and tabs become spaces, trimmed at both ends.
#[must_use]
pub fn one_line(text: &str) -> String {
    clean(text)
        .split(['\n', '\t'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn is_unsafe(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // The last ones spell text that only a model reads (the block of tags of Unicode).
    let unseen = matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    turns || unseen || ends_line(c) || (c.is_control() && c != '\n' && c != '\t')
}

/// Line ends other than `\n`.
fn ends_line(c: char) -> bool {
    matches!(c, '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns the length of the escape sequence at the start, or of one character. Only the beginning
/// of an unfinished sequence counts, so that it cannot hide the rest of a text.
fn sequence(text: &str) -> usize {
    let mut chars = text.chars();
    let first = chars.next().map_or(0, char::len_utf8);
    let (introducer, body) = match chars.next() {
        Some(second) if text.starts_with('\u{1b}') => (second, first + second.len_utf8()),
        // The same as a single character.
        _ => match text.chars().next() {
            Some('\u{9b}') => ('[', first),
            Some('\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}') => (']', first),
            _ => return first,
        },
    };
    match introducer {
        '[' => body + parameters(&text[body..]),
        ']' | 'P' | 'X' | '^' | '_' => body + string(&text[body..]),
        ' '..='/' => first + parameters(&text[first..]),
        '0'..='~' => body,
        _ => first,
    }
}

/// Returns the length of parameters, intermediates and a final character; 0 without a final one.
fn parameters(text: &str) -> usize {
    match text.find(|c: char| !matches!(c, ' '..='?')) {
        Some(at) if matches!(text.as_bytes()[at], b'@'..=b'~') => at + 1,
        _ => 0,
    }
}

/// Returns the length of a string with its end; 0 without an end.
fn string(text: &str) -> usize {
    let end = |mark: &str| text.find(mark).map(|at| at + mark.len());
    [end("\u{7}"), end("\u{1b}\\"), end("\u{9c}")].into_iter().flatten().min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_are_gone_as_a_whole() {
        for (text, expected) in [
            ("plain\n\ttext \u{e4}\u{1f600}", "plain\n\ttext \u{e4}\u{1f600}"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[1;1Hx", "x"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]52;c;Zm9v\u{1b}\\x", "x"),
            ("\u{1b}Pq1\u{1b}\\x", "x"),
            ("\u{1b}(Bx\u{1b}cy", "xy"),
            ("\u{9b}31mred", "red"),
            ("\u{9d}0;title\u{9c}x", "x"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("beep\u{7}\u{8}\u{7f}", "beep"),
            ("user\u{202e}txt.exe", "usertxt.exe"),
            ("a\u{200b}b\u{feff}c\u{2060}d\u{61c}", "abcd"),
            ("a\u{e0001}b\u{e0068}\u{e0069}\u{e007f}c", "abc"),
            ("a\u{2028}b\u{85}c\u{c}d", "a\nb\nc\nd"),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_unterminated_sequence_hides_nothing() {
        assert_eq!(clean("\u{1b}]0;rest\nof it"), "0;rest\nof it");
        assert_eq!(clean("\u{1b}[12\nrest"), "12\nrest");
        assert_eq!(clean("\u{1b}"), "");
        assert_eq!(clean("\u{1b}\u{e4}"), "\u{e4}");
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(one_line(" a\n\n\tb\r\nc \u{1b}[1m"), "a b c");
    }

    proptest! {
        #[test]
        fn nothing_unsafe_is_left(text in "[\\x00-\\xa0\u{1b}\u{9b}\\[\\]a-z;0-9\u{202a}-\u{202e}\u{e0000}-\u{e007f}]{0,40}|.{0,40}") {
            prop_assert!(!clean(&text).contains(is_unsafe));
            prop_assert!(!one_line(&text).contains(char::is_control));
        }
    }
}
