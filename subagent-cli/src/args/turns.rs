//! Flags of `send`, `watch`, `wait`, `approve` and `cancel`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::definitions::SendAgentFlags;
use super::numbers::{age, count, seconds, window};
use super::workers::Addresses;
use super::{ConfigFlag, CwdFlag, JsonFlag, SelectorFlag, path};
use crate::output::terminal::Terminal;

/// The time limit of a wait without a terminal, as in the contract.
const USUAL_LIMIT: f64 = 60.0;

/// A time in seconds, written as 90s, 10m or 2h; `0` means unlimited.
fn time(text: &str) -> Result<f64, String> {
    let seconds = age(text)?;
    Ok(Duration::from_secs(seconds).as_secs_f64())
}

/// Returns the time limit of a wait in the positional form. `seconds` is the older flag, if it was typed. At a terminal
/// there is no limit by default.
pub(crate) fn wait_limit(time: Option<f64>, seconds: Option<f64>) -> Option<Duration> {
    limit_of(time.or(seconds), || Terminal::of_stdout().is_some())
}

fn limit_of(typed: Option<f64>, at_terminal: impl FnOnce() -> bool) -> Option<Duration> {
    let limit = typed.unwrap_or_else(|| if at_terminal() { 0.0 } else { USUAL_LIMIT });
    // A limit that is too long for a clock is none.
    Duration::try_from_secs_f64(limit).ok().filter(|limit| !limit.is_zero())
}

/// Send a message to a worker and wait for the end of its turn
///
/// The text comes from exactly one of --text, --text-file, --text-stdin and the
/// `text` of --input. For complex text (quotes, backticks, dollar signs, several
/// lines) use --text-file, --text-stdin or structured JSON with --input: a shell
/// changes what it finds in --text before this command sees it.
///
/// With WORKER as an argument (a name, an id, @last) it prints the final message
/// and exits as `run` does: 0 completed, 10 failed, 15 needs an answer, ... At a
/// terminal it then waits without a limit. TEXT - reads stdin; a pipe on stdin is
/// appended to TEXT after a blank line.
///
/// The turn goes on when a wait ends early: `wait --from-event-id` with the
/// acceptedEventId goes on waiting. --wait-timeout-seconds and
/// --wait-no-progress-timeout-seconds count from the turn's acceptance.
///
/// To a worker that is busy nothing is sent (WORKER_BUSY), unless --queue has the
/// message wait for the turns before it; then the wait is for its own turn. See
/// `turn list`, `turn drop` and `queue resume`.
///
/// --debug-mode and --request-approval try a script out: the turn is played by the
/// daemon, on any idle worker, with or without an agent.
///
/// With --worker-id the exit code is 0 when the wait ends, unless --exit-status is
/// given: see the type of the matched event. A message that could not be given to the agent, and one that the agent refused or
/// died of (BACKEND_...), is an error with exit code 1; its details name the turn.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    override_usage = "subagent send [OPTIONS]\n       subagent send [OPTIONS] <WORKER> [TEXT]",
    after_help = "\
Examples:
  subagent send codex-1 'Run the tests.'
  git diff | subagent send codex-1 'Review this.' --timeout 10m
  subagent send --worker-id w_0123456789 --text 'Run the tests.' --json
  subagent send --worker-id w_0123456789 --text-file task.md --no-wait
  git diff | subagent send --worker-id w_0123456789 --text-stdin
  subagent send --input turn.json --json"
)]
pub struct Send {
    /// The worker: a name, an id or its beginning, @last
    #[arg(value_name = "WORKER", conflicts_with_all = ["worker_id", "input"])]
    pub worker: Option<String>,
    /// The text; - reads stdin
    #[arg(value_name = "TEXT", requires = "worker", conflicts_with_all = ["text", "text_file", "text_stdin"])]
    pub message: Option<String>,
    /// The worker's id
    #[arg(long, value_name = "ID")]
    pub worker_id: Option<String>,
    /// The text (for complex text use --text-file or --text-stdin)
    #[arg(long)]
    pub text: Option<String>,
    /// Read the text from a file
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub text_file: Option<PathBuf>,
    /// Read the text from stdin
    #[arg(long)]
    pub text_stdin: bool,
    /// Simulate a permission request; the agent does not get the message
    #[arg(long)]
    pub request_approval: bool,
    /// What the worker is from this turn on.
    #[command(flatten)]
    pub agent: SendAgentFlags,
    /// Further content blocks, a JSON list of objects as in the protocol
    #[arg(id = "blocks_json", long = "blocks", value_name = "JSON")]
    pub blocks: Option<String>,
    /// Attach a file; can be repeated
    ///
    /// Text, a picture or sound is sent as content, any other file as a link.
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
    /// Wait for the end of the turn or a permission request (the default)
    #[arg(id = "wait_for_match", long = "wait", overrides_with = "no_wait")]
    pub wait: bool,
    /// Return as soon as the turn is accepted
    #[arg(id = "no_wait", long = "no-wait", overrides_with = "wait_for_match")]
    pub no_wait: bool,
    /// Do not wait: the same as --no-wait
    #[arg(short, long, conflicts_with_all = ["wait_for_match", "wait_until"])]
    pub detach: bool,
    /// Leave questions in the inbox instead of asking
    #[arg(long)]
    pub no_ask: bool,
    /// How long to wait, as 90s, 10m, 2h; 0 for no limit
    ///
    /// [default: 60s; with WORKER at a terminal no limit]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "wait_timeout_seconds")]
    pub timeout: Option<f64>,
    /// Exit as `run` does, also with --worker-id
    #[arg(long)]
    pub exit_status: bool,
    /// Wait for these event types instead, a comma list (see `wait --help`)
    #[arg(long, value_name = "TYPES")]
    pub wait_until: Option<String>,
    /// How long to wait, in seconds; 0 for no timeout
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, allow_negative_numbers = true)]
    pub wait_timeout_seconds: f64,
    /// How long to wait without any event, in seconds; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, allow_negative_numbers = true)]
    pub wait_no_progress_timeout_seconds: f64,
    /// Simulate the turn; it completes at once
    #[arg(long, overrides_with = "no_debug_mode")]
    pub debug_mode: bool,
    /// Have the agent carry out the turn (the default)
    #[arg(long, overrides_with = "debug_mode")]
    pub no_debug_mode: bool,
    /// If the worker is busy: reject, queue, or steer (cancel the open turn) [default: reject]
    #[arg(long, value_name = "WORD", conflicts_with = "queue")]
    pub if_busy: Option<String>,
    /// Queue the message if the worker is busy (--if-busy queue)
    #[arg(long)]
    pub queue: bool,
    /// Make the command repeatable: the same key gives the same turn
    #[arg(long, value_name = "KEY")]
    pub turn_id: Option<String>,
    /// Read workerId, text, blocks, wait, ... from structured JSON, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub input: Option<PathBuf>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Print a worker's events
