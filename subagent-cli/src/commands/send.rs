//! `send`: sends a message to a worker. By default it waits for the end of the turn.

mod definition;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use subagent_config::Workspace;
use subagent_protocol::Code;
use subagent_protocol::api::{IfBusy, SendTurn, Simulation, TurnAccepted};
use subagent_protocol::attachment::Attachment;
use subagent_protocol::event::EventType;
use subagent_protocol::mcp::McpServers;
use subagent_protocol::message_text::{ParagraphBreak, without_breaks};
use subagent_protocol::until::{self, Until};
use subagent_protocol::worker_name::LAST;

use crate::args::turns::{Send, wait_limit};
use crate::client::{ApiRequest, Cursor, DaemonClient, WorkerWait, block_on, segment};
use crate::commands::message::text_source::{SourcedText, TextSources};
use crate::commands::message::{attachments, shell_expansion};
use crate::commands::send::definition::DefinitionLookup;
use crate::commands::targets::named_worker;
use crate::commands::targets::resend_environment::AgentEnvironmentSource;
use crate::commands::waiting::end::{WaitEnd, code_of};
use crate::commands::waiting::status_line::{self, Live};
use crate::commands::waiting::turn_result;
use crate::context::{CliContext, present, present_path};
use crate::dialog::{Dialog, DialogOutcome, QuestionRef};
use crate::failure::{Failure, Result};
use crate::input::{self, InputObject};
use crate::output::{CliOutcome, OutputFormat, complain, explain, text};
use crate::starting;

/// How to wait after the turn was accepted.
struct WaitFor {
    until: Option<String>,
    timeout: f64,
    no_progress: f64,
}

/// What is sent, to whom, and under which key.
struct MessageToSend {
    worker_id: String,
    /// The worker is an argument: a turn that fails is an outcome, and no error.
    positional: bool,
    text: String,
    simulate: Option<Simulation>,
    if_busy: Option<IfBusy>,
    key: Option<String>,
    /// Whether a person at a terminal is asked what the agent asks.
    asks: bool,
    /// The definition that comes with it, and definitions besides those in files.
    agent: Option<String>,
    agents: Option<String>,
}

