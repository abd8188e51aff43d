//! A command line to the commands in it, by a parser of the shell's whole language. Pure; what it does not understand it
//! says so, and never guesses.
//!
//! The text is an agent's: so it is bounded in length and nesting before it is parsed, and parsed on a stack of its own.

mod builtins;
mod grammar;
mod nested;
mod numbers;
mod starts;
mod suspicion;
mod text;
mod variables;
mod walk;
mod words;

pub(super) use suspicion::behind_names;
pub(super) use text::Text;

/// A longer command line is not parsed.
pub const MOST_COMMAND_BYTES: usize = 16 * 1024;
/// So many commands of one line are judged.
const MOST_PARTS: usize = 256;
/// So long may all the ways be together in which they can be written: what is handed on begins at every word again.
const MOST_SPELLED_BYTES: usize = 1024 * 1024;
/// So much may begin that can hold something else (braces, brackets, loops), and so many substitutions: the parser calls
/// itself for each, and reads a substitution more than once.
const MOST_OPENERS: usize = 48;
const MOST_SUBSTITUTIONS: usize = 12;
/// So deep may a shell be given to a shell.
const MOST_SHELLS: usize = 4;
/// More than what the deepest text that is let through takes.
const STACK_BYTES: usize = 32 * 1024 * 1024;

/// A command, as it would be started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// The program without the path to it.
    pub(super) name: String,
    /// How it can be written: its words with one space between them, with and without assignments before it. All of
    /// them must be allowed.
    pub(super) spellings: Vec<Text>,
    /// The same with the name of the program where it is written as a path: only a rule that restricts counts.
    pub(super) by_name: Option<Text>,
    /// What it hands to another program to start, from each word on where that could begin.
    pub(super) handed_on: Vec<Text>,
    /// Whether only a rule counts that restricts it itself: only what it starts counts, as for `timeout`, or it starts
    /// nothing, as `exit`.
    pub(super) transparent: bool,
    /// Whether its name is known only when it runs.
    pub(super) unknown: bool,
}

/// A file that the shell itself opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    /// Whether it is written.
    pub(super) writes: bool,
    /// The path, unless it is known only when it runs.
    pub(super) path: Option<String>,
}

/// What is in a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) parts: Vec<Part>,
    pub(super) redirects: Vec<Redirect>,
    /// Arguments, values and inputs, in which the name of a denied command may stand.
    pub(super) loose: Vec<String>,
    /// Why there may be more in it than was found.
    pub(super) opaque: Option<String>,
    /// Why a program may start what rules restrict, although no name of it stands there.
    pub(super) doubt: Option<String>,
    /// Whether a command reads from a pipe, a file or a text of the line.
    fed: bool,
    /// What was made so far, also by the shells that this one is given to.
    spent: Spent,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spent {
    parts: usize,
    bytes: usize,
}

/// Takes a command line apart.
pub(super) fn split(text: &str) -> Line {
    let mut line = Line::default();
    read(text, 0, &mut line);
    if line.parts.is_empty() && line.redirects.is_empty() && line.opaque.is_none() {
        line.opaque = Some("there is no command in it".to_owned());
    }
    line
}

/// Words that need no shell, as a program is started with.
pub(super) fn of_words(words: &[String]) -> Line {
    let mut line = Line::default();
    // Words may be empty: each counts.
    if words.iter().map(|word| word.len() + 1).sum::<usize>() > MOST_COMMAND_BYTES {
        line.give_up(format!("the command is longer than {MOST_COMMAND_BYTES} bytes"));
        return line;
    }
    let texts: Vec<Text> = words.iter().map(|word| Text::literal(word)).collect();
    with_stack(&mut line, |line| walk::command(&[], &texts, 0, line));
    line
}

fn read(text: &str, depth: usize, line: &mut Line) {
    if depth > MOST_SHELLS {
        return line.give_up("a shell in a shell in a shell".to_owned());
    }
    if let Some(why) = too_much(text) {
        return line.give_up(why);
    }
    let why = match grammar::read(text) {
        Ok(script) => return take_apart(script, depth, line),
        Err(why) => why,
    };
    // Nothing of it is allowed. What is denied in it is looked for by a parser of bash's whole language.
    line.loose.push(text.to_owned());
    with_stack(line, |line| match rable::parse(text, false) {
        Ok(nodes) => walk::nodes(&nodes, depth, line),
        Err(error) => {
            // The position is counted in characters.
            let message = error.message();
            line.give_up(format!("it cannot be parsed at character {}: {message}", error.pos() + 1));
        }
    });
    line.give_up(why);
}

