//! What a command prints: one document on stdout, or an error where the contract wants it.

// Commands never print by themselves (but for the followed `watch`, the line of a wait and
// warnings); they return an [`CliOutcome`]. What a terminal gets instead of the contract's lines
// is made here, from the same data.

pub mod advice;
pub mod ago;
pub mod errors;
pub mod human;
pub mod live;
pub mod page;
pub mod redrawn;
pub(crate) mod rule;
pub mod short;
pub mod style;
pub mod table;
pub mod terminal;
pub mod text;

use std::io::{self, BufWriter, Write as _};
use std::mem::ManuallyDrop;
use std::process::ExitCode;

use serde_json::Value;
pub use subagent_protocol::json;

use crate::failure::Failure;
use subagent_protocol::clean::clean;
use subagent_protocol::worker_name;
use terminal::OutputTerminal;

/// How much of a document is written at once.
const WRITE_BYTES: usize = 16 * 1024;

/// The form that the caller asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Lines for people and simple scripts.
    Text,
    /// One JSON document for programs.
    Json,
}

impl OutputFormat {
    /// The form that belongs to `--json`.
    #[must_use]
    pub fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// What a command has to say after it succeeded.
#[derive(Debug)]
pub enum CliOutcome {
    /// A result, as data and as text (lines, without the last newline).
    Report {
        /// The field `type` of the envelope.
        kind: &'static str,
        /// The field `data` of the envelope.
        data: Value,
        /// The same for people; empty prints nothing.
        text: String,
        /// What people read beside the text. At a pipe it goes to stderr: what reads stdout takes lines for items.
        note: Option<String>,
        /// How the workers were addressed. A view says their names where the data have ids alone.
        addresses: Vec<String>,
    },
    /// A result that says whether all is well, in its exit code too (`doctor`).
    Judged {
        /// The field `type` of the envelope.
        kind: &'static str,
        /// The field `data` of the envelope.
        data: Value,
        /// The same for people.
        text: String,
        /// The exit code of the process.
        code: u8,
    },
    /// A result that was cut short, as far as it got, and the error that ended it.
    CutShort {
        /// The field `type` of the envelope.
        kind: &'static str,
        /// The envelope's `data`, which has the error too.
        data: Value,
        /// The result for people; empty prints nothing.
        text: String,
        /// The error, on stderr.
        failure: Box<Failure>,
        /// The exit code of the process.
        code: u8,
    },
    /// Text that is the same in every form.
    Lines(String),
    /// A document without an envelope (`subagentd run` and `status`), with the exit code that belongs to it.
    Bare {
        /// The document that `--json` prints.
        document: Value,
        /// The same for people.
        text: String,
        /// The exit code of the process.
        code: u8,
    },
    /// An error with an exit code of its own.
    Failed {
        /// The error that is reported.
        failure: Box<Failure>,
        /// The exit code of the process.
        code: u8,
    },
    /// Everything was printed while it happened; how to exit.
    Printed(ExitCode),
}

impl CliOutcome {
    /// Returns a result without a note.
    #[must_use]
    pub fn report(kind: &'static str, data: Value, text: String) -> Self {
        Self::Report { kind, data, text, note: None, addresses: Vec::new() }
    }

    /// An error with this exit code.
    #[must_use]
    pub fn failed(code: u8, failure: Failure) -> Self {
        Self::Failed { failure: Box::new(failure), code }
    }

    /// A list of these lines; `none` is what people read where there are none.
    #[must_use]
    pub fn list(kind: &'static str, data: Value, lines: String, none: &str) -> Self {
        let note = lines.is_empty().then(|| none.to_owned());
        Self::Report { kind, data, text: lines, note, addresses: Vec::new() }
    }

    /// The same with a note for people.
    #[must_use]
    pub fn with_note(mut self, more: impl Into<String>) -> Self {
        if let Self::Report { note, .. } = &mut self {
            *note = Some(more.into());
        }
        self
    }

    /// The same where the worker was addressed like this, or each of its workers.
    #[must_use]
    pub fn of_workers(mut self, typed: &[String]) -> Self {
        if let Self::Report { addresses, .. } = &mut self {
            *addresses = typed.to_vec();
        }
        self
    }