///
/// Without --json each event is one line of JSON (NDJSON). At a terminal a person reads what the events mean instead;
/// --ndjson and --raw print the lines there too. Without --follow the command prints what there is and returns; with
/// it, every new event is printed at once, until the time is over or the worker is stopped.
///
/// With WORKER as an argument (a name, an id, @last) the events of several workers come in one order. --tail and --since
/// leave out the older part of the story. -f has no time limit, except with --worker-id.
///
/// `watch WORKER -f` exits as `run` does, by the last turn of each worker: the first code that is not 0. A question that
/// is still open is 15, a turn that is still open 13. Without -f, and with --worker-id, --exit-status does so.
///
/// With --all, -l or --controller-id the events of several workers come in one order, with -f also those of workers that
/// are started later. At a terminal `watch` alone shows all workers.
#[derive(Debug, Args)]
#[command(
    override_usage = "subagent watch [OPTIONS] --worker-id <ID>\n       subagent watch [OPTIONS] <WORKER>...",
    after_help = "\
Examples:
  subagent watch codex-1 -f
  subagent watch codex-1 codex-2 --since 10m --tail 100
  subagent watch --worker-id w_0123456789
  subagent watch --worker-id w_0123456789 --follow --timeout 0
  subagent watch --worker-id w_0123456789 \\
      --from-event-id ev_0000000000ff --json
  subagent watch --all -f
  subagent watch -l job=review"
)]
pub struct WatchArgs {
    /// The workers: names, ids or their beginnings, @last
    #[arg(value_name = "WORKER", conflicts_with_all = ["worker_id", "all", "selector", "controller_id"])]
    pub workers: Vec<String>,
    /// The worker's id
    #[arg(
        long,
        value_name = "ID",
        required_unless_present_any = ["workers", "all", "selector", "controller_id"],
        conflicts_with_all = ["all", "selector", "controller_id"]
    )]
    pub worker_id: Option<String>,
    /// The events of all workers
    #[arg(long)]
    pub all: bool,
    /// `-l`, the tags that select workers.
    #[command(flatten)]
    pub selector: SelectorFlag,
    /// The events of this controller's workers
    #[arg(long, value_name = "ID", alias = "controller")]
    pub controller_id: Option<String>,
    /// Also the events of the tasks below the worker, as subagent.event
    #[arg(long)]
    pub tree: bool,
    /// Only events after this one [default: from the beginning]
    #[arg(long, value_name = "ID")]
    pub from_event_id: Option<String>,
    /// Follow new events until the time is over
    #[arg(short, long)]
    pub follow: bool,
    /// Only the newest N events so far
    #[arg(long, value_name = "N", value_parser = count)]
    pub tail: Option<u64>,
    /// Only events since this long ago, as 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub since: Option<u64>,
    /// How long to follow, as 90s, 10m, 2h; 0 for no limit
    ///
    /// [default: no limit; with --worker-id 1s]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "timeout_seconds")]
    pub timeout: Option<f64>,
    /// How long to follow, in seconds; 0 for no limit
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "1",
        value_parser = window,
        allow_negative_numbers = true,
        hide = true
    )]
    pub timeout_seconds: f64,
    /// One line of JSON for each event (the default without a terminal)
    #[arg(long)]
    pub ndjson: bool,
    /// Also show what each event was derived from
    #[arg(long)]
    pub raw: bool,
    /// At a terminal: leave what an agent asks in the inbox instead of asking
    #[arg(long)]
    pub no_ask: bool,
    /// Exit as `run` does, also with --worker-id or without -f
    #[arg(long, conflicts_with_all = ["all", "selector", "controller_id"])]
    pub exit_status: bool,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

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
pub struct Wait {
    /// The workers: names, ids or their beginnings, @last
    #[arg(
        value_name = "WORKER",
        conflicts_with_all = ["worker_id", "selector", "controller_id", "until", "from_event_id",
            "after_latest", "include_history", "no_progress_timeout_seconds", "input"]
    )]
    pub workers: Vec<String>,
    /// The worker's id; can be repeated
    #[arg(long, value_name = "ID")]
    pub worker_id: Vec<String>,
    /// `-l`, the tags that select workers.
    #[command(flatten)]
    pub selector: SelectorFlag,
    /// The workers of this controller
    #[arg(long, value_name = "ID", alias = "controller")]
    pub controller_id: Option<String>,
    /// Leave questions in the inbox instead of asking
    #[arg(long)]
    pub no_ask: bool,
    /// Wait for one of them
    #[arg(long, overrides_with = "all")]
    pub any: bool,
    /// Wait for each of them (the default for several)
    #[arg(long, overrides_with = "any")]
    pub all: bool,
    /// What to wait for, a comma list [default: turn_end]
    #[arg(long, value_name = "TYPES")]
    pub until: Option<String>,
    /// Only events after this one count
    #[arg(long, value_name = "ID")]
    pub from_event_id: Option<String>,
    /// Only events after the newest one count (the default)
    #[arg(id = "after_latest", long = "after-latest", overrides_with = "include_history")]
    pub after_latest: bool,
    /// Earlier events count too: the oldest match is returned
    #[arg(id = "include_history", long = "include-history", overrides_with = "after_latest")]
    pub include_history: bool,
    /// How long to wait, as 90s, 10m, 2h; 0 for no limit
    ///
    /// [default: 60s; with WORKER at a terminal no limit]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "timeout_seconds")]
    pub timeout: Option<f64>,
    /// Exit as `run` does, also with --worker-id
    #[arg(long)]
    pub exit_status: bool,
    /// How long, in seconds; 0 for no timeout
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, allow_negative_numbers = true)]
    pub timeout_seconds: f64,
    /// How long without any event, in seconds; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, allow_negative_numbers = true)]
    pub no_progress_timeout_seconds: f64,
    /// Read workerId, until, fromEventId, ... from structured JSON, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub input: Option<PathBuf>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Print the final message of a turn
