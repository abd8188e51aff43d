//! `mcp`: serves tasks, and workers to a manager, to an MCP client.

pub(crate) mod managed;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use subagent_protocol::api::IfBusy;

use crate::command_line::flags::{ConfigFlag, any_value, path};
use crate::commands::land;
use crate::commands::mcp::managed::CallerCommands;
use crate::context::CliContext;
use crate::failure::Result;
use crate::mcp::{self, CommandFuture, NewLanding, NewMessage, ToolOffer, WorkerOptions};
use crate::output::{CliOutcome, OutputFormat};
use crate::tasks::TaskPlacement;

/// Serve tasks and workers to an MCP client, on stdin and stdout
///
/// For programs that speak the Model Context Protocol, as Claude Code or Codex: their agent gets the tools task,
/// spawn_subagent, get_subagents and message_subagent, and may call the agents whose definitions are found from its
/// folder (see agent list). It also manages workers: list_workers, start_worker, send_message, wait_for, list_questions,
/// answer_question, stop_worker, get_events, get_diff and land.
///
/// A worker that may delegate has this server without being asked, with the first four tools.
#[derive(Debug, Args)]
#[command(mut_args = any_value, after_help = "\
Example:
  claude mcp add subagent -- subagent mcp")]
pub(crate) struct McpArgs {
    /// Name the tools subagent_task and so on, for clients that give the tools of servers no prefix
    #[arg(long)]
    pub(crate) prefix: bool,
    /// Only these tools, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,
    /// The workspace in which tasks are run [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
}

pub(super) fn run(args: McpArgs, context: &CliContext) -> Result<CliOutcome> {
    let placement = TaskPlacement {
        cwd: args.cwd.clone(),
        config: args.config.config.clone(),
        ..TaskPlacement::default()
    };
    // Nothing of what a tool does is written for people.
    let context = CliContext { format: OutputFormat::Json, ..context.clone() };
    let commands = CallerCommands { context: context.clone(), cwd: args.cwd, config: args.config.config };
    let offer = ToolOffer { prefix: args.prefix, tools: args.tools, commands: Some(Arc::new(commands)) };
    mcp::run(placement, offer, &context)
}

impl mcp::Commands for CallerCommands {
    fn start_worker(&self, worker: WorkerOptions) -> CommandFuture<'_> {
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
