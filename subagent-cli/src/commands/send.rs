//! `send`: sends a message to a worker. By default it waits for the end of the turn.

mod definition;
mod delivery;

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_config::Workspace;
use subagent_protocol::api::{IfBusy, Simulation};
use subagent_protocol::event::{EventType, NoData, SeenEvent};
use subagent_protocol::lenient;
use subagent_protocol::message_text::{ParagraphBreak, without_breaks};
use subagent_protocol::until::{self, Until};

use crate::client::{DaemonClient, block_on, read};
use crate::command_line::flags::{ConfigFlag, CwdFlag, JsonFlag, TextFlags, path};
use crate::command_line::numbers::{seconds, time};
use crate::commands::message::text_source::{SourcedText, TextSources};
use crate::commands::message::{attachments, shell_expansion};
use crate::commands::waiting::end::{FoundWorker, WaitEnd, WaitedEvent, code_of};
use crate::commands::waiting::limit::wait_limit;
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::input::{InputField, InputObject, InputType, field};
use crate::output::{CliOutcome, OutputFormat, complain, explain, json, text};
use delivery::{MessageToSend, SentMessage, WaitFor, send};

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
pub(crate) struct SendArgs {
    /// The worker: a name, an id or its beginning, @last
    #[arg(value_name = "WORKER", conflicts_with_all = ["worker_id", "input"])]
    pub(crate) worker: Option<String>,
    /// The text; - reads stdin
    #[arg(value_name = "TEXT", requires = "worker", conflicts_with_all = ["text", "text_file", "text_stdin"])]
    pub(crate) message: Option<String>,
    /// The worker's id
    #[arg(long, value_name = "ID")]
    pub(crate) worker_id: Option<String>,
    #[command(flatten)]
    pub(crate) text: TextFlags,
    /// Simulate a permission request; the agent does not get the message
    #[arg(long)]
    pub(crate) request_approval: bool,
    #[command(flatten)]
    pub(crate) agent: SendAgentFlags,
    #[command(flatten)]
    pub(crate) content: ContentFlags,
    #[command(flatten)]
    pub(crate) waiting: SendWaitFlags,
    #[command(flatten)]
    pub(crate) debug: DebugModeFlags,
    #[command(flatten)]
    pub(crate) busy: BusyFlags,
    /// Make the command repeatable: the same key gives the same turn
    #[arg(long, value_name = "KEY")]
    pub(crate) turn_id: Option<String>,
    /// Read workerId, text, blocks, wait, ... from structured JSON, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What is sent beside the text.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ContentFlags {
    /// Further content blocks, a JSON list of objects as in the protocol
    #[arg(id = "blocks_json", long = "blocks", value_name = "JSON")]
    pub(crate) blocks: Option<String>,
    /// Attach a file; can be repeated
    ///
    /// Text, a picture or sound is sent as content, any other file as a link.
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
}

/// Whether the command waits after it has sent, for what, and how long.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SendWaitFlags {
    /// Wait for the end of the turn or a permission request (the default)
    #[arg(id = "wait_for_match", long = "wait", overrides_with = "no_wait")]
    pub(crate) wait: bool,
    /// Return as soon as the turn is accepted
    #[arg(id = "no_wait", long = "no-wait", overrides_with = "wait_for_match")]
    pub(crate) no_wait: bool,
    /// Do not wait: the same as --no-wait
    #[arg(short, long, conflicts_with_all = ["wait_for_match", "wait_until"])]
    pub(crate) detach: bool,
    /// Leave questions in the inbox instead of asking
    #[arg(long)]
    pub(crate) no_ask: bool,
    /// How long to wait, as 90s, 10m, 2h; 0 for no limit
    ///
    /// [default: 60s; with WORKER at a terminal no limit]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "wait_timeout_seconds")]
    pub(crate) timeout: Option<f64>,
    /// Exit as `run` does, also with --worker-id
    #[arg(long)]
    pub(crate) exit_status: bool,
    /// Wait for these event types instead, a comma list (see `wait --help`)
    #[arg(long, value_name = "TYPES")]
    pub(crate) wait_until: Option<String>,
    /// How long to wait, in seconds; 0 for no timeout
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) wait_timeout_seconds: f64,
    /// How long to wait without any event, in seconds; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) wait_no_progress_timeout_seconds: f64,
}

