//! Sends a message and waits for the end of its turn.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::api::{IfBusy, SendTurn, Simulation, TurnAccepted};
use subagent_protocol::attachment::Attachment;
use subagent_protocol::event::{EventType, SeenEvent};
use subagent_protocol::mcp::McpServers;
use subagent_protocol::worker_name::LAST;
use subagent_protocol::{Code, lenient};

use super::definition::DefinitionLookup;
use crate::client::{ApiRequest, DaemonClient, WaitStart, WorkerWait, block_on, last_worker, segment, view};
use crate::commands::targets::named_worker;
use crate::commands::targets::resend_environment::AgentEnvironmentSource;
use crate::commands::waiting::end::FoundWorker;
use crate::commands::waiting::status_line::{self, StatusFollower};
use crate::context::CliContext;
use crate::dialog::{Dialog, DialogOutcome, QuestionRef};
use crate::failure::{Failure, Result};
use crate::starting;

/// How to wait after the turn was accepted.
pub(super) struct WaitFor {
    pub(super) until: Option<String>,
    pub(super) timeout: f64,
    pub(super) no_progress: f64,
}

/// What is sent, to whom, and under which key.
pub(super) struct MessageToSend {
    pub(super) worker_id: String,
    /// The worker is an argument: a turn that fails is an outcome, and no error.
    pub(super) positional: bool,
    pub(super) text: String,
    pub(super) simulate: Option<Simulation>,
    pub(super) if_busy: Option<IfBusy>,
    pub(super) key: Option<String>,
    /// Whether a person at a terminal is asked what the agent asks.
    pub(super) asks: bool,
    /// The definition that comes with it, and definitions besides those in files.
    pub(super) agent: Option<String>,
    pub(super) agents: Option<String>,
}

/// A message that was sent: what was accepted, also as it came, and what came of it if it was waited for.
pub(super) struct SentMessage {
    pub(super) turn: TurnAccepted,
    pub(super) accepted: Value,
    pub(super) waited: Option<Value>,
}

/// Sends the message, and waits for what comes of it.
pub(super) fn send(
    message: MessageToSend,
    (blocks, attachments): (Vec<Value>, Vec<Attachment>),
    wait: Option<&WaitFor>,
    workspace: &Workspace,
    (config, cwd): (Option<&Path>, Option<&Path>),
    context: &CliContext,
) -> Result<SentMessage> {
    let MessageToSend { worker_id, positional, asks, text, simulate, if_busy, key, agent, agents } = message;
    let typed = named_worker(&worker_id, workspace)?.to_owned();
    let mut client = DaemonClient::new(context, workspace);
    let worker_id =
        if typed == LAST { block_on(last_worker::pin(&mut client, &[typed]))?.concat() } else { typed };
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
    let live = || -> Result<Option<StatusFollower>> {
        let live = StatusFollower::new(context, workspace)?;
        Ok(live.map(|live| if positional { live.named(std::slice::from_ref(&address)) } else { live }))
    };
    let first = if wait.is_some() { live()? } else { None };
    block_on(async move {
        let agent = AgentEnvironmentSource { worker_id: &worker_id, config, cwd, context };
        let accepted = agent
            .ask(&mut client, &ask, |env, mcp_servers| SendTurn { env: Some(env), mcp_servers, ..turn })
            .await?;
        let turn: TurnAccepted = view(&accepted)?;
        if let Some(wanted) = wanted.filter(|_| turn.agent_definition.is_none()) {
            return Err(wanted.not_taken(&mut client, &worker_id).await);
        }
        // Nothing comes of a paused queue by itself.
        let Some(wait) = wait.filter(|_| !turn.paused) else {
            return Ok(SentMessage { turn, accepted, waited: None });
        };
        let mut waiting = WorkerWait {
            worker_id,
            until: wait.until.clone(),
            cursor: WaitStart::After(turn.accepted_event_id.to_string()),
            timeout: wait.timeout,
            no_progress: wait.no_progress,
            collect_turn: Some(turn.turn_id.clone()),
            only_turn: turn.position.map(|_| turn.turn_id.clone()),
        };
        let mut dialog = if positional { Dialog::open(context.format, asks) } else { None };
        let mut follower = client.another();
        let mut next = match first {
            Some(live) if turn.starts_agent => {
                let what = starting::of_worker(&mut client, &waiting.worker_id, (config, cwd), context).await;
                Some(live.starting(what))
            }
            first => first,
        };
        let waited = loop {
            let waited = status_line::wait(&mut client, next.take(), waiting.clone())
                .await
                .map_err(|failure| of_turn(failure, &turn))?;
            let event = FoundWorker::of(&waited).event();
            let (Some(dialog), Some(question)) = (&mut dialog, QuestionRef::of_seen(&event)) else {
                break waited;
            };
            let event_id = event.event_id.to_owned();
            match dialog.ask_waited(&mut client, &mut follower, &question, Some(event_id.clone())).await? {
                DialogOutcome::Skipped => break waited,
                DialogOutcome::Interrupted => status_line::leave(&format!("wait {}", waiting.worker_id)),
                DialogOutcome::Answered | DialogOutcome::Elsewhere => {}
            }
            waiting.cursor = WaitStart::After(event_id);
            next = live()?;
        };
        match dispatch_error(&waited).filter(|_| !positional) {
            Some(mut failure) => {
                // The same key is the same turn, for ever.
                failure.retryable &= !keyed;
                Err(of_turn(failure, &turn))
            }
            None => Ok(SentMessage { turn, accepted, waited: Some(waited) }),
        }
    })
}

/// The error of a turn whose prompt did not get to the agent, or that the agent did not carry out: then the message as a
/// whole has failed, as it would have with the reference. A turn that was lost in the middle ended with an event like any
/// other.
fn dispatch_error(waited: &Value) -> Option<Failure> {
    /// The data of a turn that failed.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct FailedTurn {
        error: Option<Failure>,
    }
    /// What ended the wait, and what the agent said before.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct FailedWait<'a> {
        #[serde(borrow)]
        matched_event: SeenEvent<'a, FailedTurn>,
        assistant_text: Option<&'a str>,
    }
    let FailedWait { matched_event: event, assistant_text } = lenient::read(waited);
    if event.event_type() != Some(EventType::TurnFailed) {
        return None;
    }
    let is_dispatch = |failure: &Failure| {
        failure.facts().dispatched.0 == Some("no") || failure.code.starts_with("BACKEND_")
    };
    let failure = event.data.error.filter(is_dispatch)?;
    let failure = failure.with("workerId", event.worker_id).with("eventId", event.event_id);
    Some(match assistant_text {
        Some(text) => failure.with("assistantText", text),
        None => failure,
    })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
