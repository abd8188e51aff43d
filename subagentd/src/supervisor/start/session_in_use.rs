//! Checks that no other worker uses the session that a new worker resumes. Two agents in one
//! session would overwrite each other's work.

use subagent_protocol::api::LauncherSpec;
use subagent_protocol::{Code, Error, Result};

use super::spec::Spec;
use crate::store::WorkerRow;

/// Checks that none of these workers uses or is about to resume the session with the same agent.
/// Session ids of different agents can be equal by accident.
///
/// # Errors
/// `SESSION_IN_USE{sessionId,workerId}`.
pub(crate) fn check(workers: &[WorkerRow], session: &str, launcher: &LauncherSpec) -> Result<()> {
    let holds = |row: &&WorkerRow| {
        if row.state == "stopped" {
            return false;
        }
        let Ok(spec) = serde_json::from_str::<Spec>(&row.spec) else { return false };
        let has = match &row.agent.session_id {
            Some(id) => id == session,
            // A worker that failed to resume the session does not own it.
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
