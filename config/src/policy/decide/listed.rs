//! The tools that a definition lists: what is none of them is denied, and to be listed allows nothing. Pure.

use super::{Answer, Fits, Node, Places, Query, Rule, stricter};
use crate::policy::{Action, Decider, Kind, LayerKind};

/// The only tools of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// The file that lists them, if it is one.
    pub source: Option<String>,
    /// The tools, as rules whose action says nothing.
    pub tools: Vec<Rule>,
}

impl Listed {
    /// Whether everything of this kind is listed.
    pub(super) fn has_all_of(&self, kind: Kind) -> bool {
        self.tools.iter().any(|tool| tool.is_whole() && tool.is_about(kind, None))
    }

    fn fits(&self, places: &Places, query: &Query<'_>) -> Fits {
        let fits = |tool: &Rule| match tool.names_tool(query.name) {
            // To be listed allows nothing, so a task may be listed by the name of the tool.
            true => Fits::Yes,
            false => tool.fits(places, query),
        };
        self.tools.iter().map(fits).max().unwrap_or(Fits::Yes)
    }
}

impl Node {
    /// The answer of its rules, unless the tool is none of those that are in all of the lists.
    pub(super) fn within_listed(
        &self,
        places: &Places,
        query: &Query<'_>,
        answer: Option<Answer>,
    ) -> Option<Answer> {
        self.listed.iter().fold(answer, |answer, listed| self.within(listed, places, query, answer))
    }

    fn within(
        &self,
        listed: &Listed,
        places: &Places,
        query: &Query<'_>,
        answer: Option<Answer>,
    ) -> Option<Answer> {
        let by_list = |action, note| Answer {
            action,
            by: Some(Decider {
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
            Fits::Yes => answer,
            Fits::Could => {
                let doubt =
                    by_list(Action::Ask, "whether it is one of the tools that are listed is not known yet");
                Some(match answer {
                    Some(answer) if answer.action >= doubt.action => answer,
                    _ => doubt,
                })
            }
            Fits::No => {
                let denied = by_list(Action::Deny, "it is none of the tools that the definition lists");
                Some(match answer {
                    Some(answer) => stricter(denied, answer),
                    None => denied,
                })
            }
        }
    }
}
