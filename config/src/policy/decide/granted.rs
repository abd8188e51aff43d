//! What was granted beforehand to a node that asks nobody. Pure.
//!
//! It is no way around a rule: it stands in the place of a question alone, and nobody grants what he would be asked for himself.

use super::{Answer, Fits, Node, Places, Query, names_protected};
use crate::policy::{Action, Decider, LayerKind};

impl Node {
    /// What becomes of a question of this node, so far from the root; any other answer stays.
    pub(super) fn instead_of_asking(
        &self,
        places: &Places,
        query: &Query<'_>,
        asked: Answer,
        depth: usize,
        may_grant: impl FnOnce() -> bool,
    ) -> Answer {
        if asked.action != Action::Ask {
            return asked;
        }
        let fitting = self.granted.iter().flatten().find(|rule| {
            rule.fits(places, query) == Fits::Yes && (!query.guarded || names_protected(rule.pattern()))
        });
        match fitting.filter(|_| !query.doubt && may_grant()) {
            Some(rule) => Answer {
                action: Action::Allow,
                by: Some(Decider {
                    node: self.name.clone(),
                    depth,
                    layer: LayerKind::Definition,
                    source: None,
                    rule: rule.text(),
                    action: Action::Allow,
                    at: rule.at,
                }),
                pattern: rule.pattern().to_owned(),
                note: Some("it was approved beforehand"),
            },
            // No rule denies it itself: what only starts other things is passed over.
            None => Answer {
                action: Action::Deny,
                pattern: "*".to_owned(),
                note: Some("it was not approved beforehand, and nobody is asked"),
                ..asked
            },
        }
    }
}
