//! One event as a person reads it, when it stands alone. What several have to do with each other is `stream`'s.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use subagent_protocol::event::{NoData, SeenEvent};
use subagent_protocol::lenient::Lenient;

use super::content::{ToolReport, update};
use super::questions::elicitation;
use super::sentences::sentence;
use super::turns::approval;
use crate::failure::ErrorText;
use crate::output::human::view::{optional, shown};
use crate::output::page::TextPage;
use crate::output::rule::path_of;
use crate::output::style::{Style, state_word};

/// Of a message that was sent, this many lines are shown.
const MAX_LINES: usize = 12;

/// Writes an event on lines of its own; the page is at the beginning of one, or behind the event's time.
pub(in crate::output::human) fn write(page: &mut TextPage, worker: &str, event: &Value) {
    if outcome(page, event) {
        return;
    }
    let seen: SeenEvent<'_, NoData> = SeenEvent::of(event);
    if let Some(path) = seen.task().and_then(path_of) {
        page.text(Style::Dim, "task ").word(Style::Strong, &path).end();
    }
    match seen.kind {
        "turn.started" => {
            let turn = seen.turn_id.unwrap_or_default();
            page.text(Style::Dim, "turn ").word(Style::Strong, turn).end();
        }
        "message.sent" => {
            let message: SentText<'_> = SeenEvent::of(event).data;
            page.prose(Style::Strong, "> ", "> ", message.text.unwrap_or_default(), MAX_LINES);
            let blocks = message.blocks.len();
            if blocks > 0 {
                page.word(Style::Dim, &format!("> and {blocks} blocks")).end();
            }
        }
        "progress.message" => {
            let message: SentText<'_> = SeenEvent::of(event).data;
            page.flow(Style::Plain, message.text.unwrap_or_default()).fresh_line();
        }
        "progress.update" => update(page, event),
        "approval.requested" => {
            approval(page, &SeenEvent::of(event).data, &SeenEvent::<ToolReport<'_>>::of(event).data);
        }
        "elicitation.requested" => elicitation(page, &SeenEvent::of(event).data),
        task @ ("subagent.spawned" | "subagent.progress" | "subagent.completed" | "subagent.failed"
        | "subagent.cancelled") => of_task(page, task, &SeenEvent::of(event).data),
        "hook.failed" => {
            let HookRun { command, event, reason } = SeenEvent::of(event).data;
            page.sentence(Style::Attention, "", "  ", &format!("the hook {command} of {event} failed:"));
            page.plain(" ").sentence(Style::Plain, "", "  ", reason).end();
        }
        other => match sentence(worker, event) {
            Some((style, said)) => _ = page.sentence(style, "", "  ", &said).end(),
            // The type of a newer daemon.
            None => {
                let said = shown(&SeenEvent::<Value>::of(event).data);
                page.word(Style::Bad, other).plain("  ").sentence(Style::Plain, "", "  ", &said).end();
            }
        },
    }
}

/// A message to an agent, or a piece of its text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SentText<'a> {
    text: Option<&'a str>,
    blocks: Vec<IgnoredAny>,
}

/// A hook that failed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HookRun<'a> {
    command: &'a str,
    event: &'a str,
    reason: &'a str,
}

/// The state of a task.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TaskNews<'a> {
    name: Option<&'a str>,
    agent: Option<&'a str>,
    mode: Option<&'a str>,
    task: Option<&'a str>,
    steps: Option<u64>,
    tool: Option<&'a str>,
    summary: Option<&'a str>,
    status: Option<&'a str>,
    error: Option<ErrorText<'a>>,
    reason: Option<&'a str>,
}

/// Writes an event of a task, in the stream of its worker or of an ancestor.
fn of_task(page: &mut TextPage, what: &str, news: &TaskNews<'_>) {
    let word = |word: Option<&'_ str>| word.unwrap_or_default().to_owned();
    page.text(Style::Dim, "task ").word(Style::Strong, &word(news.name)).plain("  ");
    match what {
        "subagent.spawned" => {
            let agent = news.agent.unwrap_or("no agent");
            page.word(Style::Dim, &format!("{agent}, {}", word(news.mode))).plain("  ");
            page.sentence(Style::Plain, "", "  ", &word(news.task)).end();
        }
        "subagent.progress" => {
            page.word(Style::Dim, &format!("step {}", optional(news.steps))).plain("  ");
            page.word(Style::Plain, &word(news.tool)).end();
        }
        "subagent.completed" => {
            page.word(Style::Good, "completed").end();
            page.prose(Style::Plain, "  ", "  ", &word(news.summary), MAX_LINES);
        }
        "subagent.failed" => {
            page.word(Style::Bad, &state_word(&word(news.status))).plain("  ");
            let message = news.error.map(|error| error.message).unwrap_or_default();
            page.sentence(Style::Plain, "", "  ", message).end();
        }
        _ => {
            page.word(Style::Attention, &state_word("cancelled"))
                .plain("  ")
                .sentence(Style::Plain, "", "  ", &word(news.reason))
                .end();
        }
    }
}

/// The end of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TurnEndNews<'a> {
    outcome: Option<&'a str>,
    stop_reason: Option<&'a str>,
    reason: Option<&'a str>,
    forced: Option<bool>,
    #[serde(borrow)]
    error: Lenient<AdvisedError<'a>>,
}

/// An error with what to do about it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AdvisedError<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(borrow)]
    details: ErrorAdvice<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ErrorAdvice<'a> {
    recommended_action: Option<&'a str>,
    recommended_command: Option<&'a str>,
}

/// Writes how a turn ended; false if the event is no such end.
pub(in crate::output::human) fn outcome(page: &mut TextPage, event: &Value) -> bool {
    let seen: SeenEvent<'_, TurnEndNews<'_>> = SeenEvent::of(event);
    let data = seen.data;
    match seen.kind {
        "turn.completed" => {
            let reason = data.stop_reason.unwrap_or_default();
            let outcome = data.outcome.filter(|outcome| !outcome.is_empty()).unwrap_or("completed");
            // Any other reason than the ordinary one says that something is missing.
            let ordinary = matches!(reason, "" | "end_turn");
            let style = if ordinary && outcome != "rejected" { Style::Good } else { Style::Attention };
            page.word(style, outcome);
            if !ordinary {
                page.plain(" ").word(style, &format!("({})", reason.replace('_', " ")));
            }
        }
        "turn.failed" => {
            let AdvisedError { code, message, details } = data.error.0.unwrap_or_default();
            page.word(Style::Bad, "failed").plain("  ").word(Style::Bad, code);
            page.plain(": ").sentence(Style::Plain, "", "  ", message);
            if let Some(advice) = details.recommended_action {
                page.end().text(Style::Attention, "Hint: ").sentence(Style::Plain, "", "  ", advice);
            }
            if let Some(command) = details.recommended_command {
                page.end().text(Style::Attention, "Try: ").word(Style::Strong, command);
            }
        }
        "turn.canceled" => {
            page.word(Style::Attention, "canceled").plain("  ");
            page.sentence(Style::Plain, "", "  ", data.reason.unwrap_or_default());
            if data.forced == Some(true) {
                page.tail(Style::Attention, "  ", "(the agent did not obey and was ended by force)");
            }
        }
        _ => return false,
    }
    page.end();
    true
}
