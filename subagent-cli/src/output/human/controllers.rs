//! Controllers: who owns a workspace.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::api::{ControllerInitialized, ControllerStatus, Ownership, RecoveredController};

use super::view::PageRenderer;
use crate::output::style::Style;
use crate::output::table::Table;

pub(super) fn status(view: &mut PageRenderer, status: &ControllerStatus) {
    match &status.controller_id {
        Some(id) => view.page.word(Style::Strong, id.as_str()).plain("  "),
        None => view.page.plain("No controller  "),
    };
    view.state(&status.state);
    let label = status.label.as_deref().unwrap_or_default();
    view.page.plain("  ").word(Style::Plain, label).end();
    let (owner_style, owner) = match &status.active_owner {
        Some(owner) => {
            let since = view.ago(owner.created_at);
            (Style::Plain, format!("pid {}, epoch {}, since {since}", owner.pid, owner.epoch))
        }
        None => (Style::Dim, "none".to_owned()),
    };
    let is = |key: &str| status.env_handle.get(key) == Some(&Value::Bool(true));
    let (handle_style, handle) = match (is("present"), is("valid")) {
        (_, true) => (Style::Good, "valid"),
        (true, false) => (Style::Bad, "not the current owner's"),
        (false, false) => (Style::Dim, "none in this environment"),
    };
    view.facts(&[
        ("workspace", Style::Plain, status.workspace_key.clone()),
        ("owner", owner_style, owner),
        ("handle", handle_style, handle.to_owned()),
    ]);
    if status.controller_id.is_none() {
        view.next("Make one:", "subagent controller init");
    }
}

/// Data of `controller.initialized` and `controller.attached`, with the file that the command wrote.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GrantedOwnership {
    #[serde(flatten)]
    controller: ControllerInitialized,
    hint_path: String,
}

/// Who owns the workspace now. The token is for variables alone, and is not shown.
pub(super) fn granted(view: &mut PageRenderer, granted: &GrantedOwnership) {
    let GrantedOwnership { controller, hint_path } = granted;
    view.page.word(Style::Strong, controller.controller_id.as_str()).plain("  ");
    view.page.word(Style::Good, "owned").plain("  ").word(Style::Plain, &controller.label).end();
    view.facts(&[
        ("workspace", Style::Plain, controller.workspace_key.clone()),
        ("epoch", Style::Plain, controller.owner.epoch.to_string()),
        ("hint file", Style::Dim, hint_path.clone()),
    ]);
    view.next("Next:", "subagent worker start");
}

/// A controller, with the command that takes it over.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FoundController {
    #[serde(flatten)]
    controller: RecoveredController,
    suggested_action: Option<String>,
}

pub(super) fn recovered(view: &mut PageRenderer, found: &[FoundController]) {
    if found.is_empty() {
        view.page.plain("No controllers.").end();
        return;
    }
    let mut table = Table::new(&["CONTROLLER", "STATE", "LABEL", "OWNER", "WORKSPACE"]);
    for FoundController { controller, .. } in found {
        let owner = controller.active_owner.as_ref();
        let owner = owner.map_or_else(|| "none".to_owned(), |owner| format!("pid {}", owner.owner.pid));
        let state = word(controller.state);
        table.row([
            (Style::Strong, controller.controller_id.as_str()),
            (Style::of_state(state), state),
            (Style::Plain, &controller.label),
            (Style::Plain, &owner),
            (Style::Plain, &controller.workspace_key),
        ]);
    }
    view.put(&table);
    for command in found.iter().filter_map(|found| found.suggested_action.as_deref()) {
        view.next("Take over:", command);
    }
}

const fn word(state: Ownership) -> &'static str {
    match state {
        Ownership::Dormant => "dormant",
        Ownership::Active => "active",
        Ownership::Orphaned => "orphaned",
        Ownership::Conflicted => "conflicted",
    }
}
