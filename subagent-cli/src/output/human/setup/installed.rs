//! What `init` and the installers of a unit have done.

use serde::Deserialize;
use serde_json::Value;

use crate::output::human::of;
use crate::output::human::usual::text;
use crate::output::human::view::PageRenderer;
use crate::output::style::Style;
use crate::output::table::Table;

/// What `init` has found and done.
#[derive(Debug, Deserialize)]
pub(in crate::output::human) struct FirstSteps {
    agents: Vec<FoundAgent>,
    steps: Vec<TakenStep>,
    changed: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundAgent {
    name: String,
    state: String,
    logged_in: Option<bool>,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TakenStep {
    state: String,
    what: String,
    path: Option<String>,
    recommended_action: Option<String>,
}

/// Shows the data of `init`: the agents, and each step.
pub(in crate::output::human) fn initialized(view: &mut PageRenderer, done: &FirstSteps) {
    let FirstSteps { agents, steps, changed } = done;
    let mut table = Table::new(&["AGENT", "STATE", "LOGIN"]);
    for agent in agents {
        let (style, login) = login(agent);
        table.row([
            (Style::Strong, agent.name.as_str()),
            (Style::Plain, agent.state.as_str()),
            (style, login.as_str()),
        ]);
    }
    if !agents.is_empty() {
        view.put(&table);
    }
    if !agents.is_empty() && !steps.is_empty() {
        view.page.end();
    }
    for TakenStep { state, what, path, recommended_action } in steps {
        let style = match state.as_str() {
            "done" => Style::Good,
            "failed" => Style::Bad,
            "would do" => Style::Attention,
            _ => Style::Dim,
        };
        let what = path.as_ref().map_or_else(|| what.clone(), |path| format!("{what} ({path})"));
        view.page.word(style, state).plain(": ").sentence(Style::Plain, "", "  ", &what).end();
        if let Some(action) = recommended_action {
            view.page.prose(Style::Plain, "  ", "  ", action, usize::MAX);
        }
    }
    if !changed && steps.iter().any(|step| step.state == "would do") {
        let hint = "Repeat it at a terminal, or with --yes: steps marked \"would do\" were not done.";
        view.page.prose(Style::Plain, "", "  ", hint, usize::MAX);
    }
}

/// Whether an agent is logged in; empty if only an installed one could say.
fn login(agent: &FoundAgent) -> (Style, String) {
    match (agent.logged_in, &agent.error) {
        (Some(true), _) => (Style::Good, "logged in".to_owned()),
        (Some(false), _) => (Style::Attention, "wants a login".to_owned()),
        (None, Some(code)) => (Style::Bad, format!("not usable: {code}")),
        (None, None) if agent.state == "available" => (Style::Dim, "not asked".to_owned()),
        (None, None) => (Style::Dim, String::new()),
    }
}

/// The unit, and what is left to type.
#[derive(Debug, Deserialize)]
struct SystemdChange {
    unit: String,
    #[serde(default)]
    commands: Vec<String>,
}

/// Shows the data of `daemon install` and `daemon uninstall`.
pub(in crate::output::human) fn unit(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let change: SystemdChange = of(data)?;
    view.page.word(Style::Strong, &change.unit).end();
    let fact = |key: &str| text(&data[key]);
    view.facts(&[
        ("enabled", Style::Plain, fact("enabled")),
        ("removed", Style::Plain, fact("removed")),
        ("disabled", Style::Plain, fact("disabled")),
        ("file", Style::Plain, fact("unitPath")),
        ("state dir", Style::Dim, fact("stateDir")),
        ("systemd", Style::Attention, fact("problem")),
    ]);
    for command in &change.commands {
        view.next("Type:", command);
    }
    Some(())
}
