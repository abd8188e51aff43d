//! `task`: submits tasks to agents, shows them, waits for them, sends them messages, ends them.

mod awaited;
mod failed;
mod prune;
mod run;

pub(crate) use run::once;

use serde::Serialize;
use serde_json::Value;
use subagent_protocol::api::{CancelTask, MessageTask, TaskShown, TaskStatus};
use subagent_protocol::{Code, task_result};
use tokio::time::Instant;

use self::awaited::{OnQuestion, TaskWaitEnd};
use crate::args::CwdFlag;
use crate::args::tasks::{OneTask, TaskCancel, TaskCommand, TaskList, TaskMessage, TaskResult, TaskWait};
use crate::client::{ApiRequest, DaemonClient, RequestPath, TaskWait as Wait, block_on, read, segment};
use crate::commands::message::text_source::TextSources;
use crate::commands::targets::has_state;
use crate::commands::waiting::status_line;
use crate::commands::worktree;
use crate::context::{CliContext, present, present_path};
use crate::failure::{Failure, Result};
use crate::input::{self, InputObject};
use crate::output::{CliOutcome, text};
use crate::tasks::{TaskPlacement, TaskSubmitter};

/// The lines of one task.
const KEYS: &[&str] = &[
    "taskId",
    "name",
    "path",
    "agent",
    "description",
    "mode",
    "status",
    "parent",
    "parentTurnId",
    "root",
    "depth",
    "launcher",
    "model",
    "steps",
    "toolCalls",
    "tokens",
    "cost",
    "runs",
    "createdAt",
    "updatedAt",
    "startedAt",
    "completedAt",
    "archivedAt",
    "error",
    "metadata",
];

pub(crate) fn run(command: TaskCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        TaskCommand::Run(args) => run::run(*args, context),
        TaskCommand::List(args) => list(args, context),
        TaskCommand::Show(args) => {
            let (data, _) = shown(&args.one, false, context)?;
            let lines = text::fields(&data, KEYS);
            Ok(CliOutcome::report("task.shown", data, lines))
        }
        TaskCommand::Wait(args) => wait(&args, context),
        TaskCommand::Message(args) => message(args, context),
        TaskCommand::Result(args) => result(&args, context),
        TaskCommand::Cancel(args) => cancel(args, context),
        TaskCommand::Merge(args) => merge(&args.one, context),
        TaskCommand::Prune(args) => prune::run(&args, context),
    }
}

fn list(args: TaskList, context: &CliContext) -> Result<CliOutcome> {
    // Views have the word of turns.
    let status = args.status.map(|words| words.replace("canceled", TaskStatus::Cancelled.as_str()));
    let unknown = |word: &&str| TaskStatus::parse(word.trim()).is_none();
    if let Some(status) = status.as_deref().and_then(|words| words.split(',').find(unknown)) {
        let known: Vec<_> = TaskStatus::ALL.iter().map(|known| known.as_str()).collect();
        let known = known.join(", ");
        let message = format!("--status {status} is not one of {known}");
        return Err(Failure::argument(message).with("flag", "--status").with("status", status));
    }
    let submitter = submitter(args.cwd, context);
    let workspace = submitter.workspace()?;
    let data = if has_state(&workspace) {
        let query = RequestPath::new("/v1/tasks")
            .with("parent", present(args.parent).as_deref())
            .with("root", present(args.root).as_deref())
            .with("status", status.as_deref())
            .with("archived", args.archived.then_some("true"))
            .with("all", args.all.then_some("true"));
        asked(&submitter, ApiRequest::get(query))?
    } else {
        serde_json::json!({"items": [], "count": 0})
    };
    let lines = text::rows(&data, &["taskId", "status", "name", "agent", "description"], "");
    let prunable = args.archived && data["count"] != 0;
    let listed = CliOutcome::list("task.listed", data, lines, "(no tasks)");
    Ok(match prunable {
        true => listed.with_note("`subagent task prune` removes those of them that have ended"),
        false => listed,
    })
}

