//! The definition that comes with a message: looked up where its worker works, for the launcher that the worker has.

use std::path::Path;

use subagent_config::start::agent::{self, RunningWorker};
use subagent_protocol::Code;
use subagent_protocol::api::WorkerView;
use subagent_protocol::definition::AgentChange;

use crate::client::{ApiRequest, DaemonClient, segment};
use crate::context::CliContext;
use crate::failure::{Failure, Result};

/// Which definition, and where it is looked for.
pub(crate) struct DefinitionLookup<'a> {
    pub(crate) name: &'a str,
    /// Definitions besides those in files, as JSON text.
    pub(crate) agents: Option<&'a str>,
    pub(crate) config: Option<&'a Path>,
    pub(crate) cwd: Option<&'a Path>,
}

impl DefinitionLookup<'_> {
    /// Resolves it for a worker.
    pub(crate) async fn resolve(
        &self,
        client: &mut DaemonClient,
        worker_id: &str,
        context: &CliContext,
    ) -> Result<AgentChange> {
        if let Some(host) = &context.host {
            let message = "the definition of an agent is a file of the host; change it there";
            return Err(Failure::new(Code::HostUnsupported, message).with("host", host.name()));
        }
        let path = format!("/v1/workers/{}", segment(worker_id));
        let shown: WorkerView = client.ask_for(&ApiRequest::get(path)).await?;
        let cwd = self.cwd.unwrap_or(Path::new(&shown.cwd));
        let workspace = context.workspace(Some(cwd))?;
        let loaded = context.config(self.config, Some(cwd))?;
        let launcher = loaded.config.launcher(&shown.launcher)?;
        let running = RunningWorker { launcher: (&shown.launcher, launcher), delegates: shown.delegates };
        let change =
            agent::change(self.name, self.agents, running, &loaded.config, &workspace.root, &context.env)?;
        Ok(change)
    }

    /// The error of a daemon that is older than this command: it has sent the message to what the worker was before.
    pub(crate) async fn not_taken(&self, client: &mut DaemonClient, worker_id: &str) -> Failure {
        let cancel = serde_json::json!({"reason": "the daemon does not support definitions in messages"});
        let canceled = match ApiRequest::change(format!("/v1/workers/{}/cancel", segment(worker_id)), &cancel)
        {
            Ok(cancel) => client.ask(&cancel).await.is_ok(),
            Err(_) => false,
        };
        let message = "the daemon is older than this command and cannot give a worker another definition";
        Failure::new(Code::DaemonTooOld, message)
            .with("workerId", worker_id)
            .with("agent", self.name)
            .with("canceled", canceled)
            .recommend("restart the daemon with `subagent daemon restart`, then send again")
    }
}
