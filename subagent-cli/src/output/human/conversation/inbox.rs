//! The inbox: what is asked, and one question in full.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::api::{ApprovalShown, DecidedOne, Decider, InboxItem};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::lenient;
use subagent_protocol::state::{ApprovalStatus, QuestionKind};

use super::content::{Detail, details};
use super::questions::{AskedForm, elicitation, fields};
use super::turns::{AskedApproval, ShownOption, approval};
use crate::output::human::view::{PageRenderer, called, optional};
use crate::output::rule::{describe_rule, path_of};
use crate::output::style::Style;
use crate::output::table::Table;

pub(in crate::output::human) fn listed(view: &mut PageRenderer, items: &[InboxItem]) {
    if items.is_empty() {
        view.page.word(Style::Plain, "Nothing is asked.").end();
        return;
    }
    let mut table = Table::new(&["REQUEST", "WHO", "WHAT", "SINCE", "UNTIL"]);
    for item in items {
        let kind = item.tool_kind.as_deref().unwrap_or(item.kind.as_str());
        table.row([
            (Style::Strong, item.request_id.as_str()),
            (Style::Plain, &who(item)),
            (Style::Attention, &format!("{kind}: {}", item.subject)),
            (Style::Dim, &view.ago(item.created_at)),
            (Style::Dim, &until(item)),
        ]);
    }
    view.put(&table);
    view.next("Answer one:", "subagent approve REQUEST, or subagent answer REQUEST");
}

fn who(item: &InboxItem) -> String {
    path_of(&item.path).unwrap_or_else(|| called(&item.name, item.worker_id.as_str()).to_owned())
}

/// One of several requests, with the worker that asked if they are of several workers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::human) struct DecidedRequest {
    #[serde(flatten)]
    request: DecidedOne,
    worker_id: Option<WorkerId>,
}

/// `approve` of several: what each request was answered with, or why it was not.
pub(in crate::output::human) fn all_decided(view: &mut PageRenderer, items: &[DecidedRequest]) -> Option<()> {
    if items.is_empty() {
        return None;
    }
    let mut table = Table::new(&["REQUEST", "ANSWER", "WORKER"]);
    for DecidedRequest { request, worker_id } in items {
        let (style, answer) = match (&request.decided, &request.error) {
            (Some(decided), _) => (Style::Good, decided.option_id.as_str()),
            (None, error) => (Style::Bad, error.as_ref().map_or("", |error| error.code.as_str())),
        };
        table.row([
            (Style::Strong, request.request_id.as_str()),
            (style, answer),
            (Style::Dim, &optional(worker_id.as_ref())),
        ]);
    }
    view.put(&table);
    Some(())
}

/// Until when it waits, and what happens then.
fn until(item: &InboxItem) -> String {
    match (item.deadline_at, item.on_timeout) {
        (Some(at), Some(then)) => format!("{at}, then {then}"),
        _ => String::new(),
    }
}

/// A question as it is asked in place: who asks, what, and the rule that asks. The answer is a key.
pub(in crate::output::human) fn in_place(view: &mut PageRenderer, shown: &ApprovalShown, detail: Detail) {
    let item = &shown.item;
    view.page.end().word(Style::Strong, &who(item)).plain("  ");
    view.page.sentence(Style::Attention, "? ", "  ", &shown.message).end();
    let request = Value::Object(shown.request.clone());
    match item.kind {
        QuestionKind::Elicitation => fields(&mut view.page, &lenient::read(&request)),
        QuestionKind::Permission => details(&mut view.page, &lenient::read(&request), detail),
    }
    view.facts(&[
        ("in", Style::Dim, shown.cwd.clone()),
        ("asked for", Style::Plain, optional(item.rule.as_ref().map(describe_rule))),
        ("until", Style::Plain, until(item)),
    ]);
}

/// Who answered a question, and how.
pub(in crate::output::human) fn answered_by(view: &mut PageRenderer, shown: &ApprovalShown) {
    let said = match &shown.decided_by {
        Some(Decider { by, decision, .. }) => format!("answered by {by}: {decision}"),
        None => format!("it is {}", shown.item.status),
    };
    view.page.word(Style::Dim, &format!("{} {said}", shown.item.request_id)).end();
}

pub(in crate::output::human) fn question(view: &mut PageRenderer, shown: &ApprovalShown) {
    let item = &shown.item;
    let label = path_of(&item.path).unwrap_or_else(|| item.label.clone());
    view.page.word(Style::Strong, item.worker_id.as_str()).plain("  ");
    view.state(item.status.as_str());
    let since = view.ago(item.created_at);
    view.page.plain("  ").word(Style::Dim, &since).plain("  ").rest(Style::Plain, &label).end();
    let is_open = item.status == ApprovalStatus::Pending;
    let request = Value::Object(shown.request.clone());
    let (request_id, message) = (Some(item.request_id.as_str()), Some(shown.message.as_str()));
    match item.kind {
        QuestionKind::Elicitation if is_open => {
            let mut form: AskedForm<'_> = lenient::read(&request);
            (form.request_id, form.message) = (request_id, message);
            elicitation(&mut view.page, &form);
        }
        _ => {
            let options = shown.options.iter().filter(|_| is_open);
            let options = options.map(|option| ShownOption { id: &option.id, label: Some(&option.label) });
            let asked = AskedApproval { request_id, message, options: options.collect() };
            approval(&mut view.page, &asked, &lenient::read(&request));
        }
    }
    let decided = shown.decided_by.as_ref();
    let by_rule = decided.and_then(|decided| decided.rule.as_ref());
    view.facts(&[
        ("cwd", Style::Plain, shown.cwd.clone()),
        ("turn", Style::Plain, optional(item.turn_id.as_ref())),
        ("asked for", Style::Plain, describe_rule(item.rule.as_ref().unwrap_or(&Value::Null))),
        ("until", Style::Plain, until(item)),
        ("decided by", Style::Good, optional(decided.map(decision))),
        ("by rule", Style::Plain, optional(by_rule.map(describe_rule))),
    ]);
}

fn decision(decided: &Decider) -> String {
    format!("{}: {} at {}", decided.by, decided.decision, decided.at)
}
