//! Handing orders to the actors, and what belongs around them: the owner, repetitions, the facts for an error.

use subagent_protocol::event::StoredEvent;
use subagent_protocol::ids::EventId;
use subagent_protocol::{Code, Error, Result};

use super::worker::{Handle, Message, Order};
use super::{Caller, Supervisor, worker};
use crate::core::Input;
use crate::core::worker::State;

impl Supervisor {
    /// Has an order carried out by the worker's actor.
    ///
    /// # Errors
    /// The rules', the store's, `DAEMON_NOT_RUNNING`.
    pub(super) async fn order(
        &self,
        handle: &Handle,
        owner: crate::store::OwnerCheck,
        key: Option<(String, String)>,
        input: Input,
        respond: worker::Respond,
    ) -> Result<serde_json::Value> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let order = Order { owner, key: key.clone(), input: input.clone(), respond, reply };
        let sent = handle.send(Message::Order(Box::new(order)));
        if let (Ok(()), Ok(answer)) = (&sent, answer.await) {
            return answer;
        }
        let last = handle.snapshot.borrow().worker.clone();
        if last.state != State::Stopped {
            return sent.and(Err(worker::ending()));
        }
        // Its actor has returned. The rules refuse whatever is asked of it; only a repetition has a result.
        match self.recall(&key).await? {
            Some(response) => Ok(response),
            None => last.step(input).and(Ok(serde_json::Value::Null)),
        }
    }

    /// For requests that change nothing any more: whoever is not the owner is told so all the same.
    pub(super) async fn check_owner_of(&self, caller: Caller, row: &crate::store::WorkerRow) -> Result<()> {
        let Some(handle) = caller.handle else { return Ok(()) };
        let controller_id = row.controller_id.clone();
        let owns = self
            .shared
            .store
            .read(move |connection| {
                match crate::store::controllers::by_id(connection, controller_id.as_str())? {
                    Some(controller) => crate::store::controllers::verify(connection, &handle, &controller),
                    None => Ok(false),
                }
            })
            .await?;
        if owns {
            return Ok(());
        }
        Err(Error::new(
            Code::InvalidControllerHandle,
            "the owner handle in SUBAGENT_CTL_* is not the current one",
        )
        .with("controllerId", row.controller_id.as_str()))
    }

    /// What an earlier request with the same key had as its result.
    ///
    /// # Errors
    /// `IDEMPOTENCY_CONFLICT`.
    pub(super) async fn recall(&self, key: &Option<(String, String)>) -> Result<Option<serde_json::Value>> {
        let Some((key, fingerprint)) = key.clone() else { return Ok(None) };
        let found = self
            .shared
            .store
            .read(move |connection| crate::store::recall(connection, &key, &fingerprint))
            .await?;
        Ok(found.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// The newest event of a worker, in short, for an error's details.
    pub(super) async fn latest(&self, row: &crate::store::WorkerRow) -> Result<serde_json::Value> {
        let id = row.id;
        let event =
            self.shared.store.read(move |connection| crate::store::events::latest(connection, id)).await?;
        Ok(event.as_ref().map_or(serde_json::Value::Null, brief))
    }
}

/// An event in short.
pub(super) fn brief(event: &StoredEvent) -> serde_json::Value {
    serde_json::json!({
        "eventId": EventId(event.seq), "type": event.event_type, "turnId": event.turn_id, "ts": event.at,
    })
}
