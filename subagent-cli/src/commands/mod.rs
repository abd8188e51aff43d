//! The commands: `subagent worker show` is `worker/show.rs`, with its flags and its code.
//!
//! No business rule lives here; what a command can do, a request to the daemon's socket can do.

mod agent;
mod answer;
mod approval;
pub(crate) mod approve;
mod backup;
mod budget;
mod cancel;
pub(crate) mod completions;
mod config;
mod controller;
mod daemon;
mod dial_daemon;
mod diff;
mod doctor;
mod firing;
mod hook;
pub(crate) mod host_use;
mod init;
mod land;
mod launcher;
mod ls;
mod mcp;
mod memory;
mod message;
mod notify;
mod panel;
mod passed;
mod placement;
mod policy;
mod prompt;
mod prune;
mod queue;
mod restore;
mod result;
mod role;
mod run;
mod schedule;
pub(crate) mod send;
mod session;
mod show;
mod status;
mod summary;
mod targets;
pub(crate) mod task;
pub(crate) mod top;
mod tree;
mod trigger;
mod turn;
mod usage;
pub(crate) mod wait;
mod waiting;
mod watch;
pub(crate) mod worker;
mod worktree;

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::command_line::group::CommandGroup;
use crate::command_line::{TypedFlags, global, help, usage_errors};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, OutputFormat};

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
pub(crate) struct Cli {
    /// The command that was typed.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
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
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CliCommand {
    Init(init::InitArgs),
    /// Show, check and create the config file
    Config(CommandGroup<config::ConfigCommand>),
    /// List, test and log in the agents that can be started
    Launcher(CommandGroup<launcher::LauncherCommand>),
    /// List, check and prepare other machines on which workers run
    Placement(CommandGroup<placement::PlacementCommand>),
    /// Show the roles of workers
    Role(CommandGroup<role::RoleCommand>),
    /// Print the prompt for a manager agent
    Prompt(CommandGroup<prompt::PromptCommand>),
    /// Definitions of agents: purpose, rules and prompt of each
    Agent(CommandGroup<agent::AgentCommand>),
    /// List, show, edit and clear the notes that agents keep
    Memory(CommandGroup<memory::MemoryCommand>),
    /// Test and list the rules for what agents may do
    Policy(CommandGroup<policy::PolicyCommand>),
    /// List, test and trust commands that run around turns
    Hook(CommandGroup<hook::HookCommand>),
    /// Share a workspace between managers: who owns which workers
    Controller(CommandGroup<controller::ControllerCommand>),
    /// Show and limit what workers use
    Budget(Box<CommandGroup<budget::BudgetCommand>>),
    Usage(usage::UsageArgs),
    /// Start, list, show, stop and remove workers
    Worker(CommandGroup<worker::WorkerCommand>),
    /// List and delete the sessions that an agent keeps
    Session(CommandGroup<session::SessionCommand>),
    Ls(ls::LsArgs),
    Top(top::TopArgs),
    Status(status::StatusArgs),
    Stop(worker::stop::WorkerStopArgs),
    Rm(worker::rm::WorkerRmArgs),
    Logs(worker::logs::WorkerLogsArgs),
    Run(Box<run::RunArgs>),
    Send(Box<send::SendArgs>),
    Watch(watch::WatchArgs),
    Wait(wait::WaitArgs),
    Show(show::ShowArgs),
    Diff(diff::DiffArgs),
    Result(result::ResultArgs),
    /// List the open questions, or show one in full
    Approval(CommandGroup<approval::ApprovalCommand>),
    Approve(approve::ApproveArgs),
    Answer(Box<answer::AnswerArgs>),
    Land(Box<land::LandArgs>),
    /// List, show, remove and discard the git worktrees of workers
    Worktree(CommandGroup<worktree::WorktreeCommand>),
    Cancel(cancel::CancelArgs),
    /// List, show and change turns and queued messages
    Turn(CommandGroup<turn::TurnCommand>),
    /// Resume the queue of a worker
    Queue(CommandGroup<queue::QueueCommand>),
    /// Run and follow tasks: work that agents do for each other
    Task(CommandGroup<task::TaskCommand>),
    Tree(tree::TreeArgs),
    Summary(summary::SummaryArgs),
    /// Start tasks and send messages at certain times
    Schedule(CommandGroup<schedule::ScheduleCommand>),
    /// Start tasks and send messages on events
    Trigger(CommandGroup<trigger::TriggerCommand>),
    /// List, test and trace notifications
    Notify(CommandGroup<notify::NotifyCommand>),
    Mcp(mcp::McpArgs),
    Panel(panel::PanelArgs),
    /// Start, stop and inspect the daemon of a workspace
    Daemon(CommandGroup<daemon::DaemonCommand>),
    Doctor(doctor::DoctorArgs),
    Prune(prune::PruneArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Completions(completions::CompletionsArgs),
    DialDaemon(dial_daemon::DialDaemonArgs),
    /// Watch a demo: a daemon, a worker, crashes, a clean end
    #[command(after_help = "\
Examples:
  subagent demo")]
    Demo,
}

impl CliCommand {
    /// The form of output that was chosen.
    pub(crate) fn format(&self, typed: &TypedFlags) -> OutputFormat {
        OutputFormat::of(match self {
            Self::Ls(args) => args.form() == Some(ls::ListForm::Json),
            Self::Run(args) => args.format() != run::format::RunOutputFormat::Text,
            _ => typed.has("json"),
        })
    }

    /// Carries the command out.
    ///
    /// # Errors
    /// The command's.
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Init(args) => init::run(&args, context),
            Self::Config(CommandGroup(command)) => command.run(context),
            Self::Launcher(CommandGroup(command)) => command.run(context),
            Self::Placement(CommandGroup(command)) => command.run(context),
            Self::Role(CommandGroup(command)) => command.run(context),
            Self::Prompt(CommandGroup(command)) => command.run(context),
            Self::Agent(CommandGroup(command)) => command.run(context),
            Self::Memory(CommandGroup(command)) => command.run(context),
            Self::Policy(CommandGroup(command)) => command.run(context),
            Self::Hook(CommandGroup(command)) => command.run(context),
            Self::Controller(CommandGroup(command)) => command.run(context),
            Self::Budget(group) => group.0.run(context),
            Self::Usage(args) => usage::run(&args, context),
            Self::Worker(CommandGroup(command)) => command.run(context),
            Self::Session(CommandGroup(command)) => command.run(context),
            Self::Ls(args) => ls::run(&args, context),
            Self::Top(args) => top::run(&args, context),
            Self::Status(args) => status::run(&args, context),
            Self::Stop(args) => worker::stop::run(&args, context),
            Self::Rm(args) => worker::rm::run(&args, context),
            Self::Logs(args) => worker::logs::run(&args, context),
            Self::Run(args) => run::run(*args, context),
            Self::Send(args) => send::run(*args, context),
            Self::Watch(args) => watch::run(args, context),
            Self::Wait(args) => wait::run(args, context),
            Self::Show(args) => show::run(args, context),
            Self::Diff(args) => diff::run(args, context),
            Self::Result(args) => result::run(args, context),
            Self::Approval(CommandGroup(command)) => command.run(context),
            Self::Approve(args) => approve::run(args, context),
            Self::Answer(args) => answer::run(*args, context),
            Self::Land(args) => land::run(*args, context),
            Self::Worktree(CommandGroup(command)) => command.run(context),
            Self::Cancel(args) => cancel::run(&args, context),
            Self::Turn(CommandGroup(command)) => command.run(context),
            Self::Queue(CommandGroup(command)) => command.run(context),
            Self::Task(CommandGroup(command)) => command.run(context),
            Self::Tree(args) => tree::run(&args, context),
            Self::Summary(args) => summary::run(args, context),
            Self::Schedule(CommandGroup(command)) => command.run(context),
            Self::Trigger(CommandGroup(command)) => command.run(context),
            Self::Notify(CommandGroup(command)) => command.run(context),
            Self::Mcp(args) => mcp::run(args, context),
            Self::Panel(args) => panel::run(&args, context),
            Self::Daemon(CommandGroup(command)) => command.run(context),
            Self::Doctor(args) => doctor::run(&args, context),
            Self::Prune(args) => prune::run(&args, context),
            Self::Backup(args) => backup::run(args, context),
            Self::Restore(args) => restore::run(args, context),
            Self::Completions(args) => completions::run(&args, context),
            Self::DialDaemon(_) => dial_daemon::run(context),
            Self::Demo => crate::demo::run(),
        }
    }
}

