//! Compiles the stored policies of a worker and all above it. What each was started with is fixed.
//! Owner rules apply to their worker and everything below it, even if it was started before the
//! rule was added.

use std::path::Path;

use subagent_config::policy::{
    BaseFolders, Layer, LayerKind, MAX_RULES, Node, Policy, Position, Rule, RuleAction, ToolList,
};
use subagent_protocol::api::{OwnerRule, StartWorker};
use subagent_protocol::policy::{PolicyLayer, PolicyRule, PolicySpec};
use subagent_protocol::{Code, Error, Result};

use crate::store::questions::owner_rules::RulesOfChain;

/// Maximum number of ancestors. `delegation.maxDepth` has the same limit.
pub(super) const MAX_ANCESTORS: usize = 100;
/// Maximum length of the name of a worker or task, in characters.
const MAX_NAME_CHARS: usize = 1000;

/// Validates the policy of a new worker.
///
/// # Errors
/// `INVALID_ARGUMENT{field,rule,column}` for an invalid rule. `INVALID_INPUT` for too many rules or
/// a path that is not absolute.
pub(in crate::supervisor) fn check(request: &StartWorker) -> Result<()> {
    request.policy.as_ref().map_or(Ok(()), |spec| check_spec(spec, &request.cwd))
}

/// Validates a policy for a worker in this folder.
///
/// # Errors
/// As [`check`].
pub(in crate::supervisor) fn check_spec(spec: &PolicySpec, cwd: &Path) -> Result<()> {
    let refused =
        |message: &str| Err(Error::new(Code::InvalidInput, message.to_owned()).with("field", "policy"));
    if !spec.workspace.is_absolute() || spec.home.as_ref().is_some_and(|home| !home.is_absolute()) {
        return refused("the workspace and the home of a policy are absolute paths");
    }
    if spec.memory.as_ref().is_some_and(|memory| !memory.is_absolute() || memory.parent().is_none()) {
        return refused("the memory of a policy is an absolute path");
    }
    if spec.ancestors.len() > MAX_ANCESTORS {
        return refused("there are too many ancestors");
    }
    if spec.ancestors.iter().any(|node| node.name.chars().count() > MAX_NAME_CHARS) {
        return refused("the name of an ancestor is too long");
    }
    let above = spec.ancestors.iter().map(|node| (&node.layers, &node.pre_approved));
    let mut nodes = above.chain([(&spec.layers, &spec.pre_approved)]);
    let many = |layers: &[PolicyLayer], granted: &Option<Vec<PolicyRule>>| {
        layers.iter().map(|layer| layer.rules.len() + layer.tools.len()).sum::<usize>() > 3 * MAX_RULES
            || granted.as_ref().is_some_and(|granted| granted.len() > MAX_RULES)
    };
    if nodes.any(|(layers, granted)| many(layers, granted)) {
        return refused("there are too many rules");
    }
    compiled(spec, &RulesOfChain::default(), cwd).map(drop)
}

/// Compiles the policy of a worker: the stored layers of the chain, and the owner rules with their
/// ids as the source.
pub(super) fn compiled(spec: &PolicySpec, added: &RulesOfChain, cwd: &Path) -> Result<Policy> {
    let places =
        BaseFolders { workspace: spec.workspace.clone(), cwd: cwd.to_owned(), home: spec.home.clone() };
    let mut chain = Vec::new();
    for (at, above) in spec.ancestors.iter().enumerate() {
        let added = added.above.get(at).map(Vec::as_slice).unwrap_or_default();
        chain.push(node(&above.name, &above.layers, above.pre_approved.as_deref(), added)?);
    }
    let own = node("worker", &spec.layers, spec.pre_approved.as_deref(), &added.own)?;
    chain.push(own.of_task(spec.is_task).with_memory(spec.memory.clone()));
    Ok(Policy { places, chain })
}

fn node(
    name: &str,
    own: &[PolicyLayer],
    granted: Option<&[PolicyRule]>,
    added: &[OwnerRule],
) -> Result<Node> {
    let of_owner = |rule: &OwnerRule| PolicyLayer {
        layer: LayerKind::Owner.as_str().to_owned(),
        source: Some(rule.rule_id.as_str().to_owned()),
        rules: vec![rule.rule.clone()],
        tools: Vec::new(),
    };
    let added: Vec<PolicyLayer> = added.iter().map(of_owner).collect();
    let layers = own.iter().chain(&added).map(layer).collect::<Result<_>>()?;
    let listed = own.iter().map(tools).collect::<Result<_>>()?;
    let granted = granted.map(|granted| granted.iter().map(grant).collect::<Result<_>>()).transpose()?;
    Ok(Node::new(name, layers).with_tools(listed).granting(granted))
}

/// Parses the list of the only allowed tools of a layer.
fn tools(layer: &PolicyLayer) -> Result<ToolList> {
    let tools = layer.tools.iter().map(|tool| {
        Rule::parse(tool, RuleAction::Allow).map_err(|found| {
            let message = format!("`{tool}` is not a tool: character {}: {}", found.column, found.problem);
            Error::new(Code::InvalidArgument, message).with("field", "policy").with("rule", tool.as_str())
        })
    });
    Ok(ToolList { source: layer.source.clone(), tools: tools.collect::<Result<_>>()? })
}

fn layer(layer: &PolicyLayer) -> Result<Layer> {
    let kind = LayerKind::parse(&layer.layer).ok_or_else(|| unknown("layer", &layer.layer))?;
    let rules = layer.rules.iter().map(rule).collect::<Result<_>>()?;
    Ok(Layer { kind, source: layer.source.clone(), rules })
}

/// Parses a pre-approved rule.
fn grant(granted: &PolicyRule) -> Result<Rule> {
    let granted = rule(granted)?;
    match granted.action {
        RuleAction::Allow => Ok(granted),
        RuleAction::Ask | RuleAction::Deny => {
            let message = format!("a rule that is approved beforehand must allow: {}", granted.text());
            Err(Error::new(Code::InvalidArgument, message).with("field", "policy"))
        }
    }
}

fn rule(PolicyRule { rule, action, line, column }: &PolicyRule) -> Result<Rule> {
    let action = RuleAction::parse(action).ok_or_else(|| unknown("action", action))?;
    let at = line.zip(*column).map(|(line, column)| Position { line, column });
    Rule::parse(rule, action).map(|rule| rule.at(at)).map_err(|found| {
        let message = format!("`{rule}` is not a rule: character {}: {}", found.column, found.problem);
        let error = Error::new(Code::InvalidArgument, message).with("field", "policy");
        error.with("rule", rule.as_str()).with("column", found.column)
    })
}

fn unknown(what: &str, word: &str) -> Error {
    let message = format!("`{word}` is not a known {what} of a policy");
    Error::new(Code::InvalidArgument, message).with("field", "policy")
}
