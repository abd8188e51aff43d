//! `wait`: waits for an event of a worker.

pub(crate) mod many;
mod rest;

use subagent_protocol::until::Until;

use crate::args::turns::Wait;
use crate::client::{Cursor, DaemonClient, WorkerWait, block_on};
use crate::commands::targets::named_worker;
use crate::commands::targets::selected::WorkerSelector;
use crate::commands::waiting::end::{WaitEnd, code_of};
use crate::commands::waiting::status_line::{self, Live};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::input::{self, InputObject};
use crate::output::CliOutcome;

pub(super) fn run(args: Wait, context: &CliContext) -> Result<CliOutcome> {
    if !args.workers.is_empty() {
        return rest::run(args, context);
    }
    let input = InputObject::load(args.input.as_deref(), input::WAIT, &context.typed)?;
    let choice = WorkerSelector {
        controller_id: present(args.controller_id.clone()),
        selector: args.selector.selector.clone(),
    };
    if args.worker_id.len() > 1 || args.any || args.all || !choice.is_empty() {
        return many::run(args, choice, &input, context);
    }
    let Some(worker_id) = present(args.worker_id.into_iter().next()).or_else(|| input.text("workerId"))
    else {
        return Err(Failure::input(
            "no worker: name one, as in `subagent wait codex-1`, or give --worker-id, or workerId in --input",
        ));
    };
    let until = args.until.or_else(|| input.text("until"));
    // A word that is no event type is an error before the daemon is asked.
    Until::parse(until.as_deref())?;
    let after_latest = input.flag("afterLatest").unwrap_or(!args.include_history);
    let cursor = match present(args.from_event_id).or_else(|| input.text("fromEventId")) {
        Some(event_id) => Cursor::After(event_id),
        None if after_latest => Cursor::Latest,
        None => Cursor::Beginning,
    };
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let named = named_worker(&worker_id, &workspace)?.to_owned();
    let mut client = DaemonClient::new(context, &workspace);
    let address = block_on(client.pin_last(&[named]))?.concat();
    let waiting = WorkerWait {
        worker_id: address.clone(),
        until,
        cursor,
        timeout: args.timeout.or_else(|| input.seconds("timeoutSeconds")).unwrap_or(args.timeout_seconds),
        no_progress: input.seconds("noProgressTimeoutSeconds").unwrap_or(args.no_progress_timeout_seconds),
        collect_turn: None,
        only_turn: None,
    };
    let live = Live::new(context, &workspace)?;
    let waited = block_on(async {
        let event = status_line::wait(&mut client, live, waiting).await?["matchedEvent"].take();
        let end = match args.exit_status {
            true => Some(WaitEnd::of(&mut client, &address, &event).await?),
            false => None,
        };
        Ok((event, end))
    });
    let (event, end) = match waited {
        Ok(waited) => waited,
        Err(failure) if args.exit_status => return Ok(CliOutcome::failed(code_of(&failure), failure)),
        Err(failure) => return Err(failure),
    };
    let word = |key: &str| event[key].as_str().unwrap_or_default();
    let shown = format!("{}\t{}", word("eventId"), word("type"));
    Ok(match end {
        Some(end) => CliOutcome::Judged { kind: "event.matched", data: event, text: shown, code: end.code },
        None => CliOutcome::report("event.matched", event, shown),
    })
}
