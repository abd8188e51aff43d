//! How the rules of one node of the chain answer a query, and which rules match.

use super::super::address;
use super::super::glob::{self, MatchResult};
use super::super::paths::BaseFolders;
use super::super::rule::{Rule, RuleAction};
use super::super::tool::ToolKind;
use super::super::{Layer, LayerKind, Node};
use super::{MatchedRule, MatchedText, RuleDecision, RuleQuery, any_agent, stricter, strictest};

impl Node {
    /// Returns the answer of the node; `None` if no rule matches.
    pub(super) fn answer(&self, places: &BaseFolders, query: &RuleQuery<'_>) -> Option<RuleDecision> {
        self.within_listed(places, query, self.by_rules(places, query))
    }

    /// Returns the answer of its rules; `None` if none matches.
    pub(super) fn by_rules(&self, places: &BaseFolders, query: &RuleQuery<'_>) -> Option<RuleDecision> {
        let definition = |kind: LayerKind| kind == LayerKind::Definition;
        if matches!(query.subject, MatchedText::AnyAgent) {
            return any_agent::answer(self, query);
        }
        let own = self.last(places, query, definition);
        let denies = |own: &RuleDecision| own.by.as_ref().is_some_and(|by| by.action == RuleAction::Deny);
        match own {
            Some(denied) if denied.action == RuleAction::Deny => Some(denied),
            // It may be a denial of the definition, which later rules cannot loosen.
            Some(own) if denies(&own) => {
                Some(strictest(self.last_of_files(places, query).into_iter().chain([own])))
            }
            _ => self.last_of_files(places, query),
        }
    }

    /// Returns the last matching rule of all layers. A project's rule cannot loosen a `deny` of the user
    /// file.
    pub(super) fn last_of_files(&self, places: &BaseFolders, query: &RuleQuery<'_>) -> Option<RuleDecision> {
        let all = self.last(places, query, |_| true);
        if !self.has_user_layer() {
            return all;
        }
        let user =
            self.last(places, query, |kind| kind != LayerKind::Config).filter(RuleDecision::is_users_deny);
        all.into_iter().chain(user).reduce(stricter)
    }

    pub(super) fn has_user_layer(&self) -> bool {
        self.layers().iter().any(|layer| layer.kind == LayerKind::User)
    }

    /// Returns the restriction by the last rule that one of these labels matches; `None` if it allows the
    /// tool.
    pub(super) fn by_labels(&self, labels: &[String]) -> Option<RuleDecision> {
        let last = |which: fn(LayerKind) -> bool| {
            let layers = self.layers().iter().rev().filter(|layer| which(layer.kind));
            let mut rules = layers.flat_map(|layer| layer.rules.iter().rev().map(move |rule| (layer, rule)));
            let (layer, rule) = rules.find(|(_, rule)| rule.names_label(labels) == MatchResult::Yes)?;
            (rule.action > RuleAction::Allow).then(|| self.says(layer, rule, rule.action, None))
        };
        let user = last(|kind| kind != LayerKind::Config).filter(RuleDecision::is_users_deny);
        last(|_| true).into_iter().chain(user).reduce(stricter)
    }

    /// Returns the last matching rule of these layers, or a stricter later rule that may match.
    pub(super) fn last(
        &self,
        places: &BaseFolders,
        query: &RuleQuery<'_>,
        which: impl Fn(LayerKind) -> bool,
    ) -> Option<RuleDecision> {
        let layers = self.layers().iter().rev().filter(|layer| which(layer.kind));
        let mut doubt: Option<RuleDecision> = None;
        for (layer, rule) in layers.flat_map(|layer| layer.rules.iter().rev().map(move |rule| (layer, rule)))
        {
            let fits = rule.fits(places, query);
            let answer = |action, note| self.says(layer, rule, action, note);
            match fits {
                MatchResult::Yes => {
                    return Some(strictest(doubt.into_iter().chain([answer(rule.action, None)])));
                }
                MatchResult::Could if rule.action > RuleAction::Allow => {
                    let held = doubt.as_ref().and_then(|held| held.by.as_ref()).map(|by| by.action);
                    if held.is_none_or(|held| rule.action > held) {
                        let why = "this rule may be about it: not all of it is known yet";
                        doubt = Some(answer(RuleAction::Ask, Some(why)));
                    }
                }
                MatchResult::Could | MatchResult::No => {}
            }
        }
        doubt
    }

    pub(super) fn says(
        &self,
        layer: &Layer,
        rule: &Rule,
        action: RuleAction,
        note: Option<&'static str>,
    ) -> RuleDecision {
        RuleDecision {
            action,
            by: Some(MatchedRule {
                node: self.name.clone(),
                depth: 0,
                layer: layer.kind,
                source: layer.source.clone(),
                rule: rule.text(),
                action: rule.action,
                at: rule.at,
            }),
            pattern: rule.pattern().to_owned(),
            note,
        }
    }
}

impl Rule {
    pub(super) fn fits(&self, places: &BaseFolders, query: &RuleQuery<'_>) -> MatchResult {
        if !self.is_about(query.kind, query.name) {
            let bare = query.kind == ToolKind::Other && self.restricts_bare(query.labels);
            return self.fits_label(query.labels).max(if bare {
                MatchResult::Could
            } else {
                MatchResult::No
            });
        }
        self.fits_subject(places, query)
    }

    /// Matches the pattern against the subject.
    pub(super) fn fits_subject(&self, places: &BaseFolders, query: &RuleQuery<'_>) -> MatchResult {
        if self.is_whole() {
            return MatchResult::Yes;
        }
        let yes = |fits| if fits { MatchResult::Yes } else { MatchResult::No };
        match &query.subject {
            MatchedText::Unknown => MatchResult::Could,
            MatchedText::AnyAgent => MatchResult::Yes,
            // Agent names ignore case.
            MatchedText::Word(word) if query.kind == ToolKind::Task => {
                yes(glob::matches(&self.pattern().to_lowercase(), &word.to_lowercase()))
            }
            MatchedText::Word(word) if query.kind == ToolKind::Fetch => {
                yes(address::fits(self.pattern(), word))
            }
            MatchedText::Word(word) => yes(glob::matches(self.pattern(), word)),
            MatchedText::Path(path) => places.fits(self.pattern(), path),
            MatchedText::Text(text) => match &text.units {
                None => yes(glob::matches(self.pattern(), &text.shown)),
                Some(_) if glob::matches(self.pattern(), &text.shown) => MatchResult::Yes,
                Some(units) if glob::could_match(self.pattern(), units) => MatchResult::Could,
                Some(_) => MatchResult::No,
            },
        }
    }
}