pub(super) fn run(args: Send, context: &CliContext) -> Result<CliOutcome> {
    let from_stdin = args.input.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if from_stdin && args.text_stdin {
        return Err(Failure::input("--input - and --text-stdin both read stdin; use exactly one of them"));
    }
    let input = InputObject::load(args.input.as_deref(), input::SEND, &context.typed)?;
    let positional = args.worker.is_some();
    let typed = context.typed.has("wait_timeout_seconds").then_some(args.wait_timeout_seconds);
    let wait = WaitFor {
        until: args.wait_until.or_else(|| input.text("waitUntil")),
        timeout: match positional {
            true => wait_limit(args.timeout, typed).map_or(0.0, |limit| limit.as_secs_f64()),
            false => args
                .timeout
                .or_else(|| input.seconds("waitTimeoutSeconds"))
                .unwrap_or(args.wait_timeout_seconds),
        },
        no_progress: input
            .seconds("waitNoProgressTimeoutSeconds")
            .unwrap_or(args.wait_no_progress_timeout_seconds),
    };
    let waits = input.flag("wait").unwrap_or(!args.no_wait) && !args.detach;
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
        flag: args.text,
        file: present_path(args.text_file),
        stdin: args.text_stdin,
        argument: args.message,
        takes_pipe: positional,
    };
    let SourcedText { text, from_command_line } = sources.read()?;
    let risks = if from_command_line { shell_expansion::codes(&text) } else { Vec::new() };
    if !risks.is_empty() && context.format == OutputFormat::Text {
        complain(&shell_expansion::lines(&risks, is_argument));
    }
    let debug_mode = input.flag("debugMode").unwrap_or(args.debug_mode);
    let simulate = match (args.request_approval, debug_mode) {
        (true, _) => Some(Simulation::Approval),
        (false, true) => Some(Simulation::Turn),
        (false, false) => None,
    };
    let if_busy = match present(args.if_busy).or_else(|| input.text("ifBusy")) {
        None => args.queue.then_some(IfBusy::Queue),
        Some(word) => Some(if_busy(&word)?).filter(|chosen| *chosen != IfBusy::Reject),
    };
    let attach = match args.attach.is_empty() {
        true => input.texts("attachments").into_iter().map(PathBuf::from).collect(),
        false => args.attach,
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
        asks: !args.no_ask,
        text,
        simulate,
        if_busy,
        key: present(args.turn_id),
        agent,
        agents,
    };
    let sent = context.workspace(args.cwd.cwd.as_deref()).and_then(|workspace| {
        context.check_named_config(args.config.config.as_deref())?;
        let blocks = match &args.blocks {
            Some(json) => parse_blocks(json)?,
            None => input.objects("blocks").unwrap_or_default(),
        };
        let attachments = attachments::read(&attach, &context.env.cwd)?;
        let place = (args.config.config.as_deref(), args.cwd.cwd.as_deref());
        send(message, (blocks, attachments), waits.then_some(&wait), &workspace, place, context)
    });
    let judged = positional || args.exit_status;
    let warned = !risks.is_empty() && context.format == OutputFormat::Json;
    let (accepted, waited) = match sent {
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
            Some(block_on(WaitEnd::of(&mut client, &address, &waited["matchedEvent"]))?)
        }
        _ => None,
    };
    let (kind, mut data, shown) = match waited {
        None => {
            let queued = accepted.get("position").is_some();
            let keys: &[&str] = match queued {
                true => &["workerId", "turnId", "state", "position"],
                false => &["workerId", "turnId", "state"],
            };
            let mut shown = text::fields(&accepted, keys);
            if accepted["startsAgent"] == true {
                shown.push_str("\nstartsAgent: true");
            }
            (if queued { "turn.queued" } else { "turn.accepted" }, accepted, shown)
        }
        Some(waited) => {
            let data = turn_waited(accepted, &wait, waited);
            let shown = shown(&data);
            ("turn.waited", data, shown)
        }
    };
    if !risks.is_empty() {
        data["warnings"] = json!([shell_expansion::warning(&risks)]);
    }
    let Some(end) = end else { return Ok(CliOutcome::report(kind, data, shown).of_workers(&[address])) };
    if !positional {
        return Ok(CliOutcome::Judged { kind, data, text: shown, code: end.code });
    }
    if let Some(reason) = end.reason.filter(|_| context.format == OutputFormat::Text) {
        let mut lines = vec![format!("send: {reason}")];
        lines.extend(end.result.iter().flat_map(|result| turn_result::advice(&result.data)));
        explain(&lines);
    }
    let text = end.result.as_ref().map(|result| result.message().to_owned()).unwrap_or_default();
    if context.format == OutputFormat::Text {
        return Ok(CliOutcome::Bare { document: Value::Null, text, code: end.code });
    }
    data["exitCode"] = end.code.into();
    data["result"] = end.result.map_or(Value::Null, |result| result.data);
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
    let (_, waited) = send(message, (Vec::new(), Vec::new()), Some(&wait), workspace, (None, None), context)?;
    let event = waited.map(|waited| waited["matchedEvent"].clone()).unwrap_or_default();
    let mut client = DaemonClient::new(context, workspace);
    Ok(block_on(WaitEnd::of(&mut client, worker, &event))?.reason)
}

