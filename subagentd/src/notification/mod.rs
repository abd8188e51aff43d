//! Builds notifications: facts in, texts and webhook bodies out. Pure.
//! It must not do I/O, know the store, or pass control characters of agents' text.

mod backoff;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use subagent_protocol::clean::{clean, one_line};
use subagent_protocol::ids::{EventId, RequestId, TurnId, WorkerId};
use subagent_protocol::json::extend;
use subagent_protocol::notification::{Format, Occasion};
use subagent_protocol::state::QuestionKind;
use subagent_protocol::time::Timestamp;

pub(crate) use backoff::{AfterFailure, after, after_failure};

/// Maximum length of a question's subject, in characters.
const MAX_SUBJECT_CHARS: usize = 200;
/// Maximum length of the text that `detail: full` adds, in characters.
const MAX_DETAIL_CHARS: usize = 4000;
/// Maximum length of a worker's label, in characters.
const MAX_LABEL_CHARS: usize = 80;
/// Maximum number of questions in the text of one notification.
const MAX_QUESTIONS: usize = 5;

/// A question in a notification.
#[derive(Debug, Clone)]
pub(crate) struct NotifiedQuestion {
    pub(crate) event_id: EventId,
    pub(crate) request_id: RequestId,
    pub(crate) kind: QuestionKind,
    pub(crate) worker: Who,
    pub(crate) since: Timestamp,
    pub(crate) subject: String,
    /// The request in full, with `detail: full`.
    pub(crate) detail: Option<String>,
}

/// Any other event in a notification.
#[derive(Debug, Clone)]
pub(crate) struct Happened {
    pub(crate) event_id: EventId,
    pub(crate) occasion: Occasion,
    pub(crate) worker: Who,
    pub(crate) turn_id: Option<TurnId>,
    pub(crate) since: Timestamp,
    /// Error code or reason.
    pub(crate) reason: Option<String>,
    /// Error message, with `detail: full`.
    pub(crate) detail: Option<String>,
}

/// The worker that a notification names.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) worker_id: WorkerId,
    pub(crate) label: String,
    /// For a task: names from the root of its tree to the task itself.
    pub(crate) path: Vec<String>,
    /// Working directory. Commands find the worker's daemon from there.
    pub(crate) cwd: String,
}

impl Who {
    /// Returns the arguments with which a command finds the worker's daemon from any folder.
    fn place(&self) -> String {
        format!("--cwd {}", shell_words::quote(&self.cwd))
    }

    fn name(&self) -> String {
        match self.path.is_empty() {
            true => short(&self.label, MAX_LABEL_CHARS),
            false => short(&self.path.join(" › "), MAX_LABEL_CHARS),
        }
    }

    fn json(&self) -> Value {
        let mut worker = json!({"id": self.worker_id, "label": short(&self.label, MAX_LABEL_CHARS)});
        if !self.path.is_empty() {
            let path = self.path.iter().map(|name| short(name, MAX_LABEL_CHARS)).collect();
            extend(&mut worker, [("path", path)]);
        }
        worker
    }
}

/// The content of one message to a sink.
#[derive(Debug, Clone)]
pub(crate) enum SinkNotification {
    /// At least one question, oldest first.
    Questions(Vec<NotifiedQuestion>),
    Happened(Happened),
    /// A test of the sink by the user.
    Test,
}

impl SinkNotification {
    /// Returns the kind of event.
    pub(crate) fn occasion(&self) -> Occasion {
        match self {
            Self::Questions(_) => Occasion::Question,
            Self::Happened(happened) => happened.occasion,
            Self::Test => Occasion::Test,
        }
    }

