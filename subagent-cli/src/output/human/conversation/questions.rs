//! Questions of agents: forms and links, what to type for an answer, and what was answered.

use serde::Deserialize;
use serde_json::{Map, Value};
use subagent_protocol::api::{ElicitationAnswered, OpenQuestion, WorkerView};
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::state::QuestionKind;

use super::turns::{self, pasted, question};
use crate::output::human::view::{Named, PageRenderer, called, shown};
use crate::output::page::TextPage;
use crate::output::rule::path_of;
use crate::output::style::Style;

/// More fields of a form are not shown, nor more values of one.
const MAX_FIELDS: usize = 50;
const MAX_VALUES: usize = 20;

/// An elicitation, as far as it is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::output::human) struct AskedForm<'a> {
    pub(in crate::output::human) request_id: Option<&'a str>,
    pub(in crate::output::human) message: Option<&'a str>,
    #[serde(borrow)]
    mode: Lenient<&'a str>,
    url: Lenient<&'a str>,
    #[serde(deserialize_with = "lenient::or_default")]
    schema: FormSchema,
}

/// The part of a form's schema that is shown and asked for. An agent wrote it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct FormSchema {
    #[serde(deserialize_with = "lenient::or_default")]
    required: Vec<Value>,
    /// The fields by their names, to be read as [`FormFieldView`].
    #[serde(deserialize_with = "lenient::or_default")]
    pub properties: Map<String, Value>,
}

impl FormSchema {
    /// Whether a field has to be filled in.
    #[must_use]
    pub fn requires(&self, name: &str) -> bool {
        self.required.iter().any(|one| one == name)
    }
}

/// A field of a form.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormFieldView<'a> {
    #[serde(rename = "type", borrow)]
    kind: Lenient<&'a str>,
    title: Lenient<&'a str>,
    description: Lenient<&'a str>,
    #[serde(rename = "enum")]
    values: Lenient<Vec<Value>>,
    one_of: Lenient<Vec<FieldChoice>>,
    any_of: Lenient<Vec<FieldChoice>>,
    items: Lenient<Box<FormFieldView<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FieldChoice {
    #[serde(rename = "const")]
    value: Value,
}

impl<'a> FormFieldView<'a> {
    /// Returns the agent's name of the field for display.
    #[must_use]
    pub fn title(&self) -> Option<&'a str> {
        self.title.0
    }

    /// Whether several values can be given.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.kind.0 == Some("array")
    }

    /// Returns the values that the field may have, if they are listed.
    fn choices(&self, titled: &Lenient<Vec<FieldChoice>>) -> Option<Vec<String>> {
        let plain = self.values.0.as_ref().map(|values| values.iter().map(shown).collect());
        let titled = || Some(titled.0.as_ref()?.iter().map(|choice| shown(&choice.value)).collect());
        plain.or_else(titled)
    }
}

/// An elicitation: what it asks for, field by field, and what to type.
pub(in crate::output::human) fn elicitation(page: &mut TextPage, asked: &AskedForm<'_>) {
    let request = asked.request_id.unwrap_or_default();
    question(page, "", asked.message.unwrap_or_default(), request);
    fields(page, asked);
    let command = format!("subagent answer {request}");
    let first = asked.schema.properties.keys().next();
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
pub(in crate::output::human) fn fields(page: &mut TextPage, asked: &AskedForm<'_>) {
    for (name, field) in asked.schema.properties.iter().take(MAX_FIELDS) {
        let field: FormFieldView<'_> = lenient::read(field);
        page.plain("    ").word(Style::Strong, name).plain("  ");
        page.sentence(Style::Plain, "", "      ", &kind_of(&field));
        if asked.schema.requires(name) {
            page.plain(" ").word(Style::Attention, "(required)");
        }
        let title = [field.title, field.description].map(|word| word.0.unwrap_or_default()).join("  ");
        if !title.trim().is_empty() {
            page.sentence(Style::Dim, " ", "      ", title.trim());
        }
        page.end();
    }
    match asked.url.0 {
        Some(url) => page.plain("    ").word(Style::Strong, url).end(),
        None if asked.mode.0 == Some("url") => {
            page.text(Style::Bad, "    It has no link to a web page: it cannot be accepted.").end()
        }
        None => page,
    };
}

/// The type of a field, or the values that it may have.
fn kind_of(field: &FormFieldView<'_>) -> String {
    let list = |values: Vec<String>| values.into_iter().take(MAX_VALUES).collect::<Vec<_>>().join(" | ");
    if field.is_list() {
        let values = field.items.0.as_ref().and_then(|items| items.choices(&items.any_of));
        return values.map_or_else(|| "list".to_owned(), |values| format!("any of {}", list(values)));
    }
    let kind = field.kind.0.unwrap_or_default();
    field.choices(&field.one_of).map_or_else(|| kind.to_owned(), list)
}

pub(in crate::output::human) fn answered(view: &mut PageRenderer, answered: &Named<ElicitationAnswered>) {
    let worker = called(&answered.name, answered.of.worker_id.as_str());
    let answer = &answered.of;
    let answered = (&answer.request_id, answer.action.as_str());
    turns::answered(view, worker, answered, (answer.state, &answer.delivery));
}

/// What `worker show` has of open questions and of sessions below the worker's.
pub(in crate::output::human) fn open(view: &mut PageRenderer, worker: &WorkerView) {
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
pub(in crate::output::human) const fn answering(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Permission => "approve",
        QuestionKind::Elicitation => "answer",
    }
}
