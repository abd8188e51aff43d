//! `approve`: answers a permission request.

use subagent_protocol::api::Decide;

use super::named_worker;
use crate::args::turns::Approve;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::{Context, present};
use crate::failure::{Failure, Result};
use crate::input::{self, Input};
use crate::output::{Outcome, text};

pub(super) fn run(args: Approve, context: &Context) -> Result<Outcome> {
    let input = Input::load(args.input.as_deref(), input::APPROVE, &context.typed)?;
    let either = |flag: Option<String>, key: &str| present(flag).or_else(|| input.text(key));
    let Some(worker_id) = either(args.worker_id, "workerId") else {
        return Err(Failure::input("no worker: give --worker-id, or workerId in --input"));
    };
    let Some(request_id) = either(args.request, "requestId") else {
        return Err(Failure::input("no permission request: give --request, or requestId in --input"));
    };
    let decision = Decide {
        decision: either(args.decision, "decision"),
        option_id: either(args.option_id, "optionId"),
        alias: either(args.alias, "alias"),
        note: either(args.note, "note"),
    };
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    context.check_named_config(args.config.config.as_deref())?;
    let worker = segment(named_worker(&worker_id, &workspace)?);
    let ask = Ask::change(format!("/v1/workers/{worker}/approvals/{}", segment(&request_id)), &decision)?;
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = text::fields(&data, &["requestId", "decision", "state"]);
    Ok(Outcome::report("approval.decided", data, shown))
}
