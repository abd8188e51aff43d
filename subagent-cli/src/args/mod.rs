//! The command line of `subagent`: flags, help and usage errors. Nothing is done here. What a
//! flag's value means for a command is the command's business; here it only gets its type. Which
//! flags were typed (and not left at their default) is kept for the duplicate rule of `--input`.

pub mod agents;
pub mod answer;
pub mod budgets;
pub mod completions;
pub mod config;
pub mod controllers;
pub mod daemon;
pub mod definitions;
pub mod doctor;
mod flags;
mod groups;
pub mod handoff;
mod help;
pub mod hooks;
pub mod inbox;
pub mod local;
pub mod look;
pub mod memory;
pub mod notify;
pub mod numbers;
pub mod options;
pub mod overview;
pub mod panel;
pub mod policy;
pub mod prompt;
pub mod queue;
pub mod removal;
pub mod roles;
pub mod run;
pub mod schedules;
pub mod starts;
pub mod state;
pub mod tasks;
pub mod top;
pub mod triggers;
pub mod turns;
mod usage;
pub mod used;
pub mod workers;
pub mod worktrees;

use std::collections::HashSet;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use agents::{LauncherLogin, LauncherLogout, LauncherProbe, SessionCommand};
use answer::AnswerArgs;
use completions::Completions;
use config::{ConfigCheck, ConfigShow, Init};
use controllers::{ControllerAttach, ControllerInit, ControllerRecover, ControllerRelease, ControllerStatus};
use daemon::DaemonCommand;
use definitions::AgentCommand;
use doctor::Doctor;
pub(crate) use flags::any_value;
use flags::path;
pub use flags::{ConfigFlag, CwdFlag, JsonFlag, SelectorFlag};
use handoff::{Summary, WorkerContinue, WorkerHandoff};
use inbox::ApprovalCommand;
use local::{ConfigInit, LauncherList, LauncherName};
use look::{Diff, Show};
use options::WorkerSet;
use overview::{Ls, StatusArgs};
use policy::PolicyCommand;
use prompt::PromptCommand;
use queue::{QueueCommand, TurnCommand};
use removal::{Prune, WorkerRm};
use roles::RoleCommand;
use run::RunArgs;
use state::{Backup, Restore};
use tasks::{Mcp, TaskCommand, TreeArgs};
use turns::{Approve, Cancel, ResultOf, Send, Wait, WatchArgs};
use workers::{
    WorkerInspect, WorkerList, WorkerLogs, WorkerRestart, WorkerResume, WorkerShow, WorkerStart, WorkerStop,
};

/// Delegate work to coding agents and keep control of it.
///
/// A manager (a person, a CI job or a coding agent) starts workers, sends them
/// messages, answers their permission requests and reads what they did. A worker
/// is any coding agent that speaks the Agent Client Protocol.
///
/// If you were instructed to delegate with `subagent`,
/// use this tool as a manager agent: first read the workflow, the rules and the
/// roles that `subagent prompt render` prints.
///
/// `send` now waits by default for the end of the turn or a permission request;
/// with `--no-wait` it returns as soon as the turn is accepted.
#[derive(Debug, Parser)]
#[command(
    name = "subagent",
    version,
    args_override_self = true,
    verbatim_doc_comment,
    after_long_help = ROOT_EXAMPLES
)]
pub struct Cli {
    /// The command that was typed.
    #[command(subcommand)]
    pub command: CliCommand,
}

const ROOT_EXAMPLES: &str = "\
Quick start:
  subagent init
  subagent run -d codex --worktree 'Fix the login bug.'
  subagent wait codex-1
  subagent approve codex-1
  subagent show codex-1
  subagent diff codex-1
  subagent land codex-1

Every command takes --help; with --json it prints one JSON document.
Exit codes: 0 success, 1 error, 2 wrong usage.";

