//! Command lines and programs in the arguments of any program. Pure. The program may use such an
//! argument for another purpose, so no rule has to allow it. It needs an approval if a rule
//! restricts commands.

use super::starts::{self, TAKE_LINES};
use super::text::ShellText;
use super::walk::{FIND_STARTS, SHELLS, TRANSPARENT, WRAPPERS, reads_file, shell_script};
use super::{ParsedLine, numbers, read};

/// Shells with another language.
const OTHER_SHELLS: &[&str] = &["csh", "fish", "tcsh"];
/// Programs that start nothing. The name of a shell in their arguments is a text.
const STARTS_NOTHING: &[&str] =
    &["cat", "command", "echo", "egrep", "fgrep", "grep", "head", "ls", "printf", "type", "wc", "which"];
/// Programs that start a shell if no program is given, with their number of other operands.
const BECOME_SHELLS: &[(&str, usize)] = &[
    ("at", usize::MAX),
    ("batch", usize::MAX),
    ("chroot", 1),
    ("newgrp", 1),
    ("nsenter", 0),
    ("script", 1),
    ("sg", 1),
    ("ssh", 1),
    ("su", 1),
    ("unshare", 0),
];
/// Programs that start a shell because of an option.
const BECOME_SHELLS_BY_OPTION: &[&str] = &["doas", "runuser", "sudo"];
/// Maximum number of options in a cluster before an attached line.
const MAX_CLUSTER: usize = 8;

/// Searches a command for lines that it passes to shells.
pub(super) fn look(words: &[ShellText], depth: usize, line: &mut ParsedLine) {
    let Some(first) = words.first().map(name_of) else { return };
    if STARTS_NOTHING.contains(&first) {
        return;
    }
    let own = usize::from(!OTHER_SHELLS.contains(&first));
    let takes_lines = words.iter().any(|word| TAKE_LINES.contains(&name_of(word)));
    for (at, word) in words.iter().enumerate().skip(own) {
        if SHELLS.contains(&name_of(word)) || OTHER_SHELLS.contains(&name_of(word)) {
            shell(&words[at..], takes_lines, depth, line);
        }
    }
    let starts_next = |word: &&ShellText| {
        let name = name_of(word);
        word.shown.starts_with('-') || TRANSPARENT.contains(&name) || WRAPPERS.contains(&name)
    };
    let first_programs = words.iter().take_while(starts_next).count() + 1;
    if line.fed && (0..first_programs.min(words.len())).any(|at| becomes_shell(&words[at..])) {
        line.suspect("a shell that is started without a program reads its script from the input".to_owned());
    }
    for (at, word) in words.iter().enumerate() {
        match name_of(word) {
            "xargs" | "parallel" => appends(&words[at..], line),
            "env" if words[at + 1..].iter().any(|word| starts::splits(&word.shown)) => {
                line.suspect("`env` splits a text into words".to_owned());
            }
            name if TAKE_LINES.contains(&name) && !matches!(name, "busybox" | "toybox") => {
                words[at + 1..].iter().for_each(|word| argument(word, depth, line));
            }
            _ => {}
        }
    }
}

/// Returns the name of a program without its path.
fn name_of(word: &ShellText) -> &str {
    word.shown.rsplit('/').next().unwrap_or_default()
}

/// Whether a program has no program argument and starts a shell.
fn becomes_shell(words: &[ShellText]) -> bool {
    let name = name_of(&words[0]);
    let operands =
        words[1..].iter().filter(|word| !word.shown.starts_with('-') && !numbers::is_plain(word)).count();
    let asks = |word: &ShellText| {
        let letters = word.shown.strip_prefix('-').unwrap_or_default();
        matches!(word.shown.as_str(), "--shell" | "--login")
            || (!letters.starts_with('-') && letters.contains(['i', 's']))
    };
    BECOME_SHELLS.iter().any(|(program, most)| *program == name && operands <= *most)
        || (BECOME_SHELLS_BY_OPTION.contains(&name) && operands <= 1 && words[1..].iter().any(asks))
}

/// Parses a shell that another program may start.
fn shell(words: &[ShellText], takes_lines: bool, depth: usize, line: &mut ParsedLine) {
    match shell_script(words) {
        Some(script) => nested(&script, depth, line),
        None if line.fed && (takes_lines || !reads_file(words)) => {
            line.suspect(format!("`{}` may read its script from somewhere else", words[0].shown));
        }
        None => {}
    }
}