/// The commands of a line that all shells read alike.
fn take_apart(script: grammar::Script, depth: usize, line: &mut Line) {
    for variable in &script.variables {
        if variables::changes_programs(variable) {
            line.give_up(format!("the loop sets `{variable}`, which may change what programs do"));
        }
    }
    line.loose.extend(script.inputs);
    line.fed |= script.fed;
    for grammar::Command { assignments, words, has_comment, moves_input, redirects } in script.commands {
        for (operator, path) in &redirects {
            walk::opens(operator, path, line);
        }
        if has_comment && words.first().is_some_and(walk::starts_others) {
            line.give_up("a comment stands behind a command that starts others".to_owned());
        }
        if moves_input && starts::is_bare_exec(&words) {
            line.give_up(
                "`exec` without a program changes what the shell reads its commands from".to_owned(),
            );
        }
        if let Some(why) = assignments.iter().find_map(variables::problem) {
            line.give_up(why);
        }
        line.loose.extend(assignments.iter().map(|assignment| assignment.shown.clone()));
        if !assignments.is_empty() || !words.is_empty() {
            let at = line.parts.len();
            walk::command(&assignments, &words, depth, line);
            if assignments.is_empty() && builtins::needs_no_rule(&words) {
                line.parts[at..].iter_mut().for_each(|part| part.transparent = true);
            }
        }
    }
}

/// Looks for commands on a stack that is large enough.
fn with_stack(line: &mut Line, look: impl FnOnce(&mut Line) + Send) {
    let (spent, fed) = (line.spent, line.fed);
    let parsed = std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(STACK_BYTES);
        parser
            .spawn_scoped(scope, || {
                let mut found = Line { spent, fed, ..Line::default() };
                look(&mut found);
                found
            })
            .map_err(|error| error.to_string())
            .and_then(|thread| thread.join().map_err(|_| "the parser failed".to_owned()))
    });
    match parsed {
        Ok(found) => line.take(found),
        Err(why) => line.give_up(format!("it cannot be parsed: {why}")),
    }
}

impl Line {
    fn take(&mut self, found: Self) {
        self.parts.extend(found.parts);
        self.redirects.extend(found.redirects);
        self.loose.extend(found.loose);
        self.spent = found.spent;
        if let Some(why) = found.opaque {
            self.give_up(why);
        }
        if let Some(why) = found.doubt {
            self.suspect(why);
        }
    }

    /// Whether there may be one more command or redirect, which takes so many bytes.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.spent.parts += 1;
        self.spent.bytes = self.spent.bytes.saturating_add(bytes);
        let left = self.spent.parts <= MOST_PARTS && self.spent.bytes <= MOST_SPELLED_BYTES;
        if !left {
            self.give_up(format!("there are more than {MOST_PARTS} commands in it, or too long ones"));
        }
        left
    }

    fn give_up(&mut self, why: String) {
        self.opaque.get_or_insert(why);
    }

    fn suspect(&mut self, why: String) {
        self.doubt.get_or_insert(why);
    }
}

/// Why a text is not given to the parser.
fn too_much(text: &str) -> Option<String> {
    if text.len() > MOST_COMMAND_BYTES {
        return Some(format!("the command is longer than {MOST_COMMAND_BYTES} bytes"));
    }
    if text.contains('\0') {
        return Some("there is a NUL character in it".to_owned());
    }
    // The last two: a number of a file that is kept in an array.
    if ["((", "$[", "]}<", "]}>"].iter().any(|opener| text.contains(opener)) {
        return Some("there is arithmetic in it, which can start commands".to_owned());
    }
    // What is quoted counts as well: the count must not depend on an understanding of the quotes.
    let substitutions =
        ["$(", "<(", ">(", "`"].iter().map(|opener| text.matches(opener).count()).sum::<usize>();
    let openers = text.chars().filter(|char| matches!(char, '(' | '{' | '[' | '!')).count();
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let keywords = words.filter(|word| KEYWORDS.contains(word)).count();
    (substitutions > MOST_SUBSTITUTIONS || openers + keywords > MOST_OPENERS)
        .then(|| "there is too much nested in it".to_owned())
}

/// Words after which the parser calls itself.
const KEYWORDS: &[&str] = &[
    "if", "then", "elif", "else", "for", "while", "until", "do", "case", "select", "function", "time",
    "coproc",
];

#[cfg(test)]
mod tests;
