//! `cancel`: ends the open turn of a worker.

use std::time::Duration;

use subagent_protocol::api::CancelTurn;

use super::named_worker;
use crate::args::turns::Cancel;
use crate::client::{Ask, Client, block_on, segment};
use crate::context::{Context, present};
use crate::failure::Result;
use crate::output::{Outcome, text};

/// An agent has its own time to end a turn (a launcher's `cancelGraceSeconds`) before it is ended itself.
const LIMIT: Duration = Duration::from_secs(120);

pub(super) fn run(args: &Cancel, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    context.check_named_config(args.config.config.as_deref())?;
    let path = format!("/v1/workers/{}/cancel", segment(named_worker(&args.worker_id, &workspace)?));
    let ask = Ask::change(path, &CancelTurn { reason: present(args.reason.clone()) })?.within(Some(LIMIT));
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = text::fields(&data, &["workerId", "state"]);
    Ok(Outcome::report("turn.canceled", data, shown))
}
