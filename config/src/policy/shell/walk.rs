//! Collects the commands in the parser's tree. Pure. The match names every kind of node, so that a
//! kind of a newer parser is a compile error, not an unjudged command.

use rable::{CasePattern, Node, NodeKind};

use super::text::ShellText;
use super::variables::{self, changes_programs};
use super::words;
use super::{CommandPart, ParsedLine, Redirect, builtins, nested, read, starts};

/// Wrappers that only start another program, which follows options, assignments and numbers. Only that
/// program counts.
pub(super) const TRANSPARENT: &[&str] =
    &["builtin", "command", "env", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf", "time", "timeout"];
/// Wrappers with an effect of their own.
pub(super) const WRAPPERS: &[&str] = &[
    "busybox", "chroot", "doas", "entr", "flock", "nsenter", "parallel", "pkexec", "runuser", "script",
    "ssh", "strace", "su", "sudo", "toybox", "trap", "unshare", "watch", "xargs",
];
/// Shells: an option with a `c` takes a command line.
pub(super) const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "rbash", "sh", "su", "zsh"];
/// Targets that do not change a file.
const NO_FILES: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"];
/// Options of `find` that take a command.
pub(super) const FIND_STARTS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Whether a program starts others from its arguments.
pub(super) fn starts_others(name: &ShellText) -> bool {
    let name = name.shown.rsplit('/').next().unwrap_or_default();
    name == "find" || [TRANSPARENT, WRAPPERS, SHELLS].iter().any(|names| names.contains(&name))
}

pub(super) fn nodes(nodes: &[Node], depth: usize, line: &mut ParsedLine) {
    nodes.iter().for_each(|found| node(found, depth, line));
}

