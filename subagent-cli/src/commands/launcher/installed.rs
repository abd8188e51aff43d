//! Where a launcher comes from and whether its agent is installed: what `launcher list`, `show` and `probe` say of it.

use serde_json::{Map, Value, json};
use subagent_config::installed::{Presence, presence};
use subagent_config::{LoadedConfig, launcher, model};

use crate::context::{CliContext, path_value};
use crate::output::OutputFormat;

/// The keys `origin`, `file`, `state` and, of what would be fetched, `package`.
pub(crate) fn found(
    loaded: &LoadedConfig,
    name: &str,
    launcher: &model::Launcher,
    context: &CliContext,
) -> Map<String, Value> {
    let env = &context.env;
    let resolved = launcher::resolve(name, launcher, &env.cwd, env);
    let presence = presence(launcher, &resolved, &env.cwd, env);
    let file = loaded.file_of_launcher(name);
    let mut found = Map::new();
    found.insert("origin".to_owned(), file.map_or("built-in", |file| file.source.as_str()).into());
    found.insert("file".to_owned(), file.map_or(Value::Null, |file| path_value(&file.path)));
    found.insert("state".to_owned(), presence.as_str().into());
    if let Presence::Fetchable(package) = presence {
        found.insert("package".to_owned(), json!(package));
    }
    found
}

/// Adds them to what is said of it, but not to the document of a launcher that a file has: that is a form of the contract.
pub(crate) fn add(
    data: &mut Value,
    loaded: &LoadedConfig,
    name: &str,
    launcher: &model::Launcher,
    context: &CliContext,
) {
    let in_contract = context.format == OutputFormat::Json && loaded.file_of_launcher(name).is_some();
    if let (Some(data), false) = (data.as_object_mut(), in_contract) {
        data.extend(found(loaded, name, launcher, context));
    }
}
