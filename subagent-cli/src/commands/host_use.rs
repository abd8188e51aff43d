//! Which commands can use the daemon of another host. Each command stands here, so that a new one
//! cannot act on this machine by mistake.

use std::ffi::OsString;

use crate::command_line::group::CommandGroup;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, advice};
use subagent_protocol::Code;

use super::budget::BudgetCommand;
use super::controller::ControllerCommand;
use super::daemon::DaemonCommand;
use super::passed::FolderThere;
use super::policy::PolicyCommand;
use super::schedule::ScheduleCommand;
use super::task::TaskCommand;
use super::trigger::TriggerCommand;
use super::worker::WorkerCommand;
use super::worktree::WorktreeCommand;
use super::{CliCommand, parse, passed};

/// What a command does with a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostUse {
    /// It sends its requests to the daemon there.
    Forwarded,
    /// It runs there: the command of that host does it.
    Passed(FolderThere),
    /// It asks no daemon, and is about a machine: this one unless the flag names another, where it runs.
    Machine,
    /// It makes something for this machine of which another one has nothing.
    Here,
}

/// A command that changes something there, or starts a worker.
const CHANGES: HostUse = HostUse::Passed(FolderThere::Named);
/// A command that only looks at the machine there.
const LOOKS: HostUse = HostUse::Passed(FolderThere::Home);

impl CliCommand {
    pub(crate) fn host_use(&self) -> HostUse {
        use HostUse::{Forwarded, Here, Machine};
        match self {
            Self::Config(_)
            | Self::Launcher(_)
            | Self::Placement(_)
            | Self::Role(_)
            | Self::Prompt(_)
            | Self::Agent(_)
            | Self::Completions(_)
            | Self::DialDaemon(_)
            | Self::Demo => Machine,
            Self::Policy(CommandGroup(PolicyCommand::Test(_))) => Machine,
            Self::Policy(CommandGroup(PolicyCommand::Rules(_))) => Forwarded,
            Self::Doctor(_) | Self::Status(_) => LOOKS,
            Self::Init(_)
            | Self::Memory(_)
            | Self::Hook(_)
            | Self::Session(_)
            | Self::Summary(_)
            | Self::Land(_)
            | Self::Mcp(_)
            | Self::Backup(_)
            | Self::Restore(_) => CHANGES,
            Self::Panel(_) => Here,
            Self::Run(_) => CHANGES,
            Self::Controller(CommandGroup(command)) => match command {
                ControllerCommand::Init(_) | ControllerCommand::Attach(_) => CHANGES,
                ControllerCommand::Status(_)
                | ControllerCommand::Recover(_)
                | ControllerCommand::Release(_) => Forwarded,
            },
            Self::Budget(group) => match group.0 {
                BudgetCommand::Show(_) | BudgetCommand::Set(_) => Forwarded,
            },
            Self::Worker(CommandGroup(command)) => match command {
                WorkerCommand::Start(_) | WorkerCommand::Continue(_) | WorkerCommand::Handoff(_) => CHANGES,
                // It finds the state dirs of its machine.
                WorkerCommand::List(args) if args.all_workspaces => LOOKS,
                WorkerCommand::List(_)
                | WorkerCommand::Show(_)
                | WorkerCommand::Stop(_)
                | WorkerCommand::Logs(_)
                | WorkerCommand::Inspect(_)
                | WorkerCommand::Restart(_)
                | WorkerCommand::Resume(_)
                | WorkerCommand::Set(_)
                | WorkerCommand::Rm(_) => Forwarded,
            },
            Self::Worktree(CommandGroup(command)) => match command {
                WorktreeCommand::List(_) | WorktreeCommand::Show(_) | WorktreeCommand::Diff(_) => Forwarded,
                WorktreeCommand::Setup(_)
                | WorktreeCommand::Remove(_)
                | WorktreeCommand::Discard(_)
                | WorktreeCommand::Land(_)
                | WorktreeCommand::Prune(_) => CHANGES,
            },
            Self::Task(CommandGroup(command)) => match command {
                TaskCommand::Run(_) => CHANGES,
                TaskCommand::Merge(_) => CHANGES,
                TaskCommand::List(_)
                | TaskCommand::Show(_)
                | TaskCommand::Wait(_)
                | TaskCommand::Message(_)
                | TaskCommand::Result(_)
                | TaskCommand::Cancel(_)
                | TaskCommand::Prune(_) => Forwarded,
            },
            Self::Schedule(CommandGroup(command)) => match command {
                ScheduleCommand::Add(_) => CHANGES,
                ScheduleCommand::List(_)
                | ScheduleCommand::Show(_)
                | ScheduleCommand::Log(_)
                | ScheduleCommand::Pause(_)
                | ScheduleCommand::Resume(_)
                | ScheduleCommand::Run(_)
                | ScheduleCommand::Rm(_) => Forwarded,
            },
            Self::Trigger(CommandGroup(command)) => match command {
                TriggerCommand::Add(_) => CHANGES,
                TriggerCommand::List(_)
                | TriggerCommand::Show(_)
                | TriggerCommand::Log(_)
                | TriggerCommand::Pause(_)
                | TriggerCommand::Resume(_)
                | TriggerCommand::Run(_)
                | TriggerCommand::Fire(_)
                | TriggerCommand::Rm(_) => Forwarded,
            },
            Self::Daemon(CommandGroup(command)) => match command {
                DaemonCommand::Status(_) => Forwarded,
                DaemonCommand::List(_) | DaemonCommand::Logs(_) => LOOKS,
                DaemonCommand::Start(_)
                | DaemonCommand::Stop(_)
                | DaemonCommand::Restart(_)
                | DaemonCommand::Install(_)
                | DaemonCommand::Uninstall(_) => CHANGES,
            },
            Self::Usage(_)
            | Self::Ls(_)
            | Self::Top(_)
            | Self::Stop(_)
            | Self::Rm(_)
            | Self::Logs(_)
            | Self::Send(_)
            | Self::Watch(_)
            | Self::Wait(_)
            | Self::Show(_)
            | Self::Diff(_)
            | Self::Result(_)
            | Self::Approval(_)
            | Self::Approve(_)
            | Self::Answer(_)
            | Self::Cancel(_)
            | Self::Turn(_)
            | Self::Queue(_)
            | Self::Tree(_)
            | Self::Notify(_)
            | Self::Prune(_) => Forwarded,
        }
    }
}

