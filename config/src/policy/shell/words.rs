//! Converts a word of the shell to the text that a program receives. Pure.

use rable::{Node, NodeKind};

use super::text::{ShellText, TextBuilder};

pub(super) struct UnquotedWord {
    pub(super) text: ShellText,
    /// Whether a part that was not parsed may start commands.
    pub(super) hides: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Quote {
    None,
    Single,
    Double,
}

struct WordReader {
    text: TextBuilder,
    /// Whether a part of the word was read.
    begun: bool,
    hides: bool,
    quote: Quote,
}

pub(super) fn read(node: &Node) -> UnquotedWord {
    let mut reader =
        WordReader { text: TextBuilder::default(), begun: false, hides: false, quote: Quote::None };
    match &node.kind {
        // The word is the command `[`.
        NodeKind::Word { value, .. } if value == "[" => reader.text.char('['),
        NodeKind::Word { value, parts, .. } if parts.is_empty() => reader.literal(value),
        NodeKind::Word { parts, .. } => parts.iter().for_each(|part| reader.part(part)),
        NodeKind::CondTerm { value, .. } => reader.literal(value),
        _ => reader.hides = true,
    }
    // An open quote shows that the parser read it differently.
    let hides = reader.hides || reader.quote != Quote::None;
    UnquotedWord { text: reader.text.finish(), hides }
}

impl WordReader {
    fn part(&mut self, part: &Node) {
        self.read_part(part);
        self.begun = true;
    }

    fn read_part(&mut self, part: &Node) {
        match &part.kind {
            NodeKind::WordLiteral { value } => self.literal(value),
            NodeKind::AnsiCQuote { decoded, .. } if self.quote == Quote::None => {
                decoded.chars().for_each(|char| self.text.char(char));
            }
            NodeKind::ParamExpansion { param, op, arg } | NodeKind::ParamIndirect { param, op, arg } => {
                let (op, arg) = (op.as_deref().unwrap_or(""), arg.as_deref().unwrap_or(""));
                // `${x@P}` expands a prompt and its commands; `${x=a}` sets a variable; `${x:a}` evaluates
                // an expression, which may have an array index; `${!x}` may do any of these.
                self.hides |= op.contains('@') || op.ends_with('=');
                self.hides |= op == ":" && !arg.split(':').all(is_number);
                self.hides |= matches!(part.kind, NodeKind::ParamIndirect { .. });
                self.hides |= starts_something(arg) || starts_something(param) || has_expression(param);
                self.text.open(&format!("${{{param}{op}{arg}}}"));
            }
            NodeKind::ParamLength { param } => {
                self.hides |= starts_something(param) || has_expression(param);
                self.text.open(&format!("${{#{param}}}"));
            }
            NodeKind::CommandSubstitution { .. } => self.text.open("$(…)"),
            NodeKind::ProcessSubstitution { direction, .. } => self.text.open(&format!("{direction}(…)")),
            NodeKind::BraceExpansion { content } => {
                self.hides |= starts_something(content);
                self.text.open(content);
            }
            NodeKind::LocaleString { content, .. } => {
                self.hides |= starts_something(content);
                self.text.open(content);
            }
            _ => {
                self.hides = true;
                self.text.open("…");
            }
        }
    }

    /// Reads text with quotes. A quote may begin in one part of a word and end in another.
    fn literal(&mut self, text: &str) {
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            let first = !std::mem::replace(&mut self.begun, true);
            match (self.quote, char) {
                (Quote::None, '\'') => self.quote = Quote::Single,
                (Quote::Single, '\'') | (Quote::Double, '"') => self.quote = Quote::None,
                (Quote::Single, _) => self.text.char(char),
                (Quote::None, '"') => self.quote = Quote::Double,
                (Quote::None, '\\') => match chars.next() {
                    Some('\n') | None => {}
                    Some(next) => self.text.char(next),
                },
                (Quote::Double, '\\') => match chars.peek() {
                    Some('\n') => {
                        chars.next();
                    }
                    Some(next @ ('$' | '`' | '"' | '\\')) => {
                        let next = *next;
                        chars.next();
                        self.text.char(next);
                    }
                    _ => self.text.char('\\'),
                },
                // The parser handles backquotes; a remaining one was not understood.
                (_, '`') => {
                    self.hides = true;
                    self.text.open("`");
                }
                (_, '$') => match chars.peek() {
                    Some('(' | '{' | '[' | '\'' | '"') => {
                        self.hides = true;
                        self.text.open("$");
                    }
                    Some(next) if next.is_alphanumeric() || "_@*#?-$!".contains(*next) => self.text.open("$"),
                    _ => self.text.char('$'),
                },
                // Unquoted words never contain these: it is an array, a pattern, or a word that another
                // shell parses differently.
                (Quote::None, ';' | '|' | '&' | '<' | '>' | '(' | ')' | '\n') => {
                    self.hides = true;
                    self.text.open(char.encode_utf8(&mut [0; 4]));
                }
                // These expand to file names or to several words.
                (Quote::None, '*' | '?') => self.text.open(char.encode_utf8(&mut [0; 4])),
                (Quote::None, '[' | '{') => {
                    self.text.open_rest(char.encode_utf8(&mut [0; 4]));
                }
                (Quote::None, '~') if first && chars.peek() == Some(&'/') => {
                    self.text.home();
                }
                (Quote::None, '~') if first => self.text.open("~"),
                _ => self.text.char(char),
            }
        }
    }
}

/// Whether an unparsed text may start a command.
pub(super) fn starts_something(text: &str) -> bool {
    let expands = |rest: &str| {
        let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        end.is_none_or(|end| end == 0 || !rest[end..].starts_with('}'))
    };
    ["$(", "`", "<(", ">(", "@P", "$["].iter().any(|opener| text.contains(opener))
        || text.split("${").skip(1).any(expands)
}

/// Whether the variable in `${...}` has an index that is not just a number.
fn has_expression(param: &str) -> bool {
    param.split_once('[').is_some_and(|(_, index)| {
        let index = index.trim_end_matches(']');
        !matches!(index, "@" | "*") && !is_number(index)
    })
}

fn is_number(text: &str) -> bool {
    text.chars().all(|char| char.is_ascii_digit() || char == ' ' || char == '-')
}
