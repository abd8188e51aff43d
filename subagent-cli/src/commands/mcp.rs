//! `mcp`: serves tasks, and workers to a manager, to an MCP client.

pub(crate) mod managed;

use std::sync::Arc;

use subagent_protocol::api::IfBusy;

use crate::args::tasks::Mcp;
use crate::commands::land;
use crate::commands::mcp::managed::Commands;
use crate::context::CliContext;
use crate::failure::Result;
use crate::mcp::{self, CommandFuture, NewLanding, NewMessage, NewWorker, ToolOffer};
use crate::output::{CliOutcome, OutputFormat};
use crate::tasks::TaskPlacement;

pub(super) fn run(args: Mcp, context: &CliContext) -> Result<CliOutcome> {
    let placement = TaskPlacement {
        cwd: args.cwd.clone(),
        config: args.config.config.clone(),
        ..TaskPlacement::default()
    };
    // Nothing of what a tool does is written for people.
    let context = CliContext { format: OutputFormat::Json, ..context.clone() };
    let commands = Commands { context: context.clone(), cwd: args.cwd, config: args.config.config };
    let offer = ToolOffer { prefix: args.prefix, tools: args.tools, commands: Some(Arc::new(commands)) };
    mcp::run(placement, offer, &context)
}

impl mcp::Commands for Commands {
    fn start_worker(&self, worker: NewWorker) -> CommandFuture<'_> {
        Box::pin(self.start(worker))
    }

    fn send_message(&self, message: NewMessage) -> CommandFuture<'_> {
        let NewMessage { worker_id, text, queue } = message;
        Box::pin(self.send(worker_id, text, queue.then_some(IfBusy::Queue), None))
    }

    fn diff(&self, worker: String) -> CommandFuture<'_> {
        Box::pin(self.compare(worker))
    }

    fn land(&self, landing: NewLanding) -> CommandFuture<'_> {
        let NewLanding { worker_id, into, message } = landing;
        let options = land::LandOptions { into, message, ..land::LandOptions::default() };
        Box::pin(async move { self.land(&worker_id, options).await })
    }
}
