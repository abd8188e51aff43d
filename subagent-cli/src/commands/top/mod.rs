//! `top`, and `subagent` alone at a terminal: all workers on one screen, what they ask, and keys for what one does about it.
//!
//! The board itself is pure ([`board`], [`draw`]); here are its terminal and its clock.

mod asked;
mod board;
mod bounds;
mod changed;
mod draw;
mod editor;
mod effect;
#[cfg(test)]
mod fixture;
mod follow;
mod help;
mod hosts;
mod keys;
mod list;
mod perform;
mod prompt;
mod screen;
mod session;
mod story;
mod styled;
mod view;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use subagent_config::discovery;
use subagent_protocol::Code;

use crate::client::{HostLink, block_on};
use crate::command_line::TypedFlags;
use crate::command_line::flags::{CwdFlag, any_value};
use crate::commands::waiting::signals;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::terminal::can_redraw_stdout;
use crate::output::{CliOutcome, OutputFormat};
use session::{ShownDaemon, ShownDaemons};

/// Show all workers on one screen: what they ask, do and have done
///
/// The board follows the workers. Keys answer questions, open the story of a
/// worker, show its diff, send messages, cancel, stop and start; `?` shows them.
/// `subagent` alone is the same at a terminal.
///
/// With --all-hosts, workers there are HOST/NAME, and keys act on the host of the
/// chosen row. A host that does not answer is a row, and is dialed again.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, mut_args = any_value, after_help = "\
Examples:
  subagent top
  subagent top --all-hosts")]
pub(crate) struct TopArgs {
    /// Also the workers of all hosts of the config file
    #[arg(long)]
    pub(crate) all_hosts: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
}

/// Whether a board can be shown: a person reads and types at a terminal that can be drawn on.
fn can_show() -> bool {
    io::stdin().is_terminal() && can_redraw_stdout()
}

/// Whether `subagent` without arguments means the board: where one can be shown, and there is a workspace for it.
pub(crate) fn is_meant() -> bool {
    let has_workspace = |context: CliContext| context.workspace(None).is_ok();
    can_show() && CliContext::of_process(OutputFormat::Text, TypedFlags::default()).is_ok_and(has_workspace)
}

pub(super) fn run(args: &TopArgs, context: &CliContext) -> Result<CliOutcome> {
    let (place, shown) = if args.all_hosts { all_hosts(args, context)? } else { one(args, context)? };
    if !can_show() {
        let message = "the board needs a terminal that can be drawn on, for stdin and stdout";
        return Err(Failure::new(Code::TerminalRequired, message)
            .recommend("`subagent ls` lists the workers anywhere, `subagent watch --all -f` follows them"));
    }
    // What is wrong with the config is said before the board, not on it.
    let _ = context.config(None, args.cwd.cwd.as_deref());
    let signal = block_on(session::run(place, shown))?;
    match signal {
        Some(signal) => signals::end_by(signal),
        None => Ok(CliOutcome::Printed(ExitCode::SUCCESS)),
    }
}

/// The daemon of one workspace, and the name of that.
fn one(args: &TopArgs, context: &CliContext) -> Result<(String, ShownDaemons)> {
    let cwd = args.cwd.cwd.clone();
    let workspace = context.workspace(cwd.as_deref())?;
    let name =
        workspace.root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // The board dials again itself.
    let host = context.host.as_ref().map(|host| Arc::new(host.for_board()));
    let context = CliContext { host, ..context.clone() };
    Ok((name, ShownDaemons::One(Box::new(ShownDaemon { context, workspace: Some(workspace), cwd }))))
}

/// The daemon of this machine, if a workspace is here, and those of all hosts, which are not dialed yet.
fn all_hosts(args: &TopArgs, context: &CliContext) -> Result<(String, ShownDaemons)> {
    let here = context.for_all_hosts()?;
    let found = discovery::daemon_hosts(&here.env)?;
    let mut daemons = Vec::new();
    match here.workspace(args.cwd.cwd.as_deref()) {
        Ok(workspace) => {
            let (context, cwd) = (here.clone(), args.cwd.cwd.clone());
            daemons.push(ShownDaemon { context, workspace: Some(workspace), cwd });
        }
        // Only the hosts are shown outside of a workspace.
        Err(failure) if failure.is(Code::WorkspaceRootNotFound) && !found.is_empty() => {}
        Err(failure) => return Err(failure),
    }
    for host in found.into_values() {
        let link = HostLink::new(host, here.env.home.as_deref());
        let link = if here.forbids_autostart() { link.only_running() } else { link };
        let context = CliContext { host: Some(Arc::new(link.for_board())), ..here.clone() };
        daemons.push(ShownDaemon { context, workspace: None, cwd: None });
    }
    Ok(("all hosts".to_owned(), ShownDaemons::AllHosts(daemons)))
}
