//! Where a launcher comes from and whether its agent is installed: what `launcher list`, `show` and `probe` say of it.

use serde::Serialize;
use serde_json::{Value, json};
use subagent_config::installed::{Presence, presence};
use subagent_config::{LoadedConfig, launcher, model};

use crate::context::{CliContext, path_value};
use crate::output::OutputFormat;

/// What is known of a launcher beside its definition.
#[derive(Serialize)]
pub(crate) struct FoundLauncher {
    origin: &'static str,
    file: Option<Value>,
    pub(crate) state: &'static str,
    /// The package that npx would fetch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) package: Option<String>,
}

impl FoundLauncher {
    /// Adds its keys to what is said of the launcher.
    pub(crate) fn extend(&self, data: &mut Value) {
        if let (Some(data), Value::Object(found)) = (data.as_object_mut(), json!(self)) {
            data.extend(found);
        }
    }
}

pub(crate) fn found(
    loaded: &LoadedConfig,
    name: &str,
    launcher: &model::Launcher,
    context: &CliContext,
) -> FoundLauncher {
    let env = &context.env;
    let resolved = launcher::resolve(name, launcher, &env.cwd, env);
    let presence = presence(launcher, &resolved, &env.cwd, env);
    let file = loaded.file_of_launcher(name);
    FoundLauncher {
        origin: file.map_or("built-in", |file| file.source.as_str()),
        file: file.map(|file| path_value(&file.path)),
        state: presence.as_str(),
        package: match presence {
            Presence::Fetchable(package) => Some(package),
            _ => None,
        },
    }
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
    if !in_contract {
        found(loaded, name, launcher, context).extend(data);
    }
}
