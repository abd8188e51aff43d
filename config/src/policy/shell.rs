//! Finds the commands of a command line with a parser of the shell language. Pure. It reports what
//! it does not understand and must not guess. The text is untrusted: length and nesting are limited
//! before parsing, and the parser has its own stack.

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
pub(super) use text::ShellText;

/// Maximum length of a command line in bytes; longer ones are not parsed.
pub const MAX_COMMAND_BYTES: usize = 16 * 1024;
/// Maximum number of commands in a line.
const MAX_PARTS: usize = 256;
/// Maximum size of all spellings of a line in bytes; the text behind a wrapper is repeated from every word
/// on.
const MAX_SPELLED_BYTES: usize = 1024 * 1024;
/// Maximum number of openers (braces, brackets, loops) and of substitutions. The parser recurses for each,
/// and reads a substitution more than once.
const MAX_OPENERS: usize = 48;
const MAX_SUBSTITUTIONS: usize = 12;
/// Maximum nesting of shells in shells.
const MAX_SHELLS: usize = 4;
/// Enough stack for the deepest accepted text.
const STACK_BYTES: usize = 32 * 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommandPart {
    /// The program without its path.
    pub(super) name: String,
    /// Spellings of the command: its words joined by spaces, with and without assignments. All of them must
    /// be allowed.
    pub(super) spellings: Vec<ShellText>,
    /// The command with the program's name instead of its path. Only restricting rules apply to it.
    pub(super) by_name: Option<ShellText>,
    /// The arguments that the program may start, from each possible first word on.
    pub(super) handed_on: Vec<ShellText>,
    /// Whether only rules apply that restrict the command itself: it is a wrapper such as `timeout`, or it
    /// starts nothing, such as `exit`.
    pub(super) transparent: bool,
    /// Whether the program is known only at run time.
    pub(super) unknown: bool,
}