/// The commands.
// Without a comment of its own, a variant has its struct's as help.
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum CliCommand {
    Init(Init),
    /// Show, check and create the config file
    Config(ConfigCommand),
    /// List, test and log in the agents that can be started
    Launcher(LauncherCommand),
    /// Show the roles of workers
    Role(RoleCommand),
    /// Print the prompt for a manager agent
    Prompt(PromptCommand),
    /// Definitions of agents: purpose, rules and prompt of each
    Agent(AgentCommand),
    /// List, show, edit and clear the notes that agents keep
    Memory(memory::MemoryCommand),
    /// Test and list the rules for what agents may do
    Policy(PolicyCommand),
    /// List, test and trust commands that run around turns
    Hook(hooks::HookCommand),
    /// Share a workspace between managers: who owns which workers
    Controller(ControllerCommand),
    /// Show and limit what workers use
    Budget(Box<budgets::BudgetCommand>),
    Usage(used::Usage),
    /// Start, list, show, stop and remove workers
    Worker(WorkerCommand),
    /// List and delete the sessions that an agent keeps
    Session(SessionCommand),
    Ls(Ls),
    Top(top::Top),
    Status(StatusArgs),
    Stop(WorkerStop),
    Rm(WorkerRm),
    Logs(WorkerLogs),
    Run(Box<RunArgs>),
    Send(Box<Send>),
    Watch(WatchArgs),
    Wait(Wait),
    Show(Show),
    Diff(Diff),
    Result(ResultOf),
    /// List the open questions, or show one in full
    Approval(ApprovalCommand),
    Approve(Approve),
    Answer(Box<AnswerArgs>),
    Land(Box<worktrees::Land>),
    /// List, show, remove and discard the git worktrees of workers
    Worktree(worktrees::WorktreeCommand),
    Cancel(Cancel),
    /// List, show and change turns and queued messages
    Turn(TurnCommand),
    /// Resume the queue of a worker
    Queue(QueueCommand),
    /// Run and follow tasks: work that agents do for each other
    Task(TaskCommand),
    Tree(TreeArgs),
    Summary(Summary),
    /// Start tasks and send messages at certain times
    Schedule(schedules::ScheduleCommand),
    /// Start tasks and send messages on events
    Trigger(triggers::TriggerCommand),
    /// List, test and trace notifications
    Notify(notify::NotifyCommand),
    Mcp(Mcp),
    Panel(panel::PanelArgs),
    /// Start, stop and inspect the daemon of a workspace
    Daemon(DaemonCommand),
    Doctor(Doctor),
    Prune(Prune),
    Backup(Backup),
    Restore(Restore),
    Completions(Completions),
    /// Watch a demo: a daemon, a worker, crashes, a clean end
    #[command(after_help = "\
Examples:
  subagent demo")]
    Demo,
}

/// `subagent config ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum ConfigCommand {
    Init(ConfigInit),
    Show(ConfigShow),
    Check(ConfigCheck),
}

/// `subagent launcher ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum LauncherCommand {
    List(LauncherList),
    Show(LauncherName),
    Probe(LauncherProbe),
    Login(LauncherLogin),
    Logout(LauncherLogout),
}

/// `subagent controller ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum ControllerCommand {
    Init(ControllerInit),
    Attach(ControllerAttach),
    Status(ControllerStatus),
    Recover(ControllerRecover),
    Release(ControllerRelease),
}

/// `subagent worker ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum WorkerCommand {
    Start(Box<WorkerStart>),
    List(WorkerList),
    Show(WorkerShow),
    Stop(WorkerStop),
    Logs(WorkerLogs),
    Inspect(WorkerInspect),
    Handoff(WorkerHandoff),
    Continue(Box<WorkerContinue>),
    Restart(WorkerRestart),
    Resume(WorkerResume),
    Set(WorkerSet),
    Rm(WorkerRm),
}

/// The names of the flags that were typed, in snake case. Both flags of a pair count under both names.
#[derive(Debug, Clone, Default)]
pub struct TypedFlags(HashSet<String>);

impl TypedFlags {
    /// Whether this flag was typed.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.0.contains(flag)
    }

    fn of(matches: &ArgMatches) -> Self {
        let mut leaf = matches;
        while let Some((_, inner)) = leaf.subcommand() {
            leaf = inner;
        }
        let typed = |id: &&str| leaf.value_source(id) == Some(ValueSource::CommandLine);
        Self(leaf.ids().map(clap::Id::as_str).filter(typed).map(str::to_owned).collect())
    }
}

impl<const N: usize> From<[&str; N]> for TypedFlags {
    fn from(names: [&str; N]) -> Self {
        Self(names.iter().map(|name| (*name).to_owned()).collect())
    }
}

/// Reads the command line (without the program's name).
///
/// # Errors
/// clap's, which also are `--help` and `--version`.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Cli, TypedFlags), clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    // Every enum of commands defers their flags, so that a command that is understood builds its own
    // alone. Help and suggestions need those of all commands.
    parse_with(Cli::command(), &args).or_else(|_| {
        let mut command = documented();
        help::shorten(&mut command, &args);
        parse_with(command, &args)
    })
}

/// The command line as help shows it.
pub(crate) fn documented() -> clap::Command {
    help::documented(Cli::command())
}

/// Returns the arguments of `watch` for all workers, if the error is that no worker is named.
#[must_use]
pub fn watch_all(error: &clap::Error, args: &[OsString]) -> Option<Vec<OsString>> {
    let (first, rest) = args.split_first()?;
    let unnamed = error.kind() == clap::error::ErrorKind::MissingRequiredArgument && first == "watch";
    unnamed.then(|| [first.clone(), "--all".into()].into_iter().chain(rest.iter().cloned()).collect())
}

fn parse_with(mut command: clap::Command, args: &[OsString]) -> Result<(Cli, TypedFlags), clap::Error> {
    let all = std::iter::once(OsString::from("subagent")).chain(args.iter().cloned());
    let matches =
        command.try_get_matches_from_mut(all).map_err(|error| usage::explained(error, &mut command, args))?;
    if let Some(error) = usage::misread_worker(&command, &matches, args) {
        return Err(usage::explained(error, &mut command, args));
    }
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((cli, TypedFlags::of(&matches)))
}

#[cfg(test)]
mod tests;