/// Sends the message; gives what was accepted and, if it is waited for, what came.
fn send(
    message: MessageToSend,
    (blocks, attachments): (Vec<Value>, Vec<Attachment>),
    wait: Option<&WaitFor>,
    workspace: &Workspace,
    (config, cwd): (Option<&Path>, Option<&Path>),
    context: &CliContext,
) -> Result<(Value, Option<Value>)> {
    let MessageToSend { worker_id, positional, asks, text, simulate, if_busy, key, agent, agents } = message;
    let typed = named_worker(&worker_id, workspace)?.to_owned();
    let mut client = DaemonClient::new(context, workspace);
    let worker_id = if typed == LAST { block_on(client.pin_last(&[typed]))?.concat() } else { typed };
    let path = format!("/v1/workers/{}/turns", segment(&worker_id));
    let wanted =
        agent.as_deref().map(|name| DefinitionLookup { name, agents: agents.as_deref(), config, cwd });
    let change = match &wanted {
        Some(wanted) => Some(block_on(wanted.resolve(&mut client, &worker_id, context))?),
        None => None,
    };
    let turn = SendTurn {
        agent: change.map(Box::new),
        text,
        blocks,
        attachments,
        simulate,
        if_busy,
        env: None,
        mcp_servers: McpServers::default(),
    };
    let mut ask = ApiRequest::change(path, &turn)?;
    let keyed = key.is_some();
    if let Some(key) = key {
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure::argument("--turn-id takes visible ASCII characters without blanks"));
        }
        ask = ask.keyed(key);
    }
    // The form with the worker as an argument has no cursor to go on from.
    let address = worker_id.clone();
    let live = || -> Result<Option<Live>> {
        let live = Live::new(context, workspace)?;
        Ok(live.map(|live| if positional { live.named(std::slice::from_ref(&address)) } else { live }))
    };
    let first = if wait.is_some() { live()? } else { None };
    block_on(async move {
        let agent = AgentEnvironmentSource { worker_id: &worker_id, config, cwd, context };
        let accepted = agent
            .ask(&mut client, &ask, |env, mcp_servers| SendTurn { env: Some(env), mcp_servers, ..turn })
            .await?;
        let turn: TurnAccepted = serde_json::from_value(accepted.clone())
            .map_err(|error| Failure::internal(format!("the daemon's answer is incomplete: {error}")))?;
        if let Some(wanted) = wanted.filter(|_| turn.agent_definition.is_none()) {
            return Err(wanted.not_taken(&mut client, &worker_id).await);
        }
        // Nothing comes of a paused queue by itself.
        let Some(wait) = wait.filter(|_| !turn.paused) else { return Ok((accepted, None)) };
        let mut waiting = WorkerWait {
            worker_id,
            until: wait.until.clone(),
            cursor: Cursor::After(turn.accepted_event_id.to_string()),
            timeout: wait.timeout,
            no_progress: wait.no_progress,
            collect_turn: Some(turn.turn_id.clone()),
            only_turn: turn.position.map(|_| turn.turn_id.clone()),
        };
        let mut dialog = if positional { Dialog::open(context.format, asks) } else { None };
        let mut follower = DaemonClient::new(context, workspace);
        let mut next = match first {
            Some(live) if accepted["startsAgent"] == true => {
                let what = starting::of_worker(&mut client, &waiting.worker_id, (config, cwd), context).await;
                Some(live.starting(what))
            }
            first => first,
        };
        let waited = loop {
            let waited = status_line::wait(&mut client, next.take(), waiting.clone())
                .await
                .map_err(|failure| of_turn(failure, &turn))?;
            let event = &waited["matchedEvent"];
            let (Some(dialog), Some(question)) = (&mut dialog, QuestionRef::of_event(event)) else {
                break waited;
            };
            match dialog.ask_waited(&mut client, &mut follower, &question, event).await? {
                DialogOutcome::Skipped => break waited,
                DialogOutcome::Interrupted => status_line::leave(&format!("wait {}", waiting.worker_id)),
                DialogOutcome::Answered | DialogOutcome::Elsewhere => {}
            }
            waiting.cursor = Cursor::After(event["eventId"].as_str().unwrap_or_default().to_owned());
            next = live()?;
        };
        match dispatch_error(&waited).filter(|_| !positional) {
            Some(mut failure) => {
                // The same key is the same turn, for ever.
                failure.retryable &= !keyed;
                Err(of_turn(failure, &turn))
            }
            None => Ok((accepted, Some(waited))),
        }
    })
}