/// A file that the shell opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    /// Whether the shell opens it for writing.
    pub(super) writes: bool,
    /// The path; `None` if it is known only at run time.
    pub(super) path: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ParsedLine {
    pub(super) parts: Vec<CommandPart>,
    pub(super) redirects: Vec<Redirect>,
    /// Arguments, values and inputs that may contain the name of a denied command.
    pub(super) loose: Vec<String>,
    /// The reason why the line may contain more commands.
    pub(super) opaque: Option<String>,
    /// The reason why a program may start a restricted command without its name in the line.
    pub(super) doubt: Option<String>,
    /// Whether a command reads from a pipe, a file or a text of the line.
    fed: bool,
    /// Counters for the limits, shared with nested shells.
    spent: ReadingCost,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ReadingCost {
    parts: usize,
    bytes: usize,
}

pub(super) fn split(text: &str) -> ParsedLine {
    let mut line = ParsedLine::default();
    read(text, 0, &mut line);
    if line.parts.is_empty() && line.redirects.is_empty() && line.opaque.is_none() {
        line.opaque = Some("there is no command in it".to_owned());
    }
    line
}

/// Reads the words of a program that starts without a shell.
pub(super) fn of_words(words: &[String]) -> ParsedLine {
    let mut line = ParsedLine::default();
    // Empty words count as one byte.
    if words.iter().map(|word| word.len() + 1).sum::<usize>() > MAX_COMMAND_BYTES {
        line.give_up(format!("the command is longer than {MAX_COMMAND_BYTES} bytes"));
        return line;
    }
    let texts: Vec<ShellText> = words.iter().map(|word| ShellText::literal(word)).collect();
    with_stack(&mut line, |line| walk::command(&[], &texts, 0, line));
    line
}

fn read(text: &str, depth: usize, line: &mut ParsedLine) {
    if depth > MAX_SHELLS {
        return line.give_up("a shell in a shell in a shell".to_owned());
    }
    if let Some(why) = too_much(text) {
        return line.give_up(why);
    }
    let why = match grammar::read(text) {
        Ok(script) => return take_apart(script, depth, line),
        Err(why) => why,
    };
    // Nothing in this line is allowed. A parser of bash finds denied commands in it.
    line.loose.push(text.to_owned());
    with_stack(line, |line| match rable::parse(text, false) {
        Ok(nodes) => walk::nodes(&nodes, depth, line),
        Err(error) => {
            // The position counts characters.
            let message = error.message();
            line.give_up(format!("it cannot be parsed at character {}: {message}", error.pos() + 1));
        }
    });
    line.give_up(why);
}

/// Collects the commands of a line that all shells parse alike.
fn take_apart(script: grammar::ShellScript, depth: usize, line: &mut ParsedLine) {
    for variable in &script.variables {
        if variables::changes_programs(variable) {
            line.give_up(format!("the loop sets `{variable}`, which may change what programs do"));
        }
    }
    line.loose.extend(script.inputs);
    line.fed |= script.fed;
    for grammar::SimpleCommand { assignments, words, comment, moves_input, redirects } in script.commands {
        for (operator, path) in &redirects {
            walk::opens(operator, path, line);
        }
        if comment.is_some() && words.first().is_some_and(walk::starts_others) {
            line.give_up("a comment stands behind a command that starts others".to_owned());
        }
        // Any other program may start others too.
        line.loose.extend(comment.clone());
        if moves_input && starts::is_exec(&words) {
            line.give_up("`exec` changes what the shell reads its commands from".to_owned());
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
            let part = line.parts.get_mut(at).filter(|_| !words.is_empty());
            if let (Some(comment), Some(part)) = (comment, part) {
                part.read_with(&as_words(&comment));
            }
        }
    }
}

/// Returns a comment as an interactive zsh without `INTERACTIVE_COMMENTS` reads it: as further words.
fn as_words(comment: &str) -> ShellText {
    let becomes_others = |word: &str| word.starts_with('=') || word.contains(['*', '?', '^']);
    let read = |word| if becomes_others(word) { ShellText::open(word) } else { ShellText::literal(word) };
    ShellText::joined(&comment.split_whitespace().map(read).collect::<Vec<_>>())
}

impl CommandPart {
    /// Adds what it is with these further arguments. The last spelling stays the written one.
    fn read_with(&mut self, arguments: &ShellText) {
        let with = |text: &ShellText| ShellText::joined(&[text.clone(), arguments.clone()]);
        let mut spellings: Vec<ShellText> = self.spellings.iter().map(with).collect();
        spellings.append(&mut self.spellings);
        self.spellings = spellings;
        self.handed_on.extend(self.by_name.as_ref().map(with));
    }
}

/// Runs `look` on a thread with a large stack.
fn with_stack(line: &mut ParsedLine, look: impl FnOnce(&mut ParsedLine) + Send) {
    let (spent, fed) = (line.spent, line.fed);
    let parsed = std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(STACK_BYTES);
        parser
            .spawn_scoped(scope, || {
                let mut found = ParsedLine { spent, fed, ..ParsedLine::default() };
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

impl ParsedLine {
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

    /// Whether the limits permit another command or redirect of this size.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.spent.parts += 1;
        self.spent.bytes = self.spent.bytes.saturating_add(bytes);
        let left = self.spent.parts <= MAX_PARTS && self.spent.bytes <= MAX_SPELLED_BYTES;
        if !left {
            self.give_up(format!("there are more than {MAX_PARTS} commands in it, or too long ones"));
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

/// Returns why a text exceeds the parser's limits.
fn too_much(text: &str) -> Option<String> {
    if text.len() > MAX_COMMAND_BYTES {
        return Some(format!("the command is longer than {MAX_COMMAND_BYTES} bytes"));
    }
    if text.contains('\0') {
        return Some("there is a NUL character in it".to_owned());
    }
    // The last two are file descriptors stored in an array.
    if ["((", "$[", "]}<", "]}>"].iter().any(|opener| text.contains(opener)) {
        return Some("there is arithmetic in it, which can start commands".to_owned());
    }
    // Quoted text counts too: the count must not depend on parsing quotes.
    let substitutions =
        ["$(", "<(", ">(", "`"].iter().map(|opener| text.matches(opener).count()).sum::<usize>();
    let openers = text.chars().filter(|char| matches!(char, '(' | '{' | '[' | '!')).count();
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let keywords = words.filter(|word| KEYWORDS.contains(word)).count();
    (substitutions > MAX_SUBSTITUTIONS || openers + keywords > MAX_OPENERS)
        .then(|| "there is too much nested in it".to_owned())
}

/// Words after which the parser recurses.
const KEYWORDS: &[&str] = &[
    "if", "then", "elif", "else", "for", "while", "until", "do", "case", "select", "function", "time",
    "coproc",
];

#[cfg(test)]
mod tests;
