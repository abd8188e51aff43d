//! `role show`: the hints about one role. No daemon is involved.

use serde_json::{Value, json};
use subagent_config::RoleHint;

use crate::args::roles::RoleName;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

const KEYS: [&str; 6] = [
    "name",
    "preferredLauncher",
    "promptLanguage",
    "responseLanguage",
    "delegationHint",
    "recommendedSkills",
];

pub(crate) fn run(args: &RoleName, context: &CliContext) -> Result<CliOutcome> {
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
