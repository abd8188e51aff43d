//! `mcp`: serves tasks, and workers to a manager, to an MCP client.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use subagent_config::start::budgets::of_config;
use subagent_protocol::Code;
use subagent_protocol::api::{IfBusy, SendTurn};
use subagent_protocol::mcp::McpServers;

use super::environment_again::Agent;
use super::worktree::land;
use super::{diff, named_worker, worker_start};
use crate::args::Typed;
use crate::args::tasks::Mcp;
use crate::args::workers::StartFlags;
use crate::client::{Ask, Client, segment};
use crate::context::Context;
use crate::controller;
use crate::failure::{Failure, Result};
use crate::input::{self, Input};
use crate::mcp::{self, NewLanding, NewMessage, NewWorker, Offer, Pending};
use crate::output::{Format, Outcome};
use crate::tasks::Wish;

pub(super) fn run(args: Mcp, context: &Context) -> Result<Outcome> {
    let wish = Wish { cwd: args.cwd.clone(), config: args.config.config.clone(), ..Wish::default() };
    // Nothing of what a tool does is written for people.
    let context = Context { format: Format::Json, ..context.clone() };
    let commands = Commands { context: context.clone(), cwd: args.cwd, config: args.config.config };
    let offer = Offer { prefix: args.prefix, tools: args.tools, commands: Some(Arc::new(commands)) };
    mcp::run(wish, offer, &context)
}

/// The commands of this process's caller.
#[derive(Debug)]
struct Commands {
    context: Context,
    cwd: Option<PathBuf>,
    config: Option<PathBuf>,
}

impl Commands {
    async fn start(&self, worker: NewWorker) -> Result<Value> {
        let text = Value::Object(worker).to_string();
        let input = Input::parse(&text, input::WORKER_START, &Typed::default())?;
        let flags = StartFlags { cwd: self.cwd.clone(), ..StartFlags::default() };
        let wanted = worker_start::Wanted::of(flags, &input)?;
        let workspace = self.context.workspace(self.cwd.as_deref())?;
        let config = self.context.config(self.config.as_deref(), self.cwd.as_deref())?;
        let mut client = Client::new(&self.context, &workspace);
        let budget = of_config(&config.config.budgets.controller);
        controller::ensure(&mut client, &workspace.state_dir, None, &workspace, budget).await?;
        let prepared = worker_start::prepare(&mut client, wanted, &config, &workspace, &self.context).await?;
        prepared.start(&mut client).await
    }

    async fn send(&self, message: NewMessage) -> Result<Value> {
        let NewMessage { worker_id, text, queue } = message;
        let workspace = self.context.workspace(self.cwd.as_deref())?;
        let worker_id = named_worker(&worker_id, &workspace)?;
        let turn = SendTurn {
            agent: None,
            text,
            blocks: Vec::new(),
            attachments: Vec::new(),
            simulate: None,
            if_busy: queue.then_some(IfBusy::Queue),
            env: None,
            mcp_servers: McpServers::default(),
        };
        let ask = Ask::change(format!("/v1/workers/{}/turns", segment(worker_id)), &turn)?;
        let (config, cwd) = (self.config.as_deref(), self.cwd.as_deref());
        let agent = Agent { worker_id, config, cwd, context: &self.context };
        let mut client = Client::new(&self.context, &workspace);
        let again = |env, mcp_servers| SendTurn { env: Some(env), mcp_servers, ..turn };
        agent.ask(&mut client, &ask, again).await
    }
}

impl Commands {
    async fn compare(&self, worker: String) -> Result<Value> {
        let workspace = self.context.workspace(self.cwd.as_deref())?;
        let _ = named_worker(&worker, &workspace)?;
        let context = self.context.clone();
        // Git may take long, and other calls go on meanwhile.
        let compared = tokio::task::spawn_blocking(move || diff::of_worker(worker, &workspace, &context));
        compared.await.unwrap_or_else(|error| Err(Failure::new(Code::Internal, error.to_string())))
    }

    async fn land_now(&self, landing: NewLanding) -> Result<Value> {
        let workspace = self.context.workspace(self.cwd.as_deref())?;
        let config = self.context.config(self.config.as_deref(), self.cwd.as_deref())?;
        let NewLanding { worker_id, into, message } = landing;
        let _ = named_worker(&worker_id, &workspace)?;
        let options = land::LandOptions { into, message, ..land::LandOptions::default() };
        let request = options.request(&config.config.worktrees, &self.context);
        land::land(&mut Client::new(&self.context, &workspace), &worker_id, &request).await
    }
}

impl mcp::Commands for Commands {
    fn start_worker(&self, worker: NewWorker) -> Pending<'_> {
        Box::pin(self.start(worker))
    }

    fn send_message(&self, message: NewMessage) -> Pending<'_> {
        Box::pin(self.send(message))
    }

    fn diff(&self, worker: String) -> Pending<'_> {
        Box::pin(self.compare(worker))
    }

    fn land(&self, landing: NewLanding) -> Pending<'_> {
        Box::pin(self.land_now(landing))
    }
}
