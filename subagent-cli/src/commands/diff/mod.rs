//! `diff`: what has changed in a worker's folder since its first turn.
//!
//! Must not run anything that the folder names, and must not let its text act on a terminal.

mod overlap;
mod pager;
mod rendered;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_config::Workspace;
use subagent_protocol::api::{DiffSource, WorkerDiff, WorkerOverview, WorkerView, WorktreeView};
use subagent_protocol::work_tree::{NO_REPOSITORY, TreeBase};
use subagent_runtime::work_tree::{self, Changes, WorkTreeLimits, reported, total};
use subagent_runtime::worktree;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, read, segment};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::show::overview;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::human::CountedChanges;
use crate::output::terminal::OutputTerminal;
use crate::output::{self, CliOutcome, OutputFormat, human};
use rendered::DiffFormat;

/// Show what has changed in a worker's folder since its first turn
///
/// In a git repository: all changes of the work tree since the worker's first
/// turn began. What was changed before that does not count. Elsewhere: the
/// changes that its agent has reported.
///
/// With several workers: the files that more than one of them has changed.
///
/// At a terminal the output goes through $GIT_PAGER, $PAGER or less.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  subagent diff
  subagent diff w_0123456789 --stat
  subagent diff w_0123456789 --name-only
  subagent diff auth api"
)]
pub(crate) struct DiffArgs {
    /// The workers [default: the only one that is not stopped]
    #[arg(value_name = "WORKER")]
    pub(crate) workers: Vec<String>,
    /// Show the number of changed lines for each file
    #[arg(long, conflicts_with = "name_only")]
    pub(crate) stat: bool,
    /// Show the names of the files
    #[arg(long)]
    pub(crate) name_only: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The longest that git compares.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest that `show` and `run` wait for a count.
const PATIENCE_OF_COUNT: Duration = Duration::from_secs(2);

/// What is said of a diff that is not complete.
const CUT: &str = "note: files or patches are left out: the daemon there sends at most 4 MiB";

/// Tool calls that are looked at: the newest updates of them.
const MAX_EVENTS: &str = "1000";
const TYPES: &str = "progress.update:tool_call,progress.update:tool_call_update";

/// What has changed, and how that is known.
pub(super) struct DetectedChanges {
    pub(super) changes: Changes,
    pub(super) source: DiffSource,
    /// Why it comes from events.
    pub(super) reason: Option<String>,
    /// Whether the daemon of another host has left files or patches out.
    pub(super) truncated: bool,
}

pub(super) fn run(mut args: DiffArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    if args.workers.len() > 1 {
        return overlap::run(args, &workspace, context);
    }
    let (shown, found) = look(args.workers.pop(), true, &workspace, context)?;
    if context.format == OutputFormat::Json {
        return Ok(CliOutcome::report("worker.diff", data(&shown, &found), String::new()));
    }
    let form = match (args.stat, args.name_only) {
        (true, _) => DiffFormat::Stat,
        (false, true) => DiffFormat::Names,
        (false, false) => DiffFormat::Patch,
    };
    print(&found, form, name_of(&shown))
}

/// The name of a worker, or its id where the daemon gives no name.
fn name_of(worker: &WorkerOverview) -> &str {
    let worker = &worker.shown.worker;
    human::called(&worker.name, worker.worker_id.as_str())
}

/// The data of `worker.diff`.
///
/// # Errors
/// Those of [`overview::of`].
pub(super) fn of_worker(worker: String, workspace: &Workspace, context: &CliContext) -> Result<Value> {
    look(Some(worker), true, workspace, context).map(|(shown, found)| data(&shown, &found))
}

/// The patches of a worker for a terminal, below a line that says where they come from if that is not git.
///
/// # Errors
/// Those of [`overview::of`].
pub(super) fn text_of(
    worker: &str,
    workspace: &Workspace,
    context: &CliContext,
    terminal: OutputTerminal,
) -> Result<String> {
    let (_, found) = look(Some(worker.to_owned()), true, workspace, context)?;
    let reason = found.reason.filter(|_| !found.changes.is_empty());
    let notes = reason.map(|reason| note(&reason)).into_iter();
    let notes = notes.chain(found.truncated.then(|| CUT.to_owned()));
    let above: String = notes.map(|note| human::prose(&note, terminal) + "\n").collect();
    Ok(above + &rendered::text(&found.changes, DiffFormat::Patch, Some(terminal)))
}

/// The numbers of lines that a worker has added and deleted.
///
/// # Errors
/// Those of [`overview::of`].
pub(super) fn changes_of(worker: &str, workspace: &Workspace, context: &CliContext) -> Result<Changes> {
    let mut client = DaemonClient::new(context, workspace);
    block_on(changed_files(&mut client, worker, workspace, context))
}

fn note(reason: &str) -> String {
    format!("note: these are the changes that the agent has reported: {reason}")
}

/// A worker with its changes; with patches only if they are wanted.
fn look(
    worker: Option<String>,
    patches: bool,
    workspace: &Workspace,
    context: &CliContext,
) -> Result<(WorkerOverview, DetectedChanges)> {
    let mut client = DaemonClient::new(context, workspace);
    block_on(async move {
        let worker: WorkerOverview = read(overview::of(&mut client, worker, workspace).await?)?;
        let found = found(&mut client, &worker, context, patches, PATIENCE).await?;
        Ok((worker, found))
    })
}

/// The events of a worker, as they came.
#[derive(Debug, Deserialize)]
pub(crate) struct InspectedEvents {
    pub(crate) events: Vec<Value>,
}

/// What git says has changed; where it cannot say, what the agent has reported.
async fn found(
    client: &mut DaemonClient,
    worker: &WorkerOverview,
    context: &CliContext,
    patches: bool,
    patience: Duration,
) -> Result<DetectedChanges> {
    if context.host.is_some() {
        return found_there(client, worker).await;
    }
    let compared = match worker.shown.worker.worktree.as_ref().filter(|worktree| worktree.copied.is_some()) {
        Some(copy) => of_copy(copy, context).map(|changes| (changes, DiffSource::Copy)),
        None => compared(worker, context, patches, patience).map(|changes| (changes, DiffSource::Git)),
    };
    Ok(match compared {
        Ok((changes, source)) => DetectedChanges { changes, source, reason: None, truncated: false },
        Err(reason) => {
            let changes = reported_by(client, &worker.shown.worker).await?;
            DetectedChanges { changes, source: DiffSource::Events, reason: Some(reason), truncated: false }
        }
    })
}

/// What the daemon of another host has found: the files are there.
async fn found_there(client: &mut DaemonClient, worker: &WorkerOverview) -> Result<DetectedChanges> {
    let path = format!("/v1/workers/{}/diff", segment(worker.shown.worker.worker_id.as_str()));
    let diff: WorkerDiff = client.ask_for(&ApiRequest::get(path).within(Some(PATIENCE))).await?;
    Ok(DetectedChanges {
        changes: diff.files,
        source: diff.source,
        reason: diff.reason,
        truncated: diff.truncated,
    })
}

/// What differs between a copy of the workspace and the workspace.
fn of_copy(copy: &WorktreeView, context: &CliContext) -> std::result::Result<Changes, String> {
    let env: Vec<_> = context.env.vars.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    worktree::changed_files(&copy.worktree(), &env).map_err(|error| error.message)
}

/// What the agent has reported, where git cannot say.
async fn reported_by(client: &mut DaemonClient, worker: &WorkerView) -> Result<Changes> {
    let path = format!("/v1/workers/{}/inspect", segment(worker.worker_id.as_str()));
    let path = RequestPath::new(path).with("eventsLimit", Some(MAX_EVENTS)).with("eventTypes", Some(TYPES));
    let inspected: InspectedEvents = client.ask_for(&ApiRequest::get(path)).await?;
    Ok(reported(&inspected.events, Path::new(&worker.cwd)))
}

/// The changed files with their numbers of lines, of the worker with this id.
///
/// # Errors
/// Those of [`overview::of`].
pub(super) async fn changed_files(
    client: &mut DaemonClient,
    worker_id: &str,
    workspace: &Workspace,
    context: &CliContext,
) -> Result<Changes> {
    let data = overview::of(client, Some(worker_id.to_owned()), workspace).await?;
    let worker: WorkerOverview = read(data)?;
    Ok(found(client, &worker, context, false, PATIENCE_OF_COUNT).await?.changes)
}

/// What git says has changed; patches only if they are wanted.
fn compared(
    worker: &WorkerOverview,
    context: &CliContext,
    patches: bool,
    patience: Duration,
) -> std::result::Result<Changes, String> {
    if worker.base.is_none() {
        return Err(NO_REPOSITORY.to_owned());
    }
    let env: Vec<_> = context.env.vars.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    work_tree::compare(Path::new(&worker.base_folder), &env, patches, WorkTreeLimits::of_diff(patience))
}

/// The number of changed files and lines, if git can count them quickly.
pub(super) fn counted(worker: &WorkerOverview, context: &CliContext) -> Option<CountedChanges> {
    if context.host.is_some() {
        return None;
    }
    let changes = compared(worker, context, false, PATIENCE_OF_COUNT).ok()?;
    let (added, deleted) = total(&changes);
    Some(CountedChanges { files: changes.len() as u64, added, deleted })
}

fn data(worker: &WorkerOverview, found: &DetectedChanges) -> Value {
    let (added, deleted) = total(&found.changes);
    json!({
        "workerId": worker.shown.worker.worker_id,
        "source": found.source,
        "reason": found.reason,
        "base": (found.source == DiffSource::Git).then_some(&worker.base),
        "files": found.changes,
        "added": added,
        "deleted": deleted,
        "truncated": found.truncated,
    })
}

fn print(found: &DetectedChanges, form: DiffFormat, name: &str) -> Result<CliOutcome> {
    let terminal = OutputTerminal::of_stdout();
    if let Some(reason) = &found.reason {
        output::complain(&note(reason));
    }
    if found.truncated {
        output::complain(CUT);
    }
    if found.changes.is_empty() {
        if OutputTerminal::of_stderr().is_some() {
            output::complain(&format!("nothing has changed since the first turn of {name}"));
        }
        return Ok(CliOutcome::Printed(ExitCode::SUCCESS));
    }
    let text = rendered::text(&found.changes, form, terminal);
    let written = match terminal {
        Some(_) => pager::page(&text),
        None => output::print(&text),
    };
    Ok(CliOutcome::Printed(match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::unprintable(&error, 0),
    }))
}

/// Why there is no base, for people; `None` if there is one.
pub(super) fn reason(worker: &WorkerOverview) -> Option<&str> {
    match &worker.base {
        Some(TreeBase::Missing { reason }) => Some(reason),
        Some(TreeBase::Recorded { .. }) => None,
        None => Some("no git base"),
    }
}