/// `--debug-mode` and its opposite.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DebugModeFlags {
    /// Simulate the turn; it completes at once
    #[arg(long, overrides_with = "no_debug_mode")]
    pub(crate) debug_mode: bool,
    /// Have the agent carry out the turn (the default)
    #[arg(long, overrides_with = "debug_mode")]
    pub(crate) no_debug_mode: bool,
}

/// What happens if the worker is busy.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct BusyFlags {
    /// If the worker is busy: reject, queue, or steer (cancel the open turn) [default: reject]
    #[arg(long, value_name = "WORD", conflicts_with = "queue")]
    pub(crate) if_busy: Option<String>,
    /// Queue the message if the worker is busy (--if-busy queue)
    #[arg(long)]
    pub(crate) queue: bool,
}

/// The keys of `--input`, each with its flags.
pub(crate) const INPUT: &[InputField] = &[
    field("workerId", &["worker_id"], InputType::Text),
    field("text", &["text"], InputType::AnyText),
    field("blocks", &["blocks_json"], InputType::Objects),
    field("attachments", &["attach"], InputType::Texts),
    field("agent", &["agent"], InputType::Text),
    field("debugMode", &["debug_mode", "no_debug_mode"], InputType::Bool),
    field("ifBusy", &["if_busy", "queue"], InputType::Text),
    field("wait", &["wait_for_match", "no_wait"], InputType::Bool),
    field("waitUntil", &["wait_until"], InputType::Text),
    field("waitTimeoutSeconds", &["wait_timeout_seconds"], InputType::Seconds),
    field("waitNoProgressTimeoutSeconds", &["wait_no_progress_timeout_seconds"], InputType::Seconds),
];

/// `--agent` and `--agents` of a message.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SendAgentFlags {
    /// Change the worker's definition: rules, mode and model (see agent list)
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// More definitions: a JSON object of names and definitions with a `prompt`
    #[arg(long, value_name = "JSON")]
    pub(crate) agents: Option<String>,
}

