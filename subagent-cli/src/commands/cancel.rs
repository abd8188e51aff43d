//! `cancel`: ends the open turn of a worker, or a session that its agent runs below its own.

use std::time::Duration;

use subagent_protocol::api::{CancelChildSession, CancelTurn};

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
    let worker = format!("/v1/workers/{}", segment(named_worker(&args.worker_id, &workspace)?));
    let (ask, kind, told) = match &args.child_session {
        Some(session) => {
            let request = CancelChildSession { session_id: session.clone() };
            let ask = Ask::change(format!("{worker}/child-sessions/cancel"), &request)?;
            (ask, "childSession.canceled", ["workerId", "sessionId"])
        }
        None => {
            let request = CancelTurn { reason: present(args.reason.clone()) };
            let ask = Ask::change(format!("{worker}/cancel"), &request)?.within(Some(LIMIT));
            (ask, "turn.canceled", ["workerId", "state"])
        }
    };
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let mut shown = text::fields(&data, &told);
    if data["forced"] == true {
        shown.push_str("\nforced: true");
    }
    Ok(Outcome::report(kind, data, shown))
}