fn node(found: &Node, depth: usize, line: &mut ParsedLine) {
    let all = |list: &[Node], line: &mut ParsedLine| nodes(list, depth, line);
    let one = |inner: &Node, line: &mut ParsedLine| node(inner, depth, line);
    match &found.kind {
        NodeKind::Command { assignments, words, redirects } => {
            let assignments: Vec<ShellText> =
                assignments.iter().map(|word| text(word, depth, line)).collect();
            let words: Vec<ShellText> = words.iter().map(|word| text(word, depth, line)).collect();
            all(redirects, line);
            if !assignments.is_empty() || !words.is_empty() {
                command(&assignments, &words, depth, line);
            }
        }
        NodeKind::Word { .. } | NodeKind::CondTerm { .. } => {
            text(found, depth, line);
        }
        NodeKind::Pipeline { commands, .. } => all(commands, line),
        NodeKind::List { items } => items.iter().for_each(|item| one(&item.command, line)),
        NodeKind::If { condition, then_body, else_body, redirects } => {
            one(condition, line);
            one(then_body, line);
            else_body.iter().for_each(|body| one(body, line));
            all(redirects, line);
        }
        NodeKind::While { condition, body, redirects } | NodeKind::Until { condition, body, redirects } => {
            one(condition, line);
            one(body, line);
            all(redirects, line);
        }
        NodeKind::For { var, words, body, redirects } | NodeKind::Select { var, words, body, redirects } => {
            if changes_programs(var) {
                line.give_up(format!("the loop sets `{var}`, which may change what programs do"));
            }
            words.iter().for_each(|words| all(words, line));
            one(body, line);
            all(redirects, line);
        }
        NodeKind::Case { word, patterns, redirects } => {
            one(word, line);
            for CasePattern { patterns, body, .. } in patterns {
                all(patterns, line);
                body.iter().for_each(|body| one(body, line));
            }
            all(redirects, line);
        }
        NodeKind::Function { body, .. } => one(body, line),
        NodeKind::Subshell { body, redirects }
        | NodeKind::BraceGroup { body, redirects }
        | NodeKind::ConditionalExpr { body, redirects } => {
            one(body, line);
            all(redirects, line);
        }
        NodeKind::Coproc { command, .. } => one(command, line),
        NodeKind::Redirect { op, target, .. } => redirect(op, target, depth, line),
        NodeKind::HereDoc { content, quoted, complete, .. } => {
            if !complete {
                line.give_up("a here-document has no end".to_owned());
            }
            if !quoted && words::starts_something(content) {
                line.give_up("a here-document has substitutions in it".to_owned());
            }
        }
        NodeKind::CommandSubstitution { command, .. } | NodeKind::ProcessSubstitution { command, .. } => {
            one(command, line);
        }
        NodeKind::UnaryTest { op, operand } => {
            if op == "-v" {
                // An array index is an expression.
                line.give_up("a test of a variable can start commands".to_owned());
            }
            one(operand, line);
        }
        NodeKind::BinaryTest { op, left, right } => {
            if op.starts_with('-') && op.len() == 3 && !matches!(op.as_str(), "-nt" | "-ot" | "-ef") {
                line.give_up("a comparison of numbers can start commands".to_owned());
            }
            one(left, line);
            one(right, line);
        }
        NodeKind::CondAnd { left, right } | NodeKind::CondOr { left, right } => {
            one(left, line);
            one(right, line);
        }
        NodeKind::CondNot { operand } => one(operand, line),
        NodeKind::CondParen { inner } => one(inner, line),
        NodeKind::Negation { pipeline } | NodeKind::Time { pipeline, .. } => one(pipeline, line),
        NodeKind::Array { elements } => all(elements, line),
        NodeKind::Empty
        | NodeKind::Comment { .. }
        | NodeKind::WordLiteral { .. }
        | NodeKind::AnsiCQuote { .. } => {}
        // `text` handles these inside of words; elsewhere they are not expected.
        NodeKind::ParamExpansion { .. }
        | NodeKind::ParamLength { .. }
        | NodeKind::ParamIndirect { .. }
        | NodeKind::LocaleString { .. }
        | NodeKind::BraceExpansion { .. }
        | NodeKind::ForArith { .. }
        | NodeKind::ArithmeticExpansion { .. }
        | NodeKind::ArithmeticCommand { .. }
        | NodeKind::ArithNumber { .. }
        | NodeKind::ArithVar { .. }
        | NodeKind::ArithBinaryOp { .. }
        | NodeKind::ArithUnaryOp { .. }
        | NodeKind::ArithPreIncr { .. }
        | NodeKind::ArithPostIncr { .. }
        | NodeKind::ArithPreDecr { .. }
        | NodeKind::ArithPostDecr { .. }
        | NodeKind::ArithAssign { .. }
        | NodeKind::ArithTernary { .. }
        | NodeKind::ArithComma { .. }
        | NodeKind::ArithSubscript { .. }
        | NodeKind::ArithEmpty
        | NodeKind::ArithEscape { .. }
        | NodeKind::ArithDeprecated { .. }
        | NodeKind::ArithConcat { .. } => {
            line.give_up("there is arithmetic in it, which can start commands".to_owned())
        }
    }
}

/// Returns the text of a word and judges its substitutions separately.
fn text(word: &Node, depth: usize, line: &mut ParsedLine) -> ShellText {
    if let NodeKind::Word { parts, .. } = &word.kind {
        for part in parts {
            match &part.kind {
                NodeKind::CommandSubstitution { command, .. }
                | NodeKind::ProcessSubstitution { command, .. } => {
                    node(command, depth, line);
                }
                NodeKind::Array { elements } => nodes(elements, depth, line),
                _ => {}
            }
        }
    }
    let read = words::read(word);
    if read.hides {
        line.give_up("there is a substitution in it that was not taken apart".to_owned());
    }
    read.text
}

fn redirect(op: &str, target: &Node, depth: usize, line: &mut ParsedLine) {
    let path = text(target, depth, line);
    opens(op, &path, line);
}

/// Records the file that the shell opens for a redirect.
pub(super) fn opens(op: &str, path: &ShellText, line: &mut ParsedLine) {
    if op.starts_with("<<<") {
        return;
    }
    let number =
        |path: &str| path == "-" || path.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    if op.contains('&') && !op.starts_with('&') && path.known().is_some_and(number) {
        return;
    }
    if path.known().is_some_and(|path| NO_FILES.contains(&path)) {
        return;
    }
    if line.has_room(path.shown.len()) {
        line.redirects.push(Redirect { writes: op.contains('>'), path: path.as_path() });
    }
}

