//! The caller's view of a task: its result as one text element, cut within its limit, and errors in
//! the same form. Pure.

// The text of a result comes from an agent and is read by another one. It must not be able to end
// its element and continue as text of this program. Therefore every `<` that is followed by the
// name of an element of ours becomes `&lt;`. The case of the name does not matter, nor do
// characters other than letters and digits before or within it. All other text stays unchanged, so
// that code and markup in a result can be read and copied. Attributes are escaped as XML requires,
// without line ends and control characters.
//
// **Tokens are estimated**, because the reading model is unknown: four ASCII characters count as
// one, every other character as one. For English and code that is close to the truth, for other
// scripts above it.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::api::{TaskMerge, TaskShown, TaskStatus, TaskView};
use crate::clean::one_line;
use crate::error::{Code, Error};

/// Maximum length of an error message, in characters.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// Maximum number of named files of a merge.
const MAX_FILES: usize = 50;

/// Estimates the number of tokens of a text.
#[must_use]
pub fn tokens(text: &str) -> u64 {
    text.chars().map(quarters).sum::<u64>().div_ceil(4)
}

/// Returns the cost of one character, in quarters of a token.
const fn quarters(char: char) -> u64 {
    if char.is_ascii() { 1 } else { 4 }
}

/// The answer for a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskToolResult {
    /// The text of one element.
    pub text: String,
    /// Whether it reports an error.
    pub is_error: bool,
}

/// The subject of an error, as far as known.
#[derive(Debug, Clone, Copy, Default)]
pub struct About<'a> {
    /// Definition of the agent.
    pub agent: Option<&'a str>,
    /// The name of the task.
    pub name: Option<&'a str>,
    /// Id of the task.
    pub id: Option<&'a str>,
    /// Final status of the task.
    pub status: Option<TaskStatus>,
    /// The last merge of its files.
    pub merge: Option<&'a TaskMerge>,
}

/// Returns the result of a task without its element, cut within its caller's limit;
/// empty without a result.
///
/// # Errors
///
/// `RESULT_TOO_LARGE` for a result that has to meet a schema, because a part of it would not.
pub fn short(task: &TaskShown) -> Result<Cow<'_, str>, Error> {
    inside(Cow::Borrowed(task.result.as_deref().unwrap_or_default()), task)
}

/// Returns the whole result of a task, followed by the messages of hidden tasks below it. Each is
/// in an element that none of them can end.
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
            merge: None,
        };
        let text = format!("\n{}", contained(&transcript.text));
        let _ = write!(all, "\n\n{}", element("task_transcript", about, &text));
    }
    Cow::Owned(all)
}

/// Returns the outcome of an ended task for its caller. A task stopped by a limit has
/// its text so far.
#[must_use]
pub fn answer(task: &TaskShown) -> TaskToolResult {
    let view = &task.task;
    let about = About {
        agent: view.agent.as_deref(),
        name: Some(&view.name),
        id: Some(view.task_id.as_str()),
        status: (view.status != TaskStatus::Completed).then_some(view.status),
        merge: task.merge.as_ref(),
    };
    let said = contained(task.result.as_deref().unwrap_or_default());
    let is_empty = said.trim().is_empty();
    let said = match inside(said, task) {
        Ok(said) => said,
        Err(error) => return error_answer(about, error.code.as_str(), &error.message),
    };
    let limit = matches!(view.status, TaskStatus::MaxIterationsReached | TaskStatus::TimedOut);
    if view.status == TaskStatus::Completed || (limit && !is_empty) {
        return TaskToolResult { text: element("task_result", about, &said), is_error: false };
    }
    let (code, message) = why(view);
    let mut text = error_text(&code, &message);
    if !is_empty {
        let _ = write!(text, "\n\nWhat it had said by then:\n{said}");
    }
    TaskToolResult { text: element("task_error", about, &text), is_error: true }
}

/// Returns the code and message of the error of a task that did not complete.
#[must_use]
pub fn why(task: &TaskView) -> (String, String) {
    match &task.error {
        Some(error) => (error.code.as_str().to_owned(), error.message.clone()),
        None => (task.status.as_str().to_uppercase(), reason(task.status).to_owned()),
    }
}

