//! Whether any agent may be called at all, for the tools that manage tasks. Pure.

use super::{Node, RuleDecision, RuleQuery};
use crate::policy::{Layer, LayerKind, Rule, RuleAction};

/// Allows it if at least one agent may be called, even after an approval. Returns `None` if no rule
/// allows one and no rule covers all agents.
pub(super) fn answer(node: &Node, query: &RuleQuery<'_>) -> Option<RuleDecision> {
    let own = weakest(node, query, |kind| kind == LayerKind::Definition);
    match own {
        // A denial of the definition is final.
        Some(denied) if denied.action == RuleAction::Deny => Some(denied),
        _ => {
            let user = weakest(node, query, |kind| kind != LayerKind::Config);
            user.filter(RuleDecision::is_users_deny).or_else(|| weakest(node, query, |_| true))
        }
    }
}

/// Returns the least strict rule of these layers that no later rule replaces.
fn weakest(node: &Node, query: &RuleQuery<'_>, which: impl Fn(LayerKind) -> bool) -> Option<RuleDecision> {
    let layers = node.layers().iter().rev().filter(|layer| which(layer.kind));
    let rules = layers.flat_map(|layer| layer.rules.iter().rev().map(move |rule| (layer, rule)));
    let (mut spoken_of, mut held): (Vec<&str>, Option<(&Layer, &Rule)>) = (Vec::new(), None);
    let mut all = false;
    for (layer, rule) in rules.filter(|(_, rule)| rule.is_about(query.kind, query.name)) {
        if spoken_of.contains(&rule.pattern()) {
            continue;
        }
        spoken_of.push(rule.pattern());
        if held.is_none_or(|(_, weakest)| rule.action < weakest.action) {
            held = Some((layer, rule));
        }
        if rule.is_whole() {
            all = true;
            break;
        }
    }
    let (layer, rule) = held?;
    match rule.action {
        RuleAction::Allow => Some(node.says(layer, rule, RuleAction::Allow, None)),
        RuleAction::Ask => Some(node.says(layer, rule, RuleAction::Allow, Some("some agent may be called"))),
        RuleAction::Deny if all => Some(node.says(layer, rule, RuleAction::Deny, None)),
        RuleAction::Deny => None,
    }
}
