//! Turns: accepted, over, asking; decisions and cancels.

use std::borrow::Cow;

use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::content::{Detail, details};
use super::event::{outcome, write as write_event};
use super::view::{PageRenderer, named, shown, word};
use crate::output::page::TextPage;
use crate::output::style::Style;
use subagent_protocol::clean::one_line;

/// What is said of a cancel that the agent did not obey.
const FORCED: &str =
    "The agent did not obey the cancel and was ended by force. The next message starts it again.";

pub(super) fn accepted(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let worker = named(data);
    heading(view, worker, data);
    starts(view, data);
    view.next("Wait:  ", &format!("subagent wait {worker}"));
    view.next("Watch: ", &format!("subagent watch {worker} -f"));
    Some(())
}

/// Says that the message waits for the start of the agent.
fn starts(view: &mut PageRenderer, data: &Value) {
    if data["startsAgent"] == true {
        view.page.word(Style::Dim, "The agent is started again for this message.").end();
    }
}

/// Worker, turn and state.
fn heading(view: &mut PageRenderer, worker: &str, data: &Value) {
    view.page.word(Style::Strong, worker).plain("  ");
    view.state(word(data, "state"));
    view.page.plain("  ").word(Style::Dim, word(data, "turnId")).end();
}

pub(super) fn waited(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let (worker, event) = (data["workerId"].as_str()?, &data["matchedEvent"]);
    starts(view, data);
    if let Some(text) = data["assistantText"].as_str().filter(|text| !text.trim().is_empty()) {
        view.page.plain(text.trim_matches('\n')).fresh_line().end();
    }
    if matches!(word(event, "type"), "approval.requested" | "elicitation.requested") {
        // It may be a question of a task below.
        write_event(&mut view.page, event["workerId"].as_str().unwrap_or(worker), event);
        return Some(());
    }
    if !outcome(&mut view.page, event) {
        write_event(&mut view.page, worker, event);
    }
    view.page
        .word(Style::Dim, &format!("worker {} is {}", named(data), word(data, "state").replace('_', " ")))
        .end();
    Some(())
}

pub(super) fn matched(view: &mut PageRenderer, event: &Value) -> Option<()> {
    let worker = event["workerId"].as_str()?.to_owned();
    write_event(&mut view.page, &worker, event);
    let when = view.ago(&event["ts"]);
    view.page.word(Style::Dim, &format!("{}  {when}", word(event, "eventId"))).end();
    Some(())
}

pub(super) fn decided(view: &mut PageRenderer, data: &Value) -> Option<()> {
    answered_with(view, data, "optionId")
}

/// A question that was answered, with the value of this key, and how to go on.
pub(super) fn answered_with(view: &mut PageRenderer, data: &Value, key: &str) -> Option<()> {
    view.page.word(Style::Strong, data["requestId"].as_str()?).plain("  answered with ");
    view.page.word(Style::Good, word(data, key)).plain("  ");
    view.state(word(data, "state"));
    view.page.end();
    if matches!(word(data, "state"), "running" | "waiting_approval") {
        view.next("Wait:", &format!("subagent wait {}", named(data)));
    }
    Some(())
}

pub(super) fn canceled(view: &mut PageRenderer, data: &Value) -> Option<()> {
    heading(view, named(data), data);
    if data["alreadyTerminal"] == true {
        let ended = shown(&data["terminalEventType"]);
        view.page.word(Style::Attention, &format!("It was over before the cancel: {ended}")).end();
    }
    if data["forced"] == true {
        view.page.word(Style::Attention, FORCED).end();
    }
    Some(())
}

/// `turn show`: the whole message, and what it came to.
pub(super) fn shown_turn(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["turnId"].as_str()?).plain("  ");
    view.state(word(data, "status"));
    view.page.end();
    let result = &data["result"];
    let error = match word(&result["error"], "message") {
        "" => String::new(),
        message => format!("{} {message}", word(&result["error"], "code")),
    };
    let (started, ended) = (view.ago(&data["startedAt"]), view.ago(&data["endedAt"]));
    view.facts(&[
        ("worker", Style::Plain, shown(&data["workerId"])),
        ("position", Style::Plain, shown(&data["position"])),
        ("started", Style::Dim, started),
        ("ended", Style::Dim, ended),
        ("stop reason", Style::Plain, shown(&result["stopReason"])),
        ("error", Style::Bad, error),
    ]);
    for (mark, text) in [("  > ", &data["text"]), ("  | ", &result["message"])] {
        if let Some(text) = text.as_str().filter(|text| !text.trim().is_empty()) {
            view.page.end().prose(Style::Plain, mark, mark, text, usize::MAX);
        }
    }
    Some(())
}

/// A permission request, and for each option what to type for it.
pub(super) fn approval(page: &mut TextPage, asked: &Value) {
    let request = word(asked, "requestId");
    question(page, "", word(asked, "message"), request);
    details(page, asked, Detail::Short);
    let options = || asked["options"].as_array().into_iter().flatten();
    let label = |option: &Value| one_line(option["label"].as_str().unwrap_or(word(option, "id")));
    let width = options().map(|option| label(option).width()).max().unwrap_or(0);
    for option in options() {
        let label = label(option);
        // An agent chose this id, and a person is going to paste it into a shell.
        let command = match pasted(word(option, "id")) {
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
pub(super) fn question(page: &mut TextPage, indent: &str, message: &str, request: &str) {
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
