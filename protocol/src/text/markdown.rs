//! Foreign text in our own Markdown documents: bounded, without control characters, and never able
//! to imitate our own text. Pure.

// A longer text is quoted line by line, so that no line can be a heading or the end of the quote.
// Where its HTML must not be interpreted either, it becomes a fenced code block. A short text
// becomes a code span in one line.

use std::fmt::Write as _;

use crate::clean::{clean, one_line};

/// Prefix of each line of a quoted text.
const MARK: &str = "> ";
/// Length of the shortest fence.
const MIN_FENCE: usize = 3;

/// Returns the text as a block quote of about at most `max_bytes`. A longer text is cut at its end,
/// with a remark. An empty text gives `(nothing)`.
#[must_use]
pub fn block(text: &str, max_bytes: usize) -> String {
    let mut out = String::new();
    let text = clean(text);
    for line in text.trim_end().split('\n') {
        let left = max_bytes.saturating_sub(out.len() + MARK.len() + 1);
        let cut = line.len() > left;
        let line = &line[..line.floor_char_boundary(left)];
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

/// Returns the text as a fenced code block with at most `max_bytes` of text. A longer text is cut
/// at its end, with a remark below the block. The fence is longer than any run of backticks in the
/// text, so no line ends the block.
#[must_use]
pub fn fenced(text: &str, max_bytes: usize) -> String {
    let text = clean(text);
    let text = text.trim_end();
    let shown = &text[..text.floor_char_boundary(max_bytes)];
    let fence = "`".repeat(longest_run(shown).saturating_add(1).max(MIN_FENCE));
    let rest = if shown.len() < text.len() { "\n(the rest is left out)\n" } else { "" };
    format!("{fence}text\n{shown}\n{fence}\n{rest}")
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Returns the text as a code span of at most `max_bytes`, in one line.
#[must_use]
pub fn span(text: &str, max_bytes: usize) -> String {
    let mut line = one_line(text);
    if line.len() > max_bytes {
        line.truncate(line.floor_char_boundary(max_bytes));
        line.push('…');
    }
    if line.is_empty() {
        return "(empty)".to_owned();
    }
    let fence = "`".repeat(longest_run(&line).saturating_add(1));
    let blank = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{fence}{blank}{line}{blank}{fence}")
}

/// Returns the beginning of the text, at most `max_bytes`.
#[must_use]
pub fn beginning(text: &str, max_bytes: usize) -> String {
    text[..text.floor_char_boundary(max_bytes)].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_line_is_marked_however_it_ends() {
        let text = "a\n## Task\r\n# x\u{2028}## y\u{85}z\u{c}## w\u{1b}[31m\u{200b}\u{202e}";
        let quoted = block(text, 1000);
        assert_eq!(quoted, "> a\n> ## Task\n> # x\n> ## y\n> z\n> ## w\n");
        assert_eq!(block(" \n", 10), "(nothing)\n");
    }

    #[test]
    fn long_text_is_cut_and_marked() {
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

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fenced("a\n```\n# b\r\n", 100), "````text\na\n```\n# b\n````\n");
        assert_eq!(fenced("äöü", 4), "```text\näö\n```\n\n(the rest is left out)\n");
        assert_eq!(fenced("\u{1b}[31mx\u{2028}</details><!--", 100), "```text\nx\n</details><!--\n```\n");
    }

    fn line_end(c: char) -> bool {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    }

    proptest! {
        #[test]
        fn nothing_gets_out_of_a_quote(text in "(.|\n|\r|#|>|`| ){0,60}", most in 0usize..80) {
            let quoted = block(&text, most);
            prop_assert!(quoted.len() <= most + 40);
            for line in quoted.split(line_end).filter(|line| !line.is_empty()) {
                prop_assert!(line.starts_with('>') || line == "(nothing)", "{line:?}");
            }
            let block = fenced(&text, most);
            let lines: Vec<&str> = block.split(line_end).collect();
            let fence = lines[0].trim_end_matches("text");
            let ends: Vec<usize> = (1..lines.len()).filter(|at| lines[*at].trim() == fence).collect();
            prop_assert_eq!(ends.len(), 1, "{}", block);
            prop_assert!(!lines[1..ends[0]].iter().any(|line| line.contains(fence)), "{}", block);
            let span = span(&text, most);
            prop_assert!(!span.chars().any(line_end));
        }
    }
}
