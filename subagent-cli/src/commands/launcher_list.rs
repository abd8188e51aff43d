//! `launcher list`: the launchers of the config file. No daemon is involved.

use serde_json::{Value, json};

use super::agent_asked::{noted, workspace_of};
use crate::args::local::LauncherList;
use crate::context::{Context, path_value};
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(args: &LauncherList, context: &Context) -> Result<Outcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let workspace = workspace_of(context);
    // The config's map is sorted by name.
    let items: Vec<Value> = loaded
        .config
        .launchers
        .iter()
        .map(|(name, launcher)| {
            json!({
                "name": name,
                "backendKind": launcher.backend_kind,
                "command": launcher.command,
                "handshake": noted(workspace.as_ref(), name, launcher),
            })
        })
        .collect();
    let data = json!({
        "count": items.len(),
        "items": items,
        "configPath": path_value(&loaded.path),
        "configLoaded": loaded.loaded,
    });
    let shown = text::rows(&data, &["name"], "(no launchers configured)");
    Ok(Outcome::report("launcher.listed", data, shown))
}
