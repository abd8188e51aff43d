//! The commands, one file each: what they ask for, of whom, and how the answer is shown.
//!
//! No business rule lives here; what a command can do, a request to the daemon's socket can do.

mod agent;
mod answer;
mod approval;
mod approve;
mod backup;
mod budget;
mod cancel;
pub(crate) mod completions;
mod config;
mod controller;
mod daemon;
mod diff;
mod doctor;
mod firing;
mod hook;
mod init;
mod land;
mod launcher;
mod ls;
mod mcp;
mod memory;
mod message;
mod notify;
mod panel;
mod policy;
mod prompt;
mod prune;
mod queue;
mod restore;
mod result;
mod role;
mod run;
mod schedule;
mod send;
mod session;
mod show;
mod status;
mod summary;
mod targets;
mod task;
pub(crate) mod top;
mod tree;
mod trigger;
mod turn;
mod usage;
mod wait;
mod waiting;
mod watch;
mod worker;
mod worktree;

use crate::args::agents::SessionCommand;
use crate::args::budgets::BudgetCommand;
use crate::args::definitions::AgentCommand;
use crate::args::inbox::{ApprovalCommand, RulesCommand};
use crate::args::overview::ListForm;
use crate::args::policy::PolicyCommand;
use crate::args::prompt::PromptCommand;
use crate::args::queue::QueueCommand;
use crate::args::roles::RoleCommand;
use crate::args::{CliCommand, ConfigCommand, ControllerCommand, LauncherCommand, WorkerCommand};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, OutputFormat};

/// Whether the command was given `--json`.
#[must_use]
pub fn format(command: &CliCommand) -> OutputFormat {
    OutputFormat::of(match command {
        CliCommand::Init(args) => args.json.json,
        CliCommand::Config(ConfigCommand::Init(args)) => args.json.json,
        CliCommand::Config(ConfigCommand::Show(args)) => args.json.json,
        CliCommand::Config(ConfigCommand::Check(args)) => args.json.json,
        CliCommand::Launcher(LauncherCommand::List(args)) => args.json.json,
        CliCommand::Launcher(LauncherCommand::Show(args)) => args.json.json,
        CliCommand::Launcher(LauncherCommand::Probe(args)) => args.json.json,
        CliCommand::Launcher(LauncherCommand::Login(args)) => args.json.json,
        CliCommand::Launcher(LauncherCommand::Logout(args)) => args.json.json,
        CliCommand::Session(SessionCommand::List(args)) => args.json.json,
        CliCommand::Session(SessionCommand::Delete(args)) => args.json.json,
        CliCommand::Role(RoleCommand::List(args)) => args.json.json,
        CliCommand::Role(RoleCommand::Show(args)) => args.json.json,
        CliCommand::Prompt(PromptCommand::Render(args)) => args.json.json,
        CliCommand::Agent(AgentCommand::List(args)) => args.place.json.json,
        CliCommand::Agent(AgentCommand::Show(args)) => args.place.json.json,
        CliCommand::Agent(AgentCommand::Validate(args)) => args.place.json.json,
        CliCommand::Memory(command) => command.json(),
        CliCommand::Policy(PolicyCommand::Test(args)) => args.json.json,
        CliCommand::Policy(PolicyCommand::Rules(RulesCommand::List(args))) => args.json.json,
        CliCommand::Policy(PolicyCommand::Rules(RulesCommand::Remove(args))) => args.json.json,
        CliCommand::Hook(command) => command.json(),
        CliCommand::Worktree(command) => command.json(),
        CliCommand::Land(args) => args.json.json,
        CliCommand::Budget(command) => match &**command {
            BudgetCommand::Show(args) => args.json.json,
            BudgetCommand::Set(args) => args.json.json,
        },
        CliCommand::Usage(args) => args.json.json,
        CliCommand::Controller(ControllerCommand::Init(args)) => args.json.json,
        CliCommand::Controller(ControllerCommand::Attach(args)) => args.json.json,
        CliCommand::Controller(ControllerCommand::Status(args)) => args.json.json,
        CliCommand::Controller(ControllerCommand::Recover(args)) => args.json.json,
        CliCommand::Controller(ControllerCommand::Release(args)) => args.json.json,
        CliCommand::Worker(WorkerCommand::Start(args)) => args.json.json,
        CliCommand::Worker(WorkerCommand::List(args)) => args.json.json,
        CliCommand::Worker(WorkerCommand::Show(args)) => args.workers.json.json,
        CliCommand::Worker(WorkerCommand::Stop(args)) => args.json.json,
        CliCommand::Worker(WorkerCommand::Logs(args)) => args.several.json.json,
        CliCommand::Worker(WorkerCommand::Inspect(args)) => args.workers.json.json,
        CliCommand::Worker(WorkerCommand::Handoff(args)) => args.several.json.json,
        CliCommand::Worker(WorkerCommand::Continue(args)) => args.json.json,
        CliCommand::Worker(WorkerCommand::Restart(args)) => args.several.json.json,
        CliCommand::Worker(WorkerCommand::Resume(args)) => args.several.json.json,
        CliCommand::Worker(WorkerCommand::Rm(args)) => args.several.json.json,
        CliCommand::Worker(WorkerCommand::Set(args)) => args.json.json,
        CliCommand::Ls(args) => args.form() == Some(ListForm::Json),
        CliCommand::Top(_) => false,
        CliCommand::Status(args) => args.json.json,
        CliCommand::Stop(args) => args.json.json,
        CliCommand::Rm(args) => args.several.json.json,
        CliCommand::Logs(args) => args.several.json.json,
        CliCommand::Run(args) => args.format() != crate::args::run::RunOutputFormat::Text,
        CliCommand::Send(args) => args.json.json,
        CliCommand::Watch(args) => args.json.json,
        CliCommand::Wait(args) => args.json.json,
        CliCommand::Show(args) => args.json.json,
        CliCommand::Diff(args) => args.json.json,
        CliCommand::Result(args) => args.json.json,
        CliCommand::Approval(ApprovalCommand::List(args)) => args.json.json,
        CliCommand::Approval(ApprovalCommand::Show(args)) => args.json.json,
        CliCommand::Approve(args) => args.json.json,
        CliCommand::Answer(args) => args.json.json,
        CliCommand::Cancel(args) => args.json.json,
        CliCommand::Turn(command) => command.json(),
        CliCommand::Queue(QueueCommand::Resume(args)) => args.json.json,
        CliCommand::Task(command) => command.json(),
        CliCommand::Tree(args) => args.json.json,
        CliCommand::Summary(args) => args.json.json,
        CliCommand::Schedule(command) => command.json(),
        CliCommand::Trigger(command) => command.json(),
        CliCommand::Notify(command) => command.json(),
        CliCommand::Mcp(_) | CliCommand::Panel(_) => false,
        CliCommand::Daemon(command) => command.json(),
        CliCommand::Doctor(args) => args.json.json,
        CliCommand::Prune(args) => args.json.json,
        CliCommand::Backup(args) => args.json.json,
        CliCommand::Restore(args) => args.json.json,
        CliCommand::Completions(args) => args.json.json,
        CliCommand::Demo => false,
    })
}

