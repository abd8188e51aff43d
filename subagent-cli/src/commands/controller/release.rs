//! `controller release`: ends an ownership.

use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::api::ReleaseController;
use subagent_protocol::lenient;

use crate::client::{ApiRequest, DaemonClient, block_on};
use crate::command_line::flags::{ControllerFlags, JsonFlag};
use crate::context::CliContext;
use crate::controller;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Stop being the owner of a workspace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent controller release
  subagent controller release --force --json")]
pub(crate) struct ControllerReleaseArgs {
    #[command(flatten)]
    pub(crate) which: ControllerFlags,
    /// Without the three variables, whether or not there is an owner
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ControllerReleaseArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.which.cwd.as_deref())?;
    let choice = controller::choice(args.which.controller_id.as_deref(), &workspace);
    let ask =
        ApiRequest::change("/v1/controllers/release", &ReleaseController { choice, force: args.force })?;
    let mut client = DaemonClient::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = shown(&data);
    Ok(CliOutcome::report("controller.released", data, shown))
}

fn shown(data: &Value) -> String {
    /// The release, as far as it is shown as lines.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ReleaseLines<'a> {
        controller_id: &'a str,
        released: bool,
    }
    let ReleaseLines { controller_id, released } = lenient::read(data);
    let released = if released { "True" } else { "False" };
    format!("controllerId: {controller_id}\nreleased: {released}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_for_people() {
        let shown = |released: bool| shown(&json!({"controllerId": "ctl_1", "released": released}));
        assert_eq!(shown(true), "controllerId: ctl_1\nreleased: True");
        assert_eq!(shown(false), "controllerId: ctl_1\nreleased: False");
    }
}
