//! Flags of `panel`.

use clap::Args;

use super::CwdFlag;
use super::numbers::age;

/// Show and answer all workers in a browser
///
/// Serves a page on this machine alone (127.0.0.1 and ::1) with the workers of
/// all workspaces whose daemons run. The link that it prints is good for one
/// browser, once. Ctrl-C ends it. From another machine: ssh -L, with --forwarded.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    mut_args = super::any_value,
    after_help = "\
Examples:
  subagent panel --open
  subagent panel --port 7777 --idle-exit 30m
  subagent panel --port 7777 --forwarded
  subagent panel --read-only"
)]
pub struct PanelArgs {
    /// Open the page in the browser
    #[arg(long)]
    pub open: bool,
    /// The port to listen on [default: one that is free]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Only show: refuse every change
    #[arg(long)]
    pub read_only: bool,
    /// Accept connections of processes that hide their files, as ssh -L does
    #[arg(long)]
    pub forwarded: bool,
    /// End after no page was open for this time, as 30m, 2h
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub idle_exit: Option<u64>,
    /// Print a code for another browser: once, for 10 minutes
    #[arg(long)]
    pub pair: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
}
