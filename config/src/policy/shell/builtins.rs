//! Shell builtins that execute text or change the meaning of later words. Pure.
//!
//! An array index is an expression, and an expression can start commands.

mod conditions;
mod printf;

use super::text::ShellText;
use super::{numbers, variables};

/// Builtins that define names, read settings, or execute text in a way that this module does not parse.
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
/// Builtins that set variables, with their safe options: these neither run a command nor evaluate the
/// value.
const SETS_VARIABLES: &[(&str, &str)] = &[
    ("declare", "fgprx"),
    ("export", "fnp"),
    ("getopts", ""),
    ("local", "grx"),
    ("mapfile", "dnstuO"),
    ("read", "adenNprstu"),
    ("readarray", "dnstuO"),
    ("readonly", "fp"),
    ("typeset", "fgprx"),
    ("unset", "fv"),
];
/// Builtins that assign a value known only at run time.
const READS_VALUES: &[&str] = &["getopts", "mapfile", "read", "readarray"];
/// Options of `read` that take a number.
const NUMBER_OPTIONS_OF_READ: &[char] = &['n', 'N', 't', 'u'];
/// Builtins whose arguments are numbers.
const TAKES_NUMBERS: &[&str] = &["break", "bye", "continue", "exit", "logout", "return", "shift"];
/// Builtins that start nothing.
const WITHOUT_RULE: &[&str] = &["break", "continue", "exit", "return", "shift", "wait"];
/// Settings that do not change which commands a line contains.
pub(super) const HARMLESS_SETTINGS: &[&str] =
    &["errexit", "errtrace", "nounset", "pipefail", "verbose", "xtrace"];

/// Returns why a command with these words may execute text; `None` if it does not.
pub(super) fn carries_out(name: &str, words: &[ShellText]) -> Option<String> {
    let carries = match name {
        "set" => !sets_plainly(words),
        "printf" => printf::is_risky(words),
        "[" | "[[" | "test" => conditions::is_risky(name, words),
        "wait" => !words.iter().all(|word| numbers::is_plain(word) || is_job(word)),
        "." | "source" => words.first().is_none_or(|file| !is_script(file)),
        // `trap` runs its argument; `trap -` only resets.
        "trap" => words.first().is_none_or(|first| first.known() != Some("-")),
        // They repeat earlier commands.
        "fc" | "r" => true,
        name if TAKES_NUMBERS.contains(&name) => !words.iter().all(numbers::is_plain),
        name if NOT_READ.contains(&name) => !words.is_empty(),
        name => {
            SETS_VARIABLES.iter().any(|(sets, options)| *sets == name && !sets_names(name, options, words))
        }
    };
    carries.then(|| format!("`{name}` may carry out what it is given"))
}

/// Whether a builtin starts nothing and only affects control flow.
pub(super) fn needs_no_rule(words: &[ShellText]) -> bool {
    let name = words.first().and_then(ShellText::known).unwrap_or_default();
    let plain = || words[1..].iter().all(|word| numbers::is_plain(word) || is_job(word));
    matches!(name, ":" | "true" | "false") || (WITHOUT_RULE.contains(&name) && plain())
}

/// Whether a shell reads this file as a script, not as input.
pub(super) fn is_script(file: &ShellText) -> bool {
    let other = |file: &str| ["-", "/dev/", "/proc/"].iter().any(|start| file.starts_with(start));
    !file.is_unknown() && !file.shown.is_empty() && !other(&file.shown)
}

/// Whether these words of `set` are safe options only.
fn sets_plainly(words: &[ShellText]) -> bool {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some(letters) = word.known().and_then(|word| word.strip_prefix(['-', '+'])) else { return false };
        if letters.is_empty() || !letters.chars().all(|char| "euxo".contains(char)) {
            return false;
        }
        let mut setting = || rest.next().and_then(ShellText::known).map(str::to_owned);
        if letters.contains('o') && !setting().is_some_and(|word| HARMLESS_SETTINGS.contains(&word.as_str()))
        {
            return false;
        }
    }
    !words.is_empty()
}

/// Whether the word is a job such as `%1`.
fn is_job(word: &ShellText) -> bool {
    word.known().and_then(|word| word.strip_prefix('%')).is_some_and(numbers::is_decimal)
}

/// Whether the words are safe options, ordinary variable names and plain values.
fn sets_names(command: &str, options: &str, words: &[ShellText]) -> bool {
    let mut number = false;
    words.iter().all(|word| {
        let is_number = std::mem::take(&mut number);
        if let Some(letters) = word.known().and_then(|word| word.strip_prefix('-')) {
            number = command == "read" && letters.ends_with(NUMBER_OPTIONS_OF_READ);
            return letters.chars().all(|letter| options.contains(letter) || letter.is_ascii_digit());
        }
        if is_number || numbers::is_plain(word) {
            return numbers::is_plain(word);
        }
        let name = word.shown.split('=').next().unwrap_or_default();
        let plain = name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
        match word.shown.contains('=') {
            true => plain && variables::problem(word).is_none(),
            false => {
                let harmless = !READS_VALUES.contains(&command) || !variables::changes_programs(name);
                plain && word.known().is_some() && (name.is_empty() || harmless)
            }
        }
    })
}
