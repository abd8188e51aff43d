//! `task`: submits tasks to agents, shows them, waits for them, sends them messages, ends them.

mod awaited;
mod cancel;
mod failed;
mod list;
mod merge;
mod message;
mod prune;
mod result;
pub(crate) mod run;
mod show;
mod wait;

pub(crate) use run::once;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::api::TaskShown;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, read, segment};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::tasks::{TaskPlacement, TaskSubmitter};

/// `subagent task ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TaskCommand {
    Run(Box<run::TaskRun>),
    List(list::TaskList),
    Show(show::TaskShow),
    Wait(wait::TaskWait),
    Message(message::TaskMessage),
    Result(result::TaskResult),
    Cancel(cancel::TaskCancel),
    Merge(merge::TaskMerge),
    Prune(prune::TaskPrune),
}

impl TaskCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Run(args) => run::run(*args, context),
            Self::List(args) => list::run(args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Wait(args) => wait::run(&args, context),
            Self::Message(args) => message::run(args, context),
            Self::Result(args) => result::run(&args, context),
            Self::Cancel(args) => cancel::run(args, context),
            Self::Merge(args) => merge::run(&args.one, context),
            Self::Prune(args) => prune::run(&args, context),
        }
    }
}

/// One task, and where it is.
#[derive(Debug, Args)]
pub(crate) struct OneTask {
    /// Its name or id
    #[arg(value_name = "TASK")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

fn submitter(cwd: CwdFlag, context: &CliContext) -> TaskSubmitter {
    TaskSubmitter::new(context, TaskPlacement { cwd: cwd.cwd, ..TaskPlacement::default() })
}

fn asked(submitter: &TaskSubmitter, ask: ApiRequest) -> Result<Value> {
    let mut client: DaemonClient = submitter.client()?;
    let ask = submitter.named(ask);
    block_on(async move { client.ask(&ask).await })
}

/// The task as data, and as what it is; with what was said below it, or without.
fn shown(one: &OneTask, transcripts: bool, context: &CliContext) -> Result<(Value, TaskShown)> {
    let submitter = submitter(one.cwd.clone(), context);
    let path = format!("/v1/tasks/{}", segment(named(&one.task, &submitter)?));
    let query = RequestPath::new(&path).with("transcripts", transcripts.then_some("true"));
    let data = asked(&submitter, ApiRequest::get(query))?;
    let shown = read(data.clone())?;
    Ok((data, shown))
}

/// A task as data.
pub(crate) fn value(task: &impl Serialize) -> Result<Value> {
    serde_json::to_value(task).map_err(|error| Failure::internal(format!("cannot write a task: {error}")))
}

/// The name or id, unless there can be no such task.
fn named<'a>(task: &'a str, submitter: &TaskSubmitter) -> Result<&'a str> {
    let message = match task.trim() {
        "" => "an empty text names no task; `subagent task list` shows them".to_owned(),
        _ if has_state(&submitter.workspace()?) => return Ok(task),
        _ => format!("there is no task {task}: nothing was started in this workspace so far"),
    };
    Err(Failure::new(Code::TaskNotFound, message)
        .with("task", task)
        .recommend("list the tasks with `subagent task list`; check --cwd and SUBAGENT_STATE_DIR"))
}
