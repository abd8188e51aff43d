//! What a caller gets of a task: its result as one element of text, cut inside its limit, and errors in the same form.
//! Pure.
//!
//! The text of a result comes from an agent and is read by another one. It must not be able to end its element and go on
//! as something that this program has said: of every `<` behind which the name of an element of ours follows, however the
//! letters are written and whatever stands before or in it that is no letter and no digit, the `<` becomes `&lt;`. All other text
//! stays as it is, so that code and markup in a result can be read and copied. In attributes everything is escaped that
//! XML wants escaped, and what is no plain text on one line is taken out.
//!
//! **Tokens are estimated**, because nobody here knows the model that will read them: four characters of ASCII are one,
//! every other character is one. For English and code that is near the truth, for other scripts above it.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::api::{TaskShown, TaskStatus, TaskView};
use crate::clean::one_line;
use crate::error::{Code, Error};

/// The longest message of an error, in characters.
const MOST_MESSAGE_CHARS: usize = 4_000;

/// How many tokens a text has, as far as can be said without the model that reads it.
#[must_use]
pub fn tokens(text: &str) -> u64 {
    text.chars().map(quarters).sum::<u64>().div_ceil(4)
}

/// What one character costs, in quarters of a token.
const fn quarters(char: char) -> u64 {
    if char.is_ascii() { 1 } else { 4 }
}

/// What a caller is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One element.
    pub text: String,
    /// Whether it tells of an error.
    pub is_error: bool,
}

/// What an error is about, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct About<'a> {
    /// The agent's definition.
    pub agent: Option<&'a str>,
    /// The name of the task.
    pub name: Option<&'a str>,
    /// Its id.
    pub id: Option<&'a str>,
    /// How it ended.
    pub status: Option<TaskStatus>,
}

/// The result of a task without its element: cut inside the limit that its caller has. Of one without a result nothing.
///
/// # Errors
/// `RESULT_TOO_LARGE` for one that has to meet a schema: a part of it would not.
pub fn short(task: &TaskShown) -> Result<Cow<'_, str>, Error> {
    inside(Cow::Borrowed(task.result.as_deref().unwrap_or_default()), task)
}

/// All of the result of a task, and behind it what was said in the tasks below it that nobody sees in a list: each in an
/// element that none of them can end.
#[must_use]
pub fn full(task: &TaskShown) -> Cow<'_, str> {
    let result = task.result.as_deref().unwrap_or_default();
    if task.transcripts.is_empty() {
        return Cow::Borrowed(result);
    }
    let mut all = contained(result).into_owned();
    for transcript in &task.transcripts {
        let about = About {
            agent: transcript.agent.as_deref(),
            name: transcript.path.last().map(String::as_str),
            id: Some(transcript.task_id.as_str()),
            status: Some(transcript.status),
        };
        let text = format!("\n{}", contained(&transcript.text));
        let _ = write!(all, "\n\n{}", element("task_transcript", about, &text));
    }
    Cow::Owned(all)
}

/// What became of a task that has ended, for its caller. One that was stopped by a limit has what it had said by then.
#[must_use]
pub fn answer(task: &TaskShown) -> Answer {
    let view = &task.task;
    let about = About {
        agent: view.agent.as_deref(),
        name: Some(&view.name),
        id: Some(view.task_id.as_str()),
        status: (view.status != TaskStatus::Completed).then_some(view.status),
    };
    let said = contained(task.result.as_deref().unwrap_or_default());
    let is_empty = said.trim().is_empty();
    let said = match inside(said, task) {
        Ok(said) => said,
        Err(error) => return error_answer(about, error.code.as_str(), &error.message),
    };
    let limit = matches!(view.status, TaskStatus::MaxIterationsReached | TaskStatus::TimedOut);
    if view.status == TaskStatus::Completed || (limit && !is_empty) {
        return Answer { text: element("task_result", about, &said), is_error: false };
    }
    let (code, message) = why(view);
    let mut text = told(&code, &message);
    if !is_empty {
        let _ = write!(text, "\n\nWhat it had said by then:\n{said}");
    }
    Answer { text: element("task_error", about, &text), is_error: true }
}

/// The code and the message of the error with which a task has ended in another way than completed.
#[must_use]
pub fn why(task: &TaskView) -> (String, String) {
    match &task.error {
        Some(error) => (error.code.as_str().to_owned(), error.message.clone()),
        None => (task.status.as_str().to_uppercase(), reason(task.status).to_owned()),
    }
}

