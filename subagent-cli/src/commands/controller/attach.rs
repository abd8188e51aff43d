//! `controller attach`: makes the caller the owner of a controller that exists, also against its owner's will.

use clap::Args;
use subagent_protocol::api::AttachController;

use super::grant::{self, Show};
use crate::client::ApiRequest;
use crate::command_line::flags::{ControllerFlags, JsonFlag};
use crate::context::CliContext;
use crate::controller;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Become the owner of a workspace that has a controller
///
/// As `controller init`, but nothing is made or changed beside the ownership. With --takeover the owner before is not
/// asked: its variables are worthless from then on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller attach
  eval \"$(subagent controller attach --takeover --print-env)\"")]
pub(crate) struct ControllerAttachArgs {
    #[command(flatten)]
    pub(crate) which: ControllerFlags,
    /// Also if its owner lives
    #[arg(long)]
    pub(crate) takeover: bool,
    /// Print the three variables as lines for a shell (not with --json)
    #[arg(long)]
    pub(crate) print_env: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ControllerAttachArgs, context: &CliContext) -> Result<CliOutcome> {
    let show = Show::of(args.print_env, args.json)?;
    let workspace = context.workspace(args.which.cwd.as_deref())?;
    let request = AttachController {
        choice: controller::choice(args.which.controller_id.as_deref(), &workspace),
        takeover: args.takeover,
        owner: controller::owner()?,
    };
    let ask = ApiRequest::change("/v1/controllers/attach", &request)?;
    grant::grant(ask, "controller.attached", show, context, &workspace)
}
