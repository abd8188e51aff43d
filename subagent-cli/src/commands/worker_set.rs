//! `worker set`: mode, model and config options of a worker's agent.

use serde_json::json;

use super::{budgets, chosen_options, named_worker};
use crate::args::options::WorkerSet;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::{Context, present};
use crate::failure::{Failure, Result};
use crate::input::{self, Input};
use crate::output::{Outcome, text};

pub(super) fn run(args: WorkerSet, context: &Context) -> Result<Outcome> {
    let input = Input::load(args.input.as_deref(), input::WORKER_SET, &context.typed)?;
    let Some(worker_id) = present(args.worker_id).or_else(|| input.text("workerId")) else {
        return Err(Failure::input("no worker: give --worker-id, or workerId in --input"));
    };
    let chosen = chosen_options::typed(args.options, &input)?;
    let budget = budgets::typed(args.budget, &input)?;
    let told = !chosen.options.is_empty() || !chosen.forget.is_empty() || chosen.idle_timeout_ms.is_some();
    if !told && budget.is_empty() {
        return Err(Failure::input(
            "nothing to set: give --mode, --model, --set, --idle-timeout or a limit, or their keys in --input",
        ));
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let worker_id = named_worker(&worker_id, &workspace)?;
    let path = format!("/v1/workers/{}/options", segment(worker_id));
    // The daemon bounds it: it knows how long the agent may take.
    let ask = Ask::change(path, &chosen)?.within(None);
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move {
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
        Ok::<_, Failure>(data)
    })?;
    let shown = text::fields(&data, &["workerId", "applied", "chosen", "current", "idleTimeoutMs", "budget"]);
    Ok(Outcome::report("worker.set", data, shown))
}
