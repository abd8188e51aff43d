//! `wait` for several workers: named, or chosen by tags or controller.

use serde_json::Value;
use subagent_protocol::api::{WaitMany, WaitMode, WaitedFor, WorkerOutcome};
use subagent_protocol::until::Until;

use super::WaitArgs;
use crate::client::{DaemonClient, block_on, items, last_worker, wait_many};
use crate::commands::targets::selected::WorkerSelector;
use crate::commands::targets::{has_state, named_worker};
use crate::commands::waiting::end::{FoundWorker, WaitEnd, code_of};
use crate::context::{CliContext, present};
use crate::exit_code::TurnOutcome;
use crate::failure::{Failure, Result};
use crate::input::InputObject;
use crate::output::CliOutcome;

pub(super) fn run(
    args: WaitArgs,
    choice: WorkerSelector,
    input: &InputObject,
    context: &CliContext,
) -> Result<CliOutcome> {
    let until = args.events.until.or_else(|| input.text("until"));
    Until::parse(until.as_deref())?;
    choice.ask()?;
    let no_progress = input.seconds("noProgressTimeoutSeconds").unwrap_or(args.no_progress_timeout_seconds);
    if no_progress > 0.0 {
        return Err(Failure::argument("--no-progress-timeout-seconds is for a wait for one worker"));
    }
    if present(args.events.from_event_id).or_else(|| input.text("fromEventId")).is_some() {
        return Err(Failure::argument(
            "--from-event-id is the cursor of one worker; leave it out, without --until nothing is missed",
        ));
    }
    let mut named: Vec<String> = args.worker_id.into_iter().chain(input.text("workerId")).collect();
    named.retain(|worker_id| !worker_id.is_empty());
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    match (named.is_empty(), choice.is_empty()) {
        (true, true) => return Err(Failure::input("no worker: give --worker-id, -l or --controller-id")),
        (false, false) => {
            return Err(Failure::argument("give either --worker-id, or -l and --controller-id"));
        }
        (true, false) if !has_state(&workspace) => return Err(choice.none()),
        _ => {}
    }
    for worker_id in &named {
        named_worker(worker_id, &workspace)?;
    }
    let include_history = !input.flag("afterLatest").unwrap_or(!args.events.include_history);
    let timeout_seconds =
        args.timeout.or_else(|| input.seconds("timeoutSeconds")).unwrap_or(args.timeout_seconds);
    let mode = if args.any { WaitMode::Any } else { WaitMode::All };
    let mut client = DaemonClient::new(context, &workspace);
    let waited = block_on(async {
        let chosen = match named.is_empty() {
            true => choice.workers(&mut client).await?.into_iter().map(|worker| worker.worker_id).collect(),
            false => last_worker::pin(&mut client, &named).await?,
        };
        let workers =
            chosen.into_iter().map(|worker_id| WaitedFor { worker_id, from_event_id: None }).collect();
        let data =
            wait_many::wait(&mut client, WaitMany { workers, mode, until, include_history, timeout_seconds })
                .await?;
        let code = if args.exit_status { worst(&mut client, &data).await? } else { 0 };
        Ok((data, code))
    });
    let (data, code) = match waited {
        Ok(waited) => waited,
        Err(failure) if args.exit_status => return Ok(CliOutcome::failed(code_of(&failure), failure)),
        Err(failure) => return Err(failure),
    };
    let text = rows(&data);
    Ok(match args.exit_status {
        true => CliOutcome::Judged { kind: "workers.waited", data, text, code },
        false => CliOutcome::report("workers.waited", data, text),
    })
}

/// Returns the first exit code that is not 0.
pub(crate) async fn worst(client: &mut DaemonClient, data: &Value) -> Result<u8> {
    for found in items(data).iter().map(FoundWorker::of) {
        let broken = found.outcome == Some(WorkerOutcome::Error.as_str()) && found.matched_event.is_none();
        let worker_id = found.worker_id.unwrap_or_default();
        let end = WaitEnd::of(client, worker_id, &found.event()).await?;
        match if broken { TurnOutcome::Failed.code() } else { end.code } {
            0 => {}
            code => return Ok(code),
        }
    }
    Ok(0)
}

/// One line for each worker: what was found, with the event and the question that it asks.
fn rows(data: &Value) -> String {
    let row = |found: FoundWorker<'_>| {
        let (kind, request) = found.matched_event.map(|event| (event.kind, event.data.request_id)).unzip();
        let cells = [found.worker_id, found.outcome, kind, request.flatten()];
        cells.into_iter().flatten().collect::<Vec<_>>().join("\t")
    };
    items(data).iter().map(FoundWorker::of).map(row).collect::<Vec<_>>().join("\n")
}
