//! Who has a session already that a new worker shall take up: of two agents in the same session each would lose, or
//! overwrite, what the other one did.

use subagent_protocol::api::LauncherSpec;
use subagent_protocol::{Code, Error, Result};

use super::spec::Spec;
use crate::store::WorkerRow;

/// Nobody among these workers has the session, or is about to take it up, with the same agent. Ids of other agents may
/// be the same by accident.
///
/// # Errors
/// `SESSION_IN_USE{sessionId,workerId}`.
pub(super) fn check(workers: &[WorkerRow], session: &str, launcher: &LauncherSpec) -> Result<()> {
    let holds = |row: &&WorkerRow| {
        if row.state == "stopped" {
            return false;
        }
        let Ok(spec) = serde_json::from_str::<Spec>(&row.spec) else { return false };
        let has = match &row.session_id {
            Some(id) => id == session,
            // One that could not take it up is none that has it.
            None => row.state == "starting" && spec.resume.as_deref() == Some(session),
        };
        has && (&spec.launcher.program, &spec.launcher.args) == (&launcher.program, &launcher.args)
    };
    let Some(holder) = workers.iter().find(holds) else { return Ok(()) };
    let id = holder.worker_id.as_str();
    let message = format!("worker {id} has the session {session:.200} already");
    Err(Error::new(Code::SessionInUse, message)
        .with("sessionId", session)
        .with("workerId", id)
        .with("recommendedCommand", format!("subagent worker show {id}"))
        .recommend(format!("send to that worker, or stop it first with `subagent worker stop {id}`")))
}
