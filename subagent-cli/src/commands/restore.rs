//! `restore`: hands over to `subagentd restore`, since only that program opens databases.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use subagent_protocol::Code;

use crate::command_line::flags::{CwdFlag, JsonFlag, database_file};
use crate::commands::backup::absolute;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::sibling_executable::sibling_executable;

/// Restore the daemon's state from a backup
///
/// The daemon ends for it and the next command starts another one; workers go on, and their turns too. What is
/// replaced is kept beside it. Every ownership ends: become the owner anew with `subagent controller init`.
///
/// Workers that run and that the backup does not know would be left alone: it is refused then, unless --force ends
/// them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent restore ~/subagent.db
  subagent restore --force ~/subagent.db --json")]
pub(crate) struct RestoreArgs {
    /// A file that `subagent backup` has written
    #[arg(value_name = "FILE", value_parser = database_file())]
    pub(crate) file: PathBuf,
    /// End the workers that the backup does not know
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: RestoreArgs, context: &CliContext) -> Result<CliOutcome> {
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
