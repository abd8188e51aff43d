//! `run -d`: leaves the worker to its task.

use serde_json::json;
use subagent_config::{LoadedConfig, Workspace};
use subagent_protocol::api::{SendTurn, TurnAccepted, WorkerView};

use crate::client::{ApiRequest, DaemonClient, block_on, segment, view};
use crate::commands::worker::start::{WorkerStartRequest, notes};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, human, json};

/// Starts the worker and gives it the prompt.
///
/// # Errors
/// Those of the start, with the worker left as the start left it; those of the message, with `workerId` and `name` of
/// the worker, which is idle.
pub(super) fn run(
    wanted: WorkerStartRequest,
    turn: SendTurn,
    config: &LoadedConfig,
    workspace: &Workspace,
    context: &CliContext,
) -> Result<CliOutcome> {
    let mut client = DaemonClient::new(context, workspace);
    let (started, worker, accepted) = block_on(async {
        let prepared = super::prepare(&mut client, wanted, config, workspace, context).await?;
        let started = prepared.start(&mut client).await?;
        let worker: WorkerView = view(&started)?;
        let path = format!("/v1/workers/{}/turns", segment(worker.worker_id.as_str()));
        let accepted: TurnAccepted =
            client.ask_for(&ApiRequest::change(path, &turn)?).await.map_err(|failure| {
                failure.with("workerId", worker.worker_id.as_str()).with("name", worker.name.as_str())
            })?;
        Ok::<_, Failure>((started, worker, accepted))
    })?;
    let name = human::called(&worker.name, worker.worker_id.as_str()).to_owned();
    let mut data = json!({
        "name": name, "workerId": worker.worker_id, "controllerId": worker.controller_id,
        "launcher": worker.launcher, "turnId": accepted.turn_id, "acceptedEventId": accepted.accepted_event_id,
    });
    let notes = notes::of(&started);
    for key in notes::KEYS {
        if let Some(value) = started.get(key) {
            json::extend(&mut data, [(key, value.clone())]);
        }
    }
    Ok(CliOutcome::report("run.detached", data, name).with_notes(&notes))
}
