//! What `init` and the installers of a unit have done.

use serde_json::Value;

use super::usual::text;
use super::view::{PageRenderer, word};
use crate::output::style::Style;
use crate::output::table::Table;

/// Shows the data of `init`: the agents, and each step.
pub(super) fn initialized(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let (agents, steps) = (data["agents"].as_array()?, data["steps"].as_array()?);
    let mut table = Table::new(&["AGENT", "STATE", "LOGIN"]);
    for agent in agents {
        let (style, login) = login(agent);
        table.row([
            (Style::Strong, word(agent, "name")),
            (Style::Plain, word(agent, "state")),
            (style, login.as_str()),
        ]);
    }
    if !agents.is_empty() {
        view.put(&table);
    }
    if !agents.is_empty() && !steps.is_empty() {
        view.page.end();
    }
    for step in steps {
        let state = word(step, "state");
        let style = match state {
            "done" => Style::Good,
            "failed" => Style::Bad,
            "would do" => Style::Attention,
            _ => Style::Dim,
        };
        let what = match step["path"].as_str() {
            Some(path) => format!("{} ({path})", word(step, "what")),
            None => word(step, "what").to_owned(),
        };
        view.page.word(style, state).plain(": ").sentence(Style::Plain, "", "  ", &what).end();
        if let Some(action) = step["recommendedAction"].as_str() {
            view.page.prose(Style::Plain, "  ", "  ", action, usize::MAX);
        }
    }
    let is_plan = data["changed"] == false && steps.iter().any(|step| word(step, "state") == "would do");
    if is_plan {
        let hint = "Repeat it at a terminal, or with --yes: steps marked \"would do\" were not done.";
        view.page.prose(Style::Plain, "", "  ", hint, usize::MAX);
    }
    Some(())
}

/// Whether an agent is logged in; empty if only an installed one could say.
fn login(agent: &Value) -> (Style, String) {
    match (&agent["loggedIn"], agent["error"].as_str()) {
        (Value::Bool(true), _) => (Style::Good, "logged in".to_owned()),
        (Value::Bool(false), _) => (Style::Attention, "wants a login".to_owned()),
        (_, Some(code)) => (Style::Bad, format!("not usable: {code}")),
        _ if agent["state"] == "available" => (Style::Dim, "not asked".to_owned()),
        _ => (Style::Dim, String::new()),
    }
}

/// Shows the data of `daemon install` and `daemon uninstall`.
pub(super) fn unit(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["unit"].as_str()?).end();
    let fact = |key: &str| text(&data[key]);
    view.facts(&[
        ("enabled", Style::Plain, fact("enabled")),
        ("removed", Style::Plain, fact("removed")),
        ("disabled", Style::Plain, fact("disabled")),
        ("file", Style::Plain, fact("unitPath")),
        ("state dir", Style::Dim, fact("stateDir")),
        ("systemd", Style::Attention, fact("problem")),
    ]);
    for command in data["commands"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        view.next("Type:", command);
    }
    Some(())
}