impl CliCommand {
    /// Whether the daemon there is started for the command, if its workspace is in use.
    fn starts_daemon(&self) -> bool {
        !matches!(self, Self::Daemon(_))
    }
}

/// Returns the context for the host that was chosen for a command.
///
/// # Errors
/// `HOST_UNSUPPORTED`, and those of [`CliContext::at_host`].
pub(crate) fn chosen(context: CliContext, command: &CliCommand) -> Result<CliContext> {
    let typed = context.typed.host().map(str::to_owned);
    let is_typed = typed.is_some();
    let Some(name) = typed.or_else(|| context.host_variable()) else { return Ok(context) };
    match command.host_use() {
        HostUse::Machine if !is_typed => Ok(context),
        // It names this machine, also if it says so.
        HostUse::Machine | HostUse::Here if CliContext::is_here(&name) => Ok(context),
        HostUse::Here => Err(only_here(&context.host_named(&name)?.name)),
        HostUse::Forwarded | HostUse::Passed(_) | HostUse::Machine => {
            if is_typed && !CliContext::is_here(&name) {
                advice::name_host(&name);
            }
            context.at_host(&name, command.starts_daemon())
        }
    }
}

/// Carries a command out, here or on the host that was chosen. `args` is how it was typed.
///
/// # Errors
/// The command's.
pub(crate) fn run(command: CliCommand, args: &[OsString], context: &CliContext) -> Result<CliOutcome> {
    let Some(host) = &context.host else { return command.run(context) };
    let folder = match command.host_use() {
        HostUse::Forwarded | HostUse::Here => return command.run(context),
        HostUse::Machine => FolderThere::Home,
        HostUse::Passed(folder) => folder,
    };
    passed::run(args, &context.typed, (host, folder), described)
}

/// Returns what a command line means, so that two can be compared.
pub(crate) fn described(args: &[OsString]) -> Option<String> {
    parse(args.iter().cloned()).ok().map(|(cli, _)| format!("{:?}", cli.command))
}

/// Refuses a command of a view of another host that does not work with it.
///
/// # Errors
/// `HOST_UNSUPPORTED`.
pub(crate) fn check(command: &CliCommand, context: &CliContext) -> Result<()> {
    match &context.host {
        Some(host) if command.host_use() != HostUse::Forwarded => Err(only_there(host.name())),
        _ => Ok(()),
    }
}

fn only_there(name: &str) -> Failure {
    unsupported(name, "it needs the files and the environment there")
        .recommend(format!("run it as `subagent --host {name} ...`"))
}

fn only_here(name: &str) -> Failure {
    unsupported(name, "its page is for a browser of the same machine")
        .recommend("use `subagent panel --all-hosts` here, or --host local")
}

fn unsupported(name: &str, why: &str) -> Failure {
    let message = format!("this command does not work with the host `{name}`: {why}");
    Failure::new(Code::HostUnsupported, message).with("host", name)
}
