//! Workers started, written to, compared and landed for a program that the user runs: an MCP client, or the panel.
//!
//! With the config and the environment of this process, as the commands of the same names do it.

use std::path::PathBuf;

use serde_json::{Map, Value};
use subagent_config::start::budgets::of_config;
use subagent_protocol::Code;
use subagent_protocol::api::{IfBusy, SendTurn};
use subagent_protocol::mcp::McpServers;

use crate::client::{ApiRequest, DaemonClient, segment};
use crate::command_line::TypedFlags;
use crate::command_line::flags::start::StartFlags;
use crate::commands::targets::named_worker;
use crate::commands::targets::resend_environment::AgentEnvironmentSource;
use crate::commands::{diff, land, worker};
use crate::context::CliContext;
use crate::controller;
use crate::failure::{Failure, Result};
use crate::input::InputObject;

/// The commands of this process's caller, in one workspace.
#[derive(Debug, Clone)]
pub(crate) struct CallerCommands {
    pub(crate) context: CliContext,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) config: Option<PathBuf>,
}

impl CallerCommands {
    /// Starts a worker, which is described by the keys of `worker start --input`.
    pub(crate) async fn start(&self, worker: Map<String, Value>) -> Result<Value> {
        let text = Value::Object(worker).to_string();
        let input = InputObject::parse(&text, worker::start::INPUT, &TypedFlags::default())?;
        let flags = StartFlags { cwd: self.cwd.clone(), ..StartFlags::default() };
        let wanted = worker::start::WorkerStartRequest::of(flags, &input)?;
        let workspace = self.context.workspace(self.cwd.as_deref())?;
        let config = self.context.config(self.config.as_deref(), self.cwd.as_deref())?;
        let mut client = DaemonClient::new(&self.context, &workspace);
        let budget = of_config(&config.config.budgets.controller);
        controller::ensure(&mut client, &workspace.state_dir, None, &workspace, budget).await?;
        let prepared =
            worker::start::prepare(&mut client, wanted, &config, &workspace, &self.context).await?;
        prepared.start(&mut client).await
    }

    /// Sends a message. Without `if_busy` a busy worker refuses it. With `key`, the idempotency key of the caller's own
    /// request, a repeated call sends it once.
    pub(crate) async fn send(
        &self,
        worker: String,
        text: String,
        if_busy: Option<IfBusy>,
        key: Option<String>,
    ) -> Result<Value> {
        let workspace = self.context.workspace(self.cwd.as_deref())?;
        let worker_id = named_worker(&worker, &workspace)?;
        let turn = turn_of(text, if_busy);
        let path = format!("/v1/workers/{}/turns", segment(worker_id));
        let ask = match key {
            Some(key) => ApiRequest::post(path, &turn)?.keyed(key),
            None => ApiRequest::change(path, &turn)?,
        };
        let (config, cwd) = (self.config.as_deref(), self.cwd.as_deref());
        let agent = AgentEnvironmentSource { worker_id, config, cwd, context: &self.context };
        let mut client = DaemonClient::new(&self.context, &workspace);
        let again = |env, mcp_servers| SendTurn { env: Some(env), mcp_servers, ..turn };
        agent.ask(&mut client, &ask, again).await
    }

    /// Starts a worker that takes over the work of another one. Gives the data of `worker.continued`. With `key`, the
    /// idempotency key of the caller's own request, a repeated call starts it once.
    pub(crate) async fn hand_off(&self, worker: String, key: Option<String>) -> Result<Value> {
        let workspace = self.context.workspace(self.cwd.as_deref())?;
        let _ = named_worker(&worker, &workspace)?;
        let config = self.context.config(self.config.as_deref(), self.cwd.as_deref())?;
        worker::r#continue::of_worker(worker, key, &config, &workspace, &self.context).await
    }

    /// Gives the data of `worker.diff`.
    pub(crate) async fn compare(&self, worker: String) -> Result<Value> {
        let workspace = self.context.workspace(self.cwd.as_deref())?;
        let _ = named_worker(&worker, &workspace)?;
        let context = self.context.clone();
        // Git may take long, and other calls go on meanwhile.
        let compared = tokio::task::spawn_blocking(move || diff::of_worker(worker, &workspace, &context));
        compared.await.unwrap_or_else(|error| Err(Failure::new(Code::Internal, error.to_string())))
    }

    /// Gives the data of `worktree.landed`.
    pub(crate) async fn land(&self, worker: &str, options: land::LandOptions) -> Result<Value> {
        let workspace = self.context.workspace(self.cwd.as_deref())?;
        let config = self.context.config(self.config.as_deref(), self.cwd.as_deref())?;
        let _ = named_worker(worker, &workspace)?;
        let request = options.request(&config.config.worktrees, &self.context);
        land::land(&mut DaemonClient::new(&self.context, &workspace), worker, &request).await
    }
}

/// The message as a turn, with nothing else.
pub(crate) fn turn_of(text: String, if_busy: Option<IfBusy>) -> SendTurn {
    SendTurn {
        agent: None,
        text,
        blocks: Vec::new(),
        attachments: Vec::new(),
        simulate: None,
        if_busy,
        env: None,
        mcp_servers: McpServers::default(),
    }
}