///
/// The message is what the agent said after its last tool call; if it said nothing then, all of its text. Without an
/// argument the turn is the last one of the worker that was started or addressed last. The exit code is that of `run`:
/// 0 completed, 10 failed, 11 canceled, 12 denied, 16 refusal, ... (docs/ci.md). A turn that is still open is an error.
#[derive(Debug, Args)]
#[command(
    override_usage = "subagent result [OPTIONS]\n       subagent result [OPTIONS] <WORKER|TURN>",
    after_help = "\
Examples:
  subagent result codex-1
  subagent result turn_0123456789 --json"
)]
pub struct ResultOf {
    /// The worker (its last turn) or the turn [default: the last worker]
    #[arg(value_name = "WORKER|TURN")]
    pub address: Option<String>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Answer a permission request
///
/// Without an argument the one request that is open is answered; a worker stands for the one request that is open in
/// it and in the tasks below it. Without a decision the request is allowed once.
///
/// The first of --option-id, --alias and --decision counts. A decision is an option's alias or id, or a word like
/// allow, approve, yes, reject, deny, no.
///
/// With --always the decision becomes a rule of ours (see policy rules list) for exactly this command, path or address;
/// an agent's own option like allow_always is kept by the agent, and may mean more.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent approve
  subagent approve codex-1 --always
  subagent approve ap_0123456789 --decision reject --note 'not on main'
  subagent approve codex-1 --all --decision deny
  subagent approve --worker-id w_0123456789 --request ap_0123456789 \\
      --option-id reject_once --json")]
pub struct Approve {
    /// A worker or a request [default: the one request that is open]
    ///
    /// At a terminal, if several are open: each of them, asked in place.
    #[arg(value_name = "WORKER|REQUEST", conflicts_with_all = ["worker_id", "request_id"])]
    pub target: Option<String>,
    /// The worker
    #[arg(long, value_name = "WORKER")]
    pub worker_id: Option<String>,
    /// The id of the permission request
    #[arg(id = "request_id", long = "request", value_name = "ID")]
    pub request: Option<String>,
    /// All open permission requests of the worker
    #[arg(long, conflicts_with_all = ["request_id", "option_id", "alias", "always"])]
    pub all: bool,
    /// With --all: also those of the tasks below the worker
    #[arg(long, requires = "all")]
    pub tree: bool,
    /// allow, reject, or an option's alias or id [default: allow]
    #[arg(long, value_name = "WORD")]
    pub decision: Option<String>,
    /// Answer the same from now on: for this worker, or all of its controller
    ///
    /// Without a value: worker.
    #[arg(long, value_name = "worker|controller", num_args = 0..=1, default_missing_value = "worker")]
    pub always: Option<String>,
    /// Exactly this option
    #[arg(long, value_name = "ID")]
    pub option_id: Option<String>,
    /// The option with exactly this alias
    #[arg(long)]
    pub alias: Option<String>,
    /// A note for the journal
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Read workerId, requestId, decision, ... from structured JSON, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub input: Option<PathBuf>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Cancel the open turn of a worker
///
/// Returns when the turn has ended; open permission requests are answered with "cancelled". An agent that does not
/// end its turn in time is ended itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent cancel codex-1 --reason 'wrong branch'")]
#[command(group(ArgGroup::new("which").required(true).args(["workers", "worker_id"])))]
pub struct Cancel {
    /// The addresses of the workers.
    #[command(flatten)]
    pub workers: Addresses,
    /// Only this child session of the agent (see "childSessions" in worker show)
    ///
    /// Returns when the agent was notified.
    #[arg(long, value_name = "ID", conflicts_with = "reason")]
    pub child_session: Option<String>,
    /// Why, for the journal [default: canceled by manager]
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_limited_by_what_was_typed_and_else_without_a_terminal() {
        let table = [
            (None, false, Some(60)),
            (None, true, None),
            (Some(5.0), true, Some(5)),
            (Some(0.0), false, None),
            (Some(1e300), false, None),
        ];
        for (typed, at_terminal, expected) in table {
            let limit = limit_of(typed, || at_terminal);
            assert_eq!(limit.map(|limit| limit.as_secs()), expected, "{typed:?} {at_terminal}");
        }
    }
}
