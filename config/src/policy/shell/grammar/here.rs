//! Here-documents whose bodies all shells read literally.

use super::ShellParser;

/// A here-document that `<<` announced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HereDocument {
    delimiter: String,
    /// Whether the delimiter is quoted, which disables expansion.
    quoted: bool,
    /// Whether leading tabs are removed.
    strips: bool,
}

impl ShellParser<'_> {
    /// Parses the delimiter behind `<<` or `<<-`.
    pub(super) fn announce(&mut self, strips: bool) -> Result<(), String> {
        while self.takes(" ") || self.takes("\t") {}
        let quote = self.char().filter(|char| matches!(char, '\'' | '"'));
        if quote.is_some() {
            self.take();
        }
        let start = self.at;
        while self.char().is_some_and(|char| char.is_ascii_alphanumeric() || char == '_') {
            self.take();
        }
        let delimiter = self.text[start..self.at].to_owned();
        let closed = quote.is_none() || self.take() == quote;
        let ends = self.char().is_none_or(|char| " \t\n;&|)<>".contains(char));
        if delimiter.is_empty() || !closed || !ends {
            return self.error("the delimiter of a here-document is not a plain name");
        }
        self.waiting.push(HereDocument { delimiter, quoted: quote.is_some(), strips });
        Ok(())
    }

    /// Parses the bodies after the end of a line.
    pub(super) fn here_documents(&mut self) -> Result<(), String> {
        for document in std::mem::take(&mut self.waiting) {
            let mut body = String::new();
            loop {
                let rest = self.rest();
                let (line, length) = match rest.split_once('\n') {
                    Some((line, _)) => (line, line.len() + 1),
                    None => (rest, rest.len()),
                };
                if length == 0 {
                    return self.error("a here-document has no end");
                }
                self.at += length;
                let line = if document.strips { line.trim_start_matches('\t') } else { line };
                if line == document.delimiter {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            if !document.quoted && !expands_plainly(&body) {
                return self.error("a here-document has substitutions in it");
            }
            self.script.inputs.push(body);
        }
        Ok(())
    }
}

/// Whether a body expands only variables.
fn expands_plainly(body: &str) -> bool {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    !body.contains(['`', '\\'])
        && body.split('$').skip(1).all(|rest| match rest.strip_prefix('{') {
            Some(rest) => {
                let name = rest.split(|char| !is_name(char)).next().unwrap_or_default();
                !name.is_empty() && rest[name.len()..].starts_with('}')
            }
            None if rest.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_') => {
                !rest.trim_start_matches(is_name).starts_with('[')
            }
            None => rest.is_empty() || rest.starts_with([' ', '\n']),
        })
}
