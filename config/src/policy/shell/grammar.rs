//! The subset of the shell language that dash, bash and zsh parse alike. Pure. Only a line of this
//! grammar can be allowed; `docs/policy.md` describes it. A differential test runs generated lines
//! in the three shells. Where the shells differ, parsing must end with the reason.

mod here;
mod word;

use super::text::ShellText;
use here::HereDocument;
use word::{HISTORY, ShellWord, expands_history};

/// Maximum nesting of compound commands and substitutions.
const MAX_DEPTH: usize = 12;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    pub(super) assignments: Vec<ShellText>,
    pub(super) words: Vec<ShellText>,
    /// The comment that follows. An interactive zsh may read it as further words.
    pub(super) comment: Option<String>,
    /// Whether a redirect changes its standard input.
    pub(super) moves_input: bool,
    /// Operators with their targets.
    pub(super) redirects: Vec<(&'static str, ShellText)>,
}

/// The content of a line; the order is undefined.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShellScript {
    pub(super) commands: Vec<SimpleCommand>,
    /// Bodies of here-documents, and the texts behind `<<<`.
    pub(super) inputs: Vec<String>,
    /// Variables that loops set.
    pub(super) variables: Vec<String>,
    /// Whether a command reads from a pipe, a file or a text of the line.
    pub(super) fed: bool,
}

/// Parses a line.
///
/// # Errors
/// The reason why a shell may parse it differently.
pub(super) fn read(text: &str) -> Result<ShellScript, String> {
    if ["/dev/tcp", "/dev/udp"].iter().any(|folder| text.contains(folder)) {
        return Err("bash opens a connection for such a file".to_owned());
    }
    if let Some(char) = text.chars().find(|char| is_odd(*char)) {
        return Err(format!(
            "there is a character in it that shells read differently (U+{:04X})",
            u32::from(char)
        ));
    }
    if text.lines().any(|line| line.trim_start().starts_with('^')) {
        return Err("an interactive shell changes the last command at a `^` in front of a line".to_owned());
    }
    read_at(text, 0)
}

fn read_at(text: &str, depth: usize) -> Result<ShellScript, String> {
    let mut reader = ShellParser {
        text,
        at: 0,
        peeked: None,
        waiting: Vec::new(),
        comment: None,
        descriptor: None,
        double_quotes: 0,
        depth,
        script: ShellScript::default(),
    };
    reader.list(&ListTerminator::Input)?;
    match reader.waiting.is_empty() {
        true => Ok(reader.script),
        false => Err("a here-document has no body".to_owned()),
    }
}

/// Whether a word belongs to `time`.
fn is_of_time(word: &ShellText) -> bool {
    word.shown == "time" || word.shown.starts_with('-')
}

/// Control characters, and blanks that only some shells recognize.
fn is_odd(char: char) -> bool {
    let line = matches!(char, ' ' | '\t' | '\n');
    !line && (char.is_control() || char.is_whitespace())
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(ShellWord),
    Operator(&'static str),
    Newline,
    End,
}

enum ListTerminator {
    Input,
    Parenthesis,
    /// One of these reserved words.
    Words(&'static [&'static str]),
}

/// Operators; longer ones precede their prefixes.
const OPERATORS: &[&str] =
    &["<<<", "<<-", "&>>", "&>", "&&", "||", ">>", ">&", "<<", "<&", ";", "&", "|", "(", ")", "<", ">"];
/// Operators that a shell lacks or parses differently.
const DIALECT: &[&str] = &[
    "&>!", "&>>!", ">|", "|&", "<>", ";;", ";&", ";|", "&|", "&!", "((", "<(", ">(", ">!", ">>!", ">>|",
    "<<<<",
];
/// Reserved words that start a supported compound command.
const COMPOUND: &[&str] = &["(", "{", "for", "if", "until", "while"];

