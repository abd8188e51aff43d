//! Words: quotes and expansions that all shells parse alike.

use super::super::text::{ShellText, TextBuilder};
use super::{ListTerminator, ShellParser, read_at};

/// Unquoted characters that end a word.
const END_OF_WORD: &[char] = &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')'];
/// Unquoted literal characters besides letters and digits.
const PLAIN: &str = "_-./:,+@%^!#=~]";
/// Literal characters inside of `${NAME:-...}` and similar expansions.
const PLAIN_IN_EXPANSION: &str = "_-./:,+@%^ *?";
/// Parameters with a one-character name.
const SPECIAL: &str = "?#@*$!-0123456789";
/// Reserved words; quoted ones have no meaning.
const RESERVED: &[&str] = &[
    "!",
    "{",
    "}",
    "(",
    "if",
    "then",
    "elif",
    "else",
    "fi",
    "for",
    "in",
    "while",
    "until",
    "do",
    "done",
    "case",
    "esac",
    "select",
    "function",
    "coproc",
    "repeat",
    "foreach",
    "end",
    "always",
    "noglob",
    "nocorrect",
    "-",
    // These are reserved in fish.
    "and",
    "begin",
    "not",
    "or",
    "switch",
];
/// The reason why a `!` is rejected.
pub(super) const HISTORY: &str = "an interactive shell puts an earlier command in the place of this `!`";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShellWord {
    pub(super) text: ShellText,
    /// Whether it contains no quotes, escapes or expansions.
    pub(super) bare: bool,
    /// Whether it begins with `NAME=`, as an assignment.
    pub(super) assigns: bool,
}

impl ShellWord {
    pub(super) fn is(&self, text: &str) -> bool {
        self.bare && self.text.shown == text
    }

    /// Returns the reserved word, or an empty text.
    pub(super) fn reserved(&self) -> &'static str {
        RESERVED.iter().find(|word| self.is(word)).copied().unwrap_or_default()
    }

    pub(super) fn is_name(&self) -> bool {
        self.bare && is_name(&self.text.shown)
    }

    pub(super) fn is_number(&self) -> bool {
        self.bare && self.text.shown.bytes().all(|byte| byte.is_ascii_digit())
    }
}

/// Whether an interactive bash or zsh expands a `!` before this text. zsh also removes it before `"`.
pub(super) fn expands_history(behind: &str) -> bool {
    !behind.is_empty() && !behind.starts_with([' ', '\t', '\n', '=', '('])
}

/// Whether such a `!` occurs in a literal text.
fn has_history(text: &str) -> bool {
    text.match_indices('!').any(|(at, _)| at + 1 == text.len() || expands_history(&text[at + 1..]))
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|char: char| char.is_ascii_digit())
        && !text.is_empty()
        && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

fn open(text: &mut TextBuilder, written: &str, quoted: bool) {
    // `"$@"` also gives several words.
    match quoted && !matches!(written, "$@" | "$*") {
        true => text.open_in_quotes(written),
        false => text.open(written),
    }
}