/// Reads the command line (without the program's name).
///
/// # Errors
/// clap's, which also are `--help` and `--version`.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Cli, TypedFlags), clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    // Every enum of commands defers their flags, so that a command that is understood builds its own
    // alone. Help and suggestions need those of all commands.
    parse_with(global::with_typed(Cli::command(), &args), &args).or_else(|_| {
        let mut command = documented();
        help::shorten(&mut command, &args);
        parse_with(command, &args)
    })
}

/// The command line as help shows it.
pub(crate) fn documented() -> clap::Command {
    help::documented(global::with_host(Cli::command()))
}

/// Returns the arguments of `watch` for all workers, if the error is that no worker is named.
pub(crate) fn watch_all(error: &clap::Error, args: &[OsString]) -> Option<Vec<OsString>> {
    let (first, rest) = args.split_first()?;
    let unnamed = error.kind() == clap::error::ErrorKind::MissingRequiredArgument && first == "watch";
    unnamed.then(|| [first.clone(), "--all".into()].into_iter().chain(rest.iter().cloned()).collect())
}

fn parse_with(mut command: clap::Command, args: &[OsString]) -> Result<(Cli, TypedFlags), clap::Error> {
    let all = std::iter::once(OsString::from("subagent")).chain(args.iter().cloned());
    let matches = command
        .try_get_matches_from_mut(all)
        .map_err(|error| usage_errors::explained(error, &mut command, args))?;
    if let Some(error) = usage_errors::misread_worker(&command, &matches, args) {
        return Err(usage_errors::explained(error, &mut command, args));
    }
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((cli, TypedFlags::of(&matches)))
}

#[cfg(test)]
mod tests;