pub(super) fn run(args: SendArgs, context: &CliContext) -> Result<CliOutcome> {
    let from_stdin = args.input.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if from_stdin && args.text.text_stdin {
        return Err(Failure::input("--input - and --text-stdin both read stdin; use exactly one of them"));
    }
    let input = InputObject::load(args.input.as_deref(), INPUT, &context.typed)?;
    let positional = args.worker.is_some();
    let typed = context.typed.has("wait_timeout_seconds").then_some(args.waiting.wait_timeout_seconds);
    let wait = WaitFor {
        until: args.waiting.wait_until.or_else(|| input.text("waitUntil")),
        timeout: match positional {
            true => wait_limit(args.waiting.timeout, typed).map_or(0.0, |limit| limit.as_secs_f64()),
            false => args
                .waiting
                .timeout
                .or_else(|| input.seconds("waitTimeoutSeconds"))
                .unwrap_or(args.waiting.wait_timeout_seconds),
        },
        no_progress: input
            .seconds("waitNoProgressTimeoutSeconds")
            .unwrap_or(args.waiting.wait_no_progress_timeout_seconds),
    };
    let waits = input.flag("wait").unwrap_or(!args.waiting.no_wait) && !args.waiting.detach;
    // Before anything is sent: a turn is not begun for a wait that cannot be.
    Until::parse(wait.until.as_deref())?;
    let Some(worker_id) = present(args.worker.or(args.worker_id)).or_else(|| input.text("workerId")) else {
        return Err(Failure::input(
            "no worker: name one, as in `subagent send codex-1 TEXT`, or give --worker-id, or workerId in --input",
        ));
    };
    let is_argument = args.message.is_some();
    let sources = TextSources {
        input: input.text("text"),
        argument: args.message,
        takes_pipe: positional,
        ..args.text.into()
    };
    let SourcedText { text, from_command_line } = sources.read()?;
    let risks = if from_command_line { shell_expansion::codes(&text) } else { Vec::new() };
    if !risks.is_empty() && context.format == OutputFormat::Text {
        complain(&shell_expansion::lines(&risks, is_argument));
    }
    let debug_mode = input.flag("debugMode").unwrap_or(args.debug.debug_mode);
    let simulate = match (args.request_approval, debug_mode) {
        (true, _) => Some(Simulation::Approval),
        (false, true) => Some(Simulation::Turn),
        (false, false) => None,
    };
    let if_busy = match present(args.busy.if_busy).or_else(|| input.text("ifBusy")) {
        None => args.busy.queue.then_some(IfBusy::Queue),
        Some(word) => Some(if_busy(&word)?).filter(|chosen| *chosen != IfBusy::Reject),
    };
    let attach = match args.content.attach.is_empty() {
        true => input.texts("attachments").into_iter().map(PathBuf::from).collect(),
        false => args.content.attach,
    };
    let agent = present(args.agent.agent).or_else(|| input.text("agent"));
    let agents = present(args.agent.agents);
    if agents.is_some() && agent.is_none() {
        let message = "--agents gives definitions, and none of them is chosen; add --agent NAME";
        return Err(Failure::argument(message).with("flag", "--agents"));
    }
    let address = worker_id.clone();
    let message = MessageToSend {
        worker_id,
        positional,
        asks: !args.waiting.no_ask,
        text,
        simulate,
        if_busy,
        key: present(args.turn_id),
        agent,
        agents,
    };
    let sent = context.workspace(args.cwd.cwd.as_deref()).and_then(|workspace| {
        context.check_named_config(args.config.config.as_deref())?;
        let blocks = match &args.content.blocks {
            Some(json) => parse_blocks(json)?,
            None => input.objects("blocks").unwrap_or_default(),
        };
        let attachments = attachments::read(&attach, &context.env.cwd)?;
        if context.host.is_some() {
            attachments::check_all_are_sent(&attachments)?;
        }
        let place = (args.config.config.as_deref(), args.cwd.cwd.as_deref());
        send(message, (blocks, attachments), waits.then_some(&wait), &workspace, place, context)
    });
    let judged = positional || args.waiting.exit_status;
    let warned = !risks.is_empty() && context.format == OutputFormat::Json;
    let SentMessage { turn, accepted, waited } = match sent {
        Ok(sent) => sent,
        Err(failure) => {
            let failure = match warned {
                true => failure.with("warnings", vec![shell_expansion::warning(&risks)]),
                false => failure,
            };
            return if judged { Ok(CliOutcome::failed(code_of(&failure), failure)) } else { Err(failure) };
        }
    };
    let end = match &waited {
        Some(waited) if judged => {
            let mut client = DaemonClient::new(context, &context.workspace(args.cwd.cwd.as_deref())?);
            let event = FoundWorker::of(waited).event();
            Some(block_on(WaitEnd::of(&mut client, &address, &event))?)
        }
        _ => None,
    };
    let (kind, mut data, shown) = match waited {
        None => {
            let queued = turn.position.is_some();
            let keys: &[&str] = match queued {
                true => &["workerId", "turnId", "state", "position"],
                false => &["workerId", "turnId", "state"],
            };
            let mut shown = text::fields(&accepted, keys);
            if turn.starts_agent {
                shown.push_str("\nstartsAgent: true");
            }
            (if queued { "turn.queued" } else { "turn.accepted" }, accepted, shown)
        }
        Some(waited) => {
            let data = turn_waited(accepted, &wait, read(waited)?);
            let shown = shown(&data);
            ("turn.waited", data, shown)
        }
    };
    if !risks.is_empty() {
        json::extend(&mut data, [("warnings", json!([shell_expansion::warning(&risks)]))]);
    }
    let Some(end) = end else { return Ok(CliOutcome::report(kind, data, shown).of_workers(&[address])) };
    if !positional {
        return Ok(CliOutcome::Judged { kind, data, text: shown, code: end.code });
    }
    if let Some(reason) = end.reason.filter(|_| context.format == OutputFormat::Text) {
        let mut lines = vec![format!("send: {reason}")];
        lines.extend(end.result.iter().flat_map(|result| result.advice()));
        explain(&lines);
    }
    let text = end.result.as_ref().map(|result| result.message().to_owned()).unwrap_or_default();
    if context.format == OutputFormat::Text {
        return Ok(CliOutcome::Bare { document: Value::Null, text, code: end.code });
    }
    let result = end.result.map_or(Value::Null, |result| result.data());
    json::extend(&mut data, [("exitCode", end.code.into()), ("result", result)]);
    Ok(CliOutcome::Judged { kind, data, text, code: end.code })
}

