//! `run -d`: leaves the worker to its task.

use serde_json::{Value, json};
use subagent_config::{LoadedConfig, Workspace};
use subagent_protocol::api::SendTurn;

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::commands::worker::start::{WorkerStartRequest, notes};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, human};

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
    let (worker, accepted) = block_on(async {
        let prepared = super::prepare(&mut client, wanted, config, workspace, context).await?;
        let worker = prepared.start(&mut client).await?;
        let path = format!("/v1/workers/{}/turns", segment(text(&worker, "workerId")));
        let accepted = client.ask(&ApiRequest::change(path, &turn)?).await.map_err(|failure| {
            failure.with("workerId", worker["workerId"].clone()).with("name", worker["name"].clone())
        })?;
        Ok::<_, Failure>((worker, accepted))
    })?;
    let name = human::named(&worker).to_owned();
    let mut data = json!({
        "name": name, "workerId": worker["workerId"], "controllerId": worker["controllerId"],
        "launcher": worker["launcher"], "turnId": accepted["turnId"], "acceptedEventId": accepted["acceptedEventId"],
    });
    let notes = notes::of(&worker);
    for key in notes::KEYS {
        if let Some(value) = worker.get(key) {
            data[key] = value.clone();
        }
    }
    Ok(CliOutcome::report("run.detached", data, name).with_notes(&notes))
}

fn text<'a>(data: &'a Value, key: &str) -> &'a str {
    data[key].as_str().unwrap_or_default()
}
