//! `launcher list`: the launchers of the config files, and those that are built in. No daemon is involved.

use serde_json::{Value, json};

use super::agent_asked::{noted, workspace_of};
use super::launcher_found;
use crate::args::local::LauncherList;
use crate::context::{Context, path_value};
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(args: &LauncherList, context: &Context) -> Result<Outcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let workspace = workspace_of(context);
    // The config's map is sorted by name.
    let all = loaded.config.launchers.iter().map(|(name, launcher)| {
        let mut item = json!({
            "name": name,
            "backendKind": launcher.backend_kind,
            "command": launcher.command,
            "handshake": noted(workspace.as_ref(), name, launcher),
        });
        launcher_found::add(&mut item, &loaded, name, launcher, context);
        item
    });
    // Items are those of files: scripts take them for what somebody has configured.
    let (built_in, items): (Vec<Value>, Vec<Value>) = all.partition(|item| item["file"].is_null());
    let data = json!({
        "count": items.len(),
        "items": items,
        "builtIn": built_in,
        "configPath": path_value(&loaded.path),
        "configLoaded": loaded.loaded,
    });
    let shown = text::rows(&data, &["name"], "(no launchers configured)");
    Ok(Outcome::report("launcher.listed", data, shown))
}