/// Records a command and the commands that it starts.
pub(super) fn command(assignments: &[ShellText], words: &[ShellText], depth: usize, line: &mut ParsedLine) {
    let Some(first) = words.first() else {
        let alone = assignments.iter().all(|assignment| variables::is_harmless(assignment, true));
        let spellings = vec![ShellText::joined(assignments)];
        if line.has_room(2 * spellings[0].shown.len()) {
            line.parts.push(CommandPart { spellings, transparent: alone, ..CommandPart::default() });
        }
        return;
    };
    // Assignments without an effect on the program need no rule.
    let harmless = |assignment| {
        let of_read = first.known() == Some("read") && variables::is_separator(assignment);
        of_read || variables::is_harmless(assignment, false)
    };
    let assignments = if assignments.iter().all(harmless) { &[] } else { assignments };
    let name = first.shown.rsplit('/').next().unwrap_or_default().to_owned();
    let transparent = TRANSPARENT.contains(&name.as_str());
    let plain_script = plain_script(&name, words);
    let script = match name.as_str() {
        name if SHELLS.contains(&name) => plain_script.cloned().or_else(|| shell_script(words)),
        "eval" => Some(ShellText::joined(&words[1..])),
        _ => None,
    };
    // Then the position of the shell's command line is a guess.
    let guessed = script.is_some() && plain_script.is_none() && name != "eval";
    let wraps = transparent || guessed || WRAPPERS.contains(&name.as_str());
    // Number of copies of a word in the texts below.
    let copies = |at: usize| 4 + if wraps { 2 * at } else { 0 };
    let sizes = words.iter().enumerate().map(|(at, word)| (word.shown.len() + 1).saturating_mul(copies(at)));
    if !line.has_room(sizes.sum()) {
        return;
    }
    let written = ShellText::joined(words);
    let mut spellings = Vec::new();
    if !assignments.is_empty() {
        // Assignments may change the program, so the text with them must be allowed.
        spellings.push(ShellText::joined(&[assignments, words].concat()));
    }
    let by_name = (!first.is_unknown() && name != first.shown).then(|| with_first(&name, words));
    spellings.push(written);
    let at = line.parts.len();
    let handed_on = if wraps { handed_on(&name, words) } else { Vec::new() };
    let arguments = ShellText::joined(&words[1..]);
    if arguments.is_open() {
        // The unknown part may be empty.
        line.loose.push(arguments.known_part());
    }
    line.loose.push(arguments.shown);
    nested::look(words, depth, line);
    let unknown = first.is_unknown();
    // A condition is not a program. In dash, no program has this name.
    if name != "[[" {
        line.parts.push(CommandPart {
            name: name.clone(),
            spellings,
            by_name,
            handed_on,
            transparent: false,
            unknown,
        });
    }
    if let Some(why) = builtins::carries_out(&name, &words[1..]) {
        line.give_up(why);
    }
    if wraps && starts::is_open(&name, words) {
        line.give_up(format!("which program `{name}` starts is known only when it runs"));
    }
    if script.is_none() && SHELLS.contains(&name.as_str()) && !reads_file(words) {
        line.give_up(format!("`{name}` reads its script from somewhere else"));
    }
    let mut started = false;
    if transparent {
        // `command -v` and `time -p` start nothing; an ambiguous line is judged as written.
        let (inner, exact) = starts::program(&name, words);
        if inner < words.len() {
            command(&[], &words[inner..], depth, line);
            started = exact && assignments.is_empty();
        }
        if name == "env" && words[1..inner.min(words.len())].iter().any(|word| starts::splits(&word.shown)) {
            line.give_up("`env` splits a text into words".to_owned());
        }
    }
    if guessed && name != "su" {
        line.give_up(format!("`{name}` has more than a command line"));
    }
    if let Some(script) = script {
        match script.known() {
            Some(script) => {
                let script = script.to_owned();
                read(&script, depth + 1, line);
                // `su` changes the user.
                started = name != "su" && assignments.is_empty();
            }
            None => line.give_up(format!("what `{name}` is given is known only when it runs")),
        }
    }
    if name == "find" && words[1..].iter().any(|word| word.splits && word.shown.contains('$')) {
        line.give_up("what `find` starts may be known only when it runs".to_owned());
    }
    if name == "find" {
        for (place, _) in
            words.iter().enumerate().filter(|(_, word)| FIND_STARTS.contains(&word.shown.as_str()))
        {
            if line.spent.parts > super::MAX_PARTS {
                break;
            }
            let inner: Vec<ShellText> = words[place + 1..]
                .iter()
                .take_while(|word| word.shown != ";" && word.shown != "+")
                .cloned()
                .collect();
            if !inner.is_empty() {
                command(&[], &inner, depth, line);
            }
        }
    }
    if let Some(part) = line.parts.get_mut(at) {
        part.transparent = started;
    }
}