    /// Returns worker and event in one line.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Questions(questions) => match questions.as_slice() {
                [question] => format!("{} asks", question.worker.name()),
                all => format!("{} questions are open", all.len()),
            },
            Self::Happened(happened) => {
                let name = happened.worker.name();
                match happened.occasion {
                    Occasion::Done => format!("{name} is done"),
                    Occasion::Failed => format!("{name} failed"),
                    Occasion::Lost => format!("{name} was lost"),
                    Occasion::Budget => format!("{name} has used up its budget"),
                    Occasion::QueuePaused => format!("the queue of {name} is paused"),
                    Occasion::Parked => format!("{name} is parked"),
                    Occasion::SchedulePaused => format!("the schedule of {name} is paused"),
                    Occasion::TriggerPaused => format!("the trigger of {name} is paused"),
                    Occasion::Question | Occasion::Test => name,
                }
            }
            Self::Test => "subagent can notify you".to_owned(),
        }
    }

    /// Returns the event, its time, and one command for the next step.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Questions(questions) => {
                let mut lines = Vec::new();
                for question in questions.iter().take(MAX_QUESTIONS) {
                    if questions.len() > 1 {
                        lines.push(format!("{}:", question.worker.name()));
                    }
                    lines.push(short(&question.subject, MAX_SUBJECT_CHARS));
                    lines.extend(question.detail.as_deref().map(long));
                }
                match questions.len().saturating_sub(MAX_QUESTIONS) {
                    0 => {}
                    more => lines.push(format!("and {more} more")),
                }
                if let Some(first) = questions.first() {
                    lines.push(format!("since {}", first.since));
                }
                lines.push(self.command());
                lines.join("\n")
            }
            Self::Happened(happened) => {
                let mut lines: Vec<String> =
                    happened.reason.iter().map(|reason| short(reason, MAX_SUBJECT_CHARS)).collect();
                lines.extend(happened.detail.as_deref().map(long));
                lines.push(format!("at {}", happened.since));
                lines.push(self.command());
                lines.join("\n")
            }
            Self::Test => "This is a test. Nothing needs an answer.".to_owned(),
        }
    }

    /// Returns the command that answers the question or shows more.
    pub(crate) fn command(&self) -> String {
        match self {
            Self::Questions(questions) => match questions.as_slice() {
                [NotifiedQuestion { kind: QuestionKind::Permission, worker, request_id, .. }] => format!(
                    "subagent approve --worker-id {} --request {request_id} --decision allow {}",
                    worker.worker_id,
                    worker.place()
                ),
                [question] => {
                    format!("subagent approval show {} {}", question.request_id, question.worker.place())
                }
                [first, ..] => format!("subagent approval list {}", first.worker.place()),
                [] => String::new(),
            },
            Self::Happened(Happened { occasion, worker, .. }) => {
                let command = match occasion {
                    Occasion::SchedulePaused => return format!("subagent schedule list {}", worker.place()),
                    Occasion::TriggerPaused => return format!("subagent trigger list {}", worker.place()),
                    Occasion::QueuePaused => "queue resume --worker-id",
                    Occasion::Parked => "worker resume",
                    Occasion::Budget => "budget show --worker-id",
                    _ => "worker show",
                };
                format!("subagent {command} {} {}", worker.worker_id, worker.place())
            }
            Self::Test => "subagent notify log".to_owned(),
        }
    }

    /// Returns the notification as `type`, `timestamp` and `data`, as Standard Webhooks recommends.
    pub(crate) fn json(&self, now: Timestamp) -> Value {
        let mut data = json!({"title": self.title(), "text": self.text(), "command": self.command()});
        match self {
            Self::Questions(questions) => {
                let shown = questions.iter().map(|question| {
                    let mut shown = json!({
                        "eventId": question.event_id,
                        "requestId": question.request_id,
                        "kind": question.kind,
                        "worker": question.worker.json(),
                        "since": question.since,
                        "subject": short(&question.subject, MAX_SUBJECT_CHARS),
                    });
                    if let Some(detail) = &question.detail {
                        extend(&mut shown, [("detail", long(detail).into())]);
                    }
                    shown
                });
                extend(&mut data, [("questions", shown.collect())]);
            }
            Self::Happened(happened) => {
                let (event_id, since) = (json!(happened.event_id), json!(happened.since));
                let worker = happened.worker.json();
                extend(&mut data, [("eventId", event_id), ("worker", worker), ("since", since)]);
                let turn_id = happened.turn_id.as_ref().map(|turn_id| json!(turn_id));
                let reason = happened.reason.as_ref().map(|reason| short(reason, MAX_SUBJECT_CHARS).into());
                let detail = happened.detail.as_ref().map(|detail| long(detail).into());
                for (name, value) in [("turnId", turn_id), ("reason", reason), ("detail", detail)] {
                    if let Some(value) = value {
                        extend(&mut data, [(name, value)]);
                    }
                }
            }
            Self::Test => {}
        }
        json!({"type": self.occasion(), "timestamp": now, "data": data})
    }

    /// Returns content type and body for a webhook.
    pub(crate) fn body(&self, format: Format, now: Timestamp) -> (&'static str, String) {
        match format {
            Format::Json => ("application/json", self.json(now).to_string()),
            Format::Text => ("text/plain; charset=utf-8", format!("{}\n{}", self.title(), self.text())),
            Format::Slack => {
                let text = format!("*{}*\n{}", slack(&self.title()), slack(&self.text()));
                ("application/json", json!({ "text": text }).to_string())
            }
        }
    }
}

/// Escapes text for Slack, so that no link, mention or markup from an agent takes effect.
fn slack(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace(['*', '_', '~', '`'], "\u{2217}")
}

fn short(text: &str, max_chars: usize) -> String {
    cut(&one_line(text), max_chars)
}

fn long(text: &str) -> String {
    cut(&clean(text), MAX_DETAIL_CHARS)
}

fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
