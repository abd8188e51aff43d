//! Commands of the shell itself that carry out text, or change what later words mean. Pure.
//!
//! The index of an array is an expression, and an expression can start commands.

use super::text::Text;
use super::variables;

/// They define names, read settings, or carry out text in a way that this module does not take apart.
const NOT_READ: &[&str] = &[
    "-",
    "always",
    "end",
    "float",
    "foreach",
    "function",
    "integer",
    "nocorrect",
    "noglob",
    "private",
    "repeat",
    "select",
    "alias",
    "autoload",
    "bind",
    "bindkey",
    "compadd",
    "compctl",
    "compgen",
    "complete",
    "compopt",
    "compset",
    "coproc",
    "disable",
    "emulate",
    "enable",
    "fc",
    "functions",
    "hash",
    "history",
    "jobs",
    "let",
    "print",
    "sched",
    "setopt",
    "shopt",
    "trap",
    "unalias",
    "unhash",
    "unsetopt",
    "vared",
    "zcompile",
    "zformat",
    "zle",
    "zmodload",
    "zparseopts",
    "zpty",
    "zregexparse",
    "zsocket",
    "zstyle",
    "ztcp",
];
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
/// Parameters that are always numbers.
const ALWAYS_NUMBERS: &[&str] = &["$?", "$#", "$!", "$$"];
/// Operators of tests between two numbers, and the one that takes a descriptor.
const COMPARES_NUMBERS: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-t"];
/// Words beside numbers in a test that compares them; the first two are always numbers.
const PLAIN_IN_TESTS: &[&str] = &["$?", "$#", "!", "]", "]]"];
/// They take numbers, which zsh reads as expressions.
const NUMBERS: &[&str] = &["kill", "popd", "printf", "pushd", "ulimit", "umask"];
/// Settings that do not change which commands a line has.
pub(super) const HARMLESS_SETTINGS: &[&str] =
    &["errexit", "errtrace", "nounset", "pipefail", "verbose", "xtrace"];

/// Why a command with these words may carry out text; `None` if it does not.
pub(super) fn carries_out(name: &str, words: &[Text]) -> Option<String> {
    let carries = match name {
        "set" => !sets_plainly(words),
        "printf" if counts(words) => true,
        "." | "source" => words.first().is_none_or(|file| !is_script(file)),
        // What `trap` runs stands in an argument; to take it back runs nothing.
        "trap" => words.first().is_none_or(|first| first.known() != Some("-")),
        name if NOT_READ.contains(&name) => !words.is_empty(),
        name => has_expression(name, words),
    };
    carries.then(|| format!("`{name}` may carry out what it is given"))
}

/// Whether this is a file that a shell can read as its script, and not its input.
pub(super) fn is_script(file: &Text) -> bool {
    let other = |file: &str| ["-", "/dev/", "/proc/"].iter().any(|start| file.starts_with(start));
    !file.is_unknown() && !file.shown.is_empty() && !other(&file.shown)
}

/// Whether these words of `set` are harmless options only.
fn sets_plainly(words: &[Text]) -> bool {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some(letters) = word.known().and_then(|word| word.strip_prefix(['-', '+'])) else { return false };
        if letters.is_empty() || !letters.chars().all(|char| "euxo".contains(char)) {
            return false;
        }
        let mut setting = || rest.next().and_then(Text::known).map(str::to_owned);
        if letters.contains('o') && !setting().is_some_and(|word| HARMLESS_SETTINGS.contains(&word.as_str()))
        {
            return false;
        }
    }
    !words.is_empty()
}

/// Whether `printf` reads an argument as a number which only the running shell knows.
fn counts(words: &[Text]) -> bool {
    let format = words.first().map(|format| format.shown.clone()).unwrap_or_default();
    let text = ["%%", "%s", "%b", "%q"].iter().fold(format, |text, directive| text.replace(directive, ""));
    text.contains('%') && words.iter().skip(1).any(Text::is_open)
}

/// Whether the operator of a test is known only when the line runs.
fn has_open_operator(words: &[Text]) -> bool {
    let text = |word: &&Text| !matches!(word.shown.as_str(), "]" | "]]" | "!");
    let operands: Vec<&Text> = words.iter().filter(text).collect();
    match operands.as_slice() {
        [] | [_] => false,
        [operator, _] | [_, operator, _] => operator.is_open(),
        more => more.iter().any(|word| word.is_open()),
    }
}

/// Whether a word may be an expression with an index.
fn has_expression(name: &str, words: &[Text]) -> bool {
    match name {
        "[" | "[[" | "test" => {
            let text = |word: &Text| word.shown.clone();
            let compares = words.iter().map(text).any(|word| COMPARES_NUMBERS.contains(&word.as_str()));
            // What is no number there may be an expression.
            let number = |word: &str| word.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
            let plain = |word: &str| number(word) || word.starts_with('-') || PLAIN_IN_TESTS.contains(&word);
            has_open_operator(words)
                || words.iter().any(|word| {
                    let shown = word.shown.as_str();
                    matches!(shown, "-v" | "-R")
                        || word.known_part().contains('[')
                        || (name != "[[" && word.splits && !plain(shown))
                        || (compares && !plain(shown))
                })
        }
        // The name of a variable comes first; the rest is text.
        "printf" if words.first().is_none_or(|first| first.is_open() || first.shown.starts_with("-v")) => {
            true
        }
        name if NAMES.contains(&name) => words.iter().any(|word| {
            let (name, value) = match word.shown.split_once('=') {
                Some((name, _)) => (name, Some(word)),
                None => (word.shown.as_str(), None),
            };
            let plain = name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
            // With `-i` what is assigned is an expression, and `mapfile -C` runs a command.
            let letters = name.strip_prefix('-').filter(|letters| !letters.contains(['i', 'C']));
            let known = word.known().is_some() || (plain && value.is_some());
            let assigns = plain && value.is_some_and(|word| variables::problem(word).is_some());
            !known
                || assigns
                || !(plain || letters.is_some_and(|letters| letters.chars().all(char::is_alphanumeric)))
        }),
        "break" | "bye" | "continue" | "exit" | "logout" | "return" | "shift" => {
            words.iter().any(|word| word.is_open() && !ALWAYS_NUMBERS.contains(&word.shown.as_str()))
                || words.iter().any(|word| word.known_part().contains('['))
        }
        name if NUMBERS.contains(&name) => words.iter().any(|word| {
            let literal = word.known_part();
            literal.contains('[') && literal.contains(['$', '`'])
        }),
        _ => false,
    }
}
