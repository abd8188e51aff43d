//! `role list`: the roles of the config file. No daemon is involved.

use serde_json::{Value, json};

use crate::args::roles::RoleList;
use crate::commands::role::show::role;
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(crate) fn run(args: &RoleList, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    // The config's map is sorted by name.
    let items: Vec<Value> = loaded.config.role_hints.iter().map(|(name, hint)| role(name, hint)).collect();
    let data = json!({
        "count": items.len(),
        "items": items,
        "configPath": path_value(&loaded.path),
        "configLoaded": loaded.loaded,
    });
    let shown = text::rows(&data, &["name"], "(no roles configured)");
    Ok(CliOutcome::report("role.listed", data, shown))
}
