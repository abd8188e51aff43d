//! `worker show`: one worker.

use super::contract_form::without_name_of;
use super::named_worker;
use crate::args::workers::WorkerShow;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::Context;
use crate::failure::Result;
use crate::output::{Outcome, text};

/// The order of the lines.
const KEYS: &[&str] = &[
    "workerId",
    "controllerId",
    "label",
    "launcher",
    "role",
    "cwd",
    "sessionId",
    "activeTurnId",
    "runtimePid",
    "runtimeSocket",
    "state",
    "recoveryState",
    "createdAt",
    "updatedAt",
    "stoppedAt",
    "lastError",
    "unresponsive",
    "idleTimeoutMs",
    "hibernation",
    "hibernated",
    "hibernatedAt",
    "parked",
    "onRateLimit",
    "sandbox",
    "agent",
];

pub(super) fn run(args: &WorkerShow, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let path = format!("/v1/workers/{}", segment(named_worker(args.one.address(), &workspace)?));
    let mut client = Client::new(context, &workspace);
    let mut data = block_on(async move { client.ask(&Ask::get(path)).await })?;
    without_name_of(args.one.address(), &mut data, context);
    let shown = text::fields(&data, KEYS);
    Ok(Outcome::report("worker.shown", data, shown))
}