/// Returns the arguments that a program may pass to another one, from each word on; also with the bare name
/// if the first word is a path.
fn handed_on(name: &str, words: &[ShellText]) -> Vec<ShellText> {
    let mut rest = words.to_vec();
    if matches!(name, "parallel" | "xargs") {
        // They append their input.
        rest.push(ShellText::open("…"));
    }
    let mut found = Vec::new();
    for from in 1..words.len() {
        found.push(ShellText::joined(&rest[from..]));
        if let Some((_, last)) = words[from].known().and_then(|word| word.rsplit_once('/')) {
            found.push(with_first(last, &rest[from..]));
        }
    }
    found
}

/// Joins the words with another first word.
fn with_first(first: &str, words: &[ShellText]) -> ShellText {
    ShellText::joined(&[&[ShellText::literal(first)], &words[1..]].concat())
}

/// Whether a shell without a command line reads a script file or only prints its version or help.
pub(super) fn reads_file(words: &[ShellText]) -> bool {
    let says = |word: &ShellText| matches!(word.shown.as_str(), "--version" | "--help");
    let option = |word: &&ShellText| word.shown.starts_with(['-', '+']);
    let input = |word: &ShellText| !word.shown.starts_with("--") && word.shown.contains('s');
    if words[1..].iter().take_while(option).any(input) {
        return false;
    }
    match words[1..].iter().find(|word| !option(word)) {
        Some(file) => builtins::is_script(file),
        None => words[1..].iter().any(says),
    }
}

/// Returns a shell's command line if it directly follows options without an effect on it.
fn plain_script<'a>(name: &str, words: &'a [ShellText]) -> Option<&'a ShellText> {
    if !SHELLS.contains(&name) {
        return None;
    }
    let mut rest = words[1..].iter();
    loop {
        let option = rest.next()?.known()?;
        if matches!(option, "--norc" | "--noprofile" | "--login") {
            continue;
        }
        let letters = option.strip_prefix('-').filter(|letters| !letters.is_empty())?;
        if !letters.chars().all(|char| "celuxo".contains(char)) {
            return None;
        }
        match (letters.contains('o'), letters.contains('c')) {
            (true, true) => return None,
            (true, false) => {
                rest.next()?.known().filter(|setting| builtins::HARMLESS_SETTINGS.contains(setting))?;
            }
            (false, true) => return rest.next().filter(|script| !script.shown.starts_with(['-', '+'])),
            (false, false) => {}
        }
    }
}

/// Returns the text after the option that gives a shell its command line.
pub(super) fn shell_script(words: &[ShellText]) -> Option<ShellText> {
    let gives = |word: &ShellText| {
        word.shown.strip_prefix('-').is_some_and(|letters| {
            !letters.starts_with('-') && letters.chars().all(char::is_alphanumeric) && letters.contains('c')
        }) || word.shown == "--command"
    };
    let option = words.iter().skip(1).position(gives)? + 1;
    // More options may follow.
    let script = words[option + 1..].iter().find(|word| !word.shown.starts_with(['-', '+']))?;
    Some(script.clone())
}
