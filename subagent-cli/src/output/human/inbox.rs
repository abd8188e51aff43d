//! The inbox: what is asked, and one question in full.

use serde_json::{Value, json};

use super::content::{Detail, details};
use super::questions::{elicitation, fields};
use super::turns::approval;
use super::view::{PageRenderer, items, named, shown, word};
use crate::output::rule::{describe_rule, task_path};
use crate::output::style::Style;
use crate::output::table::Table;

pub(super) fn listed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data)?;
    if items.is_empty() {
        view.page.word(Style::Plain, "Nothing is asked.").end();
        return Some(());
    }
    let mut table = Table::new(&["REQUEST", "WHO", "WHAT", "SINCE", "UNTIL"]);
    for item in items {
        let (since, until) = (view.ago(&item["createdAt"]), until(item));
        let kind = item["toolKind"].as_str().unwrap_or(word(item, "kind"));
        let what = format!("{kind}: {}", word(item, "subject"));
        let who = task_path(item).unwrap_or_else(|| named(item).to_owned());
        table.row([
            (Style::Strong, word(item, "requestId")),
            (Style::Plain, who.as_str()),
            (Style::Attention, what.as_str()),
            (Style::Dim, since.as_str()),
            (Style::Dim, until.as_str()),
        ]);
    }
    view.put(&table);
    view.next("Answer one:", "subagent approve REQUEST, or subagent answer REQUEST");
    Some(())
}

/// `approve` of several: what each request was answered with, or why it was not.
pub(super) fn all_decided(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data).filter(|items| !items.is_empty())?;
    let mut table = Table::new(&["REQUEST", "ANSWER", "WORKER"]);
    for item in items {
        let (style, answer) = match item["decided"]["optionId"].as_str() {
            Some(option) => (Style::Good, option),
            None => (Style::Bad, word(&item["error"], "code")),
        };
        table.row([
            (Style::Strong, word(item, "requestId")),
            (style, answer),
            (Style::Dim, word(item, "workerId")),
        ]);
    }
    view.put(&table);
    Some(())
}

/// Until when it waits, and what happens then.
fn until(item: &Value) -> String {
    match (item["deadlineAt"].as_str(), item["onTimeout"].as_str()) {
        (Some(at), Some(then)) => format!("{at}, then {then}"),
        _ => String::new(),
    }
}

/// A question as it is asked in place: who asks, what, and the rule that asks. The answer is a key.
pub(super) fn in_place(view: &mut PageRenderer, data: &Value, detail: Detail) {
    let who = task_path(data).unwrap_or_else(|| named(data).to_owned());
    view.page.end().word(Style::Strong, &who).plain("  ");
    view.page.sentence(Style::Attention, "? ", "  ", word(data, "message")).end();
    match word(data, "kind") {
        "elicitation" => fields(&mut view.page, &data["request"]),
        _ => details(&mut view.page, &data["request"], detail),
    }
    view.facts(&[
        ("in", Style::Dim, shown(&data["cwd"])),
        (
            "asked for",
            Style::Plain,
            if data["rule"].is_object() { describe_rule(&data["rule"]) } else { String::new() },
        ),
        ("until", Style::Plain, until(data)),
    ]);
}

/// Who answered a question, and how.
pub(super) fn answered_by(view: &mut PageRenderer, data: &Value) {
    let decided = &data["decidedBy"];
    let said = match decided.is_object() {
        true => format!("answered by {}: {}", word(decided, "by"), word(decided, "decision")),
        false => format!("it is {}", word(data, "status")),
    };
    view.page.word(Style::Dim, &format!("{} {said}", word(data, "requestId"))).end();
}

pub(super) fn question(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let worker = data["workerId"].as_str()?;
    let label = task_path(data).unwrap_or_else(|| word(data, "label").to_owned());
    view.page.word(Style::Strong, worker).plain("  ");
    view.state(word(data, "status"));
    let since = view.ago(&data["createdAt"]);
    view.page.plain("  ").word(Style::Dim, &since).plain("  ").rest(Style::Plain, &label).end();
    let mut asked = data["request"].clone();
    if !asked.is_object() {
        asked = json!({});
    }
    for key in ["requestId", "message"] {
        asked[key] = data[key].clone();
    }
    let open = word(data, "status") == "pending";
    asked["options"] = if open { data["options"].clone() } else { json!([]) };
    match word(data, "kind") {
        "elicitation" if open => elicitation(&mut view.page, &asked),
        _ => approval(&mut view.page, &asked),
    }
    let decided = &data["decidedBy"];
    let by = match decided.is_object() {
        true => format!("{}: {} at {}", word(decided, "by"), word(decided, "decision"), word(decided, "at")),
        false => String::new(),
    };
    let by_rule = if decided["rule"].is_object() { describe_rule(&decided["rule"]) } else { String::new() };
    view.facts(&[
        ("cwd", Style::Plain, shown(&data["cwd"])),
        ("turn", Style::Plain, shown(&data["turnId"])),
        ("asked for", Style::Plain, describe_rule(&data["rule"])),
        ("until", Style::Plain, until(data)),
        ("decided by", Style::Good, by),
        ("by rule", Style::Plain, by_rule),
    ]);
    Some(())
}
