//! Names of workers, which people type instead of ids. Pure.
//!
//! Does not know which names are in use; the store does.

use crate::error::{Code, Error};

/// Maximum length of a name, in characters.
pub const MAX_CHARS: usize = 64;

/// The address of the worker that was started or addressed last.
pub const LAST: &str = "@last";

/// Minimum length of an id prefix that addresses a worker, in characters.
pub const MIN_ID_PREFIX: usize = 4;

/// Prefixes of ids. A name never looks like an id, so it never hides one.
const ID_PREFIXES: &[&str] = &["w_", "turn_", "ap_", "ctl_", "ci_", "hs_", "rule_", "ev_", "sess_"];

fn fits(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '-' | '_' | '.')
}

/// Checks a name chosen by a user.
///
/// # Errors
///
/// `INVALID_ARGUMENT{field: "name"}` for an invalid name.
pub fn check(name: &str) -> Result<(), Error> {
    let folded = key(name);
    let wrong = match name.chars().next() {
        None => "is empty",
        Some(first) if !first.is_alphanumeric() => "begins with neither a letter nor a digit",
        _ if !name.chars().all(fits) => "has other characters than letters, digits, `-`, `_` and `.`",
        _ if name.chars().count() > MAX_CHARS => "is longer than 64 characters",
        _ if ID_PREFIXES.iter().any(|prefix| folded.starts_with(prefix)) => "begins like an id",
        _ => return Ok(()),
    };
    let message = format!("the name {:?} {wrong}", crate::clean::one_line(name));
    Err(Error::new(Code::InvalidArgument, message)
        .with("field", "name")
        .recommend("use 1 to 64 letters, digits, `-`, `_` and `.`, for example `fix-login`"))
}

/// Returns the form in which names are compared: two names with the same key are the same name.
#[must_use]
pub fn key(name: &str) -> String {
    name.to_lowercase()
}

/// Returns a name made from other text (a launcher's or a task's name): characters not allowed
/// in names become `-`.
#[must_use]
pub fn of_text(text: &str, fallback: &str) -> String {
    let replaced: String = text.chars().map(|char| if fits(char) { char } else { '-' }).collect();
    let trimmed = replaced.trim_matches(|char: char| !char.is_alphanumeric());
    let cut: String = trimmed.chars().take(MAX_CHARS).collect();
    if check(&cut).is_ok() { cut } else { fallback.to_owned() }
}

/// Returns the part of a name before `-NUMBER`: short enough for every number.
#[must_use]
pub fn base(name: &str) -> String {
    /// A hyphen and the digits of the largest number.
    const MAX_ENDING: usize = 21;
    name.chars().take(MAX_CHARS - MAX_ENDING).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_a_word_that_is_no_id() {
        let longest = "x".repeat(MAX_CHARS);
        for name in ["codex-1", "auth", "fix.login_2", "7", "größe", "wow", &longest] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let too_long = "x".repeat(MAX_CHARS + 1);
        for name in ["", "-x", "a b", "a/b", "@last", "w_0123456789", "W_x", "ap_1", "a\u{1b}[2J", &too_long]
        {
            assert_eq!(check(name).unwrap_err().code, Code::InvalidArgument, "{name}");
        }
    }

    #[test]
    fn a_made_name_keeps_what_fits() {
        for (text, name) in [
            ("codex", "codex"),
            ("Test Runner", "Test-Runner"),
            (" \n", "worker"),
            ("w_1", "worker"),
            ("-a-", "a"),
        ] {
            assert_eq!(of_text(text, "worker"), name, "{text:?}");
        }
        assert_eq!(base("codex"), "codex");
    }

    proptest! {
        #[test]
        fn every_made_name_is_a_name(text in "\\PC{0,80}", number in 1..u64::MAX) {
            let name = of_text(&text, "worker");
            prop_assert!(check(&name).is_ok());
            let numbered = format!("{}-{number}", base(&name));
            prop_assert!(check(&numbered).is_ok());
        }
    }
}
