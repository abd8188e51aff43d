//! Groups of commands, such as `subagent worker`, built only when one of their commands is typed.
//! With `defer`, clap postpones what a variant's [`Args`] add, but adds a [`Subcommand`]'s commands
//! at once. Each group is therefore both.

use clap::{Args, Command, Subcommand};

use super::schedules::ScheduleCommand;
use super::triggers::TriggerCommand;
use super::worktrees::WorktreeCommand;
use super::{
    AgentCommand, ApprovalCommand, ConfigCommand, ControllerCommand, DaemonCommand, LauncherCommand,
    PolicyCommand, PromptCommand, QueueCommand, RoleCommand, SessionCommand, TaskCommand, TurnCommand,
    WorkerCommand,
};
use super::{budgets::BudgetCommand, hooks::HookCommand, memory::MemoryCommand, notify::NotifyCommand};

macro_rules! group {
    ($($commands:ty),* $(,)?) => {$(
        impl Args for $commands {
            fn augment_args(group: Command) -> Command {
                // The enum's comment is not help; the variant's in `super::CliCommand` is.
                let about = group.get_about().cloned();
                let group = Self::augment_subcommands(group).about(about.unwrap_or_default()).long_about(None);
                group.subcommand_required(true).arg_required_else_help(true)
            }

            fn augment_args_for_update(group: Command) -> Command {
                Self::augment_subcommands_for_update(group)
            }
        }
    )*};
}

group! {
    AgentCommand,
    ApprovalCommand,
    BudgetCommand,
    ConfigCommand,
    ControllerCommand,
    DaemonCommand,
    HookCommand,
    LauncherCommand,
    MemoryCommand,
    NotifyCommand,
    PolicyCommand,
    PromptCommand,
    QueueCommand,
    RoleCommand,
    ScheduleCommand,
    SessionCommand,
    TaskCommand,
    TriggerCommand,
    TurnCommand,
    WorkerCommand,
    WorktreeCommand,
}