/// The error of a turn whose prompt did not get to the agent, or that the agent did not carry out: then the message as a
/// whole has failed, as it would have with the reference. A turn that was lost in the middle ended with an event like any
/// other.
fn dispatch_error(waited: &Value) -> Option<Failure> {
    let event = &waited["matchedEvent"];
    let error = &event["data"]["error"];
    let failed = event["type"] == EventType::TurnFailed.as_str()
        && (error["details"]["dispatched"] == "no"
            || error["code"].as_str().is_some_and(|code| code.starts_with("BACKEND_")));
    let failure: Failure = failed.then(|| serde_json::from_value(error.clone()).ok()).flatten()?;
    let failure =
        failure.with("workerId", event["workerId"].clone()).with("eventId", event["eventId"].clone());
    // What the agent said before it failed.
    Some(match &waited["assistantText"] {
        Value::Null => failure,
        text => failure.with("assistantText", text.clone()),
    })
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

/// The error of a wait, with what is needed to go on waiting: the turn itself goes on.
fn of_turn(failure: Failure, turn: &TurnAccepted) -> Failure {
    let goes_on = failure.is(Code::WaitTimeout) || failure.is(Code::WaitNoProgress);
    let failure = failure
        .with("turnId", turn.turn_id.to_string())
        .with("acceptedEventId", turn.accepted_event_id.to_string());
    if goes_on {
        let (worker, event) = (&turn.worker_id, turn.accepted_event_id);
        let command = match turn.position {
            None => format!("subagent wait --worker-id {worker} --from-event-id {event}"),
            // Turns before it end first.
            Some(_) => format!("subagent turn show {}", turn.turn_id),
        };
        return failure.with("recommendedCommand", command);
    }
    failure
}

/// The data of `turn.waited`: what was accepted, how was waited, what came.
fn turn_waited(accepted: Value, wait: &WaitFor, mut waited: Value) -> Value {
    let mut data = accepted;
    let event = waited["matchedEvent"].take();
    let asked = event["type"] == "approval.requested" || event["type"] == "elicitation.requested";
    if asked {
        data["requestId"] = event["data"]["requestId"].clone();
    } else if data.get("requestId").is_none() {
        data["requestId"] = Value::Null;
    }
    data["matchedEvent"] = event;
    data["state"] = waited["state"].take();
    data["waitUntil"] = wait.until.as_deref().unwrap_or(until::DEFAULT).into();
    data["waitTimeoutSeconds"] = wait.timeout.into();
    data["waitNoProgressTimeoutSeconds"] = wait.no_progress.into();
    let text = waited["assistantText"].take();
    data["lastAssistantMessage"] = as_sent(&text, waited["paragraphBreaks"].take());
    data["assistantText"] = text;
    data["lastAssistantChunk"] = waited["lastAssistantChunk"].take();
    if waited["assistantTextTruncated"] == true {
        data["assistantTextTruncated"] = true.into();
    }
    data
}

/// Returns the text as the agent sent it, without the line breaks between paragraphs.
fn as_sent(text: &Value, breaks: Value) -> Value {
    let breaks: Vec<ParagraphBreak> = serde_json::from_value(breaks).unwrap_or_default();
    match text.as_str().filter(|_| !breaks.is_empty()) {
        Some(text) => without_breaks(text, &breaks).into(),
        None => text.clone(),
    }
}

fn shown(data: &Value) -> String {
    let mut lines = text::fields(data, &["workerId", "turnId", "state"]);
    if data["startsAgent"] == true {
        lines.push_str("\nstartsAgent: true");
    }
    lines.push_str(&format!("\nmatchedEvent: {}", data["matchedEvent"]["type"].as_str().unwrap_or_default()));
    if let Some(request_id) = data["requestId"].as_str() {
        lines.push_str(&format!("\nrequestId: {request_id}"));
        if data["matchedEvent"]["type"] == "elicitation.requested" {
            let worker = data["workerId"].as_str().unwrap_or_default();
            lines.push_str(&format!(
                "\nanswer: subagent answer --worker-id {worker} --request {request_id} --accept|--decline|--cancel"
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
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
        let data = turn_waited(accepted(), &wait(), waited);
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
        let data = turn_waited(accepted(), &wait(), waited);
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

    #[test]
    fn a_prompt_that_the_agent_did_not_carry_out_is_an_error() {
        let event = |kind: &str, code: &str, dispatched: &str| {
            let error = json!({
                "code": code, "message": "m", "retryable": false, "details": {"dispatched": dispatched},
            });
            json!({"matchedEvent": {"type": kind, "data": {"error": error}}})
        };
        for (code, dispatched) in
            [("RUNTIME_LOST", "no"), ("STORAGE_FULL", "no"), ("BACKEND_RPC_ERROR", "maybe")]
        {
            let failure = dispatch_error(&event("turn.failed", code, dispatched)).unwrap();
            assert_eq!(&*failure.code, code);
        }
        for other in [
            event("turn.failed", "RUNTIME_LOST", "maybe"),
            event("turn.completed", "BACKEND_RPC_ERROR", "no"),
            json!({}),
        ] {
            assert_eq!(dispatch_error(&other), None);
        }
    }

    #[test]
    fn a_timeout_says_how_to_go_on() {
        let turn: TurnAccepted = serde_json::from_value(json!({
            "workerId": "w_0123456789", "turnId": "turn_0123456789", "state": "running",
            "eventId": "ev_0000000000ff", "acceptedEventId": "ev_0000000000fe",
        }))
        .unwrap();
        let failure = of_turn(Failure::new(Code::WaitTimeout, "x"), &turn);
        assert_eq!(failure.details["turnId"], "turn_0123456789");
        let command = "subagent wait --worker-id w_0123456789 --from-event-id ev_0000000000fe";
        assert_eq!(failure.details["recommendedCommand"], command);
    }
}
