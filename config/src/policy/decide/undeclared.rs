//! Calls of an undeclared kind: they may be of any kind that their description allows. Pure.

use std::path::{Path, PathBuf};

use super::{Judge, Judged, Query, Subject};
use crate::policy::Action;
use crate::policy::call::Call;
use crate::policy::tool::Kind;

/// The kinds that act on files.
const OF_FILES: [Kind; 5] = [Kind::Read, Kind::Edit, Kind::Delete, Kind::Move, Kind::Search];
/// The kinds that need no file.
const OF_ELSE: [Kind; 2] = [Kind::Execute, Kind::Fetch];

impl Judge<'_> {
    /// Asks if one of the possible kinds is not allowed.
    pub(super) fn undeclared(&self, call: &Call, real: &dyn Fn(&Path) -> PathBuf) -> Option<Judged> {
        let name = call.name.as_deref();
        // A rule with the tool's name shows that the kind is known.
        if !call.is_undeclared() || self.policy.rules().any(|rule| rule.names_tool(name)) {
            return None;
        }
        let allowed = match call.paths.as_slice() {
            [] => OF_FILES
                .iter()
                .chain(&OF_ELSE)
                .all(|kind| self.answer(&Query::of(*kind, None, Subject::Unknown)).action == Action::Allow),
            paths => OF_FILES.iter().all(|kind| {
                paths.iter().all(|path| self.path(*kind, None, path, real).action == Action::Allow)
            }),
        };
        let note = "the agent does not tell what kind of call it is, and it may be one that is not allowed";
        (!allowed).then(|| self.doubtful(Kind::Other, name, note))
    }
}
