//! `show`: what workers do, ask, have said and have changed.

pub(crate) mod overview;

use clap::Args;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};
use subagent_protocol::api::{WorkerOverview, WorkerView};
use subagent_protocol::details::Cost;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::time::Timestamp;

use crate::client::{DaemonClient, block_on, view};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::diff;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::human::{CountedChanges, CountedOverview};
use crate::output::{CliOutcome, human, json, text};

/// Show what a worker does, asks, has said and has changed
///
/// Without WORKER: the only worker that is not stopped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent show
  subagent show w_0123456789 --json
  subagent show auth api")]
pub(crate) struct ShowArgs {
    /// The workers [default: the only one that is not stopped]
    #[arg(value_name = "WORKER")]
    pub(crate) workers: Vec<String>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

const REPORT: ChangeReport =
    ChangeReport { one: "worker.overview", several: "worker.overviews", keys: &[], done: "shown" };

pub(super) fn run(args: ShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    let looked = block_on(async {
        match args.workers.is_empty() {
            true => Ok(vec![overview::of(&mut client, None, &workspace).await?]),
            false => {
                each(&mut client, &args.workers, &REPORT, async |client, address| {
                    overview::of(client, Some(address.to_owned()), &workspace).await
                })
                .await
            }
        }
    });
    let items: Vec<Value> =
        looked?.into_iter().map(|data| with_changes(data, context)).collect::<Result<_>>()?;
    let addresses: Vec<String> = items.iter().map(|data| human::named(data).to_owned()).collect();
    Ok(REPORT.texts(&addresses, items, |_, data| lines(data)))
}

/// The same data with the number of changed files and lines, or the reason why it is unknown.
fn with_changes(mut data: Value, context: &CliContext) -> Result<Value> {
    let worker: WorkerOverview = view(&data)?;
    let changes = diff::counted(&worker, context);
    let unknown = diff::reason(&worker).map(str::to_owned);
    json::extend(&mut data, [("changes", json!(changes)), ("changesUnknown", unknown.into())]);
    Ok(data)
}

/// The lines of a worker, in their order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OverviewLines<'a> {
    #[serde(flatten)]
    worker: WorkerLines<'a>,
    doing: Option<String>,
    question: Option<&'a str>,
    answer: Option<String>,
    queued: Option<usize>,
    last_message: Option<&'a str>,
    files_changed: Option<String>,
    cost: Option<&'a Cost>,
    tokens: Option<&'a Value>,
    tasks: usize,
    last_error: Option<&'a str>,
}

/// The worker itself: what it is, and where it works.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkerLines<'a> {
    worker_id: &'a WorkerId,
    name: &'a str,
    label: &'a str,
    state: String,
    updated_at: Timestamp,
    launcher: &'a str,
    branch: Option<&'a str>,
    cwd: &'a str,
    session_id: &'a str,
    active_turn_id: Option<&'a TurnId>,
}

impl<'a> WorkerLines<'a> {
    fn of(worker: &'a WorkerView) -> Self {
        Self {
            worker_id: &worker.worker_id,
            name: &worker.name,
            label: &worker.label,
            state: text::state(worker.state, worker.unreachable.is_some()),
            updated_at: worker.updated_at,
            launcher: &worker.launcher,
            branch: worker.worktree.as_ref().map(|worktree| worktree.branch.as_str()),
            cwd: &worker.cwd,
            session_id: &worker.session_id,
            active_turn_id: worker.active_turn_id.as_ref(),
        }
    }
}

fn lines(data: &Value) -> String {
    let Ok(CountedOverview { overview, changes, .. }) = CountedOverview::deserialize(data) else {
        return String::new();
    };
    let (worker, agent) = (&overview.shown.worker, &overview.shown.agent);
    let question = worker.questions.first();
    text::lines(&OverviewLines {
        worker: WorkerLines::of(worker),
        doing: overview.doing.as_ref().map(human::doing),
        question: question.map(|question| question.message.as_str()),
        answer: question.map(human::answer),
        queued: worker.queue.as_ref().map(|queue| queue.length),
        last_message: overview.last_message.as_ref().map(|message| message.text.as_str()),
        files_changed: changes.map(|changes| {
            let CountedChanges { files, added, deleted } = changes;
            format!("{files} +{added} -{deleted}")
        }),
        cost: agent.cost.as_ref(),
        tokens: agent.tokens.as_ref(),
        tasks: overview.tasks.len(),
        last_error: worker.last_error.as_deref(),
    })
}
