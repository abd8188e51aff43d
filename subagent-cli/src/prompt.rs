//! The prompt for a manager agent: the body of the skill `subagent-manager`, and the roles of a
//! config. Pure. The skill's file is the only source of workflow and rules; only the last section
//! is replaced.

use subagent_config::{Config, RoleDefaults, RoleHint};

/// The content of the skill's file.
pub(crate) const SKILL: &str = include_str!("../../skills/subagent-manager/SKILL.md");

/// The beginning of the last section.
const ROLES: &str = "Role hints:";

/// Returns the prompt with the roles of a config.
#[must_use]
pub fn render(config: &Config) -> String {
    format!("{}{ROLES}\n\n{}", workflow(), roles(config))
}

/// Returns the skill without front matter and last section.
fn workflow() -> &'static str {
    let body = SKILL.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    let body = body.map_or(SKILL, |(_, body)| body).trim_start();
    body.split_once(ROLES).map_or(body, |(before, _)| before)
}

fn roles(config: &Config) -> String {
    let mut lines = vec![
        "- A role is free text: give a worker any (`--role`), also one that is not listed here. The hints are advice."
            .to_owned(),
    ];
    if let Some(role) = &config.defaults.role {
        lines.push(format!("- Default role: `{role}`"));
    }
    if let Some(launcher) = &config.defaults.launcher {
        lines.push(format!("- Fallback launcher: `{launcher}`"));
    }
    let RoleDefaults { prompt_language, response_language } = &config.role_defaults;
    lines.push(format!(
        "- Languages: promptLanguage=`{prompt_language}` (in which you write to workers), \
         responseLanguage=`{response_language}` (in which they answer)"
    ));
    for (name, hint) in &config.role_hints {
        role(name, hint, &mut lines);
    }
    if config.role_hints.is_empty() {
        lines.push("- (none: the config file has no role hints)".to_owned());
    }
    lines.join("\n")
}

fn role(name: &str, hint: &RoleHint, lines: &mut Vec<String>) {
    let overrides: Vec<String> = [
        ("preferredLauncher", &hint.preferred_launcher),
        ("promptLanguage", &hint.prompt_language),
        ("responseLanguage", &hint.response_language),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some(format!("{key}=`{}`", value.as_ref()?)))
    .collect();
    let overrides = if overrides.is_empty() { "(no overrides)".to_owned() } else { overrides.join(", ") };
    lines.push(format!("- `{name}`: {overrides}"));
    if let Some(text) = &hint.delegation_hint {
        // Joined to one line, independent of the layout in the config file.
        let words: Vec<&str> = text.lines().map(str::trim).collect();
        lines.push(format!("  - delegationHint: {}", words.join(" ")));
    }
    if !hint.recommended_skills.is_empty() {
        let skills: Vec<String> = hint.recommended_skills.iter().map(|skill| format!("`{skill}`")).collect();
        lines.push(format!("  - recommendedSkills: {}", skills.join(", ")));
    }
}

#[cfg(test)]
mod tests;