/// Parses an argument of a program that passes its arguments to a shell.
fn argument(word: &ShellText, depth: usize, line: &mut ParsedLine) {
    if word.is_open() {
        return line.suspect("what a shell is given is known only when it runs".to_owned());
    }
    let is_plain = |char: char| char.is_alphanumeric() || "_-./:,+@%=".contains(char);
    let Some(text) = word.known().filter(|text| !text.chars().all(is_plain)) else { return };
    match text.strip_prefix('-') {
        None => nested(word, depth, line),
        // The line may follow the option letters directly.
        Some(cluster) => {
            let letters = cluster.chars().take(MAX_CLUSTER).take_while(char::is_ascii_alphabetic).count();
            let starts = (1..=letters).filter_map(|at| cluster.get(at..));
            starts.for_each(|text| nested(&ShellText::literal(text), depth, line));
        }
    }
}

/// Parses a line for a shell. An unparsable line may start anything.
fn nested(script: &ShellText, depth: usize, line: &mut ParsedLine) {
    // The verdict cannot get stricter, and many lines are slow.
    if line.opaque.is_some() || line.doubt.is_some() {
        return;
    }
    let Some(text) = script.known() else {
        return line.suspect("what a shell is given is known only when it runs".to_owned());
    };
    let mut inner = ParsedLine { spent: line.spent, fed: line.fed, ..ParsedLine::default() };
    read(text, depth + 1, &mut inner);
    line.spent = inner.spent;
    line.has_room(0);
    line.loose.extend(inner.loose);
    let unknown = inner.parts.iter().any(|part| part.unknown);
    let unknown = unknown.then(|| "which program a shell starts is known only when it runs".to_owned());
    if let Some(why) = inner.opaque.or(inner.doubt).or(unknown) {
        line.suspect(format!("in a line for a shell: {why}"));
    }
}

/// `xargs` and `parallel` append their input, which must not become the program.
fn appends(words: &[ShellText], line: &mut ParsedLine) {
    let name = name_of(&words[0]);
    let mut at = 1 + options(&words[1..]);
    let placeholders: Vec<&str> = words[1..at]
        .iter()
        .zip(words.get(2..).unwrap_or_default().iter().chain([&words[0]]))
        .filter_map(|(option, value)| match option.shown.as_str() {
            "-I" => Some(value.shown.as_str()),
            text => ["-I", "-i", "--replace="]
                .iter()
                .find_map(|option| text.strip_prefix(option))
                .filter(|place| !place.is_empty()),
        })
        .chain(["{}"])
        .collect();
    let is_read = |word: &ShellText| {
        placeholders.iter().any(|place| word.shown.contains(place))
            || (name == "parallel" && word.shown.contains(['{', ':']))
    };
    let none = name == "parallel" && at >= words.len();
    let mut reads_program = none;
    while let Some(program) = words.get(at) {
        let starter = name_of(program);
        reads_program |= is_read(program);
        let rest = &words[at..];
        if SHELLS.contains(&starter) || OTHER_SHELLS.contains(&starter) {
            let script = shell_script(rest);
            reads_program |= match &script {
                Some(script) => is_read(script),
                None => !reads_file(rest),
            };
        }
        if starter == "find" {
            reads_program |= rest.last().is_some_and(|last| FIND_STARTS.contains(&last.shown.as_str()));
        }
        if !TRANSPARENT.contains(&starter) && !WRAPPERS.contains(&starter) {
            break;
        }
        let (inner, sure) = starts::program(starter, rest);
        // The last word may be the value of an option.
        let is_value =
            !sure && inner + 1 == rest.len() && inner > 1 && rest[inner - 1].shown.starts_with('-');
        reads_program |= inner >= rest.len() || is_value;
        at += inner;
    }
    if reads_program {
        line.suspect(format!("`{name}` may start a program whose name it reads"));
    }
}

/// Returns the number of words that are options of `xargs` and their values.
fn options(words: &[ShellText]) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.shown.starts_with('-')) {
        let has_value = matches!(
            word.shown.as_str(),
            "-a" | "-d" | "-E" | "-I" | "-j" | "-L" | "-n" | "-N" | "-P" | "-s" | "--jobs"
        );
        at += if has_value { 2 } else { 1 };
    }
    at.min(words.len())
}
