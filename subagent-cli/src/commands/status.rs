//! `status`: whether a daemon runs here, and whether all is well. Starts no daemon.

use clap::Args;
use serde_json::json;

use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::{daemon, doctor};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Show the daemon, the number of workers and what `doctor` finds
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent status
  subagent status --json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &StatusArgs, context: &CliContext) -> Result<CliOutcome> {
    let mut data = daemon::status(args.cwd.cwd.as_deref(), context)?;
    let found = doctor::findings(args.cwd.cwd.as_deref(), context)?;
    let wrong: Vec<_> = found.iter().filter(|finding| !finding.is_well()).collect();
    data.insert("findings".to_owned(), json!(wrong));
    let data = data.into();
    let mut lines = text::fields(&data, &["running", "liveWorkers", "version", "stateDir"]);
    for finding in wrong {
        lines.push('\n');
        lines.push_str(&doctor::line(finding));
    }
    Ok(CliOutcome::report("status.shown", data, lines))
}
