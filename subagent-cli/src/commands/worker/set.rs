//! `worker set`: mode, model and config options of a worker's agent.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use subagent_protocol::api::{RenameWorker, SetOptions, WorkerView};
use subagent_protocol::budget::LimitsChange;

use super::start::options;
use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::budget::BudgetFlags;
use crate::command_line::flags::start::OptionFlags;
use crate::command_line::flags::{CwdFlag, JsonFlag, path};
use crate::commands::budget;
use crate::commands::targets::named_worker;
use crate::commands::targets::selected::WorkerHead;
use crate::commands::targets::several::{ChangeReport, each};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::input::{InputField, InputObject, InputType, field};
use crate::output::{CliOutcome, json};

/// Choose mode, model and config options of a worker's agent, and its budget
///
/// They count now, also while a turn is open, and for every agent that is started for this worker later. If no agent
/// runs, the next one gets them when it starts: `applied` is false. What is not chosen is the agent's own business;
/// `--set ID=` makes it that again. An agent that was ended because it was idle is started for it; `--idle-timeout`,
/// `--on-rate-limit` and limits alone start none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker set codex-1 --model opus
  subagent worker set codex-1 --mode plan --set effort=high
  subagent worker set codex-1 --max-turns 20 --max-cost none
  subagent worker set codex-1 --name auth
  echo '{\"workerId\": \"w_0123456789\", \"configOptions\": {\"fast\": true}}' |
      subagent worker set --input - --json")]
pub(crate) struct WorkerSetArgs {
    /// The workers: names, ids, beginnings of ids, or @last
    #[arg(value_name = "WORKER", conflicts_with = "worker_id")]
    pub(crate) workers: Vec<String>,
    /// The same as WORKER
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker_id: Option<String>,
    /// Rename the worker
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) options: OptionFlags,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
    /// Read workerId, name, mode, model, configOptions, idleTimeout, onRateLimit, budget from a JSON file, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The keys of `--input`, each with its flags.
const INPUT: &[InputField] = &[
    field("workerId", &["worker_id", "workers"], InputType::Text),
    field("name", &["name"], InputType::Text),
    field("mode", &["mode"], InputType::Text),
    field("model", &["model"], InputType::Text),
    field("configOptions", &["set"], InputType::Options),
    field("idleTimeout", &["idle_timeout"], InputType::Text),
    field("onRateLimit", &["on_rate_limit"], InputType::Text),
    field(
        "budget",
        &["max_turns", "max_wall_time", "max_tokens", "max_cost", "on_budget", "on_unknown"],
        InputType::Object,
    ),
];

const REPORT: ChangeReport = ChangeReport {
    one: "worker.set",
    several: "workers.set",
    keys: &["workerId", "name", "applied", "chosen", "current", "idleTimeoutMs", "onRateLimit", "budget"],
    done: "set",
};

/// What is to be set.
struct WorkerSettingsChange {
    addresses: Vec<String>,
    name: Option<String>,
    options: SetOptions,
    budget: LimitsChange,
}

impl WorkerSettingsChange {
    fn of(args: WorkerSetArgs, context: &CliContext) -> Result<Self> {
        let input = InputObject::load(args.input.as_deref(), INPUT, &context.typed)?;
        let one = present(args.worker_id).or_else(|| input.text("workerId"));
        let addresses = if args.workers.is_empty() { Vec::from_iter(one) } else { args.workers };
        if addresses.iter().all(String::is_empty) {
            return Err(Failure::input("no worker: name one, or give workerId in --input"));
        }
        let wanted = Self {
            addresses,
            name: present(args.name).or_else(|| input.text("name")),
            options: options::typed(args.options, &input)?,
            budget: budget::typed(args.budget, &input)?,
        };
        if !wanted.sets_options() && wanted.budget.is_empty() && wanted.name.is_none() {
            return Err(Failure::input(
                "nothing to set: give --name, --mode, --model, --set, --idle-timeout, --on-rate-limit or a limit, or their keys in --input",
            ));
        }
        if wanted.name.is_some() && wanted.addresses.len() > 1 {
            return Err(Failure::input("--name renames one worker; name one"));
        }
        Ok(wanted)
    }

    /// Whether the agent has to take something.
    fn is_of_agent(&self) -> bool {
        !self.options.options.is_empty() || !self.options.forget.is_empty()
    }

    fn sets_options(&self) -> bool {
        self.is_of_agent() || self.options.idle_timeout_ms.is_some() || self.options.on_rate_limit.is_some()
    }
}

pub(super) fn run(args: WorkerSetArgs, context: &CliContext) -> Result<CliOutcome> {
    let cwd = args.cwd.cwd.clone();
    let is_new = !args.workers.is_empty() && args.input.is_some();
    let wanted = WorkerSettingsChange::of(args, context).map_err(|error| error.wrong_usage_if(is_new))?;
    let workspace = context.workspace(cwd.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    let items = block_on(each(&mut client, &wanted.addresses, &REPORT, async |client, address| {
        set(client, &wanted, named_worker(address, &workspace)?).await
    }))?;
    Ok(REPORT.outcome(&client.names(&wanted.addresses), items))
}

async fn set(client: &mut DaemonClient, wanted: &WorkerSettingsChange, address: &str) -> Result<Value> {
    // The name that was typed may be another worker's in a moment.
    let worker_id = match &wanted.name {
        None => address.to_owned(),
        Some(name) => rename(client, address, name).await?,
    };
    let path = format!("/v1/workers/{}/options", segment(&worker_id));
    // The daemon bounds it: it knows how long the agent may take.
    let ask = ApiRequest::change(path, &wanted.options)?.within(None);
    let mut data = json!({ "workerId": worker_id });
    // First, as it is the daemon's alone: an agent that refuses an option changes nothing about it.
    let budget = match wanted.budget.is_empty() {
        true => None,
        false => Some(budget::change_worker(client, &worker_id, &wanted.budget).await?),
    };
    if wanted.sets_options() {
        data = client.ask(&ask).await?;
    }
    if wanted.options.idle_timeout_ms.is_some() {
        // Null means never.
        let known = data.get("idleTimeoutMs").cloned().unwrap_or_default();
        json::extend(&mut data, [("idleTimeoutMs", known)]);
    }
    if !wanted.is_of_agent()
        && let Value::Object(members) = &mut data
    {
        // The agent has no part in an idle timeout.
        members.retain(|key, _| !matches!(key.as_str(), "applied" | "chosen" | "current"));
    }
    if let Some(budget) = budget {
        // The id, where a name was typed.
        let worker_id = WorkerHead::of(&budget).worker_id.into();
        json::extend(&mut data, [("workerId", worker_id), ("budget", budget)]);
    }
    if let Some(name) = &wanted.name {
        json::extend(&mut data, [("name", name.as_str().into())]);
    }
    Ok(data)
}

/// Gives a worker another name. Gives its id, by which it is found before and after.
async fn rename(client: &mut DaemonClient, address: &str, name: &str) -> Result<String> {
    let path = format!("/v1/workers/{}", segment(address));
    let shown: WorkerView = client.ask_for(&ApiRequest::get(path)).await?;
    let worker_id = shown.worker_id.to_string();
    let request = RenameWorker { name: name.to_owned() };
    client.ask(&ApiRequest::change(format!("/v1/workers/{}/name", segment(&worker_id)), &request)?).await?;
    Ok(worker_id)
}
