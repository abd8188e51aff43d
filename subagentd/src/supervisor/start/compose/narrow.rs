//! Overrides of a call. They can only narrow the definition (M3). Pure.

use subagent_config::agents::{Definition, tool};
use subagent_config::model::Launcher;
use subagent_config::policy::{Rule, RuleAction, lists_tool};
use subagent_config::sandbox::Profile;
use subagent_config::start::agent;
use subagent_config::start::policy::travels;
use subagent_protocol::api::{RunTask, TaskMode, TaskOverrides};
use subagent_protocol::definition::AgentSpec;
use subagent_protocol::delegation::TaskLimits;
use subagent_protocol::policy::PolicyLayer;
use subagent_protocol::task_terms::{FOREGROUND_MS, STEPS, TaskTerms};
use subagent_protocol::{Code, Error, Result};

/// Maximum number of tools in an override.
const MAX_TOOLS: usize = 500;

fn wider(field: &str, message: String) -> Error {
    Error::new(Code::InvalidArgument, message).with("field", field)
}

/// Returns the terms of a task, and whether the caller waits for it.
///
/// # Errors
/// `INVALID_ARGUMENT{field}` for more than the definition says.
pub(crate) fn terms(
    definition: Option<&Definition>,
    request: &RunTask,
    limits: &TaskLimits,
) -> Result<(TaskTerms, TaskMode)> {
    let overrides = &request.overrides;
    let most = definition.and_then(|definition| definition.max_steps);
    let max_steps = match (overrides.max_steps, most) {
        (Some(0), _) => return Err(wider("maxSteps", "a task makes at least one step".to_owned())),
        (Some(wanted), Some(most)) if wanted > most => {
            let message = format!("maxSteps is {wanted}, and the definition of the agent allows {most}");
            return Err(wider("maxSteps", message));
        }
        (wanted, most) => wanted.or(most).unwrap_or(STEPS),
    };
    let background = request.mode == Some(TaskMode::Background)
        || definition.is_some_and(|definition| definition.background);
    let most = definition.and_then(|definition| definition.timeout_seconds).map(millis);
    let timeout_ms = match (overrides.timeout_ms, most) {
        (Some(wanted), Some(most)) if most > 0 && wanted > most => {
            let message = format!("timeoutMs is {wanted}, and the definition of the agent allows {most}");
            return Err(wider("timeoutMs", message));
        }
        (Some(0), Some(most)) => most,
        (wanted, most) => wanted.or(most).unwrap_or(if background { 0 } else { FOREGROUND_MS }),
    };
    let rules = definition.map(|definition| &definition.pre_approved[..]).unwrap_or_default();
    let terms = TaskTerms {
        max_steps,
        timeout_ms,
        inspectable: definition.is_none_or(|definition| definition.inspectable),
        result_schema: definition.and_then(|definition| definition.result_schema.clone()),
        result_max_tokens: definition
            .and_then(|definition| definition.result_max_tokens)
            .unwrap_or(limits.result_max_tokens.into()),
        // The caller of a foreground task can be asked instead.
        pre_approved: rules.iter().filter(|_| background).map(travels).collect(),
        ttl_hours: limits.task_ttl_hours,
        write_back: definition.is_some_and(|definition| definition.write_back),
        ends_silently: false,
    };
    Ok((terms, if background { TaskMode::Background } else { TaskMode::Foreground }))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and no time is below 0"
)]
fn millis(seconds: f64) -> u64 {
    let millis = (seconds * 1000.0).round() as u64;
    // Rounded up, because zero means unlimited.
    if seconds > 0.0 { millis.max(1) } else { 0 }
}

/// Returns the policy layer of a definition with the tools that the call denies.
///
/// # Errors
/// `INVALID_ARGUMENT{field,tool}` for a tool that the definition does not list, and for what names
/// none.
pub(crate) fn layer(layer: Option<PolicyLayer>, overrides: &TaskOverrides) -> Result<PolicyLayer> {
    let mut layer = layer.unwrap_or_else(|| PolicyLayer {
        layer: subagent_config::policy::LayerKind::Definition.as_str().to_owned(),
        source: None,
        rules: Vec::new(),
        tools: Vec::new(),
    });
    let allowed = tools("allowedTools", &overrides.allowed_tools, RuleAction::Allow)?;
    let listed: Vec<Rule> =
        layer.tools.iter().filter_map(|text| Rule::parse(text, RuleAction::Allow).ok()).collect();
    if let Some(beyond) = allowed.iter().find(|wanted| !lists_tool(&listed, wanted)) {
        let name = beyond.text();
        let message = format!(
            "`{name}` is not among the tools that the definition of the agent lists ({})",
            layer.tools.join(", ")
        );
        return Err(wider("allowedTools", message).with("tool", name));
    }
    if !allowed.is_empty() {
        layer.tools = allowed.iter().map(Rule::text).collect();
    }
    // Appended last to the definition's layer, so that no other rule loosens it.
    let denied = tools("disallowedTools", &overrides.disallowed_tools, RuleAction::Deny)?;
    layer.rules.extend(denied.iter().map(travels));
    Ok(layer)
}

fn tools(field: &str, names: &[String], action: RuleAction) -> Result<Vec<Rule>> {
    if names.len() > MAX_TOOLS {
        return Err(wider(field, format!("{field} names more than {MAX_TOOLS} tools")));
    }
    let read = |name: &String| {
        tool(name.trim(), action)
            .map_err(|problem| wider(field, format!("{field}: {problem}")).with("tool", name.as_str()))
    };
    names.iter().map(read).collect()
}

/// Returns the restrictions of the sandbox in the call.
pub(crate) fn files(overrides: &TaskOverrides) -> Option<Profile> {
    let filesystem = overrides.filesystem;
    filesystem.is_some().then(|| Profile { filesystem, ..Profile::default() })
}

/// Appends the call's text to the prompt of the definition.
pub(crate) fn prompt(spec: &mut AgentSpec, overrides: &TaskOverrides) {
    let said = overrides.system_prompt.as_deref().map(str::trim).filter(|text| !text.is_empty());
    if let Some(said) = said {
        spec.prompt =
            if spec.prompt.is_empty() { said.to_owned() } else { format!("{}\n\n{said}", spec.prompt) };
    }
}

/// Replaces the definition's model with the call's.
pub(crate) fn model(spec: &mut AgentSpec, overrides: &TaskOverrides, (name, launcher): (&str, &Launcher)) {
    let wanted = overrides.model.as_deref().map(str::trim);
    if let Some(word) = wanted.filter(|word| !word.is_empty() && *word != "inherit") {
        spec.not_honoured.retain(|ignored| ignored.key != "model");
        spec.model = agent::model(Some(word), name, launcher, &mut spec.not_honoured);
    }
}

#[cfg(test)]
mod tests;
