//! The permission rules of a new worker for its request: of its definition, the config and the flags.

use std::path::{Path, PathBuf};

use subagent_protocol::Result;
use subagent_protocol::policy::{PolicyLayer, PolicyRule, PolicySpec};

use super::wire::argument;
use crate::environment::Environment;
use crate::policy::{Layer, LayerKind, Rule, RuleAction, ToolKind};
use crate::{LoadedConfig, policy};

/// Permission rules of flags, as typed.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// Rules of `--allow`: no approval.
    pub allow: Vec<String>,
    /// Rules of `--ask`: approval needed.
    pub ask: Vec<String>,
    /// Rules of `--deny`: denied.
    pub deny: Vec<String>,
}

/// Whether a worker may delegate, and who decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelegationSource {
    /// The worker may not delegate.
    No,
    /// The config or the definition permits it.
    Configured,
    /// The caller permits it.
    Asked,
}

/// The sources of a worker's rules besides the config.
#[derive(Debug)]
pub struct RuleSources<'a> {
    /// The rules of flags.
    pub flags: &'a Flags,
    /// Rules of its owner that precede the flags.
    pub inherited: Vec<PolicyRule>,
    /// Whether the worker may delegate.
    pub delegates: DelegationSource,
    /// The rules of its definition.
    pub definition: Option<PolicyLayer>,
    /// The memory folder of its definition.
    pub memory: Option<PathBuf>,
}

/// Returns the layers of config and flags; empty if neither has rules.
///
/// # Errors
/// `INVALID_ARGUMENT{flag,rule,column}` for an invalid rule in a flag.
pub fn layers(loaded: &LoadedConfig, flags: &Flags) -> Result<Vec<Layer>> {
    let mut layers = of_config(loaded);
    let rules = of_flags(flags)?;
    if !rules.is_empty() {
        layers.push(Layer { kind: LayerKind::Owner, source: None, rules });
    }
    Ok(layers)
}

/// Returns the layers of `permissions`: of the config file, and of the user file below a project's.
#[must_use]
pub fn of_config(loaded: &LoadedConfig) -> Vec<Layer> {
    let layer = |kind, path: &Path, rules: &[Rule]| Layer {
        kind,
        source: Some(path.to_string_lossy().into_owned()),
        rules: rules.to_vec(),
    };
    let user = loaded.user_rules.as_ref().map(|user| layer(LayerKind::User, &user.path, &user.rules));
    let own = loaded.config.permissions.as_deref().map(|rules| layer(LayerKind::Config, &loaded.path, rules));
    user.into_iter().chain(own).collect()
}

fn of_flags(flags: &Flags) -> Result<Vec<Rule>> {
    // The last matching rule counts, so the strictest flag comes last.
    let flags = [
        ("--allow", &flags.allow, RuleAction::Allow),
        ("--ask", &flags.ask, RuleAction::Ask),
        ("--deny", &flags.deny, RuleAction::Deny),
    ];
    let mut rules = Vec::new();
    for (flag, texts, action) in flags {
        for text in texts {
            let rule = Rule::parse(text, action).map_err(|found| {
                let message =
                    format!("{flag} {text:?} is not a rule: character {}: {}", found.column, found.problem);
                argument(message).with("flag", flag).with("rule", text.as_str()).with("column", found.column)
            })?;
            rules.push(rule);
        }
    }
    Ok(rules)
}

/// Returns the rules of a new worker in the form of a request.
///
/// # Errors
/// `INVALID_ARGUMENT{flag,rule,column}` for an invalid rule in a flag.
pub fn spec(
    loaded: &LoadedConfig,
    said: RuleSources<'_>,
    workspace: &Path,
    env: &Environment,
) -> Result<Option<PolicySpec>> {
    let RuleSources { flags, inherited, delegates, definition, memory } = said;
    let mut layers = layers(loaded, flags)?;
    // Without a rule, tasks are denied. A worker that may delegate gets a general `task` rule, unless its
    // definition or another rule decides about tasks.
    let says_which = |rule: &Rule| {
        let denies_all = rule.is_whole() && delegates == DelegationSource::Configured;
        rule.names(ToolKind::Task) && (rule.action < RuleAction::Deny || denies_all)
    };
    let which = layers.iter().flat_map(|layer| &layer.rules).any(says_which);
    if delegates != DelegationSource::No && definition.is_none() && !which {
        let allow = Rule::new("task", None, RuleAction::Allow).map_err(|found| argument(found.problem))?;
        match layers.iter_mut().find(|layer| layer.kind == LayerKind::Owner) {
            Some(owner) => owner.rules.insert(0, allow),
            None => layers.push(Layer { kind: LayerKind::Owner, source: None, rules: vec![allow] }),
        }
    }
    if layers.is_empty() && inherited.is_empty() && definition.is_none() {
        return Ok(None);
    }
    let owner = LayerKind::Owner.as_str().to_owned();
    let before = PolicyLayer { layer: owner, source: None, rules: inherited, tools: Vec::new() };
    let before = Some(before).filter(|layer| !layer.rules.is_empty());
    let layers = definition.into_iter().chain(layers.into_iter().map(wire)).chain(before).collect();
    Ok(Some(PolicySpec { memory, ..PolicySpec::own(workspace.to_owned(), home(env), layers) }))
}

