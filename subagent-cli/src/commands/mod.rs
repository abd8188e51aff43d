//! The commands, one file each: what they ask for, of whom, and how the answer is shown.
//!
//! No business rule lives here; what a command can do, a request to the daemon's socket can do.

mod agent_asked;
mod agent_data;
mod agent_list;
mod agent_show;
mod agent_validate;
mod answer;
mod answer_time;
mod approval;
mod approve;
mod approve_each;
mod attachments;
mod backup;
mod budgets;
mod cancel;
mod chosen_options;
pub(crate) mod completions;
mod config_check;
mod config_init;
mod config_show;
mod confirm;
mod contract_form;
mod controller_attach;
mod controller_grant;
mod controller_init;
mod controller_recover;
mod controller_release;
mod controller_status;
mod daemon;
mod diff;
mod doctor;
mod environment_again;
mod git_status;
mod hook;
mod init;
mod installing;
mod launcher_found;
mod launcher_list;
mod launcher_login;
mod launcher_probe;
mod launcher_show;
mod live_wait;
mod ls;
mod managed;
mod mcp;
mod memory;
mod notify;
mod open_request;
mod overview;
mod panel;
mod panel_bridge;
mod policy;
mod policy_rules;
mod preconditions;
mod prompt_render;
mod prune;
mod queue;
mod restore;
mod result;
mod role_list;
mod role_show;
mod run;
mod schedule;
mod selected;
mod send;
mod send_agent;
mod session_delete;
mod session_list;
mod several;
mod show;
mod start_notes;
mod starts;
mod status;
mod summary;
mod task;
mod text_risk;
mod text_source;
pub(crate) mod top;
mod tree;
mod trigger;
mod turn;
mod turn_result;
mod usage;
mod wait;
mod wait_end;
mod wait_many;
mod wait_rest;
mod watch;
mod watch_prompts;
mod worker_continue;
mod worker_handoff;
mod worker_inspect;
mod worker_list;
mod worker_logs;
mod worker_restart;
mod worker_resume;
mod worker_rm;
mod worker_set;
mod worker_show;
mod worker_start;
mod worker_stop;
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
use crate::args::{Command, ConfigCommand, ControllerCommand, LauncherCommand, WorkerCommand};
use crate::context::Context;
use crate::failure::Result;
use crate::output::{Format, Outcome};
use preconditions::{has_state, named_worker};

