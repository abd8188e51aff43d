//! Which tools, sources or kinds a hook applies to: the `matcher` of Claude Code.

use regex_lite::{Regex, RegexBuilder};

/// Maximum length of a matcher, in bytes.
pub const MAX_MATCHER_BYTES: usize = 1024;
/// Maximum memory of a compiled matcher, in bytes.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// A hook's matcher after parsing.
#[derive(Debug, Clone)]
pub struct Matcher(Option<Regex>);

impl Matcher {
    /// Parses a matcher. Absent, empty and `*` match everything. Other texts are regular
    /// expressions that have to match the whole name, case-sensitively.
    ///
    /// # Errors
    ///
    /// Why the text is not a matcher.
    pub fn parse(text: Option<&str>) -> Result<Self, String> {
        let Some(text) = text.map(str::trim).filter(|text| !text.is_empty() && *text != "*") else {
            return Ok(Self(None));
        };
        if text.len() > MAX_MATCHER_BYTES {
            return Err(format!("is longer than {MAX_MATCHER_BYTES} bytes"));
        }
        RegexBuilder::new(&format!("^(?:{text})$"))
            .size_limit(MAX_COMPILED_BYTES)
            .build()
            .map(|regex| Self(Some(regex)))
            .map_err(|error| {
                format!("is not a regular expression: {error}; write a name, or names like `Edit|Write`")
            })
    }

    /// Whether the hook applies to this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|regex| regex.is_match(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matcher_is_for_whole_names() {
        let matches = |matcher: Option<&str>, name: &str| Matcher::parse(matcher).unwrap().matches(name);
        for all in [None, Some(""), Some(" "), Some("*"), Some(".*")] {
            assert!(matches(all, "Bash") && matches(all, ""), "{all:?}");
        }
        assert!(matches(Some("Bash"), "Bash") && !matches(Some("Bash"), "BashOutput"));
        assert!(!matches(Some("Bash"), "bash"));
        assert!(matches(Some("Edit|Write"), "Write") && !matches(Some("Edit|Write"), "NotebookEdit"));
        assert!(matches(Some("mcp__memory__.*"), "mcp__memory__read"));
    }

    #[test]
    fn an_invalid_matcher_is_refused() {
        for bad in ["(", "[a", "a{1000}{1000}{1000}", &"x".repeat(MAX_MATCHER_BYTES + 1)] {
            assert!(Matcher::parse(Some(bad)).is_err(), "{bad}");
        }
    }
}
