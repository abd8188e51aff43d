//! Controllers: who owns a workspace.

use serde_json::Value;

use super::view::{PageRenderer, items, shown, word};
use crate::output::style::Style;
use crate::output::table::Table;

pub(super) fn status(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let state = data["state"].as_str()?;
    match data["controllerId"].as_str() {
        Some(id) => view.page.word(Style::Strong, id).plain("  "),
        None => view.page.plain("No controller  "),
    };
    view.state(state);
    view.page.plain("  ").word(Style::Plain, word(data, "label")).end();
    let owner = &data["activeOwner"];
    let since = view.ago(&owner["createdAt"]);
    let handle = &data["envHandle"];
    let (handle_style, handle) = match (handle["present"] == true, handle["valid"] == true) {
        (_, true) => (Style::Good, "valid"),
        (true, false) => (Style::Bad, "not the current owner's"),
        (false, false) => (Style::Dim, "none in this environment"),
    };
    let owned = owner.is_object();
    let ownership = match owned {
        true => format!("pid {}, epoch {}, since {since}", shown(&owner["pid"]), shown(&owner["epoch"])),
        false => "none".to_owned(),
    };
    view.facts(&[
        ("workspace", Style::Plain, shown(&data["workspaceKey"])),
        ("owner", if owned { Style::Plain } else { Style::Dim }, ownership),
        ("handle", handle_style, handle.to_owned()),
    ]);
    if data["controllerId"].is_null() {
        view.next("Make one:", "subagent controller init");
    }
    Some(())
}

/// Who owns the workspace now. The token is for variables alone, and is not shown.
pub(super) fn granted(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["controllerId"].as_str()?).plain("  ");
    view.page.word(Style::Good, "owned").plain("  ").word(Style::Plain, word(data, "label")).end();
    view.facts(&[
        ("workspace", Style::Plain, shown(&data["workspaceKey"])),
        ("epoch", Style::Plain, shown(&data["owner"]["epoch"])),
        ("hint file", Style::Dim, shown(&data["hintPath"])),
    ]);
    view.next("Next:", "subagent worker start");
    Some(())
}

pub(super) fn recovered(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data)?;
    if items.is_empty() {
        view.page.plain("No controllers.").end();
        return Some(());
    }
    let mut table = Table::new(&["CONTROLLER", "STATE", "LABEL", "OWNER", "WORKSPACE"]);
    for item in items {
        let pid = shown(&item["activeOwner"]["pid"]);
        let owner = if pid.is_empty() { "none".to_owned() } else { format!("pid {pid}") };
        table.row([
            (Style::Strong, word(item, "controllerId")),
            (Style::of_state(word(item, "state")), word(item, "state")),
            (Style::Plain, word(item, "label")),
            (Style::Plain, &owner),
            (Style::Plain, word(item, "workspaceKey")),
        ]);
    }
    view.put(&table);
    for item in items {
        if let Some(command) = item["suggestedAction"].as_str() {
            view.next("Take over:", command);
        }
    }
    Some(())
}