/// Whether the command was given `--json`.
#[must_use]
pub fn format(command: &Command) -> Format {
    Format::of(match command {
        Command::Init(args) => args.json.json,
        Command::Config(ConfigCommand::Init(args)) => args.json.json,
        Command::Config(ConfigCommand::Show(args)) => args.json.json,
        Command::Config(ConfigCommand::Check(args)) => args.json.json,
        Command::Launcher(LauncherCommand::List(args)) => args.json.json,
        Command::Launcher(LauncherCommand::Show(args)) => args.json.json,
        Command::Launcher(LauncherCommand::Probe(args)) => args.json.json,
        Command::Launcher(LauncherCommand::Login(args)) => args.json.json,
        Command::Launcher(LauncherCommand::Logout(args)) => args.json.json,
        Command::Session(SessionCommand::List(args)) => args.json.json,
        Command::Session(SessionCommand::Delete(args)) => args.json.json,
        Command::Role(RoleCommand::List(args)) => args.json.json,
        Command::Role(RoleCommand::Show(args)) => args.json.json,
        Command::Prompt(PromptCommand::Render(args)) => args.json.json,
        Command::Agent(AgentCommand::List(args)) => args.place.json.json,
        Command::Agent(AgentCommand::Show(args)) => args.place.json.json,
        Command::Agent(AgentCommand::Validate(args)) => args.place.json.json,
        Command::Memory(command) => command.json(),
        Command::Policy(PolicyCommand::Test(args)) => args.json.json,
        Command::Policy(PolicyCommand::Rules(RulesCommand::List(args))) => args.json.json,
        Command::Policy(PolicyCommand::Rules(RulesCommand::Remove(args))) => args.json.json,
        Command::Hook(command) => command.json(),
        Command::Worktree(command) => command.json(),
        Command::Land(args) => args.json.json,
        Command::Budget(command) => match &**command {
            BudgetCommand::Show(args) => args.json.json,
            BudgetCommand::Set(args) => args.json.json,
        },
        Command::Usage(args) => args.json.json,
        Command::Controller(ControllerCommand::Init(args)) => args.json.json,
        Command::Controller(ControllerCommand::Attach(args)) => args.json.json,
        Command::Controller(ControllerCommand::Status(args)) => args.json.json,
        Command::Controller(ControllerCommand::Recover(args)) => args.json.json,
        Command::Controller(ControllerCommand::Release(args)) => args.json.json,
        Command::Worker(WorkerCommand::Start(args)) => args.json.json,
        Command::Worker(WorkerCommand::List(args)) => args.json.json,
        Command::Worker(WorkerCommand::Show(args)) => args.workers.json.json,
        Command::Worker(WorkerCommand::Stop(args)) => args.json.json,
        Command::Worker(WorkerCommand::Logs(args)) => args.several.json.json,
        Command::Worker(WorkerCommand::Inspect(args)) => args.workers.json.json,
        Command::Worker(WorkerCommand::Handoff(args)) => args.several.json.json,
        Command::Worker(WorkerCommand::Continue(args)) => args.json.json,
        Command::Worker(WorkerCommand::Restart(args)) => args.several.json.json,
        Command::Worker(WorkerCommand::Resume(args)) => args.several.json.json,
        Command::Worker(WorkerCommand::Rm(args)) => args.several.json.json,
        Command::Worker(WorkerCommand::Set(args)) => args.json.json,
        Command::Ls(args) => args.form() == Some(ListForm::Json),
        Command::Top(_) => false,
        Command::Status(args) => args.json.json,
        Command::Stop(args) => args.json.json,
        Command::Rm(args) => args.several.json.json,
        Command::Logs(args) => args.several.json.json,
        Command::Run(args) => args.format() != crate::args::run::Form::Text,
        Command::Send(args) => args.json.json,
        Command::Watch(args) => args.json.json,
        Command::Wait(args) => args.json.json,
        Command::Show(args) => args.json.json,
        Command::Diff(args) => args.json.json,
        Command::Result(args) => args.json.json,
        Command::Approval(ApprovalCommand::List(args)) => args.json.json,
        Command::Approval(ApprovalCommand::Show(args)) => args.json.json,
        Command::Approve(args) => args.json.json,
        Command::Answer(args) => args.json.json,
        Command::Cancel(args) => args.json.json,
        Command::Turn(command) => command.json(),
        Command::Queue(QueueCommand::Resume(args)) => args.json.json,
        Command::Task(command) => command.json(),
        Command::Tree(args) => args.json.json,
        Command::Summary(args) => args.json.json,
        Command::Schedule(command) => command.json(),
        Command::Trigger(command) => command.json(),
        Command::Notify(command) => command.json(),
        Command::Mcp(_) | Command::Panel(_) => false,
        Command::Daemon(command) => command.json(),
        Command::Doctor(args) => args.json.json,
        Command::Prune(args) => args.json.json,
        Command::Backup(args) => args.json.json,
        Command::Restore(args) => args.json.json,
        Command::Completions(args) => args.json.json,
        Command::Demo => false,
    })
}

