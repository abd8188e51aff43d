//! Pre-approved permissions of a node that cannot ask. Pure. A grant replaces only an `ask`, never
//! a `deny`. A node cannot grant what its parent would have to ask for.

use super::{BaseFolders, MatchResult, Node, RuleDecision, RuleQuery, names_protected};
use crate::policy::{LayerKind, MatchedRule, RuleAction};

/// Turns an `ask` of this node into `allow` or `deny`; `depth` is its distance from the root. Other
/// answers are unchanged.
pub(super) fn instead_of_asking(
    node: &Node,
    places: &BaseFolders,
    query: &RuleQuery<'_>,
    asked: RuleDecision,
    depth: usize,
    may_grant: impl FnOnce() -> bool,
) -> RuleDecision {
    if asked.action != RuleAction::Ask {
        return asked;
    }
    let fitting = node.granted.iter().flatten().find(|rule| {
        rule.fits(places, query) == MatchResult::Yes && (!query.guarded || names_protected(rule.pattern()))
    });
    match fitting.filter(|_| !query.doubt && may_grant()) {
        Some(rule) => RuleDecision {
            action: RuleAction::Allow,
            by: Some(MatchedRule {
                node: node.name.clone(),
                depth,
                layer: LayerKind::Definition,
                source: None,
                rule: rule.text(),
                action: RuleAction::Allow,
                at: rule.at,
            }),
            pattern: rule.pattern().to_owned(),
            note: Some("it was approved beforehand"),
        },
        // The pattern is general, so that wrapper commands ignore this denial.
        None => RuleDecision {
            action: RuleAction::Deny,
            pattern: "*".to_owned(),
            note: Some("it was not approved beforehand, and this agent may not ask"),
            ..asked
        },
    }
}