fn wait(args: &TaskWait, context: &CliContext) -> Result<CliOutcome> {
    let submitter = submitter(args.one.cwd.clone(), context);
    let task = named(&args.one.task, &submitter)?;
    // What is too long to be added to a point in time is no limit.
    let time = std::time::Duration::try_from_secs_f64(args.timeout).ok().filter(|time| !time.is_zero());
    let deadline = time.and_then(|time| Instant::now().checked_add(time));
    let mut client = submitter.client()?;
    let end = Wait::new(task, submitter.token(), deadline);
    let waited = block_on(async {
        let on_question = OnQuestion::of(context, args.no_wait_for_answers, !args.no_ask);
        awaited::wait(&submitter, &mut client, end, on_question).await
    });
    let waited = waited.map_err(|failure| match failure.is(Code::WaitTimeout) {
        true => failure.with("timeoutSeconds", args.timeout),
        false => failure,
    })?;
    let shown = match waited {
        None => status_line::leave(&format!("task wait {}", args.one.task)),
        Some(TaskWaitEnd::Ended(shown)) => shown,
        Some(TaskWaitEnd::NeedsAnswer(shown, questions)) => return awaited::needs_answer(&shown, questions),
    };
    let data = value(&shown)?;
    let lines = text::fields(&data, &["taskId", "name", "status"]);
    Ok(CliOutcome::report("task.waited", data, lines))
}

fn message(args: TaskMessage, context: &CliContext) -> Result<CliOutcome> {
    let input = InputObject::load(args.input.as_deref(), input::TASK_MESSAGE, &context.typed)
        .map_err(Failure::wrong_usage)?;
    let Some(task) = present(args.task).or_else(|| input.text("task")) else {
        return Err(Failure::input("no task: give its name or id, or task in --input"));
    };
    let sources = TextSources {
        input: input.text("text"),
        flag: args.text,
        file: present_path(args.text_file),
        stdin: args.text_stdin,
        ..TextSources::default()
    };
    let request = MessageTask {
        message: sources.read()?.text,
        cancel: input.flag("cancel").unwrap_or(args.cancel),
        allow_fresh: input.flag("allowFresh").unwrap_or(args.allow_fresh),
        mode: None,
    };
    let submitter = submitter(args.cwd, context);
    let path = format!("/v1/tasks/{}/messages", segment(named(&task, &submitter)?));
    let data = asked(&submitter, submitter.change(path, &request)?)?;
    let lines = text::fields(&data, &["taskId", "name", "status", "message"]);
    Ok(CliOutcome::report("task.messaged", data, lines))
}

fn result(args: &TaskResult, context: &CliContext) -> Result<CliOutcome> {
    let (data, shown) = shown(&args.one, args.full, context)?;
    let status = shown.task.status;
    if shown.result.is_none() {
        let why = if status.is_end() { "has ended without one" } else { "has not ended" };
        let message = format!("the task {} has no result: it {why} ({})", shown.task.name, status.as_str());
        let failure =
            Failure::new(Code::InvalidWorkerState, message).with("taskId", shown.task.task_id.as_str());
        let failure = failure.with("status", status.as_str());
        return Err(if status.is_end() {
            failure
        } else {
            failure.retryable().recommend("wait for its end with `subagent task wait`")
        });
    }
    let mut data = data;
    let text = if args.full {
        task_result::full(&shown).into_owned()
    } else {
        let short = task_result::short(&shown)?.into_owned();
        data["result"] = short.clone().into();
        short
    };
    Ok(CliOutcome::report("task.result", data, text))
}

fn cancel(args: TaskCancel, context: &CliContext) -> Result<CliOutcome> {
    let submitter = submitter(args.one.cwd, context);
    let path = format!("/v1/tasks/{}/cancel", segment(named(&args.one.task, &submitter)?));
    let request = CancelTask { reason: present(args.reason) };
    let data = asked(&submitter, ApiRequest::change(path, &request)?)?;
    let lines = text::fields(&data, &["taskId", "name", "status"]);
    Ok(CliOutcome::report("task.cancelled", data, lines))
}

/// Brings the changed files of a task to the main work tree.
fn merge(one: &OneTask, context: &CliContext) -> Result<CliOutcome> {
    let (_, task) = shown(one, false, context)?;
    let workspace = context.workspace(one.cwd.cwd.as_deref())?;
    let data = worktree::merged(task.task.task_id.as_str(), &workspace, context)?;
    let names = data["files"].as_array().into_iter().flatten().map(text::value).collect::<Vec<_>>();
    Ok(CliOutcome::list("worktree.merged", data, names.join("\n"), "(nothing to merge)"))
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
