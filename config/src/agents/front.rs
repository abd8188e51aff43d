//! Splits a file into front matter (a JSON value and the positions of its keys) and body. Pure: every input
//! gives a result or a problem with a position.

use serde_json::Value;

use super::keys::{self, KeyPositions};
use super::problem::DefinitionProblem;
use super::{MAX_BYTES, Severity};
use crate::policy::Position;
use crate::syntax;

#[derive(Debug)]
pub(super) struct DefinitionFile {
    /// The front matter; null if it is empty or there is none.
    pub(super) document: Value,
    /// The positions of its keys in the file.
    pub(super) keys: KeyPositions,
    /// The text after the front matter.
    pub(super) body: String,
    /// The repair that was needed to parse the front matter.
    pub(super) note: Option<DefinitionProblem>,
}

/// Splits a file.
///
/// # Errors
/// The problem and its position.
pub(super) fn split(bytes: &[u8]) -> Result<DefinitionFile, DefinitionProblem> {
    if bytes.len() > MAX_BYTES {
        return Err(DefinitionProblem::error(format!("is larger than {MAX_BYTES} bytes; shorten it")));
    }
    let text = str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\0') {
        return Err(DefinitionProblem::error("holds a NUL character; is it a text?"));
    }
    // Windows editors end lines with CR LF, old Mac editors with CR.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = text.split_inclusive('\n');
    if lines.next().map(str::trim_end) != Some(MARK) {
        return Ok(DefinitionFile {
            document: Value::Null,
            keys: KeyPositions::default(),
            body: text,
            note: None,
        });
    }
    // An empty line replaces the `---` line, so that line numbers match the file.
    let mut yaml = "\n".to_owned();
    let mut closed = false;
    for line in lines.by_ref() {
        if matches!(line.trim_end(), MARK | "...") {
            closed = true;
            break;
        }
        yaml.push_str(line);
    }
    if !closed {
        let what = format!("the front matter that begins here has no closing `{MARK}`");
        return Err(DefinitionProblem::error(what).at(Some(Position { line: 1, column: 1 })));
    }
    let body: String = lines.collect();
    let (yaml, note, document) = match syntax::parse(&yaml) {
        Ok(document) => (yaml, None, document),
        Err(found) => {
            let (quoted, at) = with_texts_quoted(&yaml);
            match syntax::parse(&quoted) {
                Ok(document) if at.is_some() => (quoted, Some(quoted_note(at)), document),
                _ => return Err(located(found)),
            }
        }
    };
    Ok(DefinitionFile { keys: keys::of(&yaml), document, body, note })
}

const MARK: &str = "---";

/// Keys with a one-line text. Authors often omit the quotes that YAML requires around a `: `.
const TEXTS: [&str; 2] = ["description", "name"];

/// Quotes such texts. Also returns the position of the first one.
fn with_texts_quoted(yaml: &str) -> (String, Option<Position>) {
    let mut first = None;
    let mut quoted = String::with_capacity(yaml.len() + 16);
    for (index, line) in yaml.split_inclusive('\n').enumerate() {
        let plain = TEXTS.iter().find_map(|key| {
            let value = line.strip_prefix(key)?.strip_prefix(':')?;
            let begins = value.starts_with([' ', '\t']).then(|| value.trim())?;
            let is_text = !begins.starts_with(['"', '\'', '|', '>', '[', '{', '&', '*', '!']);
            let breaks =
                begins.contains(": ") || begins.ends_with(':') || begins.starts_with(['@', '`', '%', '-']);
            (is_text && breaks).then_some((key, begins))
        });
        let Some((key, value)) = plain else {
            quoted.push_str(line);
            continue;
        };
        if first.is_none() {
            let line = u64::try_from(index + 1).unwrap_or(u64::MAX);
            first = Some(Position { line, column: 1 });
        }
        quoted.push_str(&format!("{key}: '{}'\n", value.replace('\'', "''")));
    }
    (quoted, first)
}

fn quoted_note(at: Option<Position>) -> DefinitionProblem {
    DefinitionProblem::new(Severity::Note, "this is not YAML and was read as text; put the text in quotes")
        .at(at)
}

fn located(found: syntax::SyntaxProblem) -> DefinitionProblem {
    let at = found.line.map(|line| Position { line, column: found.column.unwrap_or(1) });
    DefinitionProblem::error(found.problem).at(at)
}

fn not_utf8(bytes: &[u8], valid: usize) -> DefinitionProblem {
    let before = bytes.get(..valid).unwrap_or_default();
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    let columns = String::from_utf8_lossy(before.get(line_start..).unwrap_or_default()).chars().count();
    let count = |number: usize| u64::try_from(number + 1).unwrap_or(u64::MAX);
    let at = Position { line: count(lines), column: count(columns) };
    DefinitionProblem::error("is not UTF-8 text; save the file as UTF-8").at(Some(at))
}
