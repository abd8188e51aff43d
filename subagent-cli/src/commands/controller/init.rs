//! `controller init`: makes the caller the owner of a workspace and leaves the hint file there.

use std::path::PathBuf;

use clap::Args;
use subagent_config::start::budgets::of_config;
use subagent_protocol::api::InitController;

use super::grant::{self, Show};
use crate::client::ApiRequest;
use crate::command_line::flags::{JsonFlag, path};
use crate::context::{CliContext, present};
use crate::controller;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Become the owner of a workspace
///
/// Ownership is proved by three variables (SUBAGENT_CTL_ID, _EPOCH, _TOKEN). With them set,
/// commands fail as soon as another owner has taken the workspace over; without them they are still
/// allowed, unless --require-handle was given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller init --cwd . --label build-bot
  eval \"$(subagent controller init --print-env)\"
  eval \"$(subagent controller init --require-handle --print-env)\"")]
pub(crate) struct ControllerInitArgs {
    /// A folder of the workspace [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    /// Which controller [default: the workspace's, else a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) controller_id: Option<String>,
    /// A label for people [default: default-manager]
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) label: Option<String>,
    /// From now on refuse changes of its workers without the variables
    #[arg(long)]
    pub(crate) require_handle: bool,
    /// Print the three variables as lines for a shell (not with --json)
    #[arg(long)]
    pub(crate) print_env: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ControllerInitArgs, context: &CliContext) -> Result<CliOutcome> {
    let show = Show::of(args.print_env, args.json)?;
    let workspace = context.workspace(args.cwd.as_deref())?;
    let config = context.config(None, args.cwd.as_deref())?;
    let request = InitController {
        choice: controller::choice(args.controller_id.as_deref(), &workspace),
        label: present(args.label.clone()),
        require_handle: args.require_handle,
        budget: of_config(&config.config.budgets.controller),
        owner: controller::owner()?,
    };
    let ask = ApiRequest::change("/v1/controllers", &request)?;
    grant::grant(ask, "controller.initialized", show, context, &workspace)
}
