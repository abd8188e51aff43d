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

use clap::Args;
use subagent_protocol::Code;

use crate::client::block_on;
use crate::command_line::TypedFlags;
use crate::command_line::flags::{CwdFlag, any_value};
use crate::commands::waiting::signals;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::terminal::can_redraw_stdout;
use crate::output::{CliOutcome, OutputFormat};

/// Show all workers on one screen: what they ask, do and have done
///
/// The board follows the workers. Keys answer questions, open the story of a
/// worker, show its diff, send messages, cancel, stop and start; `?` shows them.
/// `subagent` alone is the same at a terminal.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, mut_args = any_value, after_help = "\
Example:
  subagent top")]
pub(crate) struct TopArgs {
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
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    if !can_show() {
        let message = "the board needs a terminal that can be drawn on, for stdin and stdout";
        return Err(Failure::new(Code::TerminalRequired, message)
            .recommend("`subagent ls` lists the workers anywhere, `subagent watch --all -f` follows them"));
    }
    // What is wrong with the config is said before the board, not on it.
    let _ = context.config(None, args.cwd.cwd.as_deref());
    let signal = block_on(session::run(context, workspace, args.cwd.cwd.clone()))?;
    match signal {
        Some(signal) => signals::end_by(signal),
        None => Ok(CliOutcome::Printed(ExitCode::SUCCESS)),
    }
}