/// An error in place of a result.
#[must_use]
pub fn error_answer(about: About<'_>, code: &str, message: &str) -> Answer {
    Answer { text: element("task_error", about, &told(code, message)), is_error: true }
}

fn told(code: &str, message: &str) -> String {
    let message: String = message.chars().take(MOST_MESSAGE_CHARS).collect();
    contained(&format!("{code}: {message}")).into_owned()
}

const fn reason(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Cancelled => "the task was canceled",
        TaskStatus::MaxIterationsReached => {
            "the task has made as many tool calls as it may, and said nothing"
        }
        TaskStatus::TimedOut => "the task ran for as long as it may, and said nothing",
        TaskStatus::Lost => "what ran the task was lost in the middle of it",
        TaskStatus::Failed => "the task failed",
        TaskStatus::Completed => "the task has ended",
        TaskStatus::Queued | TaskStatus::Spawning | TaskStatus::Running | TaskStatus::WaitingApproval => {
            "the task has not ended"
        }
    }
}

/// The text, if it is inside the limit; else its beginning, and how much it would be.
fn inside<'a>(text: Cow<'a, str>, task: &TaskShown) -> Result<Cow<'a, str>, Error> {
    let (total, limit, name) = (tokens(&text), task.result_max_tokens, task.task.name.as_str());
    if total <= limit {
        return Ok(text);
    }
    // A name that no shell would take is not printed into a command.
    let named = if name == one_line(name) { name } else { task.task.task_id.as_str() };
    let command = format!("subagent task result {} --full", quoted(named));
    if task.result_schema.is_some() {
        let message = format!(
            "the result of the task has {total} tokens, more than the {limit} that its caller gets, and is not cut because it has to meet a schema; the whole of it: {command}"
        );
        let error = Error::new(Code::ResultTooLarge, message);
        return Err(error.with("tokens", total).with("limit", limit).with("recommendedCommand", command));
    }
    let mark = |shown: u64| {
        contained(&format!(
            "[Output truncated: {total} tokens total, showing first {shown}. Rest: {command}]"
        ))
        .into_owned()
    };
    // The number of those that are shown has no more digits than that of all; one more for the end of the line.
    let room = limit.saturating_sub(tokens(&mark(total)) + 1).saturating_mul(4);
    let mut used = 0;
    let fits = |char: &(usize, char)| {
        used += quarters(char.1);
        used <= room
    };
    let end = text.char_indices().take_while(fits).last().map_or(0, |(at, char)| at + char.len_utf8());
    let shown = &text[..end];
    let mark = mark(tokens(shown));
    Ok(if shown.is_empty() { mark.into() } else { format!("{shown}\n{mark}").into() })
}

/// A word of a command line. What cannot be one was taken out before.
fn quoted(word: &str) -> Cow<'_, str> {
    shell_words::quote(word)
}

fn element(name: &str, about: About<'_>, text: &str) -> String {
    let mut opened = format!("<{name}");
    let status = about.status.map(TaskStatus::as_str);
    let attributes = [("agent", about.agent), ("name", about.name), ("id", about.id), ("status", status)];
    for (key, value) in attributes {
        if let Some(value) = value {
            let _ = write!(opened, " {key}=\"{}\"", attribute(value));
        }
    }
    format!("{opened}>{text}</{name}>")
}

fn attribute(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for char in one_line(value).chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The text, unable to end or begin an element of ours.
fn contained(text: &str) -> Cow<'_, str> {
    let mut safe = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices('<') {
        if is_ours(&text[at + 1..]) {
            safe.push_str(&text[copied..at]);
            safe.push_str("&lt;");
            copied = at + 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    safe.push_str(&text[copied..]);
    Cow::Owned(safe)
}

/// Whether a tag of ours may be read in what follows a `<`. A word that is only written as one, `<TaskResult>`, is code.
fn is_ours(rest: &str) -> bool {
    const OURS: [&str; 3] = ["taskresult", "taskerror", "tasktranscript"];
    let mut letters = String::new();
    let mut parted = false;
    for char in rest.chars().take_while(|char| *char != '<') {
        if !char.is_alphanumeric() {
            if char == '>' && !letters.is_empty() {
                return false;
            }
            parted |= letters == "task";
            continue;
        }
        letters.push(char.to_ascii_lowercase());
        if OURS.contains(&&*letters) {
            return parted;
        }
        if !OURS.iter().any(|ours| ours.starts_with(&letters)) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
