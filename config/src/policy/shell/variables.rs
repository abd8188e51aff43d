//! Variables that affect shells and programs. Pure.

use super::numbers;
use super::text::ShellText;

/// Variables whose values the shell executes, or which make it read other files and words.
const OF_SHELLS: &[&str] = &[
    "BASHOPTS",
    "BASH_ALIASES",
    "BASH_CMDS",
    "BASH_ENV",
    "COMP_WORDBREAKS",
    "ENV",
    "FPATH",
    "HISTCMD",
    "LINENO",
    "NULLCMD",
    "OPTIND",
    "POSIXLY_CORRECT",
    "PROMPT",
    "PROMPT2",
    "PROMPT3",
    "PROMPT4",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "RANDOM",
    "READNULLCMD",
    "RPROMPT",
    "RPS1",
    "SECONDS",
    "SHELLOPTS",
    "SPROMPT",
    "SRANDOM",
    "ZDOTDIR",
    "aliases",
    "commands",
    "dis_aliases",
    "fpath",
    "functions",
    "galiases",
    "histchars",
    "options",
    "prompt",
    "saliases",
];
/// Variables whose values zsh evaluates as expressions.
const NUMBERS: &[&str] = &[
    "BAUD",
    "COLUMNS",
    "DIRSTACKSIZE",
    "EGID",
    "EUID",
    "FUNCNEST",
    "GID",
    "HISTSIZE",
    "KEYTIMEOUT",
    "LINES",
    "LISTMAX",
    "LOGCHECK",
    "MAILCHECK",
    "MENUSCROLL",
    "PERIOD",
    "REPORTMEMORY",
    "REPORTTIME",
    "SAVEHIST",
    "SHLVL",
    "TMOUT",
    "TRY_BLOCK_ERROR",
    "TRY_BLOCK_INTERRUPT",
    "UID",
];
/// Variables that change only the output of programs.
const HARMLESS: &[&str] = &[
    "CARGO_INCREMENTAL",
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_TEST_THREADS",
    "TERM",
    "TZ",
    "VERBOSE",
];

/// Suffixes of names for the result of a command.
const OUTCOMES: &[&str] = &["PID", "STATUS", "CODE", "RC", "RESULT"];

fn name_of(assignment: &ShellText) -> &str {
    assignment.shown.split_once('=').map_or("", |(name, _)| name)
}

/// Returns why an assignment may start a program; `None` if it does not.
pub(super) fn problem(assignment: &ShellText) -> Option<String> {
    let name = name_of(assignment);
    if OF_SHELLS.contains(&name) || name.starts_with("BASH_FUNC") {
        return Some(format!("shells act by `{name}`"));
    }
    if NUMBERS.contains(&name) && !is_number(assignment) {
        return Some(format!("shells evaluate the value of `{name}`, which is not plainly a number"));
    }
    // Only quoted text matters: expansions are open units and expand once.
    let carried_out = assignment.known_part().contains(['$', '`']);
    carried_out.then(|| format!("the value of `{name}` may be carried out later"))
}

fn is_number(assignment: &ShellText) -> bool {
    let value = assignment.known().and_then(|text| text.split_once('='));
    value.is_some_and(|(_, value)| value.is_empty() || numbers::is_decimal(value))
}

/// Whether the assignment needs no rule. An assignment before a command reaches the program.
pub(super) fn is_harmless(assignment: &ShellText, alone: bool) -> bool {
    let name = name_of(assignment);
    (HARMLESS.contains(&name) && assignment.known().is_some())
        || (alone && (!changes_programs(name) || is_outcome(assignment)))
}

/// Whether the assignment stores the result of a command under a matching name, such as `SERVER_PID=$!` or
/// `STATUS=$?`.
fn is_outcome(assignment: &ShellText) -> bool {
    let outcome = assignment.shown.split_once('=').filter(|(name, value)| {
        numbers::PARAMETERS.contains(value) && OUTCOMES.iter().any(|end| name.ends_with(end))
    });
    outcome.is_some() && assignment.is_open()
}

/// Whether the assignment sets the separators of `read` for one call.
pub(super) fn is_separator(assignment: &ShellText) -> bool {
    name_of(assignment) == "IFS" && assignment.known().is_some()
}

/// Whether a variable may affect programs or the shell. Such names are in capitals, except zsh's folder
/// lists and the proxy variables.
pub(super) fn changes_programs(name: &str) -> bool {
    !name.chars().any(|char| char.is_ascii_lowercase())
        || name.ends_with("path")
        || name.ends_with("_proxy")
        || name.starts_with("npm_")
        || OF_SHELLS.contains(&name)
}
