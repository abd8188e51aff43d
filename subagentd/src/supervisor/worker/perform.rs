//! Performs the actions that the rules require.

use serde::Deserialize;
use serde_json::{Value, json};
use subagent_core::model::{WorkerAction, WorkerInput};
use subagent_protocol::attachment::Attachment;
use subagent_protocol::frame::{CHANGE_AGENT, RuntimeCommand};
use subagent_protocol::lenient;
use subagent_protocol::state::QuestionKind;
use subagent_protocol::{Code, Error, Result};
use tokio::time::Instant;

use super::actor::Actor;
use super::base;
use super::questions::{client_rules, elicitation};
use super::runtime::starting;
use crate::store::turns;

/// Capability of runtimes that take attachments.
const ATTACHMENTS: &str = "attachments";
/// Reason in the journal of a runtime that ends because its worker hibernates.
const HIBERNATED: &str = "the worker was idle for as long as its idle timeout";

pub(super) async fn perform(actor: &mut Actor, action: WorkerAction) {
    match action {
        WorkerAction::StartRuntime => {
            actor.session.waking_since =
                actor.worker.sleeps().then(|| actor.session.waking_since.unwrap_or_else(Instant::now));
            starting::start_runtime(actor).await;
        }
        // Both the hello and the record of the session may report that the runtime is ready.
        WorkerAction::Prompt { turn }
            if actor.runtime.live.as_ref().is_some_and(|runtime| runtime.is_asked(turn)) => {}
        WorkerAction::Prompt { turn } => match prompt(actor, turn).await {
            Ok(Some(command)) => {
                base::record(actor, turn).await;
                actor.runtime.command(command);
            }
            Ok(None) => {}
            Err(error) => actor.apply(WorkerInput::PromptRefused { turn, error: Some(error) }).await,
        },
        WorkerAction::Cancel { turn, reason } => {
            actor.runtime.command(RuntimeCommand::Cancel { turn, reason })
        }
        WorkerAction::Answer { request_id, option_id } => {
            let asked = actor.worker.approvals.get(&request_id).map(|asked| asked.kind);
            match asked {
                Some(QuestionKind::Elicitation) => elicitation::answer(actor, request_id, option_id).await,
                // Closed, or a permission request. The runtime decides which.
                _ => client_rules::answer(actor, request_id, option_id).await,
            }
        }
        WorkerAction::Terminate => actor.runtime.terminate(&actor.worker),
        WorkerAction::Hibernate { last_turn } => {
            let reason = HIBERNATED.to_owned();
            actor.runtime.command(RuntimeCommand::Hibernate { last_turn, reason });
        }
    }
}

/// Returns the prompt of the open turn, built from its `message.sent`.
async fn prompt(actor: &Actor, turn: u64) -> Result<Option<RuntimeCommand>> {
    let Some(open) = actor.worker.turn().filter(|open| open.no == turn) else { return Ok(None) };
    if subagent_failpoint::sabotaged("turn.leak_descriptor") {
        std::mem::forget(std::fs::File::open("/dev/null"));
    }
    if subagent_failpoint::sabotaged("turn.leak_memory") {
        std::mem::forget(vec![1_u8; 1024 * 1024]);
    }
    let (id, turn_id, since) = (actor.identity.id, open.id.clone(), actor.spec.agent_since);
    let read = actor.shared.store.read(move |connection| {
        let message = turns::message(connection, id, turn)?;
        let changes = since.map_or(Ok(false), |since| turns::is_untried(connection, id, since));
        Ok((message, changes?))
    });
    let (message, changes) = read.await?;
    let message = serde_json::from_str(&message).map_err(|error| {
        Error::new(Code::StorageError, format!("the message of the turn is damaged: {error}"))
    })?;
    let PromptMessage { text, blocks, attachments } = lenient::take(message);
    let mut prompt = Vec::new();
    if !text.trim().is_empty() {
        prompt.push(json!({"type": "text", "text": text}));
    }
    prompt.extend(blocks);
    let attachments: Vec<Attachment> =
        attachments.map_or(Ok(Vec::new()), Vec::deserialize).map_err(|error| {
            Error::new(Code::StorageError, format!("the attachments of the turn are damaged: {error}"))
        })?;
    if !attachments.is_empty() && actor.runtime.lacks(ATTACHMENTS) {
        let message = "the worker's runtime is too old for attachments";
        let advice = format!("run `subagent worker restart {}`, then send again", actor.identity.worker_id);
        return Err(Error::new(Code::AttachmentNotSupported, message).recommend(advice));
    }
    // The agent may not have the change until a turn with it has ended well.
    let change =
        changes.then(|| actor.spec.change(actor.questions.client_rules(&actor.spec)).map(Box::new)).flatten();
    if change.is_some() && actor.runtime.lacks(CHANGE_AGENT) {
        let message = "the worker's runtime is too old to change its definition while it runs";
        let advice = format!("run `subagent worker restart {}`, then send again", actor.identity.worker_id);
        return Err(Error::new(Code::InvalidWorkerState, message).recommend(advice));
    }
    Ok(Some(RuntimeCommand::Prompt { turn, turn_id, prompt, attachments, change }))
}

/// A stored message, as the agent gets it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptMessage {
    #[serde(deserialize_with = "lenient::or_default")]
    text: String,
    #[serde(deserialize_with = "lenient::or_default")]
    blocks: Vec<Value>,
    attachments: Option<Value>,
}
