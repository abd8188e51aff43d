//! Sends the answer to an elicitation to the runtime. The content is read from the store when it is
//! sent, and kept nowhere else.

use serde_json::{Map, Value};
use subagent_core::model::WorkerInput;
use subagent_protocol::frame::RuntimeCommand;
use subagent_protocol::ids::RequestId;
use subagent_protocol::secret::Secret;
use subagent_protocol::state::ElicitationAction;

use crate::store::questions;
use crate::supervisor::worker::actor::Actor;

pub(crate) async fn answer(actor: &mut Actor, request_id: RequestId, action: Option<String>) {
    let action = match action {
        Some(word) => ElicitationAction::parse(&word),
        None => Some(ElicitationAction::Cancel),
    };
    let Some(action) = action else {
        tracing::error!(worker = %actor.identity.worker_id, %request_id, "a stored answer is not understood");
        return actor.apply(WorkerInput::AnswerRefused { request_id }).await;
    };
    // Runtimes that cannot take answers do not ask, so the request was written by another
    // program.
    if !actor.runtime.takes_elicitations() {
        return actor.apply(WorkerInput::AnswerRefused { request_id }).await;
    }
    let asked = request_id.clone();
    let stored = actor.shared.store.read(move |connection| questions::content(connection, &asked)).await;
    let content = match stored {
        // The question is closed.
        Ok(None) => return,
        Ok(Some(content)) => content,
        Err(error) => {
            tracing::error!(worker = %actor.identity.worker_id, %error, "an answer cannot be read; trying again");
            return actor.runtime.say_again_later();
        }
    };
    let content =
        content.and_then(|text| serde_json::from_str::<Map<String, Value>>(&text.0).ok()).map(Secret);
    actor.runtime.command(RuntimeCommand::AnswerElicitation { request_id, action, content });
}
