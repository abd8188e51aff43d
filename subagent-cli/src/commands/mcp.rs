//! `mcp`: serves tasks, and workers to a manager, to an MCP client.

use std::sync::Arc;

use subagent_protocol::api::IfBusy;

use super::managed::Commands;
use super::worktree::land;
use crate::args::tasks::Mcp;
use crate::context::Context;
use crate::failure::Result;
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

impl mcp::Commands for Commands {
    fn start_worker(&self, worker: NewWorker) -> Pending<'_> {
        Box::pin(self.start(worker))
    }

    fn send_message(&self, message: NewMessage) -> Pending<'_> {
        let NewMessage { worker_id, text, queue } = message;
        Box::pin(self.send(worker_id, text, queue.then_some(IfBusy::Queue), None))
    }

    fn diff(&self, worker: String) -> Pending<'_> {
        Box::pin(self.compare(worker))
    }

    fn land(&self, landing: NewLanding) -> Pending<'_> {
        let NewLanding { worker_id, into, message } = landing;
        let options = land::LandOptions { into, message, ..land::LandOptions::default() };
        Box::pin(async move { self.land(&worker_id, options).await })
    }
}
