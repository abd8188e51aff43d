//! Checks whether git could write the commits of a landing in this repository.

use subagent_runtime::worktree::lacks_identity;

use super::facts::DoctorFacts;
use super::finding::{CheckedPart, Finding};
use crate::output::advice;

const GROUP: CheckedPart = CheckedPart::Machine;
const IDENTITY: &str = "machine.gitIdentity";

/// Reports nothing outside of a repository, and where git does not work.
pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    let folder = facts.cwd.as_ref().unwrap_or(&facts.env.cwd);
    let env: Vec<_> = facts.env.vars.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let finding = lacks_identity(folder, &env).map(|is_missing| match is_missing {
        true => Finding::warning(
            GROUP,
            IDENTITY,
            "git has no name and email address for commits: `subagent land` fails in this repository",
        )
        .advise(advice::GIT_IDENTITY),
        false => Finding::ok(GROUP, IDENTITY, "git has a name and an email address for commits"),
    });
    finding.into_iter().collect()
}
