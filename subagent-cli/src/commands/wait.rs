//! `wait`: waits for an event of a worker.

pub(crate) mod many;
mod rest;

use std::path::PathBuf;

use clap::Args;
use subagent_protocol::event::{NoData, SeenEvent};
use subagent_protocol::until::Until;

use crate::client::{DaemonClient, WaitStart, WorkerWait, block_on, into_matched, last_worker};
use crate::command_line::flags::{CwdFlag, JsonFlag, SelectorFlag, path};
use crate::command_line::numbers::{seconds, time};
use crate::commands::targets::named_worker;
use crate::commands::targets::selected::WorkerSelector;
use crate::commands::waiting::end::{WaitEnd, code_of};
use crate::commands::waiting::status_line::{self, StatusFollower};
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::input::{InputField, InputObject, InputType, field};
use crate::output::CliOutcome;

/// Wait for an event of a worker, or for several workers
///
/// --until is a comma list of event types: turn.started, message.sent,
/// progress.message, progress.update (or progress.update:KIND),
/// approval.requested, approval.decided, elicitation.requested,
/// elicitation.answered, turn.completed, turn.failed, turn.canceled, and the types
/// of workers; `waiting_approval` stands for a question of the agent, `turn_end`
/// for that or the end of a turn (the default), `any` or * for every type.
///
/// Only events after the newest one at the time of the call count, unless a
/// cursor (--from-event-id) or --include-history is given. After `send --no-wait`
/// use its acceptedEventId as cursor: the turn may be over already. A wait for a
/// stopped worker is an error at once.
///
/// With WORKER as an argument (a name, an id, @last) the wait ends when no turn of
/// the workers is open, at once if so. It prints what each came to, and exits as
/// `run` does: the first code that is not 0. An open question ends it with 15. At a
/// terminal it has no limit.
///
/// Several workers are waited for with --worker-id more than once, -l or
/// --controller-id (those that are not stopped), with --any until something
/// happened to one of them, with --all to each. Without --until that is: no turn
/// of it is open, or its agent asks something. What is so already counts, so a
/// turn that ends before the wait begins is not missed.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    override_usage = "subagent wait [OPTIONS]\n       subagent wait [OPTIONS] <WORKER>...",
    after_help = "\
Examples:
  subagent wait codex-1 codex-2 --timeout 10m
  subagent wait --worker-id w_0123456789
  subagent wait --worker-id w_0123456789 --from-event-id ev_0000000000ff \\
      --until turn.completed,turn.failed --timeout-seconds 45 --json
  subagent wait --worker-id w_0123456789 --worker-id w_9876543210 --any
  subagent wait -l job=review --all --timeout-seconds 0 --json"
)]
pub(crate) struct WaitArgs {
    /// The workers: names, ids or their beginnings, @last
    #[arg(
        value_name = "WORKER",
        conflicts_with_all = ["worker_id", "selector", "controller_id", "until", "from_event_id",
            "after_latest", "include_history", "no_progress_timeout_seconds", "input"]
    )]
    pub(crate) workers: Vec<String>,
    /// The worker's id; can be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) worker_id: Vec<String>,
    #[command(flatten)]
    pub(crate) selector: SelectorFlag,
    /// The workers of this controller
    #[arg(long, value_name = "ID", alias = "controller")]
    pub(crate) controller_id: Option<String>,
    /// Leave questions in the inbox instead of asking
    #[arg(long)]
    pub(crate) no_ask: bool,
    /// Wait for one of them
    #[arg(long, overrides_with = "all")]
    pub(crate) any: bool,
    /// Wait for each of them (the default for several)
    #[arg(long, overrides_with = "any")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) events: WaitEventFlags,
    /// How long to wait, as 90s, 10m, 2h; 0 for no limit
    ///
    /// [default: 60s; with WORKER at a terminal no limit]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "timeout_seconds")]
    pub(crate) timeout: Option<f64>,
    /// Exit as `run` does, also with --worker-id
    #[arg(long)]
    pub(crate) exit_status: bool,
    /// How long, in seconds; 0 for no timeout
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) timeout_seconds: f64,
    /// How long without any event, in seconds; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) no_progress_timeout_seconds: f64,
    /// Read workerId, until, fromEventId, ... from structured JSON, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// Which event ends the wait.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WaitEventFlags {
    /// What to wait for, a comma list [default: turn_end]
    #[arg(long, value_name = "TYPES")]
    pub(crate) until: Option<String>,
    /// Only events after this one count
    #[arg(long, value_name = "ID")]
    pub(crate) from_event_id: Option<String>,
    /// Only events after the newest one count (the default)
    #[arg(id = "after_latest", long = "after-latest", overrides_with = "include_history")]
    pub(crate) after_latest: bool,
    /// Earlier events count too: the oldest match is returned
    #[arg(id = "include_history", long = "include-history", overrides_with = "after_latest")]
    pub(crate) include_history: bool,
}

