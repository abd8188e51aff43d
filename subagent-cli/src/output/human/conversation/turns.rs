//! Turns: accepted, over, asking; decisions and cancels.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::api::{ApprovalDecided, TurnAccepted, TurnCanceled, TurnShown};
use subagent_protocol::clean::one_line;
use subagent_protocol::event::{NoData, SeenEvent};
use subagent_protocol::ids::{RequestId, WorkerId};
use subagent_protocol::lenient;
use subagent_protocol::state::WorkerState;
use subagent_protocol::time::Timestamp;
use unicode_width::UnicodeWidthStr as _;

use super::content::{Detail, ToolReport, details};
use super::event::{outcome, write as write_event};
use crate::failure::ErrorText;
use crate::output::human::usual::text;
use crate::output::human::view::{Named, PageRenderer, called, optional};
use crate::output::page::TextPage;
use crate::output::style::Style;

/// What is said of a cancel that the agent did not obey.
const FORCED: &str =
    "The agent did not obey the cancel and was ended by force. The next message starts it again.";

pub(in crate::output::human) fn accepted(view: &mut PageRenderer, accepted: &Named<TurnAccepted>) {
    let turn = &accepted.of;
    let worker = called(&accepted.name, turn.worker_id.as_str());
    heading(view, worker, turn.state, turn.turn_id.as_str());
    starts(view, turn.starts_agent);
    if let Some(unreachable) = &turn.unreachable {
        let since = view.since(unreachable.since);
        let said =
            format!("The worker is unreachable for {since}; the message is stored and delivered later.");
        view.page.word(Style::Bad, &said).end();
    }
    view.next("Wait:  ", &format!("subagent wait {worker}"));
    view.next("Watch: ", &format!("subagent watch {worker} -f"));
}

/// Says that the message waits for the start of the agent.
fn starts(view: &mut PageRenderer, starts_agent: bool) {
    if starts_agent {
        view.page.word(Style::Dim, "The agent is started again for this message.").end();
    }
}

/// Worker, turn and state.
fn heading(view: &mut PageRenderer, worker: &str, state: WorkerState, turn: &str) {
    view.page.word(Style::Strong, worker).plain("  ");
    view.state(state.as_str());
    view.page.plain("  ").word(Style::Dim, turn).end();
}

/// Data of `turn.waited`: parts of what `send` got for its message, and of what its wait found. The event keeps the
/// form in which every event is shown.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::human) struct TurnWaited {
    worker_id: WorkerId,
    #[serde(default)]
    name: String,
    state: WorkerState,
    #[serde(default)]
    starts_agent: bool,
    assistant_text: Option<String>,
    matched_event: Value,
}

pub(in crate::output::human) fn waited(view: &mut PageRenderer, waited: &TurnWaited) {
    let (worker, event) = (waited.worker_id.as_str(), &waited.matched_event);
    starts(view, waited.starts_agent);
    if let Some(text) = waited.assistant_text.as_deref().filter(|text| !text.trim().is_empty()) {
        view.page.plain(text.trim_matches('\n')).fresh_line().end();
    }
    let seen: SeenEvent<'_, NoData> = SeenEvent::of(event);
    if seen.is_question() {
        // It may be a question of a task below.
        let asking = Some(seen.worker_id).filter(|asking| !asking.is_empty());
        write_event(&mut view.page, asking.unwrap_or(worker), event);
        return;
    }
    if !outcome(&mut view.page, event) {
        write_event(&mut view.page, worker, event);
    }
    let (name, state) = (called(&waited.name, worker), waited.state.as_str().replace('_', " "));
    view.page.word(Style::Dim, &format!("worker {name} is {state}")).end();
}

pub(in crate::output::human) fn matched(view: &mut PageRenderer, event: &Value) -> Option<()> {
    let seen: SeenEvent<'_, NoData> = SeenEvent::of(event);
    if seen.worker_id.is_empty() {
        return None;
    }
    write_event(&mut view.page, seen.worker_id, event);
    let when = view.ago(Timestamp::parse(seen.ts));
    view.page.word(Style::Dim, &format!("{}  {when}", seen.event_id)).end();
    Some(())
}

pub(in crate::output::human) fn decided(view: &mut PageRenderer, decided: &Named<ApprovalDecided>) {
    let worker = called(&decided.name, decided.of.worker_id.as_str());
    let decided = &decided.of;
    answered(view, worker, (&decided.request_id, &decided.option_id), (decided.state, &decided.delivery));
}

/// A question that was answered, and how to go on.
pub(in crate::output::human) fn answered(
    view: &mut PageRenderer,
    worker: &str,
    (request, answer): (&RequestId, &str),
    (state, delivery): (WorkerState, &str),
) {
    view.page.word(Style::Strong, request.as_str()).plain("  answered with ");
    view.page.word(Style::Good, answer).plain("  ");
    view.state(state.as_str());
    view.page.end();
    if delivery == "pending" {
        let said = "The agent has not confirmed the answer yet; it is stored and delivered later.";
        view.page.word(Style::Bad, said).end();
    }
    if matches!(state, WorkerState::Running | WorkerState::WaitingApproval) {
        view.next("Wait:", &format!("subagent wait {worker}"));
    }
}

