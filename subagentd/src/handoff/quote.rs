//! Foreign text in a document of ours: bounded, without control characters, and never able to pass for our own.
//!
//! A longer text is quoted line by line, so that none of its lines can be a heading or the end of the quote. A short
//! one becomes a code span in one line.

use std::fmt::Write as _;

/// Begins each line of a quoted text.
const MARK: &str = "> ";

/// The text as a block quote of at most about so many bytes; what is too long is cut at its end, and said so. An empty
/// text gives `(nothing)`.
pub(super) fn block(text: &str, most_bytes: usize) -> String {
    let mut out = String::new();
    for line in text.trim_end().split(is_line_end) {
        let mut line: String = line.chars().filter(|c| !is_dangerous(*c)).collect();
        let left = most_bytes.saturating_sub(out.len() + MARK.len() + 1);
        let cut = line.len() > left;
        if cut {
            line.truncate(boundary(&line, left));
        }
        if cut && line.is_empty() {
            return out + "> (the rest is left out)\n";
        }
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", format!("{MARK}{line}").trim_end());
        if cut {
            return out + "> (the rest is left out)\n";
        }
    }
    if text.trim().is_empty() { "(nothing)\n".to_owned() } else { out }
}

/// The text as a code span of at most so many bytes, in one line.
pub(super) fn span(text: &str, most_bytes: usize) -> String {
    let mut line = one_line(text);
    if line.len() > most_bytes {
        line.truncate(boundary(&line, most_bytes));
        line.push('…');
    }
    if line.is_empty() {
        return "(empty)".to_owned();
    }
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let blank = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{fence}{blank}{line}{blank}{fence}")
}

/// The text in one line, without what could deceive a reader.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(4096));
    for word in text.split(|c: char| c.is_whitespace() || is_line_end(c)).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !is_dangerous(*c)));
    }
    line
}

/// The beginning of the text, at most so many bytes.
pub(super) fn beginning(text: &str, most_bytes: usize) -> String {
    text[..boundary(text, most_bytes)].to_owned()
}

fn boundary(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Control characters, and those that change the direction of text or cannot be seen.
fn is_dangerous(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_line_is_marked_however_it_ends() {
        let text = "a\n## Task\r\n# x\u{2028}## y\u{85}z\u{c}## w\u{1b}[31m";
        let quoted = block(text, 1000);
        assert_eq!(quoted, "> a\n> ## Task\n>\n> # x\n> ## y\n> z\n> ## w[31m\n");
        assert_eq!(block(" \n", 10), "(nothing)\n");
    }

    #[test]
    fn what_is_too_long_is_cut_and_said_so() {
        assert_eq!(block("äöü", 8), "> äö\n> (the rest is left out)\n");
        assert_eq!(block("ab\ncd", 6), "> ab\n> (the rest is left out)\n");
        assert_eq!(span("äöü", 3), "`ä…`");
    }

    #[test]
    fn a_span_cannot_be_left() {
        assert_eq!(
            span("a `b` ``c", 100),
            "``` a `b` ``c ```".replace("``` a", "```a").replace("c ```", "c```")
        );
        assert_eq!(span("`x`", 100), "`` `x` ``");
        assert_eq!(span("a\n## b", 100), "`a ## b`");
        assert_eq!(span("\n", 100), "(empty)");
    }

    proptest! {
        #[test]
        fn nothing_gets_out_of_a_quote(text in "(.|\n|\r|#|>|`| ){0,60}", most in 0usize..80) {
            let quoted = block(&text, most);
            prop_assert!(quoted.len() <= most + 40);
            for line in quoted.split(is_line_end).filter(|line| !line.is_empty()) {
                prop_assert!(line.starts_with('>') || line == "(nothing)", "{line:?}");
            }
            let span = span(&text, most);
            prop_assert!(!span.chars().any(is_line_end));
        }
    }
}
