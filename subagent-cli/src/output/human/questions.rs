//! Questions of agents: forms and links, what to type for an answer, and what was answered.

use serde_json::Value;

use super::overview::answer;
use super::turns::{answered_with, pasted, question};
use super::view::{PageRenderer, shown, word};
use crate::output::page::TextPage;
use crate::output::rule::task_path;
use crate::output::style::Style;

/// More fields of a form are not shown, nor more values of one.
const MAX_FIELDS: usize = 50;
const MAX_VALUES: usize = 20;

/// An elicitation: what it asks for, field by field, and what to type.
pub(super) fn elicitation(page: &mut TextPage, asked: &Value) {
    let request = word(asked, "requestId");
    question(page, "", word(asked, "message"), request);
    fields(page, asked);
    let command = format!("subagent answer {request}");
    let first = asked["schema"]["properties"].as_object().and_then(|fields| fields.keys().next());
    let accept = match first.and_then(|name| pasted(name)) {
        Some(name) => format!("{command} --accept --set {name}=VALUE"),
        None => format!("{command} --accept"),
    };
    for (what, command) in [("accept", accept), ("decline", format!("{command} --decline"))] {
        page.plain("    ")
            .word(Style::Strong, what)
            .fill(what, 7)
            .tail(Style::Plain, "     ", &command)
            .end();
    }
}

/// The fields of a form with their types, or the link.
pub(super) fn fields(page: &mut TextPage, asked: &Value) {
    let required = |name: &str| {
        asked["schema"]["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    let fields = asked["schema"]["properties"].as_object();
    for (name, field) in fields.into_iter().flatten().take(MAX_FIELDS) {
        page.plain("    ").word(Style::Strong, name).plain("  ");
        page.sentence(Style::Plain, "", "      ", &kind_of(field));
        if required(name) {
            page.plain(" ").word(Style::Attention, "(required)");
        }
        let title = [word(field, "title"), word(field, "description")].join("  ");
        if !title.trim().is_empty() {
            page.sentence(Style::Dim, " ", "      ", title.trim());
        }
        page.end();
    }
    match asked["url"].as_str() {
        Some(url) => page.plain("    ").word(Style::Strong, url).end(),
        None if word(asked, "mode") == "url" => {
            page.text(Style::Bad, "    It has no link to a web page: it cannot be accepted.").end()
        }
        None => page,
    };
}

/// The type of a field, or the values that it may have.
fn kind_of(field: &Value) -> String {
    let of = |field: &Value, titled: &str| {
        let plain = field["enum"].as_array().map(|values| values.iter().map(shown).collect::<Vec<_>>());
        plain.or_else(|| {
            field[titled]
                .as_array()
                .map(|options| options.iter().map(|option| shown(&option["const"])).collect())
        })
    };
    let list = |values: Vec<String>| values.into_iter().take(MAX_VALUES).collect::<Vec<_>>().join(" | ");
    match word(field, "type") {
        "array" => match of(&field["items"], "anyOf") {
            Some(values) => format!("any of {}", list(values)),
            None => "list".to_owned(),
        },
        kind => of(field, "oneOf").map_or_else(|| kind.to_owned(), list),
    }
}

pub(super) fn answered(view: &mut PageRenderer, data: &Value) -> Option<()> {
    answered_with(view, data, "action")
}

/// What `worker show` has of open questions and of sessions below the worker's.
pub(super) fn open(view: &mut PageRenderer, data: &Value) {
    for asked in data["questions"].as_array().into_iter().flatten() {
        view.page.sentence(Style::Attention, "  ? ", "    ", word(asked, "message")).end();
        view.page.plain("    ").word(Style::Plain, &answer(asked, word(asked, "requestId"))).end();
    }
    below(view, data);
    for child in data["childSessions"].as_array().into_iter().flatten() {
        view.page.text(Style::Dim, "  child session  ").word(Style::Plain, word(child, "sessionId"));
        view.page
            .plain("  ")
            .word(Style::Dim, word(child, "state"))
            .plain("  ")
            .word(Style::Plain, word(child, "title"))
            .end();
    }
}

/// The open questions of the tasks below a worker.
pub(super) fn below(view: &mut PageRenderer, data: &Value) {
    for question in data["questionsBelow"].as_array().into_iter().flatten() {
        let command = if question["kind"] == "elicitation" { "answer" } else { "approve" };
        let path = task_path(question).unwrap_or_default();
        view.page.plain("  ").word(Style::Strong, &path).plain("  ");
        view.page.word(Style::Attention, &format!("? {}", word(question, "subject"))).end();
        let request = word(question, "requestId");
        view.page.plain("      ").word(Style::Dim, &format!("subagent {command} {request}")).end();
    }
}
