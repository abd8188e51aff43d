//! Validates the start of a worker on another machine or in a container: what works only beside the
//! daemon is refused.

use subagent_protocol::api::{CopyMode, NewWorktree, StartWorker};
use subagent_protocol::data::workers::PendingPlace;
use subagent_protocol::placement::Placement;
use subagent_protocol::{Code, Error, Result};

/// Returns the other machine or container of a request.
pub(crate) fn remote(request: &StartWorker) -> Option<&Placement> {
    request.placement.as_ref().and_then(|placement| placement.elsewhere())
}

/// Validates a request. One of a worker beside the daemon is not looked at.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`, `SANDBOX_UNAVAILABLE{missing}`.
pub(super) fn check(request: &StartWorker) -> Result<()> {
    let Some(remote) = remote(request) else { return Ok(()) };
    remote.check()?;
    if request.sandbox.is_some() {
        let message = "this version applies no sandbox on a placement";
        return Err(Error::new(Code::SandboxUnavailable, message).with("missing", "placement"));
    }
    let refused = [
        (request.worktree.as_ref().is_some_and(|worktree| !is_sent(worktree, remote)), "worktree"),
        (request.worktree_of.is_some(), "worktreeOf"),
        (request.titles.is_some(), "titles"),
        (!request.additional_directories.is_empty(), "additionalDirectories"),
        (request.policy.as_ref().is_some_and(|policy| policy.memory.is_some()), "memory"),
        (request.cwd.as_os_str() != remote.cwd.as_str(), "cwd"),
    ];
    match refused.into_iter().find(|(is_refused, _)| *is_refused) {
        Some((_, field)) => {
            let message = format!("`{field}` cannot be combined with the placement `{}`", remote.name);
            Err(Error::new(Code::InvalidArgument, message)
                .with("field", field)
                .with("placement", remote.name.as_str()))
        }
        None => Ok(()),
    }
}

/// Whether git can bring the worktree there.
fn is_sent(worktree: &NewWorktree, remote: &Placement) -> bool {
    let is_known = worktree.source.as_ref().is_some_and(|source| source.is_absolute());
    is_known && remote.git.is_some() && worktree.copy == CopyMode::Never
}

/// The advice for a stop whose end is not proved.
pub(super) const GIVE_UP: &str = "repair the connection or the engine's client, and repeat the command to wait longer; if the place does not come back, `subagent worker stop --without-host` gives it up";

/// Returns the error of a stop that cannot take the worker's place out of an engine's queue.
pub(super) fn is_queued(worker: &str, pending: &PendingPlace) -> Error {
    let message = format!(
        "it is not proved that the worker's place has ended ({}); the stop is stored and goes on by itself",
        pending.reason
    );
    Error::new(Code::StopIncomplete, message)
        .retryable()
        .with("workerId", worker)
        .with("pending", serde_json::json!(pending))
        .recommend(GIVE_UP)
}
