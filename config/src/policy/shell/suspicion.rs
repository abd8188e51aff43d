//! Where a denied command may hide: in an argument, a quoted text, a here-document. Pure.
//!
//! Programs that start others get them from their arguments. No list of such programs is complete, so every place counts
//! at which the name of a denied command stands.

/// Places of one line that are judged. A line with more of them is asked.
pub(in super::super) const MAX_PLACES: usize = 64;

/// What stands behind the places at which one of these names begins, up to the end of the text and up to the end of the
/// command there. `None` if there are too many.
pub(in super::super) fn behind_names(text: &str, is_name: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let text = without_quotes(text);
    let mut found = Vec::new();
    let mut at = 0;
    for word in text.split_inclusive(|char: char| !is_of_a_name(char)) {
        let name = word.trim_end_matches(|char| !is_of_a_name(char));
        if !name.is_empty() && is_name(name) {
            if found.len() >= 2 * MAX_PLACES {
                return None;
            }
            let rest = &text[at..];
            let command = rest.split([';', '|', '&', '\n', ')', '}']).next().unwrap_or_default().trim_end();
            found.push(rest.trim_end().replace('\n', " "));
            found.push(command.to_owned());
        }
        at += word.len();
    }
    Some(found)
}

fn is_of_a_name(char: char) -> bool {
    char.is_alphanumeric() || "_-.+".contains(char)
}

/// The text as it is left when shells have taken off all quotes, with one space for blanks.
fn without_quotes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for char in text.chars().filter(|char| !matches!(char, '\'' | '"' | '\\')) {
        match char {
            ' ' | '\t' if plain.ends_with(' ') => {}
            '\t' => plain.push(' '),
            char => plain.push(char),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_wherever_a_word_begins() {
        let rm = |text: &str| behind_names(text, |name| name == "rm").unwrap();
        for text in [
            "x /bin/rm y",
            "x 'rm y'",
            "x=rm y",
            "x \"r''m\" y",
            "x\trm y",
            "a;rm y",
            "x r\\m   y",
            "--x=/a/rm y",
        ] {
            assert_eq!(rm(text).first().map(String::as_str), Some("rm y"), "{text}");
        }
        for text in ["--rm y", "rm.txt", "farm y", "x-rm", "_rm"] {
            assert!(rm(text).is_empty(), "{text}");
        }
        assert_eq!(rm("x 'rm y; z'"), ["rm y; z", "rm y"]);
        assert!(behind_names(&"rm ".repeat(MAX_PLACES + 1), |name| name == "rm").is_none());
    }
}
