//! A request that needs an agent whose environment is gone, as after a reboot: the daemon refuses
//! it with `ENV_REQUIRED`, and it is asked once more, under the same key, with what the agent would
//! inherit from this caller. Must not print the values: they go to the daemon only.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use subagent_config::start;
use subagent_protocol::Code;
use subagent_protocol::api::WorkerView;
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::mcp::McpServers;

use super::contract_form::without_name_of;
use super::named_worker;
use super::several::{ChangeReport, each};
use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::ConfigFlag;
use crate::command_line::flags::workers::SeveralWorkers;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, OutputFormat, complain};

/// The key in `data` that says that it was sent.
const SENT: &str = "environmentSent";

/// Whose agent it is, and where its launcher is looked up.
pub(crate) struct AgentEnvironmentSource<'a> {
    pub(crate) worker_id: &'a str,
    pub(crate) config: Option<&'a Path>,
    pub(crate) cwd: Option<&'a Path>,
    pub(crate) context: &'a CliContext,
}

/// The environment of the caller, if the daemon needs it.
type CallerVariables = Option<Vec<(Bytes64, Bytes64)>>;

/// A change of several workers that may need the environment of the caller.
pub(crate) struct BulkWorkerChange<'a> {
    pub(crate) report: &'a ChangeReport,
    /// The path after `/v1/workers/{worker}/`.
    pub(crate) path: &'a str,
    /// Whether only the daemon knows how long it may take.
    pub(crate) unbounded: bool,
}

impl BulkWorkerChange<'_> {
    /// Changes each worker. `body` makes the request.
    pub(crate) fn of_each<T: Serialize>(
        &self,
        (several, config): (&SeveralWorkers, &ConfigFlag),
        context: &CliContext,
        body: impl Fn(CallerVariables, McpServers) -> T,
    ) -> Result<CliOutcome> {
        let cwd = several.cwd.cwd.as_deref();
        let workspace = context.workspace(cwd)?;
        let addresses = several.workers.all();
        let mut client = DaemonClient::new(context, &workspace);
        let items = block_on(each(&mut client, addresses, self.report, async |client, address| {
            let worker_id = named_worker(address, &workspace)?;
            let path = format!("/v1/workers/{}/{}", segment(worker_id), self.path);
            let ask = ApiRequest::change(path, &body(None, McpServers::default()))?;
            let ask = if self.unbounded { ask.within(None) } else { ask };
            let agent = AgentEnvironmentSource { worker_id, config: config.config.as_deref(), cwd, context };
            let mut data =
                agent.ask(client, &ask, |environment, servers| body(Some(environment), servers)).await?;
            without_name_of(address, &mut data, context);
            Ok(data)
        }))?;
        Ok(self.report.outcome(&client.names(addresses), items))
    }
}

impl AgentEnvironmentSource<'_> {
    /// Asks, with the caller's environment if it is needed. `body` makes the request with it.
    pub(crate) async fn ask<T: Serialize>(
        &self,
        client: &mut DaemonClient,
        ask: &ApiRequest,
        body: impl FnOnce(Vec<(Bytes64, Bytes64)>, McpServers) -> T,
    ) -> Result<Value> {
        let required = match client.ask(ask).await {
            Err(failure) if failure.is(Code::EnvRequired) => failure,
            answer => return answer,
        };
        if let Some(host) = &self.context.host {
            // Variables of this machine, and its secrets, are not for another one.
            let advice = "run the same command on that host, so that the agent gets the environment there";
            return Err(required.with("host", host.name()).recommend(advice));
        }
        let (environment, servers) = self.environment(client, required).await?;
        let mut data = client.ask(&ask.once_more(&body(environment, servers))?).await?;
        data[SENT] = true.into();
        if self.context.format == OutputFormat::Text {
            complain("Note: the agent's environment was lost; it now has that of this command.");
        }
        Ok(data)
    }

    /// What the agent would inherit if its worker were started here.
    async fn environment(
        &self,
        client: &mut DaemonClient,
        required: Failure,
    ) -> Result<(Vec<(Bytes64, Bytes64)>, McpServers)> {
        let path = format!("/v1/workers/{}", segment(self.worker_id));
        let shown: WorkerView = serde_json::from_value(client.ask(&ApiRequest::get(path)).await?)
            .map_err(|error| Failure::internal(format!("the daemon's answer is incomplete: {error}")))?;
        let loaded = self.context.config(self.config, self.cwd)?;
        match loaded.config.launchers.get(&shown.launcher) {
            Some(launcher) => {
                let cwd = Path::new(&shown.cwd);
                let environment = start::environment(&self.context.env, launcher, cwd);
                let servers = start::servers::of(
                    &loaded.config,
                    launcher,
                    BTreeMap::new(),
                    None,
                    cwd,
                    &self.context.env,
                )?;
                Ok((environment, servers))
            }
            // Without it the agent might lack what its launcher sets.
            None => {
                let name = shown.launcher;
                let advice = format!(
                    "name the config file that has launcher {name} with --config, or start a new worker"
                );
                Err(required.with("launcher", name).recommend(advice))
            }
        }
    }
}
