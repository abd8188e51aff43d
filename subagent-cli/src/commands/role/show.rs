//! `role show`: the hints about one role. No daemon is involved.

use clap::Args;
use serde_json::{Value, json};
use subagent_config::RoleHint;

use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Show the hints about one role
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent role show reviewer --json")]
pub(crate) struct RoleShowArgs {
    /// Its name in the config file
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

const KEYS: [&str; 6] = [
    "name",
    "preferredLauncher",
    "promptLanguage",
    "responseLanguage",
    "delegationHint",
    "recommendedSkills",
];

pub(super) fn run(args: &RoleShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let data = role(&args.name, loaded.config.role_hint(&args.name)?);
    let shown = text::fields(&data, &KEYS);
    Ok(CliOutcome::report("role.shown", data, shown))
}

/// A role as data; what its hint does not say is absent.
pub(crate) fn role(name: &str, hint: &RoleHint) -> Value {
    let mut data = json!({"name": name, "recommendedSkills": hint.recommended_skills});
    for (key, value) in [
        ("preferredLauncher", &hint.preferred_launcher),
        ("promptLanguage", &hint.prompt_language),
        ("responseLanguage", &hint.response_language),
        ("delegationHint", &hint.delegation_hint),
    ] {
        if let Some(value) = value {
            data[key] = value.as_str().into();
        }
    }
    data
}
