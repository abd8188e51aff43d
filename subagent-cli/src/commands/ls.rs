//! `ls`: the workers that are alive, and what they ask.

mod all_hosts;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_config::Workspace;
use subagent_protocol::api::Inbox;
use subagent_protocol::json;
use subagent_protocol::lenient;
use subagent_protocol::state::WorkerState;

use crate::client::{ApiRequest, DaemonClient, block_on, into_items, items};
use crate::command_line::flags::{CwdFlag, JsonFlag, SelectorFlag};
use crate::commands::targets::has_state;
use crate::commands::targets::selected::{WorkerHead, WorkerSelector};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::terminal::OutputTerminal;
use crate::output::{CliOutcome, document, text};

/// List the workers that are alive, and what they ask
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent ls
  subagent ls -a -l job=review
  subagent ls --all-hosts
  subagent stop $(subagent ls -q)")]
pub(crate) struct LsArgs {
    /// Also those that are stopped
    #[arg(short = 'a', long)]
    pub(crate) all: bool,
    /// Also those of all hosts of the config file
    #[arg(long)]
    pub(crate) all_hosts: bool,
    /// Names only
    #[arg(short = 'q', long, conflicts_with = "output")]
    pub(crate) quiet: bool,
    /// How to print
    #[arg(short = 'o', long, value_name = "FORM", value_enum)]
    pub(crate) output: Option<ListForm>,
    #[command(flatten)]
    pub(crate) selector: SelectorFlag,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    /// Which form of output: the same as -o json.
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

impl LsArgs {
    /// The form that was chosen by a flag.
    pub(crate) fn form(&self) -> Option<ListForm> {
        match (self.quiet, self.json.json) {
            (true, false) => Some(ListForm::Name),
            (_, true) => Some(ListForm::Json),
            _ => self.output,
        }
    }
}

/// The forms of output of `ls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListForm {
    /// A table (the default at a terminal)
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Ndjson,
    /// Values separated by tabs (the default elsewhere)
    Tsv,
    /// One name a line
    Name,
}

/// The columns of a line in a pipe.
const KEYS: &[&str] = &["name", "state", "launcher", "updatedAt", "workerId", "asks"];

pub(super) fn run(args: &LsArgs, context: &CliContext) -> Result<CliOutcome> {
    if args.all_hosts {
        return all(args, context);
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let items = block_on(listed(args, &workspace, context))?;
    Ok(outcome(args, json!({"count": items.len(), "items": items, "all": args.all}), None))
}

fn all(args: &LsArgs, context: &CliContext) -> Result<CliOutcome> {
    let all_hosts::AllHosts { items, hosts } = all_hosts::ask(args, context)?;
    if OutputTerminal::of_stdout().is_none() || args.form().is_some() {
        hosts.iter().for_each(|host| host.warn(context));
    }
    let shown = json!({"items": items.iter().cloned().map(with_address).collect::<Vec<_>>()});
    let data = json!({"count": items.len(), "items": items, "all": args.all, "hosts": hosts});
    Ok(outcome(args, data, Some(shown)))
}

/// Prints the data, or lines of their items. `shown` has the items of lines if they differ.
fn outcome(args: &LsArgs, data: Value, shown: Option<Value>) -> CliOutcome {
    let from = shown.as_ref().unwrap_or(&data);
    let lines = |line: fn(&Value) -> String| items(from).iter().map(line).collect::<Vec<_>>().join("\n");
    let name = |item: &Value| WorkerHead::of(item).name.unwrap_or_default().to_owned();
    match args.form() {
        Some(ListForm::Name) => CliOutcome::Lines(lines(name)),
        Some(ListForm::Ndjson) => {
            CliOutcome::Lines(items(&data).iter().cloned().map(document).collect::<Vec<_>>().join("\n"))
        }
        Some(ListForm::Tsv) if OutputTerminal::of_stdout().is_some() => {
            CliOutcome::Lines(text::rows(from, KEYS, ""))
        }
        _ => {
            let rows = text::rows(from, KEYS, "");
            CliOutcome::list("workers.overview", data, rows, "(no workers)")
        }
    }
}

/// The same worker with `HOST/NAME` as its name.
fn with_address(mut item: Value) -> Value {
    let placed: PlacedWorker<'_> = lenient::read(&item);
    if let (Some(host), Some(name)) = (placed.host, placed.name) {
        let address = format!("{host}/{name}");
        json::extend(&mut item, [("name", address.into())]);
    }
    item
}

/// A worker of `--all-hosts`, as far as its address goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PlacedWorker<'a> {
    host: Option<&'a str>,
    name: Option<&'a str>,
}

/// The workers of a workspace.
async fn listed(args: &LsArgs, workspace: &Workspace, context: &CliContext) -> Result<Vec<Value>> {
    let choice = WorkerSelector { controller_id: None, selector: args.selector.selector.clone() };
    let ask = choice.listing(false)?;
    if !has_state(workspace) {
        return Ok(Vec::new());
    }
    let mut client = DaemonClient::new(context, workspace);
    let listed = client.ask(&ask).await?;
    choice.check(&listed)?;
    let mut items = into_items(listed);
    items.retain(|item| args.all || !WorkerHead::of(item).is(WorkerState::Stopped));
    if items.iter().any(|item| WorkerHead::of(item).is(WorkerState::WaitingApproval)) {
        let inbox: Inbox = client.ask_for(&ApiRequest::get("/v1/approvals")).await?;
        items.iter_mut().for_each(|item| add_question(item, &inbox));
    }
    Ok(items)
}

/// Adds what a worker asks: the oldest question, by its subject, its id and its kind.
fn add_question(item: &mut Value, inbox: &Inbox) {
    let worker = WorkerHead::of(item).worker_id;
    let own = inbox.items.iter().find(|asked| Some(asked.worker_id.as_str()) == worker);
    if let Some(own) = own {
        let asked = [
            ("asks", own.subject.as_str().into()),
            ("requestId", own.request_id.as_str().into()),
            ("requestKind", own.kind.as_str().into()),
        ];
        json::extend(item, asked);
    }
}