/// The home for patterns. A path that is not UTF-8 matches no rule.
#[must_use]
pub fn home(env: &Environment) -> Option<PathBuf> {
    env.home.clone().filter(|home| home.to_str().is_some())
}

/// Converts a layer for a request.
#[must_use]
pub fn wire(layer: Layer) -> PolicyLayer {
    PolicyLayer {
        layer: layer.kind.as_str().to_owned(),
        source: layer.source,
        rules: layer.rules.iter().map(travels).collect(),
        tools: Vec::new(),
    }
}

/// Converts a rule for a request.
#[must_use]
pub fn travels(rule: &Rule) -> PolicyRule {
    PolicyRule {
        rule: rule.text(),
        action: rule.action.as_str().to_owned(),
        line: rule.at.map(|at| at.line),
        column: rule.at.map(|at| at.column),
    }
}

/// Whether these rules permit at least one task.
#[must_use]
pub fn lets_tasks(definition: &PolicyLayer) -> bool {
    let parse = |text: &str, action| Rule::parse(text, action).ok();
    let read = |rule: &PolicyRule| parse(&rule.rule, RuleAction::parse(&rule.action)?);
    let rules: Vec<Rule> = definition.rules.iter().filter_map(read).collect();
    let tools: Vec<Rule> =
        definition.tools.iter().filter_map(|tool| parse(tool, RuleAction::Allow)).collect();
    policy::lets_tasks(&rules, &tools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, ConfigSource};

    fn loaded(permissions: &[(&str, RuleAction)]) -> LoadedConfig {
        let rule = |(text, action): &(&str, RuleAction)| Rule::parse(text, *action).unwrap();
        let rules: Vec<Rule> = permissions.iter().map(rule).collect();
        let permissions = Some(rules).filter(|rules| !rules.is_empty());
        let config = Config { permissions, ..Config::default() };
        LoadedConfig {
            config,
            path: "/c".into(),
            source: ConfigSource::Flag,
            loaded: true,
            files: Vec::new(),
            user_rules: None,
        }
    }

    fn merged(loaded: &LoadedConfig, flags: &Flags, definition: Option<PolicyLayer>) -> Option<Vec<String>> {
        merged_from(DelegationSource::Asked, loaded, flags, definition)
    }

    fn merged_from(
        delegates: DelegationSource,
        loaded: &LoadedConfig,
        flags: &Flags,
        definition: Option<PolicyLayer>,
    ) -> Option<Vec<String>> {
        let said = RuleSources { flags, inherited: Vec::new(), delegates, definition, memory: None };
        let env = Environment::new([], "/");
        let spec = spec(loaded, said, Path::new("/w"), &env).unwrap()?;
        let rules = spec.layers.iter().flat_map(|layer| &layer.rules);
        Some(rules.map(|rule| format!("{} {}", rule.rule, rule.action)).collect())
    }

    #[test]
    fn m4_a_delegating_agent_may_give_tasks_unless_rules_say_more() {
        let flags = |deny: &[&str]| Flags {
            deny: deny.iter().map(|&rule| rule.to_owned()).collect(),
            ..Flags::default()
        };
        let none = flags(&[]);
        assert_eq!(merged(&loaded(&[]), &none, None).unwrap(), ["task allow"]);
        assert_eq!(merged(&loaded(&[]), &flags(&["edit"]), None).unwrap(), ["task allow", "edit deny"]);
        let rules = [("*", RuleAction::Deny)];
        assert_eq!(merged(&loaded(&rules), &none, None).unwrap(), ["* deny", "task allow"]);
        let rules = [("task", RuleAction::Deny), ("task(reviewer)", RuleAction::Allow)];
        assert_eq!(
            merged(&loaded(&rules), &none, None).unwrap(),
            ["task deny", "task(reviewer) allow"],
            "the config says which"
        );
        let all_but = merged(&loaded(&[]), &flags(&["task(x)"]), None).unwrap();
        assert_eq!(all_but, ["task allow", "task(x) deny"]);
        let rules = [("task", RuleAction::Deny)];
        assert_eq!(merged(&loaded(&rules), &none, None).unwrap(), ["task deny", "task allow"]);
        let configured = merged_from(DelegationSource::Configured, &loaded(&rules), &none, None);
        assert_eq!(configured.unwrap(), ["task deny"], "no request goes beyond the config");
        assert_eq!(
            merged_from(DelegationSource::Configured, &loaded(&[]), &none, None).unwrap(),
            ["task allow"]
        );
        assert_eq!(merged_from(DelegationSource::No, &loaded(&[]), &none, None), None);
        let definition =
            PolicyLayer { layer: "definition".into(), source: None, rules: vec![], tools: vec![] };
        assert_eq!(merged(&loaded(&[]), &none, Some(definition)).unwrap(), [""; 0], "its own rules decide");
    }
}
