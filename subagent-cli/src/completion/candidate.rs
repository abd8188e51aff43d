//! A completion candidate, escaped for shells. Pure.

use subagent_protocol::clean::one_line;

use super::shell::Shell;

/// Maximum length of a description in characters.
const MAX_ABOUT_CHARS: usize = 60;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompletionCandidate {
    value: String,
    about: String,
}

impl CompletionCandidate {
    /// Creates a candidate; only the first line of the description is used.
    pub(super) fn new(value: &str, about: &str) -> Self {
        let about = one_line(about.lines().next().unwrap_or_default());
        Self { value: value.to_owned(), about: about.chars().map(shown).take(MAX_ABOUT_CHARS).collect() }
    }

    /// Whether it continues the typed text. A value with characters that are special in a shell never does,
    /// because bash inserts it without quotes.
    pub(super) fn fits(&self, typed: &str) -> bool {
        !self.value.is_empty()
            && self.value.chars().all(|char| char.is_alphanumeric() || "-_./@+:=,".contains(char))
            && self.value.starts_with(typed)
    }

    /// Returns the line for the shell's script.
    pub(super) fn line(&self, shell: Shell, prefix: &str) -> String {
        match (shell, self.about.is_empty()) {
            (Shell::Bash, _) | (_, true) => format!("{prefix}{}", self.value),
            (Shell::Zsh | Shell::Fish, false) => format!("{prefix}{}\t{}", self.value, self.about),
        }
    }
}

/// Replaces a character that may be special in a shell by a space.
fn shown(char: char) -> char {
    if char.is_alphanumeric() || "-_./@+:=,;()?#·…".contains(char) { char } else { ' ' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_shell_would_evaluate_is_a_candidate() {
        for evil in ["$(touch x)", "`id`", "a b", "a;b", "a\nb", "a\u{1b}[2J", "~root", "!x", "a*", "", "a'b"]
        {
            assert!(!CompletionCandidate::new(evil, "").fits(""), "{evil:?}");
        }
        for good in ["codex-1", "w_0123", "@last", "größe", "turn.completed"] {
            assert!(CompletionCandidate::new(good, "").fits(&good[..1]), "{good}");
        }
        assert!(!CompletionCandidate::new("codex", "").fits("gem"));
    }

    #[test]
    fn a_description_is_one_short_line_of_harmless_characters() {
        let about = "idle\u{1b}[31m `id` $(x)\tand %F{red} \\ \u{202e}more";
        let line = CompletionCandidate::new("codex-1", about).line(Shell::Zsh, "");
        let (value, about) = line.split_once('\t').unwrap();
        assert_eq!(value, "codex-1");
        assert!(!about.contains(['`', '$', '%', '\\', '\u{1b}', '\u{202e}', '\t']), "{about:?}");
        assert_eq!(CompletionCandidate::new("a", &"x".repeat(200)).about.chars().count(), MAX_ABOUT_CHARS);
        assert_eq!(CompletionCandidate::new("a", "what").line(Shell::Bash, "--x="), "--x=a");
    }
}