/// Sends a text to a worker and waits for the end of its turn; a person at a terminal is asked what the agent asks.
/// Returns why the turn did not end well, or `None`.
///
/// # Errors
/// The daemon's; `WAIT_TIMEOUT`.
pub(crate) fn and_wait(
    worker: &str,
    text: String,
    workspace: &Workspace,
    context: &CliContext,
) -> Result<Option<String>> {
    let message = MessageToSend {
        worker_id: worker.to_owned(),
        positional: true,
        text,
        simulate: None,
        if_busy: None,
        key: None,
        asks: true,
        agent: None,
        agents: None,
    };
    let timeout = wait_limit(None, None).map_or(0.0, |limit| limit.as_secs_f64());
    let wait = WaitFor { until: None, timeout, no_progress: 0.0 };
    let sent = send(message, (Vec::new(), Vec::new()), Some(&wait), workspace, (None, None), context)?;
    let event = sent.waited.as_ref().map(|waited| FoundWorker::of(waited).event()).unwrap_or_default();
    let mut client = DaemonClient::new(context, workspace);
    Ok(block_on(WaitEnd::of(&mut client, worker, &event))?.reason)
}

/// Parses the value of `--if-busy`.
fn if_busy(word: &str) -> Result<IfBusy> {
    IfBusy::parse(word).ok_or_else(|| {
        let known: Vec<&str> = IfBusy::ALL.iter().map(|known| known.as_str()).collect();
        Failure::argument(format!("--if-busy takes {}, not {word}", known.join(", "))).with("known", known)
    })
}

/// `--blocks`: a JSON list of objects.
fn parse_blocks(text: &str) -> Result<Vec<Value>> {
    let parsed: Value = serde_json::from_str(text).map_err(|error| {
        Failure::input(format!("--blocks is not JSON: {error}")).with("error", error.to_string())
    })?;
    match parsed {
        Value::Array(blocks) if blocks.iter().all(Value::is_object) => Ok(blocks),
        Value::Array(_) => Err(Failure::input("every element of --blocks must be a JSON object")),
        _ => Err(Failure::input("--blocks must be a JSON list")),
    }
}

/// The answer to a wait, in the parts of which the document is made.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WaitAnswer {
    matched_event: Value,
    state: Value,
    assistant_text: Option<String>,
    paragraph_breaks: Vec<ParagraphBreak>,
    last_assistant_chunk: Value,
    assistant_text_truncated: bool,
}

/// The data of `turn.waited`: what was accepted, how was waited, what came.
fn turn_waited(accepted: Value, wait: &WaitFor, waited: WaitAnswer) -> Value {
    let mut data = accepted;
    let WaitAnswer { matched_event, state, assistant_text, paragraph_breaks, .. } = waited;
    let event: WaitedEvent<'_> = SeenEvent::of(&matched_event);
    if event.is_question() {
        json::extend(&mut data, [("requestId", event.data.request_id.into())]);
    } else if data.get("requestId").is_none() {
        json::extend(&mut data, [("requestId", Value::Null)]);
    }
    let message = assistant_text.as_deref().map(|text| as_sent(text, &paragraph_breaks));
    let members = [
        ("matchedEvent", matched_event),
        ("state", state),
        ("waitUntil", wait.until.as_deref().unwrap_or(until::DEFAULT).into()),
        ("waitTimeoutSeconds", wait.timeout.into()),
        ("waitNoProgressTimeoutSeconds", wait.no_progress.into()),
        ("lastAssistantMessage", message.into()),
        ("assistantText", assistant_text.into()),
        ("lastAssistantChunk", waited.last_assistant_chunk),
    ];
    json::extend(&mut data, members);
    if waited.assistant_text_truncated {
        json::extend(&mut data, [("assistantTextTruncated", true.into())]);
    }
    data
}

