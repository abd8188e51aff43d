//! Permissions in the folder of the agent's memory. Pure.

use std::path::Path;

use super::{MatchedText, Node, RuleDecision, RuleQuery};
use crate::policy::paths::Spelling;
use crate::policy::{LayerKind, MatchedRule, RuleAction, ToolKind};

/// Allows reads and edits in the memory folder if no rule matches or only the definition asks. Other
/// answers are unchanged.
///
/// Each spelling of a path is judged separately, so neither `..` nor a link leaves the folder
/// undetected.
pub(super) fn in_memory(
    node: &Node,
    query: &RuleQuery<'_>,
    answer: Option<RuleDecision>,
) -> Option<RuleDecision> {
    let asks = |answer: &RuleDecision| {
        let by = answer.by.as_ref();
        answer.action == RuleAction::Ask && by.is_some_and(|by| by.layer == LayerKind::Definition)
    };
    let notes = matches!(query.subject, MatchedText::Path(path) if keeps_notes(node, query.kind, path));
    if !notes || !answer.as_ref().is_none_or(asks) {
        return answer;
    }
    Some(RuleDecision {
        action: RuleAction::Allow,
        by: Some(MatchedRule {
            node: node.name.clone(),
            depth: 0,
            layer: LayerKind::Definition,
            source: None,
            rule: "memory".to_owned(),
            action: RuleAction::Allow,
            at: None,
        }),
        pattern: String::new(),
        note: Some("it is in the folder of the agent's notes"),
    })
}

/// Whether the action reads or writes a note.
pub(super) fn keeps_notes(node: &Node, kind: ToolKind, path: &Spelling) -> bool {
    let below = |folder: &Path| Path::new(&path.absolute).strip_prefix(folder).ok();
    let rest = node.memory.as_deref().and_then(below);
    matches!(kind, ToolKind::Read | ToolKind::Edit) && rest.is_some_and(|rest| !rest.as_os_str().is_empty())
}
