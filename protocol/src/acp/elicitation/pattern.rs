//! The pattern of a text field: a regular expression in JSON Schema's dialect, which is
//! JavaScript's. Only patterns with the same meaning in Rust are checked; the form's author has to
//! check others. Patterns come from an agent, so time and memory are limited.

use regex_lite::{Regex, RegexBuilder};

/// Maximum size of a pattern in bytes; larger ones are not checked.
const MAX_PATTERN_BYTES: usize = 1000;
const MAX_MEMORY_BYTES: usize = 64 * 1024;
/// Maximum length of a checked text in bytes: the time grows with pattern times text.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// A pattern that can be checked.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Pattern {
    pub(super) fn of(text: &str) -> Option<Self> {
        // The two dialects differ in character classes: nested classes, and differences.
        let differs = ["&&", "--", "~~", "[[", "(?x", "\\z", "\\A", "\\<", "\\>", "\\b{"];
        if text.len() > MAX_PATTERN_BYTES || differs.iter().any(|other| text.contains(other)) {
            return None;
        }
        RegexBuilder::new(text).size_limit(MAX_MEMORY_BYTES).nest_limit(50).build().ok().map(Self)
    }

    pub(super) fn text(&self) -> &str {
        self.0.as_str()
    }

    pub(super) fn fits(&self, text: &str) -> bool {
        text.len() > MAX_TEXT_BYTES || self.0.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_form_that_is_asked_for() {
        for (pattern, text, fits) in [
            ("^[a-z]{2}$", "ab", true),
            ("^[a-z]{2}$", "abc", false),
            ("^[a-z]{2}$", "ab\n", false),
            ("[0-9]", "anywhere 7 in it", true),
            (r"^\d{3}-\d{4}$", "555-1234", true),
            (r"^\w+\/\w+$", "a/b", true),
            ("^(main|dev)$", "trunk", false),
            ("^.$", "ä", true),
        ] {
            assert_eq!(Pattern::of(pattern).unwrap().fits(text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn ambiguous_and_expensive_patterns_are_not_checked() {
        let long = "a".repeat(MAX_PATTERN_BYTES + 1);
        for pattern in [
            "^(?=.*x).*$",
            r"(a)\1",
            r"^\p{L}+$",
            "[a&&b]",
            "[a--b]",
            "[[a]]",
            "(",
            "((a{99}){99}){99}",
            &long,
        ] {
            assert!(Pattern::of(pattern).is_none(), "{pattern:.50}");
        }
        let nested = format!("{}a{}", "(".repeat(100), ")".repeat(100));
        assert!(Pattern::of(&nested).is_none());
        assert!(Pattern::of("^b*$").unwrap().fits(&"a".repeat(MAX_TEXT_BYTES + 1)), "left to the agent");
    }
}
