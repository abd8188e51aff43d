//! Finds the program that another program starts. Pure.
//!
//! Only known options are interpreted; the word after an unknown option may be its value.

use super::text::ShellText;

/// Returns the index of the program that `name` starts, and whether it is certain. It is uncertain after an
/// assignment.
pub(super) fn program(name: &str, words: &[ShellText]) -> (usize, bool) {
    let (mut at, mut sure) = (1, true);
    // `timeout` takes a duration before the program.
    let mut time = name == "timeout";
    while let Some(word) = words.get(at) {
        let text = word.shown.as_str();
        if text.starts_with('-') {
            match option(name, text) {
                OptionArity::Bare => {}
                OptionArity::Number => {
                    at += 1;
                    sure &= words.get(at).is_some_and(|word| word.known().is_some_and(is_number));
                }
                OptionArity::Unknown => {
                    sure = false;
                    // A number is more likely the option's value than a program.
                    if words.get(at + 1).is_some_and(|word| is_number(&word.shown)) {
                        at += 1;
                    }
                }
            }
        } else if is_assignment(text) {
            sure = false;
        } else if time && is_number(text) {
            time = false;
        } else {
            break;
        }
        at += 1;
    }
    (at, sure)
}

/// Whether this is `exec`. Its redirects stay if it has no program, and in an interactive shell also if
/// its program does not start.
pub(super) fn is_exec(words: &[ShellText]) -> bool {
    let in_front = |word: &ShellText| {
        word.shown.starts_with('-') || matches!(word.shown.as_str(), "builtin" | "command" | "time")
    };
    let at = words.iter().take_while(|word| in_front(word)).count();
    words.get(at).is_some_and(|word| {
        let may_be_exec = word.is_unknown() && program("exec", &words[at..]).0 >= words.len() - at;
        word.shown == "exec" || may_be_exec
    })
}

/// Programs that pass all their arguments to a local or remote shell.
pub(super) const TAKE_LINES: &[&str] =
    &["busybox", "flock", "parallel", "script", "ssh", "su", "toybox", "watch"];

/// Whether a word that selects the started program is known only at run time.
pub(super) fn is_open(name: &str, words: &[ShellText]) -> bool {
    if TAKE_LINES.contains(&name) {
        return words.iter().any(ShellText::is_open);
    }
    let decides = |word: &&ShellText| {
        word.shown.starts_with('-')
            || is_assignment(&word.shown)
            || is_number(&word.shown)
            || word.is_unknown()
    };
    words[1..].iter().take_while(decides).any(ShellText::is_unknown)
}

enum OptionArity {
    Bare,
    Number,
    Unknown,
}

fn option(name: &str, text: &str) -> OptionArity {
    let letter_and_number = |letters: &str| {
        text.strip_prefix('-')
            .and_then(|text| text.strip_prefix(|char| letters.contains(char)))
            .is_some_and(is_number)
    };
    match (name, text) {
        ("env", "-" | "-i" | "--ignore-environment")
        | ("command", "--" | "-p" | "-v" | "-V")
        | ("exec", "--" | "-c")
        | ("setsid", "-c" | "-f" | "-w" | "--ctty" | "--fork" | "--wait")
        | ("time", "-p" | "-v")
        | ("timeout", "-v" | "--foreground" | "--preserve-status" | "--verbose")
        | ("builtin" | "nohup", "--") => OptionArity::Bare,
        ("nice", _) if text.strip_prefix('-').is_some_and(is_number) || letter_and_number("n") => {
            OptionArity::Bare
        }
        ("ionice", _) if letter_and_number("cn") => OptionArity::Bare,
        ("timeout", _) if letter_and_number("k") => OptionArity::Bare,
        ("stdbuf", _) if letter_and_number("ioe") || matches!(text, "-iL" | "-oL" | "-eL") => {
            OptionArity::Bare
        }
        ("nice", "-n") | ("ionice", "-c" | "-n") | ("timeout", "-k") | ("stdbuf", "-i" | "-o" | "-e") => {
            OptionArity::Number
        }
        _ => OptionArity::Unknown,
    }
}

/// Whether an option of `env` splits a text into words.
pub(super) fn splits(text: &str) -> bool {
    text.starts_with("--s") || (text.starts_with('-') && !text.starts_with("--") && text.contains('S'))
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    })
}

/// Whether a text is a number or a duration.
fn is_number(text: &str) -> bool {
    let number = text.trim_end_matches(['s', 'm', 'h', 'd']);
    !number.is_empty() && number.chars().all(|char| char.is_ascii_digit() || char == '.')
}
