//! Permissions in the folder of the agent's memory. Pure.

use std::path::Path;

use super::{Answer, Node, Query, Subject};
use crate::policy::paths::Spelling;
use crate::policy::{Action, Decider, Kind, LayerKind};

impl Node {
    /// Allows reads and edits in the memory folder if no rule matches or only the definition asks. Other
    /// answers are unchanged.
    ///
    /// Each spelling of a path is judged separately, so neither `..` nor a link leaves the folder
    /// undetected.
    pub(super) fn in_memory(&self, query: &Query<'_>, answer: Option<Answer>) -> Option<Answer> {
        let asks = |answer: &Answer| {
            let by = answer.by.as_ref();
            answer.action == Action::Ask && by.is_some_and(|by| by.layer == LayerKind::Definition)
        };
        let notes = matches!(query.subject, Subject::Path(path) if self.keeps_notes(query.kind, path));
        if !notes || !answer.as_ref().is_none_or(asks) {
            return answer;
        }
        Some(Answer {
            action: Action::Allow,
            by: Some(Decider {
                node: self.name.clone(),
                depth: 0,
                layer: LayerKind::Definition,
                source: None,
                rule: "memory".to_owned(),
                action: Action::Allow,
                at: None,
            }),
            pattern: String::new(),
            note: Some("it is in the folder of the agent's notes"),
        })
    }

    /// Whether the action reads or writes a note.
    pub(super) fn keeps_notes(&self, kind: Kind, path: &Spelling) -> bool {
        let below = |folder: &Path| Path::new(&path.absolute).strip_prefix(folder).ok();
        let rest = self.memory.as_deref().and_then(below);
        matches!(kind, Kind::Read | Kind::Edit) && rest.is_some_and(|rest| !rest.as_os_str().is_empty())
    }
}
