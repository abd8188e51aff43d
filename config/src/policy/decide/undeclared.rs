//! Calls of an undeclared kind: they may be of any kind that their description allows. Pure.

use std::path::{Path, PathBuf};

use super::{Judge, Judged, MatchedText, RuleQuery};
use crate::policy::call::ToolCallDescription;
use crate::policy::rule::Rule;
use crate::policy::tool::ToolKind;
use crate::policy::{Layer, LayerKind, Node, RuleAction};

/// The kinds that act on files.
const OF_FILES: [ToolKind; 5] =
    [ToolKind::Read, ToolKind::Edit, ToolKind::Delete, ToolKind::Move, ToolKind::Search];
/// The kinds that need no file.
const OF_ELSE: [ToolKind; 2] = [ToolKind::Execute, ToolKind::Fetch];
/// What is denied without a rule, so that only a rule counts.
const BY_RULE: [ToolKind; 2] = [ToolKind::Task, ToolKind::Todo];
/// The kinds of what may be in a part that is not examined, under every kind.
const UNEXAMINED: [ToolKind; 4] = [ToolKind::Execute, ToolKind::Edit, ToolKind::Fetch, ToolKind::Delete];

impl Judge<'_> {
    /// Asks if one of the possible kinds is not allowed.
    pub(super) fn undeclared(
        &self,
        call: &ToolCallDescription,
        real: &dyn Fn(&Path) -> PathBuf,
    ) -> Option<Judged> {
        let name = call.name.as_deref();
        // A rule with the tool's name shows that the kind is known.
        if !call.is_undeclared() || self.policy.rules().any(|rule| rule.names_tool(name)) {
            return None;
        }
        let allows = |kinds: &[ToolKind]| kinds.iter().all(|kind| self.allows_all(*kind, None));
        let of_files = match call.paths.as_slice() {
            [] => allows(&OF_FILES),
            paths => OF_FILES.iter().all(|kind| {
                paths.iter().all(|path| self.path(*kind, None, path, real).action == RuleAction::Allow)
            }),
        };
        // A named tool with a path, or with input, acts on that. A title alone says nothing of what else it does.
        let acts_on_paths = call.has_detail() && !call.paths.is_empty();
        let of_else = acts_on_paths || (allows(&OF_ELSE) && (name.is_some() || self.allows_all_named()));
        let allowed = of_files && of_else;
        let note = "the agent does not say what kind of call it is, and it may be one that is not allowed";
        (!allowed).then(|| self.doubtful(ToolKind::Other, name, note))
    }

    /// Asks if a part of the call is not examined, and what may be in it is not allowed.
    pub(super) fn unexamined(&self, call: &ToolCallDescription) -> Option<Judged> {
        let own = call.kinds();
        let is_vague = own.iter().any(|kind| matches!(kind, ToolKind::Other | ToolKind::Think));
        let kinds: Vec<ToolKind> = match (call.lost, call.lost_command) {
            (false, false) => return None,
            // Only the command counts of a call of a server's tool.
            (_, true) if call.is_of_mcp() => vec![ToolKind::Execute],
            _ if call.is_of_mcp() => return None,
            _ if is_vague => UNEXAMINED.into_iter().chain(OF_FILES).collect(),
            _ => UNEXAMINED.into_iter().chain(own).collect(),
        };
        let name = call.name.as_deref();
        let kind = kinds.into_iter().find(|kind| !self.allows_all(*kind, name))?;
        let note = "not all of it is examined, and it may hold what is not allowed";
        let found = self.noted(&RuleQuery::of(kind, name, MatchedText::Unknown), note);
        // That it is so is not known, so that it is no reason for a denial.
        let never_asks = self.policy.chain.iter().any(Node::never_asks);
        let action = if never_asks { RuleAction::Deny } else { RuleAction::Ask };
        Some(Judged { action, ..found })
    }

    fn allows_all(&self, kind: ToolKind, name: Option<&str>) -> bool {
        self.answer(&RuleQuery::of(kind, name, MatchedText::Unknown)).action == RuleAction::Allow
    }

    /// Whether no rule restricts tools of MCP servers, tasks or lists of what is to do.
    fn allows_all_named(&self) -> bool {
        let layers = || self.policy.chain.iter().flat_map(Node::layers);
        let restricting = || layers().flat_map(written).filter(|rule| rule.action > RuleAction::Allow);
        let tools = restricting().filter_map(Rule::tool_name);
        let kinds = BY_RULE.iter().filter(|kind| restricting().any(|rule| rule.names(**kind)));
        tools
            .map(|name| (ToolKind::Other, Some(name)))
            .chain(kinds.map(|kind| (*kind, None)))
            .all(|(kind, name)| self.allows_all(kind, name))
    }
}

/// Returns the rules of a layer without the default of a definition: reading a definition puts `task: deny` before
/// its own rules. Tasks are denied without that rule too, so it is no reason to ask.
fn written(layer: &Layer) -> &[Rule] {
    match &layer.rules[..] {
        [first, written @ ..] if layer.kind == LayerKind::Definition && first.is_default_of_tasks() => {
            written
        }
        all => all,
    }
}
