//! Numeric arguments of `printf`. Pure.

use super::super::numbers;
use super::super::text::ShellText;

/// Conversions of text, and of numbers.
const OF_TEXT: &[char] = &['s', 'b', 'q', 'c'];
const OF_NUMBERS: &[char] = &['d', 'i', 'o', 'u', 'x', 'X', 'e', 'E', 'f', 'F', 'g', 'G', 'a', 'A'];

/// Returns whether `printf` may evaluate an expression or set a variable to a value known only at run time.
pub(super) fn is_risky(words: &[ShellText]) -> bool {
    let words =
        if words.first().is_some_and(|first| first.known() == Some("--")) { &words[1..] } else { words };
    let Some((format, arguments)) = words.split_first() else { return false };
    // `-v` takes the name of a variable.
    let Some(format) = format.known().filter(|format| !format.starts_with('-')) else { return true };
    match reads_numbers(format) {
        Some(directives) if !directives.contains(&true) => false,
        // The format repeats for further arguments.
        Some(directives) if !arguments.iter().any(|argument| argument.splits) => {
            let wanted = arguments.iter().zip(directives.iter().cycle());
            wanted.into_iter().any(|(argument, number)| *number && !numbers::is_plain(argument))
        }
        _ => !arguments.iter().all(numbers::is_plain),
    }
}

/// Returns for each argument whether it is read as a number; `None` if this is unknown.
fn reads_numbers(format: &str) -> Option<Vec<bool>> {
    let mut found = Vec::new();
    let mut rest = format;
    while let Some((_, directive)) = rest.split_once('%') {
        let conversion =
            directive.trim_start_matches(|char: char| char.is_ascii_digit() || "-+ #.".contains(char));
        let mut chars = conversion.chars();
        match chars.next()? {
            '%' => {}
            char if OF_TEXT.contains(&char) => found.push(false),
            char if OF_NUMBERS.contains(&char) => found.push(true),
            _ => return None,
        }
        rest = chars.as_str();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_as_a_number_must_be_one() {
        let text = |word: &&str| match word.starts_with('$') {
            true => ShellText { splits: false, ..ShellText::open(word) },
            false => ShellText::literal(word),
        };
        let table: &[(&[&str], bool)] = &[
            (&["%s\\n", "x", "$x"], false),
            (&["%-10s %5.2f%%\\n", "$name", "1.5"], false),
            (&["%s %d", "a", "1", "$b", "2"], false),
            (&["--", "%d", "3"], false),
            (&["%d", "x"], true),
            (&["%d", "-x"], true),
            (&["--", "%d", "x"], true),
            (&["%s %d", "a", "1", "b", "c"], true),
            (&["%*s", "x", "a"], true),
            (&["%1$d", "x"], true),
            (&["%(%s)T", "x"], true),
            (&["-v", "x", "a"], true),
            (&["$x", "a"], true),
        ];
        for (words, expected) in table {
            let words: Vec<ShellText> = words.iter().map(text).collect();
            assert_eq!(is_risky(&words), *expected, "{words:?}");
        }
    }
}