/// Returns an error in place of a result.
#[must_use]
pub fn error_answer(about: About<'_>, code: &str, message: &str) -> TaskToolResult {
    TaskToolResult { text: element("task_error", about, &error_text(code, message)), is_error: true }
}

fn error_text(code: &str, message: &str) -> String {
    let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    contained(&format!("{code}: {message}")).into_owned()
}

const fn reason(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Cancelled => "the task was canceled",
        TaskStatus::MaxIterationsReached => "the task reached its limit of tool calls, and said nothing",
        TaskStatus::TimedOut => "the task reached its time limit, and said nothing",
        TaskStatus::Lost => "the runtime of the task was lost in the middle of it",
        TaskStatus::Failed => "the task failed",
        TaskStatus::Completed => "the task has ended",
        TaskStatus::Queued | TaskStatus::Spawning | TaskStatus::Running | TaskStatus::WaitingApproval => {
            "the task has not ended"
        }
    }
}

/// Returns the text if it is within the limit, otherwise its beginning and its full size.
fn inside<'a>(text: Cow<'a, str>, task: &TaskShown) -> Result<Cow<'a, str>, Error> {
    let (total, limit, name) = (tokens(&text), task.result_max_tokens, task.task.name.as_str());
    if total <= limit {
        return Ok(text);
    }
    // A name that a shell would not accept is not printed into a command.
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
    // The number of shown tokens has at most as many digits as the total; one more
    // for the line end.
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

/// Quotes a word of a command line. Impossible characters were removed before.
fn quoted(word: &str) -> Cow<'_, str> {
    shell_words::quote(word)
}

fn element(name: &str, about: About<'_>, text: &str) -> String {
    let mut opened = format!("<{name}");
    let status = about.status.map(TaskStatus::as_str);
    let merge = about.merge.map(|merge| merge.outcome.as_str());
    let merged = about.merge.and_then(|merge| named(&merge.files, merge.more_files));
    let refused = about.merge.and_then(|merge| named(&merge.refused, merge.more_refused));
    let error = about.merge.and_then(|merge| merge.error.as_ref()).map(ToString::to_string);
    let attributes = [
        ("agent", about.agent),
        ("name", about.name),
        ("id", about.id),
        ("status", status),
        ("merge", merge),
        ("merged", merged.as_deref()),
        ("conflicts", refused.as_deref()),
        ("merge_error", error.as_deref()),
    ];
    for (key, value) in attributes {
        if let Some(value) = value {
            let _ = write!(opened, " {key}=\"{}\"", attribute(value));
        }
    }
    format!("{opened}>{text}</{name}>")
}

/// Returns the names of files in one line, and how many follow; `None` without any.
fn named(files: &[String], more: u64) -> Option<String> {
    let mut names = files.iter().take(MAX_FILES).map(|name| one_line(name)).collect::<Vec<_>>().join(", ");
    let more = more.saturating_add(files.len().saturating_sub(MAX_FILES) as u64);
    if more > 0 {
        let _ = write!(names, " and {more} more");
    }
    (!files.is_empty()).then_some(names)
}

/// Returns what became of a task's files, as a text for the caller.
#[must_use]
pub fn merge_line(merge: &TaskMerge) -> Option<String> {
    let merged =
        named(&merge.files, merge.more_files).map(|names| format!("merged into your files: {names}"));
    let refused = named(&merge.refused, merge.more_refused).map(|names| {
        format!("left in its worktree, since both sides changed them or they say what agents may do: {names}")
    });
    let failed = merge
        .error
        .as_ref()
        .map(|error| format!("its files were not merged: {}", one_line(&error.to_string())));
    let parts: Vec<_> = [merged, refused, failed].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
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

/// Prevents the text from ending or beginning an element of ours.
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

/// Whether the text after a `<` may be read as a tag of ours. A word such
/// as `<TaskResult>` is code.
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
