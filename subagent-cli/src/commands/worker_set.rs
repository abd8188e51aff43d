//! `worker set`: mode, model and config options of a worker's agent.

use serde_json::json;
use subagent_protocol::api::RenameWorker;

use super::{budgets, chosen_options, named_worker};
use crate::args::options::WorkerSet;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::{Context, present};
use crate::failure::{Failure, Result};
use crate::input::{self, Input};
use crate::output::{Outcome, text};

pub(super) fn run(args: WorkerSet, context: &Context) -> Result<Outcome> {
    let input = Input::load(args.input.as_deref(), input::WORKER_SET, &context.typed)?;
    let typed = present(args.worker).or_else(|| present(args.worker_id));
    let Some(address) = typed.or_else(|| input.text("workerId")) else {
        return Err(Failure::input("no worker: name one, or give workerId in --input"));
    };
    let name = present(args.name).or_else(|| input.text("name"));
    let chosen = chosen_options::typed(args.options, &input)?;
    let budget = budgets::typed(args.budget, &input)?;
    let told = !chosen.options.is_empty() || !chosen.forget.is_empty() || chosen.idle_timeout_ms.is_some();
    if !told && budget.is_empty() && name.is_none() {
        return Err(Failure::input(
            "nothing to set: give --name, --mode, --model, --set, --idle-timeout or a limit, or their keys in --input",
        ));
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let address = named_worker(&address, &workspace)?;
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move {
        // The name that was typed may be another worker's in a moment.
        let worker_id = match &name {
            None => address.to_owned(),
            Some(name) => rename(&mut client, address, name).await?,
        };
        let worker_id = worker_id.as_str();
        let path = format!("/v1/workers/{}/options", segment(worker_id));
        // The daemon bounds it: it knows how long the agent may take.
        let ask = Ask::change(path, &chosen)?.within(None);
        let mut data = json!({ "workerId": worker_id });
        // First, as it is the daemon's alone: an agent that refuses an option changes nothing about it.
        let budget = match budget.is_empty() {
            true => None,
            false => Some(budgets::change_worker(&mut client, worker_id, &budget).await?),
        };
        if told {
            data = client.ask(&ask).await?;
        }
        if let Some(budget) = budget {
            data["budget"] = budget;
        }
        if let Some(name) = name {
            data["name"] = name.into();
        }
        Ok::<_, Failure>(data)
    })?;
    let shown =
        text::fields(&data, &["workerId", "name", "applied", "chosen", "current", "idleTimeoutMs", "budget"]);
    Ok(Outcome::report("worker.set", data, shown))
}

/// Gives a worker another name. Gives its id, by which it is found before and after.
async fn rename(client: &mut Client, address: &str, name: &str) -> Result<String> {
    let shown = client.ask(&Ask::get(format!("/v1/workers/{}", segment(address)))).await?;
    let worker_id = shown["workerId"].as_str().unwrap_or(address).to_owned();
    let request = RenameWorker { name: name.to_owned() };
    client.ask(&Ask::change(format!("/v1/workers/{}/name", segment(&worker_id)), &request)?).await?;
    Ok(worker_id)
}