/// Carries a command out.
///
/// # Errors
/// The command's.
pub fn run(command: CliCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        CliCommand::Init(args) => init::run(&args, context),
        CliCommand::Config(ConfigCommand::Init(args)) => config::init::run(&args, context),
        CliCommand::Config(ConfigCommand::Show(args)) => config::show::run(&args, context),
        CliCommand::Config(ConfigCommand::Check(args)) => config::check::run(&args, context),
        CliCommand::Launcher(LauncherCommand::List(args)) => launcher::list::run(&args, context),
        CliCommand::Launcher(LauncherCommand::Show(args)) => launcher::show::run(&args, context),
        CliCommand::Launcher(LauncherCommand::Probe(args)) => launcher::probe::run(&args, context),
        CliCommand::Launcher(LauncherCommand::Login(args)) => launcher::login::login(&args, context),
        CliCommand::Launcher(LauncherCommand::Logout(args)) => launcher::login::logout(&args, context),
        CliCommand::Session(SessionCommand::List(args)) => session::list::run(&args, context),
        CliCommand::Session(SessionCommand::Delete(args)) => session::delete::run(&args, context),
        CliCommand::Role(RoleCommand::List(args)) => role::list::run(&args, context),
        CliCommand::Role(RoleCommand::Show(args)) => role::show::run(&args, context),
        CliCommand::Prompt(PromptCommand::Render(args)) => prompt::render::run(&args, context),
        CliCommand::Agent(AgentCommand::List(args)) => agent::list::run(&args, context),
        CliCommand::Agent(AgentCommand::Show(args)) => agent::show::run(&args, context),
        CliCommand::Agent(AgentCommand::Validate(args)) => agent::validate::run(&args, context),
        CliCommand::Memory(command) => memory::run(command, context),
        CliCommand::Policy(PolicyCommand::Test(args)) => policy::test::run(&args, context),
        CliCommand::Policy(PolicyCommand::Rules(command)) => policy::rules::run(&command, context),
        CliCommand::Hook(command) => hook::run(command, context),
        CliCommand::Worktree(command) => worktree::run(command, context),
        CliCommand::Land(args) => land::run(*args, context),
        CliCommand::Budget(command) => budget::run(*command, context),
        CliCommand::Usage(args) => usage::run(&args, context),
        CliCommand::Controller(ControllerCommand::Init(args)) => controller::init::run(&args, context),
        CliCommand::Controller(ControllerCommand::Attach(args)) => controller::attach::run(&args, context),
        CliCommand::Controller(ControllerCommand::Status(args)) => controller::status::run(&args, context),
        CliCommand::Controller(ControllerCommand::Recover(args)) => controller::recover::run(&args, context),
        CliCommand::Controller(ControllerCommand::Release(args)) => controller::release::run(&args, context),
        CliCommand::Worker(WorkerCommand::Start(args)) => worker::start::run(*args, context),
        CliCommand::Worker(WorkerCommand::List(args)) => worker::list::run(&args, context),
        CliCommand::Worker(WorkerCommand::Show(args)) => worker::show::run(&args, context),
        CliCommand::Worker(WorkerCommand::Stop(args)) => worker::stop::run(&args, context),
        CliCommand::Worker(WorkerCommand::Logs(args)) => worker::logs::run(&args, context),
        CliCommand::Worker(WorkerCommand::Inspect(args)) => worker::inspect::run(args, context),
        CliCommand::Worker(WorkerCommand::Handoff(args)) => worker::handoff::run(args, context),
        CliCommand::Worker(WorkerCommand::Continue(args)) => worker::r#continue::run(*args, context),
        CliCommand::Worker(WorkerCommand::Restart(args)) => worker::restart::run(&args, context),
        CliCommand::Worker(WorkerCommand::Resume(args)) => worker::resume::run(&args, context),
        CliCommand::Worker(WorkerCommand::Rm(args)) => worker::rm::run(&args, context),
        CliCommand::Worker(WorkerCommand::Set(args)) => worker::set::run(args, context),
        CliCommand::Ls(args) => ls::run(&args, context),
        CliCommand::Top(args) => top::run(&args, context),
        CliCommand::Status(args) => status::run(&args, context),
        CliCommand::Stop(args) => worker::stop::run(&args, context),
        CliCommand::Rm(args) => worker::rm::run(&args, context),
        CliCommand::Logs(args) => worker::logs::run(&args, context),
        CliCommand::Run(args) => run::run(*args, context),
        CliCommand::Send(args) => send::run(*args, context),
        CliCommand::Watch(args) => watch::run(args, context),
        CliCommand::Wait(args) => wait::run(args, context),
        CliCommand::Show(args) => show::run(args, context),
        CliCommand::Diff(args) => diff::run(args, context),
        CliCommand::Result(args) => result::run(args, context),
        CliCommand::Approval(command) => approval::run(&command, context),
        CliCommand::Approve(args) => approve::run(args, context),
        CliCommand::Answer(args) => answer::run(*args, context),
        CliCommand::Cancel(args) => cancel::run(&args, context),
        CliCommand::Turn(command) => turn::run(&command, context),
        CliCommand::Queue(QueueCommand::Resume(args)) => queue::resume::run(&args, context),
        CliCommand::Task(command) => task::run(command, context),
        CliCommand::Tree(args) => tree::run(&args, context),
        CliCommand::Summary(args) => summary::run(args, context),
        CliCommand::Schedule(command) => schedule::run(command, context),
        CliCommand::Trigger(command) => trigger::run(command, context),
        CliCommand::Notify(command) => notify::run(command, context),
        CliCommand::Mcp(args) => mcp::run(args, context),
        CliCommand::Panel(args) => panel::run(&args, context),
        CliCommand::Daemon(command) => daemon::run(&command, context),
        CliCommand::Doctor(args) => doctor::run(&args, context),
        CliCommand::Prune(args) => prune::run(&args, context),
        CliCommand::Backup(args) => backup::run(args, context),
        CliCommand::Restore(args) => restore::run(args, context),
        CliCommand::Completions(args) => completions::run(&args, context),
        CliCommand::Demo => crate::demo::run(),
    }
}