pub(in crate::output::human) fn canceled(view: &mut PageRenderer, canceled: &Named<TurnCanceled>) {
    let turn = &canceled.of;
    let worker = called(&canceled.name, turn.worker_id.as_str());
    heading(view, worker, turn.state, turn.turn_id.as_ref().map_or("", |turn| turn.as_str()));
    if turn.already_terminal {
        let ended = optional(turn.terminal_event_type);
        view.page.word(Style::Attention, &format!("It was over before the cancel: {ended}")).end();
    }
    if turn.forced {
        view.page.word(Style::Attention, FORCED).end();
    }
}

/// `turn show`: the whole message, and what it came to.
pub(in crate::output::human) fn shown(view: &mut PageRenderer, shown: &TurnShown) {
    let (turn, result) = (&shown.turn, shown.result.as_ref());
    view.page.word(Style::Strong, turn.turn_id.as_str()).plain("  ");
    view.state(turn.status.as_str());
    view.page.end();
    let error = result.and_then(|result| result.error.as_ref());
    let error = error.filter(|error| !lenient::read::<ErrorText<'_>>(error).message.is_empty());
    view.facts(&[
        ("worker", Style::Plain, shown.worker_id.to_string()),
        ("position", Style::Plain, optional(turn.position)),
        ("started", Style::Dim, view.ago(turn.started_at)),
        ("ended", Style::Dim, view.ago(turn.ended_at)),
        ("stop reason", Style::Plain, optional(result.and_then(|result| result.stop_reason.as_ref()))),
        ("error", Style::Bad, optional(error.map(text))),
    ]);
    let message = result.and_then(|result| result.message.as_deref());
    for (mark, text) in [("  > ", turn.text.as_deref()), ("  | ", message)] {
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            view.page.end().prose(Style::Plain, mark, mark, text, usize::MAX);
        }
    }
}

/// A permission request, as far as it is shown besides its tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::output::human) struct AskedApproval<'a> {
    pub(in crate::output::human) request_id: Option<&'a str>,
    pub(in crate::output::human) message: Option<&'a str>,
    pub(in crate::output::human) options: Vec<ShownOption<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::output::human) struct ShownOption<'a> {
    pub(in crate::output::human) id: &'a str,
    pub(in crate::output::human) label: Option<&'a str>,
}

/// A permission request, and for each option what to type for it.
pub(in crate::output::human) fn approval(
    page: &mut TextPage,
    asked: &AskedApproval<'_>,
    call: &ToolReport<'_>,
) {
    let request = asked.request_id.unwrap_or_default();
    question(page, "", asked.message.unwrap_or_default(), request);
    details(page, call, Detail::Short);
    let label = |option: &ShownOption<'_>| one_line(option.label.unwrap_or(option.id));
    let width = asked.options.iter().map(|option| label(option).width()).max().unwrap_or(0);
    for option in &asked.options {
        let label = label(option);
        // An agent chose this id, and a person is going to paste it into a shell.
        let command = match pasted(option.id) {
            Some(id) => {
                format!("subagent approve {request} --option-id={id}")
            }
            None => "its id holds a NUL: answer it with `subagent approve --input`".to_owned(),
        };
        page.plain("    ")
            .word(Style::Strong, &label)
            .fill(&label, width)
            .tail(Style::Plain, "    ", &command)
            .end();
    }
}

/// What is asked, whole, and behind it the id of the request or what to do about it.
pub(in crate::output::human) fn question(page: &mut TextPage, indent: &str, message: &str, request: &str) {
    let (first, further) = (format!("{indent}? "), format!("{indent}  "));
    page.sentence(Style::Attention, &first, &further, &one_line(message));
    page.tail(Style::Dim, &format!("{indent}    "), request).end();
}

/// The text as a word for a shell, with nothing in it that a terminal would act on; `None` if no shell can hand it over.
pub(super) fn pasted(text: &str) -> Option<Cow<'_, str>> {
    if one_line(text) == text {
        return Some(shell_words::quote(text));
    }
    if text.contains('\0') {
        return None;
    }
    let escaped = text.bytes().map(|byte| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    Some(format!("$'{}'", escaped.collect::<String>()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_pasted_as_it_is() {
        assert_eq!(pasted("-x").unwrap(), "-x");
        assert_eq!(pasted("a b").unwrap(), "'a b'");
        assert_eq!(pasted("it's\u{1b}\n\u{9b}").unwrap(), r"$'it\'s\x1b\x0a\xc2\x9b'");
        assert_eq!(pasted("\u{0}"), None);
    }
}
