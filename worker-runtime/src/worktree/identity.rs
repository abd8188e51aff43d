//! The user's name and email address, without which git writes no commit.

use std::ffi::OsString;
use std::path::Path;

use subagent_protocol::Error;

use super::plan;
use super::work::{OperationContext, WAIT_LIMITS};

/// The variables of git that fail without an identity.
const NEEDED: [&str; 2] = ["GIT_COMMITTER_IDENT", "GIT_AUTHOR_IDENT"];
/// The identity of commits that no landing takes over, if the user has none.
const OURS: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "subagent"),
    ("GIT_AUTHOR_EMAIL", "subagent@localhost"),
    ("GIT_COMMITTER_NAME", "subagent"),
    ("GIT_COMMITTER_EMAIL", "subagent@localhost"),
];

/// Whether a commit in this folder would fail for lack of an identity.
pub(super) fn is_missing(work: &OperationContext<'_>, folder: &Path) -> Result<bool, Error> {
    for name in NEEDED {
        if work.asked(folder, &["var", name])?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Variables with an identity for a commit that no landing takes over.
pub(super) fn ours() -> impl Iterator<Item = (&'static str, OsString)> {
    OURS.into_iter().map(|(name, value)| (name, value.into()))
}

/// Whether git has no identity for commits in the repository around a folder.
///
/// # Errors
///
/// `WORKTREE_NEEDS_GIT{reason}` if it is in none, or `GIT_FAILED` for other failures.
pub fn lacks_identity(folder: &Path, env: &[(OsString, OsString)]) -> Result<bool, Error> {
    let work = OperationContext::new(env, WAIT_LIMITS);
    let _ = plan::find(&work, folder)?;
    is_missing(&work, folder)
}
