//! One event as a person reads it, when it stands alone. What several have to do with each other is `stream`'s.

use serde_json::Value;

use super::content::update;
use super::questions::elicitation;
use super::sentences::sentence;
use super::turns::approval;
use super::view::{shown, word};
use crate::output::page::TextPage;
use crate::output::rule::task_path;
use crate::output::style::{Style, state_word};

/// Of a message that was sent, this many lines are shown.
const MAX_LINES: usize = 12;

/// Writes an event on lines of its own; the page is at the beginning of one, or behind the event's time.
pub(super) fn write(page: &mut TextPage, worker: &str, event: &Value) {
    if outcome(page, event) {
        return;
    }
    let data = &event["data"];
    if let Some(path) = task_path(event) {
        page.text(Style::Dim, "task ").word(Style::Strong, &path).end();
    }
    match word(event, "type") {
        "turn.started" => {
            page.text(Style::Dim, "turn ").word(Style::Strong, word(event, "turnId")).end();
        }
        "message.sent" => {
            page.prose(Style::Strong, "> ", "> ", word(data, "text"), MAX_LINES);
            let blocks = data["blocks"].as_array().map_or(0, Vec::len);
            if blocks > 0 {
                page.word(Style::Dim, &format!("> and {blocks} blocks")).end();
            }
        }
        "progress.message" => {
            page.flow(Style::Plain, word(data, "text")).fresh_line();
        }
        "progress.update" => update(page, data),
        "approval.requested" => approval(page, data),
        "elicitation.requested" => elicitation(page, data),
        task @ ("subagent.spawned" | "subagent.progress" | "subagent.completed" | "subagent.failed"
        | "subagent.cancelled") => of_task(page, task, data),
        "hook.failed" => {
            let said = format!("the hook {} of {} failed:", word(data, "command"), word(data, "event"));
            page.sentence(Style::Attention, "", "  ", &said).plain(" ");
            page.sentence(Style::Plain, "", "  ", word(data, "reason")).end();
        }
        other => match sentence(worker, event) {
            Some((style, said)) => _ = page.sentence(style, "", "  ", &said).end(),
            // The type of a newer daemon.
            None => {
                let said = shown(data);
                page.word(Style::Bad, other).plain("  ").sentence(Style::Plain, "", "  ", &said).end();
            }
        },
    }
}

/// Writes an event of a task, in the stream of its worker or of an ancestor.
fn of_task(page: &mut TextPage, what: &str, data: &Value) {
    page.text(Style::Dim, "task ").word(Style::Strong, word(data, "name")).plain("  ");
    match what {
        "subagent.spawned" => {
            let agent = data["agent"].as_str().unwrap_or("no agent");
            page.word(Style::Dim, &format!("{agent}, {}", word(data, "mode"))).plain("  ");
            page.sentence(Style::Plain, "", "  ", word(data, "task")).end();
        }
        "subagent.progress" => {
            page.word(Style::Dim, &format!("step {}", shown(&data["steps"]))).plain("  ");
            page.word(Style::Plain, word(data, "tool")).end();
        }
        "subagent.completed" => {
            page.word(Style::Good, "completed").end();
            page.prose(Style::Plain, "  ", "  ", word(data, "summary"), MAX_LINES);
        }
        "subagent.failed" => {
            page.word(Style::Bad, &state_word(word(data, "status"))).plain("  ");
            page.sentence(Style::Plain, "", "  ", word(&data["error"], "message")).end();
        }
        _ => {
            page.word(Style::Attention, &state_word("cancelled"))
                .plain("  ")
                .sentence(Style::Plain, "", "  ", word(data, "reason"))
                .end();
        }
    }
}

/// Writes how a turn ended; false if the event is no such end.
pub(super) fn outcome(page: &mut TextPage, event: &Value) -> bool {
    let data = &event["data"];
    match word(event, "type") {
        "turn.completed" => {
            let (outcome, reason) = (word(data, "outcome"), word(data, "stopReason"));
            let outcome = if outcome.is_empty() { "completed" } else { outcome };
            // Any other reason than the ordinary one says that something is missing.
            let ordinary = matches!(reason, "" | "end_turn");
            let style = if ordinary && outcome != "rejected" { Style::Good } else { Style::Attention };
            page.word(style, outcome);
            if !ordinary {
                page.plain(" ").word(style, &format!("({})", reason.replace('_', " ")));
            }
        }
        "turn.failed" => {
            let error = &data["error"];
            page.word(Style::Bad, "failed").plain("  ").word(Style::Bad, word(error, "code"));
            page.plain(": ").sentence(Style::Plain, "", "  ", word(error, "message"));
            if let Some(advice) = error["details"]["recommendedAction"].as_str() {
                page.end().text(Style::Attention, "Hint: ").sentence(Style::Plain, "", "  ", advice);
            }
            if let Some(command) = error["details"]["recommendedCommand"].as_str() {
                page.end().text(Style::Attention, "Try: ").word(Style::Strong, command);
            }
        }
        "turn.canceled" => {
            page.word(Style::Attention, "canceled").plain("  ");
            page.sentence(Style::Plain, "", "  ", word(data, "reason"));
            if data["forced"] == true {
                page.tail(Style::Attention, "  ", "(the agent did not obey and was ended by force)");
            }
        }
        _ => return false,
    }
    page.end();
    true
}
