//! Commands of the shell that carry out what stands in a name or in a number: the index of an array is an expression, and
//! an expression can start commands. Pure.

use super::words::Text;

/// They take names of variables, and some of them numbers.
const NAMES: &[&str] = &[
    "declare",
    "export",
    "getopts",
    "local",
    "mapfile",
    "read",
    "readarray",
    "readonly",
    "typeset",
    "unset",
    "wait",
];

/// Whether one of these commands could do so with these words.
pub(super) fn an_index(name: &str, words: &[Text]) -> bool {
    match name {
        "let" => true,
        // A variable may be more than one word, and bring an operator along.
        "[" | "test" => {
            let numeric =
                |word: &Text| matches!(word.shown.as_str(), "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge");
            let variable = |word: &Text| matches!(word.shown.as_str(), "-v" | "-R");
            let indexes = |word: &Text| word.shown.contains('[');
            words.iter().any(|word| word.is_open() || numeric(word) || variable(word) || indexes(word))
        }
        // The name of a variable comes first; the rest is text.
        "printf" => words.first().is_some_and(|first| first.is_open() || first.shown.starts_with("-v")),
        name if NAMES.contains(&name) => words.iter().any(|word| {
            let name = word.shown.split_once('=').map_or(word.shown.as_str(), |(name, _)| name);
            let plain = name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
            // With `-i` what is assigned is an expression.
            let letters = name.strip_prefix('-').filter(|letters| !letters.contains('i'));
            let known = word.known().is_some() || (plain && word.shown.contains('='));
            !known || !(plain || letters.is_some_and(|letters| letters.chars().all(char::is_alphanumeric)))
        }),
        _ => false,
    }
}
