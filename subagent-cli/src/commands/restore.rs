//! `restore`: hands over to `subagentd restore`, since only that program opens databases.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use subagent_protocol::Code;

use crate::args::state::Restore;
use crate::commands::backup::absolute;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::sibling_executable::sibling_executable;

pub(super) fn run(args: Restore, context: &CliContext) -> Result<CliOutcome> {
    let file = absolute(args.file, context)?;
    let state_dir = context.workspace(args.cwd.cwd.as_deref())?.state_dir;
    let program = sibling_executable("subagentd")?;
    let mut command = Command::new(&program);
    command.arg("restore").arg("--state-dir").arg(state_dir);
    for (flag, given) in [("--force", args.force), ("--json", args.json.json)] {
        if given {
            command.arg(flag);
        }
    }
    // In the place of this process: what it prints and how it exits is the command's.
    let error = command.arg("--").arg(file).exec();
    Err(Failure::new(Code::DaemonStartFailed, format!("{} cannot be run: {error}", program.display()))
        .with("path", path_value(&program))
        .with("error", error.to_string()))
}
