//! `subagentd`: its command line and its requests to a running daemon. The crate `subagentd` is the daemon
//! itself.

mod args;
mod restore;
mod run;
mod status;
mod stop;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;

use crate::command_line::TypedFlags;
use crate::command_line::unparsed;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{OutputFormat, finish};
use args::{SubagentdCli, SubagentdCommand};

pub(crate) use stop::{stop, stopped};

/// The command line, for the generated reference.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    <SubagentdCli as clap::CommandFactory>::command()
}

/// Entry point of `subagentd`. `args` excludes the program's name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    // The daemon starts this helper without an environment.
    if args.first().is_some_and(|first| first == subagentd::result_check::COMMAND) {
        return subagentd::result_check::main();
    }
    let all = std::iter::once(OsString::from("subagentd")).chain(args.iter().cloned());
    let cli = match SubagentdCli::try_parse_from(all) {
        Ok(cli) => cli,
        Err(error) => return unparsed::exit("subagentd", &error, &args),
    };
    let (format, state_dir) = match &cli.command {
        SubagentdCommand::Run(run) => (OutputFormat::of(run.json), run.state_dir.clone()),
        SubagentdCommand::Status(status) => (OutputFormat::of(status.json), status.state_dir.clone()),
        SubagentdCommand::Stop(stop) => (OutputFormat::of(stop.json), stop.state_dir.clone()),
        SubagentdCommand::Restore(restore) => (OutputFormat::of(restore.json), restore.state_dir.clone()),
    };
    let found = CliContext::of_process(format, TypedFlags::default())
        .and_then(|context| Ok((locate(state_dir.as_deref(), &context)?, context)));
    let (state_dir, context): (PathBuf, CliContext) = match found {
        Ok(found) => found,
        Err(failure) => return finish(format, Err(failure)),
    };
    match cli.command {
        SubagentdCommand::Run(run) => run::run(&run, state_dir, &context.env),
        SubagentdCommand::Restore(args) => finish(format, restore::restore(args, state_dir, &context)),
        SubagentdCommand::Status(_) => finish(format, status::status(state_dir)),
        SubagentdCommand::Stop(stop) => {
            let handle = if stop.workers { context.handle() } else { None };
            finish(format, stop::stop(stop.workers, handle, state_dir))
        }
    }
}

/// Returns the state dir: the one in the argument of the starting command, or the one of the workspace.
fn locate(given: Option<&Path>, context: &CliContext) -> Result<PathBuf> {
    match given {
        Some(state_dir) => Ok(state_dir.to_owned()),
        None => Ok(context.workspace(None)?.state_dir),
    }
}
