//! A word of the shell to the text that a program gets. Pure.

use rable::{Node, NodeKind};

use super::super::glob::Unit;

/// The text of a word, or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Text {
    /// Without quotes; what is known only when it runs stands there as it was written.
    pub(in super::super) shown: String,
    /// The same for a look at what it could become; none if all of it is known.
    pub(in super::super) units: Option<Vec<Unit>>,
}

impl Text {
    pub(in super::super) fn literal(text: &str) -> Self {
        Self { shown: text.to_owned(), units: None }
    }

    pub(super) fn is_open(&self) -> bool {
        self.units.is_some()
    }

    /// The text, if it is known.
    pub(super) fn known(&self) -> Option<&str> {
        if self.is_open() { None } else { Some(&self.shown) }
    }

    /// Whether it begins with the home, and the rest is known.
    fn is_at_home(&self) -> bool {
        let rest = self.units.as_deref().and_then(|units| units.strip_prefix(HOME));
        self.shown.starts_with("~/") && rest.is_some_and(|rest| !rest.contains(&Unit::Open))
    }

    /// Whether it is not known as a program.
    pub(super) fn is_unknown(&self) -> bool {
        self.is_open() && !self.is_at_home()
    }

    /// As a path that the shell opens, unless it is known only when it runs.
    pub(super) fn as_path(&self) -> Option<String> {
        if self.is_at_home() {
            return Some(self.shown.clone());
        }
        // What looks like a home or an address is neither, as it was quoted.
        let looks = |path: &str| ["~/", "$HOME/", "file://"].iter().any(|start| path.starts_with(start));
        self.known().map(|path| if looks(path) { format!("./{path}") } else { path.to_owned() })
    }

    /// Words with one space between them.
    pub(super) fn joined(words: &[Self]) -> Self {
        let shown = words.iter().map(|word| word.shown.as_str()).collect::<Vec<_>>().join(" ");
        if words.iter().all(|word| word.units.is_none()) {
            return Self { shown, units: None };
        }
        let mut units = Vec::with_capacity(shown.len());
        for (at, word) in words.iter().enumerate() {
            if at > 0 {
                units.push(Unit::Char(' '));
            }
            match &word.units {
                Some(open) => units.extend(open),
                None => units.extend(word.shown.chars().map(Unit::Char)),
            }
        }
        Self { shown, units: Some(units) }
    }
}

/// What `~` in front of a slash becomes.
const HOME: &[Unit] = &[Unit::Char('/'), Unit::Open];

/// What a word holds besides its text.
pub(super) struct Read {
    pub(super) text: Text,
    /// Whether something in it may start commands, and was not taken apart.
    pub(super) hides: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Quote {
    None,
    Single,
    Double,
}

struct Reader {
    shown: String,
    units: Vec<Unit>,
    open: bool,
    /// Whether the rest of the word belongs to what began open.
    rest: bool,
    /// Whether anything of the word was read.
    begun: bool,
    hides: bool,
    quote: Quote,
}

/// Reads a word that the parser has found.
pub(super) fn read(node: &Node) -> Read {
    let mut reader = Reader {
        shown: String::new(),
        units: Vec::new(),
        open: false,
        rest: false,
        begun: false,
        hides: false,
        quote: Quote::None,
    };
    match &node.kind {
        // The command.
        NodeKind::Word { value, .. } if value == "[" => reader.char('['),
        NodeKind::Word { value, parts, .. } if parts.is_empty() => reader.literal(value),
        NodeKind::Word { parts, .. } => parts.iter().for_each(|part| reader.part(part)),
        NodeKind::CondTerm { value, .. } => reader.literal(value),
        _ => reader.hides = true,
    }
    // A quote without an end was read in another way than the parser's.
    let hides = reader.hides || reader.quote != Quote::None;
    let units = reader.open.then_some(reader.units);
    Read { text: Text { shown: reader.shown, units }, hides }
}

impl Reader {
    fn char(&mut self, char: char) {
        self.shown.push(char);
        if !self.rest {
            self.units.push(Unit::Char(char));
        }
    }

    fn open(&mut self, written: &str) {
        self.shown.push_str(written);
        self.units.push(Unit::Open);
        self.open = true;
    }

    fn part(&mut self, part: &Node) {
        self.read_part(part);
        self.begun = true;
    }