/// Carries a command out.
///
/// # Errors
/// The command's.
pub fn run(command: Command, context: &Context) -> Result<Outcome> {
    match command {
        Command::Init(args) => init::run(&args, context),
        Command::Config(ConfigCommand::Init(args)) => config_init::run(&args, context),
        Command::Config(ConfigCommand::Show(args)) => config_show::run(&args, context),
        Command::Config(ConfigCommand::Check(args)) => config_check::run(&args, context),
        Command::Launcher(LauncherCommand::List(args)) => launcher_list::run(&args, context),
        Command::Launcher(LauncherCommand::Show(args)) => launcher_show::run(&args, context),
        Command::Launcher(LauncherCommand::Probe(args)) => launcher_probe::run(&args, context),
        Command::Launcher(LauncherCommand::Login(args)) => launcher_login::login(&args, context),
        Command::Launcher(LauncherCommand::Logout(args)) => launcher_login::logout(&args, context),
        Command::Session(SessionCommand::List(args)) => session_list::run(&args, context),
        Command::Session(SessionCommand::Delete(args)) => session_delete::run(&args, context),
        Command::Role(RoleCommand::List(args)) => role_list::run(&args, context),
        Command::Role(RoleCommand::Show(args)) => role_show::run(&args, context),
        Command::Prompt(PromptCommand::Render(args)) => prompt_render::run(&args, context),
        Command::Agent(AgentCommand::List(args)) => agent_list::run(&args, context),
        Command::Agent(AgentCommand::Show(args)) => agent_show::run(&args, context),
        Command::Agent(AgentCommand::Validate(args)) => agent_validate::run(&args, context),
        Command::Memory(command) => memory::run(command, context),
        Command::Policy(PolicyCommand::Test(args)) => policy::test(&args, context),
        Command::Policy(PolicyCommand::Rules(command)) => policy_rules::run(&command, context),
        Command::Hook(command) => hook::run(command, context),
        Command::Worktree(command) => worktree::run(command, context),
        Command::Land(args) => worktree::land::run(*args, context),
        Command::Budget(command) => budgets::run(*command, context),
        Command::Usage(args) => usage::run(&args, context),
        Command::Controller(ControllerCommand::Init(args)) => controller_init::run(&args, context),
        Command::Controller(ControllerCommand::Attach(args)) => controller_attach::run(&args, context),
        Command::Controller(ControllerCommand::Status(args)) => controller_status::run(&args, context),
        Command::Controller(ControllerCommand::Recover(args)) => controller_recover::run(&args, context),
        Command::Controller(ControllerCommand::Release(args)) => controller_release::run(&args, context),
        Command::Worker(WorkerCommand::Start(args)) => worker_start::run(*args, context),
        Command::Worker(WorkerCommand::List(args)) => worker_list::run(&args, context),
        Command::Worker(WorkerCommand::Show(args)) => worker_show::run(&args, context),
        Command::Worker(WorkerCommand::Stop(args)) => worker_stop::run(&args, context),
        Command::Worker(WorkerCommand::Logs(args)) => worker_logs::run(&args, context),
        Command::Worker(WorkerCommand::Inspect(args)) => worker_inspect::run(args, context),
        Command::Worker(WorkerCommand::Handoff(args)) => worker_handoff::run(args, context),
        Command::Worker(WorkerCommand::Continue(args)) => worker_continue::run(*args, context),
        Command::Worker(WorkerCommand::Restart(args)) => worker_restart::run(&args, context),
        Command::Worker(WorkerCommand::Resume(args)) => worker_resume::run(&args, context),
        Command::Worker(WorkerCommand::Rm(args)) => worker_rm::run(&args, context),
        Command::Worker(WorkerCommand::Set(args)) => worker_set::run(args, context),
        Command::Ls(args) => ls::run(&args, context),
        Command::Top(args) => top::run(&args, context),
        Command::Status(args) => status::run(&args, context),
        Command::Stop(args) => worker_stop::run(&args, context),
        Command::Rm(args) => worker_rm::run(&args, context),
        Command::Logs(args) => worker_logs::run(&args, context),
        Command::Run(args) => run::run(*args, context),
        Command::Send(args) => send::run(*args, context),
        Command::Watch(args) => watch::run(args, context),
        Command::Wait(args) => wait::run(args, context),
        Command::Show(args) => show::run(args, context),
        Command::Diff(args) => diff::run(args, context),
        Command::Result(args) => result::run(args, context),
        Command::Approval(command) => approval::run(&command, context),
        Command::Approve(args) => approve::run(args, context),
        Command::Answer(args) => answer::run(*args, context),
        Command::Cancel(args) => cancel::run(&args, context),
        Command::Turn(command) => turn::run(&command, context),
        Command::Queue(QueueCommand::Resume(args)) => queue::resume(&args, context),
        Command::Task(command) => task::run(command, context),
        Command::Tree(args) => tree::run(&args, context),
        Command::Summary(args) => summary::run(args, context),
        Command::Schedule(command) => schedule::run(command, context),
        Command::Trigger(command) => trigger::run(command, context),
        Command::Notify(command) => notify::run(command, context),
        Command::Mcp(args) => mcp::run(args, context),
        Command::Panel(args) => panel::run(&args, context),
        Command::Daemon(command) => daemon::run(&command, context),
        Command::Doctor(args) => doctor::run(&args, context),
        Command::Prune(args) => prune::run(&args, context),
        Command::Backup(args) => backup::run(args, context),
        Command::Restore(args) => restore::run(args, context),
        Command::Completions(args) => completions::run(&args, context),
        Command::Demo => crate::demo::run(),
    }
}
