//! The tool list of a definition: unlisted tools are denied, but listing a tool does not allow it. Pure.

use super::{BaseFolders, MatchResult, Node, Rule, RuleDecision, RuleQuery, stricter};
use crate::policy::{LayerKind, MatchedRule, RuleAction, ToolKind};

/// The listed tools of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolList {
    /// Path of the file with the list.
    pub source: Option<String>,
    /// The tools as rules; their action has no meaning.
    pub tools: Vec<Rule>,
}

impl ToolList {
    /// Whether everything of this kind is listed.
    pub(super) fn has_all_of(&self, kind: ToolKind) -> bool {
        self.tools.iter().any(|tool| tool.is_whole() && tool.is_about(kind, None))
    }

    fn fits(&self, places: &BaseFolders, query: &RuleQuery<'_>) -> MatchResult {
        let fits = |tool: &Rule| match tool.names_tool(query.name) {
            // Listing does not allow, so the name of the tool suffices even for a task.
            true => MatchResult::Yes,
            false => tool.fits(places, query),
        };
        self.tools.iter().map(fits).max().unwrap_or(MatchResult::Yes)
    }
}

impl Node {
    /// Returns the answer of the rules, or a denial if one of the lists lacks the tool.
    pub(super) fn within_listed(
        &self,
        places: &BaseFolders,
        query: &RuleQuery<'_>,
        answer: Option<RuleDecision>,
    ) -> Option<RuleDecision> {
        self.listed.iter().fold(answer, |answer, listed| self.within(listed, places, query, answer))
    }

    fn within(
        &self,
        listed: &ToolList,
        places: &BaseFolders,
        query: &RuleQuery<'_>,
        answer: Option<RuleDecision>,
    ) -> Option<RuleDecision> {
        let by_list = |action, note| RuleDecision {
            action,
            by: Some(MatchedRule {
                node: self.name.clone(),
                depth: 0,
                layer: LayerKind::Definition,
                source: listed.source.clone(),
                rule: "tools".to_owned(),
                action,
                at: None,
            }),
            pattern: "*".to_owned(),
            note: Some(note),
        };
        match listed.fits(places, query) {
            MatchResult::Yes => answer,
            MatchResult::Could => {
                let doubt = by_list(
                    RuleAction::Ask,
                    "whether it is one of the tools that are listed is not known yet",
                );
                Some(match answer {
                    Some(answer) if answer.action >= doubt.action => answer,
                    _ => doubt,
                })
            }
            MatchResult::No => {
                let denied = by_list(RuleAction::Deny, "it is not among the tools that the definition lists");
                Some(match answer {
                    Some(answer) => stricter(denied, answer),
                    None => denied,
                })
            }
        }
    }
}
