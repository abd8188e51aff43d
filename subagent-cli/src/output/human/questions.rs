//! Questions of agents: forms and links, what to type for an answer, and what was answered.

use serde_json::Value;
use subagent_protocol::api::{ElicitationAnswered, OpenQuestion, WorkerView};
use subagent_protocol::state::QuestionKind;

use super::turns::{self, pasted, question};
use super::view::{Named, PageRenderer, called, shown, word};
use crate::output::page::TextPage;
use crate::output::rule::path_of;
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

pub(super) fn answered(view: &mut PageRenderer, answered: &Named<ElicitationAnswered>) {
    let worker = called(&answered.name, answered.of.worker_id.as_str());
    let answer = &answered.of;
    turns::answered(view, worker, &answer.request_id, answer.action.as_str(), answer.state);
}

/// What `worker show` has of open questions and of sessions below the worker's.
pub(super) fn open(view: &mut PageRenderer, worker: &WorkerView) {
    for asked in &worker.questions {
        view.page.sentence(Style::Attention, "  ? ", "    ", &asked.message).end();
        view.page.plain("    ").word(Style::Plain, &answer(asked)).end();
    }
    for question in &worker.questions_below {
        let path = path_of(&question.path).unwrap_or_default();
        view.page.plain("  ").word(Style::Strong, &path).plain("  ");
        view.page.word(Style::Attention, &format!("? {}", question.subject)).end();
        let command = format!("subagent {} {}", answering(question.kind), question.request_id);
        view.page.plain("      ").word(Style::Dim, &command).end();
    }
    for child in &worker.child_sessions {
        let word = |word: &Option<String>| word.clone().unwrap_or_default();
        view.page.text(Style::Dim, "  child session  ").word(Style::Plain, &child.session_id);
        view.page
            .plain("  ")
            .word(Style::Dim, &word(&child.state))
            .plain("  ")
            .word(Style::Plain, &word(&child.title))
            .end();
    }
}

/// The command that answers a question.
#[must_use]
pub fn answer(question: &OpenQuestion) -> String {
    let request = &question.request_id;
    match question.kind {
        QuestionKind::Elicitation => format!("subagent answer {request} --accept|--decline"),
        QuestionKind::Permission => format!("subagent approve {request}"),
    }
}

/// The command for questions of a kind.
pub(super) const fn answering(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Permission => "approve",
        QuestionKind::Elicitation => "answer",
    }
}