    /// The same with several, each on lines of its own.
    #[must_use]
    pub fn with_notes(self, notes: &[String]) -> Self {
        if notes.is_empty() { self } else { self.with_note(notes.join("\n")) }
    }
}

/// Prints a result or an error and says how the process should exit.
#[must_use]
pub fn finish(format: OutputFormat, result: Result<CliOutcome, Failure>) -> ExitCode {
    let (printed, code) = match result {
        Ok(CliOutcome::Report { kind, mut data, text, note, addresses }) => {
            if format == OutputFormat::Text {
                name_workers(&mut data, &addresses);
            }
            (report(format, kind, data, text, note), 0)
        }
        Ok(CliOutcome::Judged { kind, data, text, code }) => (report(format, kind, data, text, None), code),
        Ok(CliOutcome::CutShort { kind, data, text, failure, code }) => {
            let printed = report(format, kind, data, text, None);
            if format == OutputFormat::Text {
                write_stderr(&explained(&failure));
            }
            (printed, code)
        }
        Ok(CliOutcome::Lines(text)) => (print(&harmless(text)), 0),
        Ok(CliOutcome::Bare { document, text, code }) => match format {
            OutputFormat::Json => (print_document(document), code),
            OutputFormat::Text => (print(&harmless(text)), code),
        },
        Ok(CliOutcome::Printed(code)) => return code,
        Ok(CliOutcome::Failed { failure, code }) => return failed(format, &failure, code),
        Err(failure) => return failed(format, &failure, failure.exit_code()),
    };
    match printed {
        Ok(()) => ExitCode::from(code),
        Err(error) => unprintable(&error, code),
    }
}

/// Adds the names by which workers were addressed: of the one that the data are about, or of each item.
fn name_workers(data: &mut Value, addresses: &[String]) {
    let name = |of: &mut Value, address: &String| {
        if worker_name::check(address).is_ok() && of.get("name").is_none() {
            json::extend(of, [("name", address.as_str().into())]);
        }
    };
    match (data.get_mut("items").and_then(Value::as_array_mut), addresses) {
        (Some(items), several) => {
            items.iter_mut().zip(several).for_each(|(item, address)| name(item, address))
        }
        (None, [one]) => name(data, one),
        (None, _) => {}
    }
}

fn failed(format: OutputFormat, failure: &Failure, code: u8) -> ExitCode {
    if format == OutputFormat::Json {
        return match print_document(errors::envelope(failure)) {
            Ok(()) => ExitCode::from(code),
            Err(error) => unprintable(&error, code),
        };
    }
    write_stderr(&explained(failure));
    ExitCode::from(code)
}

/// The lines of an error for stderr.
pub(crate) fn explained(failure: &Failure) -> String {
    match OutputTerminal::of_stderr() {
        Some(terminal) => human::failure(failure, terminal),
        None => errors::text(failure) + "\n",
    }
}

fn report(
    format: OutputFormat,
    kind: &str,
    data: Value,
    text: String,
    note: Option<String>,
) -> io::Result<()> {
    match (format, OutputTerminal::of_stdout()) {
        (OutputFormat::Json, _) => print_document(success(kind, data)),
        (OutputFormat::Text, Some(terminal)) => {
            // Without lines the note says that there are none: a view has words of its own for that.
            let note = note.map(|note| human::prose(&note, terminal));
            let (text, below) = if text.is_empty() { (note.unwrap_or_default(), None) } else { (text, note) };
            let shown = human::report(kind, &data, &text, terminal);
            print(&match below {
                Some(note) => format!("{}\n\n{note}", shown.trim_end()),
                None => shown,
            })
        }
        (OutputFormat::Text, None) => {
            if let Some(note) = note {
                complain(&note);
            }
            print(&text)
        }
    }
}

/// Prints a document. It may be long, so what no terminal gets is written without the whole of it as text.
fn print_document(value: Value) -> io::Result<()> {
    if OutputTerminal::of_stdout().is_some() {
        return print(&document(value));
    }
    let mut out = BufWriter::with_capacity(WRITE_BYTES, io::stdout().lock());
    // The process ends here. To free a long document takes as long as to write it.
    let mut value = ManuallyDrop::new(value);
    json::write_line(&mut value, &mut out)?;
    out.flush()
}

/// The envelope of a result.
#[must_use]
pub fn success(kind: &str, data: Value) -> Value {
    // Not with `json!`, which would copy the data.
    let members =
        [("schemaVersion", "v1".into()), ("ok", true.into()), ("type", kind.into()), ("data", data)];
    Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A document in one line, as stdout may have it: at a terminal what would act on it is escaped, which is the same JSON.
#[must_use]
pub fn document(value: Value) -> String {
    let line = json::line(value);
    if OutputTerminal::of_stdout().is_some() { escaped(&line) } else { line }
}

/// JSON with escapes for the control characters that it may hold as they are, and for marks that turn the direction of
/// text. Below U+0020 it holds none, and the others are in strings.
fn escaped(line: &str) -> String {
    let acts = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    line.chars().fold(String::with_capacity(line.len()), |mut text, c| {
        if acts(c) {
            text.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            text.push(c);
        }
        text
    })
}

/// Writes the text and a newline to stdout; an empty text writes nothing.
///
/// # Errors
/// What the system says; a closed pipe is `BrokenPipe`.
pub fn print(text: &str) -> io::Result<()> {
    if text.is_empty() || text.ends_with('\n') { write(text) } else { write(&format!("{text}\n")) }
}

/// Writes the text to stdout as it is.
///
/// # Errors
/// As [`print()`].
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Text of a command that has no rendering of its own, as stdout may have it.
fn harmless(text: String) -> String {
    if OutputTerminal::of_stdout().is_some() { clean(&text).into_owned() } else { text }
}

/// Writes a line to stderr. Errors are ignored, because there is no other place to report them.
pub fn complain(text: &str) {
    match OutputTerminal::of_stderr() {
        Some(_) => write_stderr(&format!("{}\n", clean(text))),
        None => write_stderr(&format!("{text}\n")),
    }
}

/// Writes sentences to stderr, one a line; at a terminal they are wrapped.
pub fn explain(sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    let text = sentences.join("\n");
    match OutputTerminal::of_stderr() {
        Some(terminal) => write_stderr(&format!("{}\n", human::prose(&text, terminal))),
        None => write_stderr(&format!("{text}\n")),
    }
}

/// Writes to stderr what was made for it.
pub fn write_stderr(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The exit after stdout could not be written. A reader that has enough (`| head`) is no error, and changes nothing
/// about the command's own `code`.
#[must_use]
pub fn unprintable(error: &io::Error, code: u8) -> ExitCode {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ExitCode::from(code);
    }
    complain(&format!("cannot write to stdout: {error}"));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn escaped_json_is_the_same_json() {
        let value = json!({"a\u{9b}": "x\u{7f}\u{202e}\u{1b}\u{e4}\\\u{85}"});
        let line = escaped(&json::line(value.clone()));
        assert_eq!(line, r#"{"a\u009b": "x\u007f\u202e\u001bä\\\u0085"}"#);
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }
}
