//! `worker set`: mode, model and config options of a worker's agent.

use super::{chosen_options, named_worker};
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
    if chosen.options.is_empty() && chosen.forget.is_empty() && chosen.idle_timeout_ms.is_none() {
        return Err(Failure::input(
            "nothing to set: give --mode, --model, --set or --idle-timeout, or their keys in --input",
        ));
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let worker_id = named_worker(&worker_id, &workspace)?;
    let path = format!("/v1/workers/{}/options", segment(worker_id));
    // The daemon bounds it: it knows how long the agent may take.
    let ask = Ask::change(path, &chosen)?.within(None);
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = text::fields(&data, &["workerId", "applied", "chosen", "current", "idleTimeoutMs"]);
    Ok(Outcome::report("worker.set", data, shown))
}
