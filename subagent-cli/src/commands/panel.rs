//! `panel`: serves a page with all workers to browsers of this machine.

mod bridge;
mod far;
mod place_id;

use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use subagent_config::proc;
use subagent_panel::{PanelAccess, PanelOptions};
use subagent_protocol::Code;
use tokio::sync::mpsc;

use crate::client::{block_on, end_dialing};
use crate::command_line::flags::{CwdFlag, any_value};
use crate::command_line::numbers::age;
use crate::commands::panel::bridge::CommandBridge;
use crate::commands::waiting::signals::{Interruptions, end_by};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, complain, print};

/// Show and answer all workers in a browser
///
/// Serves a page on this machine alone (127.0.0.1 and ::1) with the workers of
/// all workspaces whose daemons run. The link that it prints is good for one
/// browser, once. Ctrl-C ends it. From another machine: ssh -L, with --forwarded.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    mut_args = any_value,
    after_help = "\
Examples:
  subagent panel --open
  subagent panel --all-hosts
  subagent panel --port 7777 --idle-exit 30m
  subagent panel --port 7777 --forwarded
  subagent panel --read-only"
)]
pub(crate) struct PanelArgs {
    /// Open the page in the browser
    #[arg(long)]
    pub(crate) open: bool,
    /// The port to listen on [default: one that is free]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Only show: refuse every change
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Accept connections of processes that hide their files, as ssh -L does
    #[arg(long)]
    pub(crate) forwarded: bool,
    /// End after no page was open for this time, as 30m, 2h
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) idle_exit: Option<u64>,
    /// Also the workers of all hosts of the config file
    #[arg(long)]
    pub(crate) all_hosts: bool,
    /// Print a code for another browser: once, for 10 minutes
    #[arg(long)]
    pub(crate) pair: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
}

/// Programs that open an address in the user's browser, after the one in `BROWSER`.
const OPENERS: [&str; 3] = ["xdg-open", "wslview", "open"];

pub(super) fn run(args: &PanelArgs, context: &CliContext) -> Result<CliOutcome> {
    if proc::is_below_guard() {
        let message = "an agent cannot start a panel: only the owner may see and answer what it shows";
        return Err(Failure::new(Code::ForbiddenFromWorker, message)
            .recommend("ask the person or program that manages this worker"));
    }
    let bridge = CommandBridge::new(context, args.cwd.cwd.as_deref(), args.all_hosts)?;
    let options = PanelOptions {
        port: args.port,
        read_only: args.read_only,
        is_forwarded: args.forwarded,
        idle_exit: args.idle_exit.map(Duration::from_secs),
    };
    let served = block_on(async move {
        let mut signals = Interruptions::new()?;
        bridge.start_own_daemon().await?;
        let panel = subagent_panel::PanelServer::bind(&options, Arc::new(bridge)).await.map_err(|error| {
            let failure = Failure::argument(format!("the panel cannot listen: {error}"));
            match args.port {
                Some(port) => failure.with("port", port).recommend("choose another --port, or none"),
                None => failure,
            }
        })?;
        let keys = panel.keys();
        greet(&keys, args)?;
        let mut entered = entered_lines();
        let mut served = std::pin::pin!(panel.serve());
        loop {
            tokio::select! {
                () = &mut served => {
                    complain("The panel has ended: no page was open.");
                    return Ok(CliOutcome::Printed(ExitCode::SUCCESS));
                }
                signal = signals.next() => {
                    end_dialing();
                    end_by(signal)
                }
                Some(()) = entered.recv() => say(&keys.link().map_err(|error| no_secret(&error))?)?,
            }
        }
    });
    end_dialing();
    served
}

/// Prints how a browser gets in.
fn greet(keys: &PanelAccess, args: &PanelArgs) -> Result<()> {
    let link = keys.link().map_err(|error| no_secret(&error))?;
    say(&link)?;
    if args.pair {
        let (address, code) = keys.code().map_err(|error| no_secret(&error))?;
        say(&format!("Code for another browser at {address}: {code} (once, for 10 minutes)"))?;
    }
    if io::stdin().is_terminal() {
        complain("The link is good once. Enter prints a new one, Ctrl-C ends the panel.");
    }
    if args.open && !open(&link) {
        complain("note: no browser could be started; open the link yourself");
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    print(line).map_err(|error| Failure::internal(format!("cannot print the link: {error}")))
}

fn no_secret(error: &io::Error) -> Failure {
    Failure::internal(format!("cannot get random bytes: {error}"))
}

/// Starts the user's browser, which goes on by itself.
fn open(link: &str) -> bool {
    let named = std::env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    named.into_iter().chain(OPENERS.map(Into::into)).any(|program| {
        let streams = [Stdio::null(), Stdio::null(), Stdio::null()];
        let [stdin, stdout, stderr] = streams;
        Command::new(program).arg(link).stdin(stdin).stdout(stdout).stderr(stderr).spawn().is_ok()
    })
}

/// Tells of each line that a person enters.
fn entered_lines() -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel(1);
    if io::stdin().is_terminal() {
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                if line.is_err() || sender.blocking_send(()).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}