impl ShellParser<'_> {
    pub(super) fn word(&mut self) -> Result<ShellWord, String> {
        let start = self.at;
        let mut text = TextBuilder::default();
        let mut bare = true;
        let assigns = self.rest().split_once('=').is_some_and(|(name, _)| is_name(name));
        while let Some(char) = self.char() {
            let first = self.at == start;
            let before = self.text[start..self.at].chars().next_back();
            match char {
                char if END_OF_WORD.contains(&char) => break,
                '\'' | '"' | '\\' | '$' | '`' => {
                    bare = false;
                    self.quoted_or_expanded(&mut text)?;
                    continue;
                }
                // `=` and `==` of a condition are not zsh's path expansion `=ls`.
                '=' if first && !self.rest().trim_start_matches('=').starts_with(END_OF_WORD) => {
                    return self.error("shells read a `=` in front differently");
                }
                '~' if first || matches!(before, Some('=' | ':')) => {
                    self.tilde(&mut text, first)?;
                    continue;
                }
                '!' if expands_history(&self.rest()[1..]) => return self.error(HISTORY),
                '[' if first && self.takes_test(&mut text) => continue,
                '[' => text.open_rest("["),
                '*' => text.open("*"),
                '?' => text.open("?"),
                '{' | '}' => {
                    self.brace(&mut text, first)?;
                    continue;
                }
                char if char.is_alphanumeric() || PLAIN.contains(char) || !char.is_ascii() => text.char(char),
                _ => return self.error("a character is not read here"),
            }
            self.take();
        }
        let word = ShellWord { text: text.finish(), bare, assigns };
        if self.rest().starts_with(['<', '>']) && word.is_number() {
            return self.error("shells read the number of a descriptor differently");
        }
        Ok(word)
    }

    /// Consumes `[` or `[[` of a condition, which is not a pattern.
    fn takes_test(&mut self, text: &mut TextBuilder) -> bool {
        let found = ["[[", "["].into_iter().find(|test| {
            self.rest().strip_prefix(test).is_some_and(|rest| rest.starts_with([' ', '\t', '\n']))
        });
        found.is_some_and(|test| {
            test.chars().for_each(|char| text.char(char));
            self.takes(test)
        })
    }

    fn tilde(&mut self, text: &mut TextBuilder, first: bool) -> Result<(), String> {
        self.take();
        let ends = self.char().is_none_or(|char| "/ \t\n;&|)".contains(char));
        match (ends, first && self.rest().starts_with('/')) {
            (false, _) => self.error("shells read a `~` with a name differently"),
            (true, true) => {
                text.home();
                Ok(())
            }
            (true, false) => {
                text.open("~");
                Ok(())
            }
        }
    }

    /// Parses `{}` and `{name}` literally, or `{a,b}`, which some shells expand to several words.
    fn brace(&mut self, text: &mut TextBuilder, first: bool) -> Result<(), String> {
        let rest = self.rest();
        let ends = |brace: &str| {
            rest.strip_prefix(brace).is_some_and(|rest| rest.is_empty() || rest.starts_with(END_OF_WORD))
        };
        if let Some(brace) =
            ['{', '}'].into_iter().find(|brace| first && ends(brace.encode_utf8(&mut [0; 4])))
        {
            // The brace is a reserved word.
            text.char(brace);
            self.take();
            return Ok(());
        }
        let Some((inner, _)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
            return self.error("a brace is not read here");
        };
        if !inner.chars().all(|char| char.is_alphanumeric() || "_-./,+@".contains(char)) {
            return self.error("a brace is not read here");
        }
        if inner.contains("..") && inner.contains(|char: char| char.is_alphabetic()) {
            return self.error("a range of letters is not read");
        }
        match inner.contains(',') || inner.contains("..") {
            true => text.open_rest(&rest[..inner.len() + 2]),
            false => rest[..inner.len() + 2].chars().for_each(|char| text.char(char)),
        }
        self.at += inner.len() + 2;
        Ok(())
    }

    /// Parses quotes, an escaped character or an expansion outside of double quotes.
    fn quoted_or_expanded(&mut self, text: &mut TextBuilder) -> Result<(), String> {
        match self.take() {
            Some('\'') => self.single_quoted(text),
            Some('"') => {
                self.double_quotes += 1;
                let read = self.double_quoted(text);
                self.double_quotes -= 1;
                read
            }
            Some('\\') => match self.take() {
                None => self.error("a backslash ends the line"),
                Some('\n') => self.error("a word goes on in the next line"),
                Some(char) if char.is_ascii_alphanumeric() => {
                    self.error("fish reads a backslash in front of a letter or a digit differently")
                }
                Some(char) => {
                    text.char(char);
                    Ok(())
                }
            },
            Some('`') => self.backticks(text, false),
            _ => self.expansion(text, false),
        }
    }

    fn single_quoted(&mut self, text: &mut TextBuilder) -> Result<(), String> {
        let Some((inner, _)) = self.rest().split_once('\'') else { return self.error("a quote has no end") };
        if inner.ends_with('\\') {
            return self.error("shells read a backslash before a quote differently");
        }
        // Inside of double quotes, history expansion treats the quote as a plain character; an older bash
        // examines each line separately.
        let unquoted =
            if self.double_quotes > 0 { Some(inner) } else { inner.split_once('\n').map(|(_, rest)| rest) };
        if unquoted.is_some_and(has_history) {
            return self.error(HISTORY);
        }
        inner.chars().for_each(|char| text.char(char));
        self.at += inner.len() + 1;
        Ok(())
    }

    fn double_quoted(&mut self, text: &mut TextBuilder) -> Result<(), String> {
        loop {
            match self.take() {
                None => return self.error("a quote has no end"),
                Some('"') => return Ok(()),
                Some('`') => self.backticks(text, true)?,
                Some('$') => self.expansion(text, true)?,
                Some('!') if expands_history(self.rest()) => return self.error(HISTORY),
                Some('\\') => match self.char() {
                    Some('\n') => return self.error("a quoted text goes on behind a backslash"),
                    Some(char @ ('$' | '`' | '"' | '\\')) => {
                        self.take();
                        text.char(char);
                    }
                    _ => text.char('\\'),
                },
                Some(char) => text.char(char),
            }
        }
    }

    fn backticks(&mut self, text: &mut TextBuilder, quoted: bool) -> Result<(), String> {
        let Some((inner, _)) = self.rest().split_once('`') else {
            return self.error("a substitution has no end");
        };
        if inner.contains(['\\', '"', '\'', '\n']) {
            return self.error("shells read quotes in backticks differently");
        }
        let script = self.nested(|reader| read_at(inner, reader.depth))?;
        self.script.commands.extend(script.commands);
        self.script.inputs.extend(script.inputs);
        self.script.variables.extend(script.variables);
        self.script.fed |= script.fed;
        open(text, "$(…)", quoted);
        self.at += inner.len() + 1;
        Ok(())
    }

    /// Parses the text after `$`.
    fn expansion(&mut self, text: &mut TextBuilder, quoted: bool) -> Result<(), String> {
        let rest = self.rest();
        match self.char() {
            Some('(') if rest.starts_with("((") => self.error("arithmetic is not read"),
            Some('(') => self.substitution(text, quoted),
            Some('{') => self.braced(text, quoted),
            Some(char) if char.is_ascii_alphabetic() || char == '_' => {
                let length = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
                let name = &rest[..length.unwrap_or(rest.len())];
                self.at += name.len();
                open(text, &format!("${name}"), quoted);
                self.behind_parameter(text, quoted)
            }
            Some(char) if SPECIAL.contains(char) => {
                self.take();
                if char == '#'
                    && self.char().is_some_and(|next| next.is_ascii_alphanumeric() || "_{$".contains(next))
                {
                    return self.error("shells read `$#` in front of a name differently");
                }
                if char == '!' && expands_history(self.rest()) && (quoted || self.char() != Some(';')) {
                    return self.error(HISTORY);
                }
                open(text, &format!("${char}"), quoted);
                self.behind_parameter(text, quoted)
            }
            None | Some(' ' | '\n') => {
                text.char('$');
                Ok(())
            }
            Some('"' | '/' | '|' | ')') if quoted => {
                text.char('$');
                Ok(())
            }
            _ => self.error("shells read this `$` differently"),
        }
    }

    /// zsh parses an index and modifiers after a parameter without braces.
    fn behind_parameter(&mut self, text: &mut TextBuilder, quoted: bool) -> Result<(), String> {
        match self.char() {
            Some('[') => self.error("shells read an index of a variable differently"),
            Some(':') => {
                self.take();
                open(text, ":", quoted);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn substitution(&mut self, text: &mut TextBuilder, quoted: bool) -> Result<(), String> {
        if !self.waiting.is_empty() {
            return self.error("a substitution stands behind a here-document");
        }
        self.take();
        self.nested(|reader| reader.list(&ListTerminator::Parenthesis))?;
        // The list peeks at the parenthesis without consuming it.
        self.peeked = None;
        if !self.waiting.is_empty() {
            return self.error("a here-document has no body");
        }
        open(text, "$(…)", quoted);
        Ok(())
    }

    /// Parses `${NAME}`, `${#NAME}`, and `${NAME...}` with a common operator and plain text.
    fn braced(&mut self, text: &mut TextBuilder, quoted: bool) -> Result<(), String> {
        let rest = self.rest();
        let Some((inner, _)) = rest[1..].split_once('}') else { return self.error("a brace has no end") };
        let whole = inner.strip_prefix('#').unwrap_or(inner);
        let length =
            whole.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(whole.len());
        let (name, operation) = whole.split_at(length);
        let operators = [":-", ":+", "##", "%%", "-", "+", "#", "%", "//", "/"];
        let plain =
            |text: &str| text.chars().all(|char| char.is_alphanumeric() || PLAIN_IN_EXPANSION.contains(char));
        let word = operators.iter().find_map(|operator| operation.strip_prefix(operator));
        let counts = operation.strip_prefix(':').is_some_and(|numbers| {
            !numbers.is_empty() && numbers.chars().all(|char| char.is_ascii_digit() || char == ':')
        });
        if !is_name(name) || !(operation.is_empty() || counts || word.is_some_and(plain)) {
            return self.error("shells read this expansion differently");
        }
        open(text, &format!("${{{inner}}}"), quoted);
        self.at += inner.len() + 2;
        Ok(())
    }
}