    fn read_part(&mut self, part: &Node) {
        match &part.kind {
            NodeKind::WordLiteral { value } => self.literal(value),
            NodeKind::AnsiCQuote { decoded, .. } if self.quote == Quote::None => {
                decoded.chars().for_each(|char| self.char(char));
            }
            NodeKind::ParamExpansion { param, op, arg } | NodeKind::ParamIndirect { param, op, arg } => {
                let (op, arg) = (op.as_deref().unwrap_or(""), arg.as_deref().unwrap_or(""));
                // `${x@P}` carries out what is in a prompt; an argument is a word of its own. `${x=a}` sets a variable, and
                // `${x:a}` has an expression, as the index of an array is one; `${!x}` may be any of these.
                self.hides |= op.contains('@') || op.ends_with('=');
                self.hides |= op == ":" && !arg.split(':').all(is_number);
                self.hides |= matches!(part.kind, NodeKind::ParamIndirect { .. });
                self.hides |= starts_something(arg) || starts_something(param) || has_expression(param);
                self.open(&format!("${{{param}{op}{arg}}}"));
            }
            NodeKind::ParamLength { param } => {
                self.hides |= starts_something(param) || has_expression(param);
                self.open(&format!("${{#{param}}}"));
            }
            NodeKind::CommandSubstitution { .. } => self.open("$(…)"),
            NodeKind::ProcessSubstitution { direction, .. } => self.open(&format!("{direction}(…)")),
            NodeKind::BraceExpansion { content } => {
                self.hides |= starts_something(content);
                self.open(content);
            }
            NodeKind::LocaleString { content, .. } => {
                self.hides |= starts_something(content);
                self.open(content);
            }
            _ => {
                self.hides = true;
                self.open("…");
            }
        }
    }

    /// Text with its quotes. They may begin in one part of a word and end in another.
    fn literal(&mut self, text: &str) {
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            let first = !std::mem::replace(&mut self.begun, true);
            match (self.quote, char) {
                (Quote::None, '\'') => self.quote = Quote::Single,
                (Quote::Single, '\'') | (Quote::Double, '"') => self.quote = Quote::None,
                (Quote::Single, _) => self.char(char),
                (Quote::None, '"') => self.quote = Quote::Double,
                (Quote::None, '\\') => match chars.next() {
                    Some('\n') | None => {}
                    Some(next) => self.char(next),
                },
                (Quote::Double, '\\') => match chars.peek() {
                    Some('\n') => {
                        chars.next();
                    }
                    Some(next @ ('$' | '`' | '"' | '\\')) => {
                        let next = *next;
                        chars.next();
                        self.char(next);
                    }
                    _ => self.char('\\'),
                },
                // The parser takes these apart; what it left is what it has not understood.
                (_, '`') => {
                    self.hides = true;
                    self.open("`");
                }
                (_, '$') => match chars.peek() {
                    Some('(' | '{' | '[' | '\'' | '"') => {
                        self.hides = true;
                        self.open("$");
                    }
                    Some(next) if next.is_alphanumeric() || "_@*#?-$!".contains(*next) => self.open("$"),
                    _ => self.char('$'),
                },
                // No word has these in it without quotes: an array, a pattern, or a word that another shell reads in
                // another way.
                (Quote::None, ';' | '|' | '&' | '<' | '>' | '(' | ')' | '\n') => {
                    self.hides = true;
                    self.open(char.encode_utf8(&mut [0; 4]));
                }
                // Names of files, or several words.
                (Quote::None, '*' | '?') => self.open(char.encode_utf8(&mut [0; 4])),
                (Quote::None, '[' | '{') => {
                    self.open(char.encode_utf8(&mut [0; 4]));
                    self.rest = true;
                }
                (Quote::None, '~') if first && chars.peek() == Some(&'/') => {
                    self.shown.push('~');
                    self.units.extend(HOME);
                    self.open = true;
                }
                (Quote::None, '~') if first => self.open("~"),
                _ => self.char(char),
            }
        }
    }
}

/// Whether a text that was not taken apart could start a command.
pub(super) fn starts_something(text: &str) -> bool {
    let expands = |rest: &str| {
        let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        end.is_none_or(|end| end == 0 || !rest[end..].starts_with('}'))
    };
    ["$(", "`", "<(", ">(", "@P", "$["].iter().any(|opener| text.contains(opener))
        || text.split("${").skip(1).any(expands)
}

/// Whether what stands in `${...}` for a variable has an index which is more than a number.
fn has_expression(param: &str) -> bool {
    param.split_once('[').is_some_and(|(_, index)| {
        let index = index.trim_end_matches(']');
        !matches!(index, "@" | "*") && !is_number(index)
    })
}

fn is_number(text: &str) -> bool {
    text.chars().all(|char| char.is_ascii_digit() || char == ' ' || char == '-')
}