/// The keys of `--input`, each with its flags.
pub(crate) const INPUT: &[InputField] = &[
    field("workerId", &["worker_id"], InputType::Text),
    field("until", &["until"], InputType::Text),
    field("fromEventId", &["from_event_id"], InputType::Text),
    field("afterLatest", &["after_latest", "include_history"], InputType::Bool),
    field("timeoutSeconds", &["timeout_seconds"], InputType::Seconds),
    field("noProgressTimeoutSeconds", &["no_progress_timeout_seconds"], InputType::Seconds),
];

pub(super) fn run(args: WaitArgs, context: &CliContext) -> Result<CliOutcome> {
    if !args.workers.is_empty() {
        return rest::run(args, context);
    }
    let input = InputObject::load(args.input.as_deref(), INPUT, &context.typed)?;
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
    let until = args.events.until.or_else(|| input.text("until"));
    // A word that is no event type is an error before the daemon is asked.
    Until::parse(until.as_deref())?;
    let after_latest = input.flag("afterLatest").unwrap_or(!args.events.include_history);
    let cursor = match present(args.events.from_event_id).or_else(|| input.text("fromEventId")) {
        Some(event_id) => WaitStart::After(event_id),
        None if after_latest => WaitStart::Latest,
        None => WaitStart::Beginning,
    };
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let named = named_worker(&worker_id, &workspace)?.to_owned();
    let mut client = DaemonClient::new(context, &workspace);
    let address = block_on(last_worker::pin(&mut client, &[named]))?.concat();
    let waiting = WorkerWait {
        worker_id: address.clone(),
        until,
        cursor,
        timeout: args.timeout.or_else(|| input.seconds("timeoutSeconds")).unwrap_or(args.timeout_seconds),
        no_progress: input.seconds("noProgressTimeoutSeconds").unwrap_or(args.no_progress_timeout_seconds),
        collect_turn: None,
        only_turn: None,
    };
    let live = StatusFollower::new(context, &workspace)?;
    let waited = block_on(async {
        let event = into_matched(status_line::wait(&mut client, live, waiting).await?);
        let end = match args.exit_status {
            true => Some(WaitEnd::of(&mut client, &address, &SeenEvent::of(&event)).await?),
            false => None,
        };
        Ok((event, end))
    });
    let (event, end) = match waited {
        Ok(waited) => waited,
        Err(failure) if args.exit_status => return Ok(CliOutcome::failed(code_of(&failure), failure)),
        Err(failure) => return Err(failure),
    };
    let seen: SeenEvent<'_, NoData> = SeenEvent::of(&event);
    let shown = format!("{}\t{}", seen.event_id, seen.kind);
    Ok(match end {
        Some(end) => CliOutcome::Judged { kind: "event.matched", data: event, text: shown, code: end.code },
        None => CliOutcome::report("event.matched", event, shown),
    })
}