struct ShellParser<'a> {
    text: &'a str,
    /// Offset of the next byte.
    at: usize,
    peeked: Option<Token>,
    /// Here-documents whose bodies begin on the next line.
    waiting: Vec<HereDocument>,
    /// The comment in front of the current token.
    comment: Option<String>,
    /// The file descriptor before the last operator.
    descriptor: Option<char>,
    /// Number of double quotes around the position, including those around a substitution.
    double_quotes: usize,
    depth: usize,
    script: ShellScript,
}

impl<'a> ShellParser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let char = self.char()?;
        self.at += char.len_utf8();
        Some(char)
    }

    /// Consumes this text if it comes next.
    fn takes(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn error<T>(&self, why: &str) -> Result<T, String> {
        let at = self.text[..self.at].chars().count() + 1;
        Err(format!("{why} (character {at})"))
    }

    fn peek(&mut self) -> Result<&Token, String> {
        if self.peeked.is_none() {
            self.peeked = Some(self.token()?);
        }
        Ok(self.peeked.as_ref().unwrap_or(&Token::End))
    }

    fn next(&mut self) -> Result<Token, String> {
        self.peek()?;
        Ok(self.peeked.take().unwrap_or(Token::End))
    }

    fn token(&mut self) -> Result<Token, String> {
        self.descriptor = None;
        loop {
            while self.takes(" ") || self.takes("\t") || self.continues() {}
            if !self.takes("#") {
                break;
            }
            self.comment()?;
        }
        match self.char() {
            None => Ok(Token::End),
            Some('\n') => {
                self.take();
                self.here_documents()?;
                Ok(Token::Newline)
            }
            // The number is a file descriptor.
            Some('0'..='9') if self.rest()[1..].starts_with(['<', '>']) => {
                self.descriptor = self.take();
                self.operator().map(Token::Operator)
            }
            Some(';' | '&' | '|' | '(' | ')' | '<' | '>') => self.operator().map(Token::Operator),
            Some(_) => self.word().map(Token::Word),
        }
    }

    /// Consumes an escaped line end between words. Inside of a word it would join both parts.
    fn continues(&mut self) -> bool {
        self.text[..self.at].ends_with([' ', '\t']) && self.takes("\\\n")
    }

    /// An interactive zsh parses a comment as words, so it must contain only plain words.
    fn comment(&mut self) -> Result<(), String> {
        let begin = self.at;
        while let Some(char) = self.char().filter(|char| *char != '\n') {
            if !char.is_alphanumeric() && !" \t_-./:,+@%=#!?*^".contains(char) {
                return self.error("a comment holds more than plain words");
            }
            if char == '!' && expands_history(&self.rest()[1..]) {
                return self.error(HISTORY);
            }
            self.take();
        }
        self.comment = Some(self.text[begin..self.at].to_owned());
        Ok(())
    }

    fn operator(&mut self) -> Result<&'static str, String> {
        if let Some(dialect) = DIALECT.iter().find(|operator| self.rest().starts_with(**operator)) {
            return self.error(&format!("shells read `{dialect}` differently"));
        }
        match OPERATORS.iter().find(|operator| self.rest().starts_with(**operator)) {
            Some(operator) => {
                self.at += operator.len();
                Ok(operator)
            }
            None => self.error("this operator is not read"),
        }
    }

    /// Parses commands up to the end, which is not consumed.
    fn list(&mut self, end: &ListTerminator) -> Result<(), String> {
        loop {
            while *self.peek()? == Token::Newline {
                self.next()?;
            }
            self.pipelines()?;
            let more = matches!(self.peek()?, Token::Operator(";" | "&") | Token::Newline);
            if more {
                self.next()?;
                while *self.peek()? == Token::Newline {
                    self.next()?;
                }
            }
            if self.is_at(end)? {
                return Ok(());
            }
            if !more {
                return self.error("a command does not end here");
            }
        }
    }

    fn is_at(&mut self, end: &ListTerminator) -> Result<bool, String> {
        Ok(match (self.peek()?, end) {
            (Token::End, ListTerminator::Input) | (Token::Operator(")"), ListTerminator::Parenthesis) => true,
            (Token::Word(word), ListTerminator::Words(ends)) => ends.iter().any(|end| word.is(end)),
            _ => false,
        })
    }

    fn pipelines(&mut self) -> Result<(), String> {
        loop {
            if matches!(self.peek()?, Token::Word(word) if word.is("!")) {
                self.next()?;
            }
            self.command()?;
            match self.peek()? {
                Token::Operator(operator @ ("&&" | "||" | "|")) => {
                    self.script.fed |= *operator == "|";
                    self.next()?;
                }
                _ => return Ok(()),
            }
            while *self.peek()? == Token::Newline {
                self.next()?;
            }
        }
    }

    fn command(&mut self) -> Result<(), String> {
        let reserved = match self.peek()? {
            Token::Operator("(") => "(",
            Token::Word(word) => word.reserved(),
            _ => "",
        };
        if reserved.is_empty() {
            return self.simple();
        }
        if !COMPOUND.contains(&reserved) {
            return self.error(&format!("`{reserved}` is not read here"));
        }
        self.next()?;
        self.nested(|reader| reader.compound(reserved))?;
        while let Token::Operator(operator @ ("<" | ">" | ">>" | ">&" | "<&")) = self.peek()? {
            let operator = *operator;
            self.next()?;
            let redirects = self.redirect(operator)?.into_iter().collect();
            self.script.commands.push(SimpleCommand { redirects, ..SimpleCommand::default() });
        }
        Ok(())
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth >= MAX_DEPTH {
            return self.error("there is too much nested in it");
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn compound(&mut self, reserved: &str) -> Result<(), String> {
        match reserved {
            "(" => {
                self.list(&ListTerminator::Parenthesis)?;
                self.next()?;
            }
            "{" => {
                self.until(&["}"])?;
            }
            "if" => loop {
                self.until(&["then"])?;
                match self.until(&["elif", "else", "fi"])? {
                    "elif" => {}
                    "else" => break self.until(&["fi"]).map(drop)?,
                    _ => break,
                }
            },
            "while" | "until" => {
                self.until(&["do"])?;
                self.until(&["done"])?;
            }
            _ => {
                self.for_words()?;
                self.until(&["done"])?;
            }
        }
        Ok(())
    }

    /// Parses commands up to one of these reserved words, and consumes and returns it.
    fn until(&mut self, ends: &'static [&'static str]) -> Result<&'static str, String> {
        self.list(&ListTerminator::Words(ends))?;
        match self.next()? {
            Token::Word(word) => Ok(ends.iter().find(|end| word.is(end)).copied().unwrap_or_default()),
            _ => self.error("a compound command has no end"),
        }
    }

    /// Parses the variable and the words of a `for` up to `do`.
    fn for_words(&mut self) -> Result<(), String> {
        match (self.next()?, self.next()?) {
            (Token::Word(name), Token::Word(word)) if name.is_name() && word.is("in") => {
                self.script.variables.push(name.text.shown);
            }
            _ => return self.error("only `for NAME in WORDS` is read"),
        }
        while let Token::Word(_) = self.peek()? {
            if let Token::Word(word) = self.next()? {
                self.check_argument(&word)?;
                self.script.inputs.push(word.text.shown);
            }
        }
        if !matches!(self.next()?, Token::Operator(";") | Token::Newline) {
            return self.error("the words of `for` do not end here");
        }
        while *self.peek()? == Token::Newline {
            self.next()?;
        }
        match self.next()? {
            Token::Word(word) if word.is("do") => Ok(()),
            _ => self.error("`for` has no `do`"),
        }
    }

    fn simple(&mut self) -> Result<(), String> {
        let mut command = SimpleCommand::default();
        self.comment = None;
        loop {
            match self.peek()? {
                Token::Word(_) => {
                    let Token::Word(word) = self.next()? else { continue };
                    if command.words.is_empty() && word.assigns {
                        command.assignments.push(word.text);
                        continue;
                    }
                    match command.words.first() {
                        None => self.check_program(&word)?,
                        // bash and zsh then expect the start of a command.
                        Some(first) if first.shown == "time" && command.words[1..].iter().all(is_of_time) => {
                            if !is_of_time(&word.text) {
                                self.check_program(&word)?;
                            }
                        }
                        Some(_) => self.check_argument(&word)?,
                    }
                    command.words.push(word.text);
                }
                Token::Operator(operator @ ("<" | ">" | ">>" | ">&" | "<&" | "<<" | "<<-" | "<<<")) => {
                    let operator = *operator;
                    command.moves_input |=
                        self.descriptor.map_or(operator.starts_with('<'), |number| number == '0');
                    self.next()?;
                    command.redirects.extend(self.redirect(operator)?);
                }
                Token::Operator(operator @ ("&>" | "&>>")) => {
                    let operator = *operator;
                    self.next()?;
                    command.redirects.push((operator, self.both_outputs(operator)?));
                    break;
                }
                Token::Operator("(") => return self.error("a parenthesis is not read here"),
                _ => break,
            }
        }
        if command.words.is_empty() && (command.assignments.is_empty() || !command.redirects.is_empty()) {
            return self.error("a command is missing");
        }
        command.comment = self.comment.take();
        self.script.commands.push(command);
        Ok(())
    }

    /// Parses the target of `&>`. dash runs the text before it in the background and opens the file itself,
    /// so the command must end there.
    fn both_outputs(&mut self, operator: &str) -> Result<ShellText, String> {
        let Token::Word(word) = self.next()? else { return self.error("a redirect has no target") };
        let ends = matches!(
            self.peek()?,
            Token::End | Token::Newline | Token::Operator(";" | "&" | "&&" | "|" | "||" | ")")
        );
        let target = word.text.shown.as_str();
        // zsh accepts a file descriptor there.
        let is_file =
            target.starts_with(|char: char| char.is_alphabetic() || "/._".contains(char)) && target != "p";
        if !ends || !is_file {
            return self.error(&format!("shells read `{operator}` differently"));
        }
        Ok(word.text)
    }

    fn check_program(&self, word: &ShellWord) -> Result<(), String> {
        let name = &word.text.shown;
        if !word.reserved().is_empty()
            || name.is_empty()
            || name.contains('=')
            || name.starts_with(['-', '+', '%', '{'])
        {
            return self.error(&format!("shells read the command `{name}` differently"));
        }
        Ok(())
    }

    fn check_argument(&self, word: &ShellWord) -> Result<(), String> {
        match word.is("{") || word.is("}") {
            true => self.error("a brace is not read here"),
            false => Ok(()),
        }
    }

    /// Parses the target of an operator; `None` if it opens no file.
    fn redirect(&mut self, operator: &'static str) -> Result<Option<(&'static str, ShellText)>, String> {
        self.script.fed |= operator.starts_with('<');
        if operator.starts_with("<<") && operator != "<<<" {
            self.announce(operator == "<<-")?;
            return Ok(None);
        }
        // In zsh `<1-2>` is a pattern.
        if operator == "<" && self.char().is_some_and(|char| char.is_ascii_digit() || char == '-') {
            return self.error("shells read a number behind `<` differently");
        }
        let Token::Word(word) = self.next()? else { return self.error("a redirect has no target") };
        self.check_argument(&word)?;
        let target = &word.text.shown;
        match operator {
            "<<<" => {
                self.script.inputs.push(word.text.shown);
                Ok(None)
            }
            ">&" | "<&" if word.bare && (target == "-" || (target.len() == 1 && word.is_number())) => {
                Ok(None)
            }
            ">&" | "<&" => self.error(&format!("shells read `{operator}{target}` differently")),
            "<" if word.text.is_open()
                && ["tcp", "udp", "/dev/"].iter().any(|part| target.contains(part)) =>
            {
                self.error("a redirect may open a connection")
            }
            _ if target.is_empty() || target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/") => {
                self.error("a redirect opens a connection or nothing")
            }
            _ => Ok(Some((operator, word.text))),
        }
    }
}

#[cfg(test)]
mod tests;
