//! `show`: what workers do, ask, have said and have changed.

pub(crate) mod overview;

use clap::Args;
use serde::Deserialize as _;
use serde_json::{Value, json};
use subagent_protocol::api::{Doing, OpenQuestion, WorkerOverview};

use crate::client::{DaemonClient, block_on, read};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::diff;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, human, text};

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

/// The order of the lines.
const KEYS: &[&str] = &[
    "workerId",
    "name",
    "label",
    "state",
    "updatedAt",
    "launcher",
    "branch",
    "cwd",
    "sessionId",
    "activeTurnId",
    "doing",
    "question",
    "answer",
    "queued",
    "lastMessage",
    "filesChanged",
    "cost",
    "tokens",
    "tasks",
    "lastError",
];

const REPORT: ChangeReport =
    ChangeReport { one: "worker.overview", several: "worker.overviews", keys: KEYS, done: "shown" };

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
    Ok(REPORT.texts(&addresses, items, |_, data| text::fields(&lines(data), KEYS)))
}

/// The same data with the number of changed files and lines, or the reason why it is unknown.
fn with_changes(mut data: Value, context: &CliContext) -> Result<Value> {
    let worker: WorkerOverview = read(data.clone())?;
    data["changes"] = diff::counted(&worker, context).unwrap_or(Value::Null);
    data["changesUnknown"] = diff::reason(&worker).map_or(Value::Null, Value::from);
    Ok(data)
}

/// The values of the lines.
fn lines(data: &Value) -> Value {
    let mut lines = data.clone();
    let changes = &data["changes"];
    lines["doing"] = Doing::deserialize(&data["doing"]).ok().map(|doing| human::doing(&doing)).into();
    let question = OpenQuestion::deserialize(&data["questions"][0]).ok();
    lines["answer"] = question.as_ref().map(human::answer).into();
    lines["question"] = question.map(|question| question.message).into();
    lines["branch"] = data["worktree"]["branch"].clone();
    lines["queued"] = data["queue"]["length"].clone();
    lines["lastMessage"] = data["lastMessage"]["text"].clone();
    lines["filesChanged"] = match changes.is_object() {
        true => format!("{} +{} -{}", changes["files"], changes["added"], changes["deleted"]).into(),
        false => Value::Null,
    };
    lines["cost"] = data["agent"]["cost"].clone();
    lines["tokens"] = data["agent"]["tokens"].clone();
    lines["tasks"] = data["tasks"].as_array().map_or(json!(0), |tasks| tasks.len().into());
    // A value that is not there is no line.
    if let Some(lines) = lines.as_object_mut() {
        lines.retain(|_, value| !value.is_null() && value != "");
    }
    lines
}
