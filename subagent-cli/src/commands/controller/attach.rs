//! `controller attach`: makes the caller the owner of a controller that exists, also against its owner's will.

use subagent_protocol::api::AttachController;

use super::grant::{self, Show};
use crate::args::controllers::ControllerAttach;
use crate::client::ApiRequest;
use crate::context::CliContext;
use crate::controller;
use crate::failure::Result;
use crate::output::CliOutcome;

pub(crate) fn run(args: &ControllerAttach, context: &CliContext) -> Result<CliOutcome> {
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