/// Returns the text as the agent sent it, without the line breaks between paragraphs.
fn as_sent(text: &str, breaks: &[ParagraphBreak]) -> String {
    if breaks.is_empty() { text.to_owned() } else { without_breaks(text, breaks) }
}

/// The parts of `turn.waited` that are lines.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WaitedLines<'a> {
    worker_id: &'a str,
    starts_agent: bool,
    #[serde(borrow)]
    matched_event: SeenEvent<'a, NoData>,
    request_id: Option<&'a str>,
}

fn shown(data: &Value) -> String {
    let mut lines = text::fields(data, &["workerId", "turnId", "state"]);
    let WaitedLines { worker_id, starts_agent, matched_event, request_id } = lenient::read(data);
    if starts_agent {
        lines.push_str("\nstartsAgent: true");
    }
    lines.push_str(&format!("\nmatchedEvent: {}", matched_event.kind));
    if let Some(request_id) = request_id {
        lines.push_str(&format!("\nrequestId: {request_id}"));
        if matched_event.event_type() == Some(EventType::ElicitationRequested) {
            lines.push_str(&format!(
                "\nanswer: subagent answer --worker-id {worker_id} --request {request_id} --accept|--decline|--cancel"
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use subagent_protocol::Code;

    use super::*;

    fn accepted() -> Value {
        json!({
            "workerId": "w_1", "turnId": "turn_1", "state": "running",
            "eventId": "ev_2", "acceptedEventId": "ev_2",
        })
    }

    fn wait() -> WaitFor {
        WaitFor { until: None, timeout: 60.0, no_progress: 0.0 }
    }

    #[test]
    fn a_wait_adds_exactly_its_keys() {
        let waited = json!({
            "matchedEvent": {"type": "turn.completed", "data": {}}, "state": "idle",
            "assistantText": "hello", "lastAssistantChunk": "lo",
        });
        let data = turn_waited(accepted(), &wait(), read(waited).unwrap());
        let expected = json!({
            "workerId": "w_1", "turnId": "turn_1", "state": "idle", "eventId": "ev_2", "acceptedEventId": "ev_2",
            "waitUntil": until::DEFAULT, "waitTimeoutSeconds": 60.0, "waitNoProgressTimeoutSeconds": 0.0,
            "matchedEvent": {"type": "turn.completed", "data": {}}, "requestId": null,
            "lastAssistantMessage": "hello", "lastAssistantChunk": "lo", "assistantText": "hello",
        });
        assert_eq!(data, expected);
        assert_eq!(shown(&data), "workerId: w_1\nturnId: turn_1\nstate: idle\nmatchedEvent: turn.completed");
    }

    #[test]
    fn a_permission_request_is_named() {
        let waited = json!({
            "matchedEvent": {"type": "approval.requested", "data": {"requestId": "ap_1"}},
            "state": "waiting_approval", "assistantText": null, "lastAssistantChunk": null,
        });
        let data = turn_waited(accepted(), &wait(), read(waited).unwrap());
        assert_eq!((&data["requestId"], &data["assistantText"]), (&json!("ap_1"), &Value::Null));
        assert!(shown(&data).ends_with("\nmatchedEvent: approval.requested\nrequestId: ap_1"));
    }

    #[test]
    fn blocks_are_a_list_of_objects() {
        assert_eq!(parse_blocks(r#"[{"type": "text"}]"#).unwrap(), [json!({"type": "text"})]);
        assert!(parse_blocks("[").unwrap_err().details.contains_key("error"));
        for text in ["{}", "null", "[1]", "[{}, []]"] {
            let failure = parse_blocks(text).unwrap_err();
            assert!(failure.is(Code::InvalidInput) && failure.details.is_empty(), "{failure}");
        }
    }
}
