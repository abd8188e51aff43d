//! A change that somebody asked for: checked, decided by the rules, and stored in one transaction.

use serde_json::Value;
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use tokio::sync::oneshot;

use super::actor::Actor;
use crate::core::{Input, Worker};
use crate::store::{Durability, OwnerCheck};
use crate::supervisor::entropy;

/// Makes the response from the new state and the events that were added.
pub(in crate::supervisor) type Respond = Box<dyn FnOnce(&Worker, &[(EventType, i64)]) -> Value + Send>;

/// A change that somebody asked for.
pub(in crate::supervisor) struct Order {
    /// The owner handle that came along; `None`: the daemon itself wants it.
    pub(in crate::supervisor) owner: Option<OwnerCheck>,
    /// The idempotency key, with what tells this request from another one.
    pub(in crate::supervisor) key: Option<(String, String)>,
    /// What the rules are asked.
    pub(in crate::supervisor) input: Input,
    /// The response, which is stored under the key.
    pub(in crate::supervisor) respond: Respond,
    /// Where the response goes.
    pub(in crate::supervisor) reply: oneshot::Sender<Result<Value>>,
}

/// What became of an order in its transaction.
enum Outcome {
    /// The result of an earlier request with the same key.
    Repeated(Value),
    /// Stored.
    Done { response: Value, added: Vec<(EventType, i64)> },
}

impl Actor {
    pub(super) async fn carry_out(&mut self, order: Order) {
        let Order { owner, key, input, respond, reply } = order;
        let result = self.decide_and_store(owner, key, input, respond).await;
        // Whoever asked may have gone; the change stands.
        let _ = reply.send(result);
    }

    async fn decide_and_store(
        &mut self,
        owner: Option<OwnerCheck>,
        key: Option<(String, String)>,
        input: Input,
        respond: Respond,
    ) -> Result<Value> {
        let step = self.worker.step(input);
        let (id, controller, cursor) = (self.id, self.controller.clone(), self.cursor);
        let now = entropy::now();
        let next =
            step.as_ref().ok().map(|step| (step.worker.clone(), step.facts.clone(), step.actions.clone()));
        let outcome = self
            .shared
            .store
            .write(Durability::Full, 4, move |tx| {
                if let Some((key, fingerprint)) = &key
                    && let Some(response) = tx.recall(key, fingerprint)?
                {
                    return Ok(Outcome::Repeated(serde_json::from_str(&response).unwrap_or(Value::Null)));
                }
                if let Some(owner) = &owner {
                    tx.check_owner(owner, &controller)?;
                }
                let step = step?;
                let added = tx.store_facts(id, &step.facts, None, now)?;
                tx.update_worker(id, &step.worker, cursor, now)?;
                let response = respond(&step.worker, &added);
                if let Some((key, fingerprint)) = &key {
                    tx.remember(key, fingerprint, &response.to_string(), now)?;
                }
                Ok(Outcome::Done { response, added })
            })
            .await?;
        match outcome {
            Outcome::Repeated(response) => Ok(response),
            Outcome::Done { response, added } => {
                if let Some((worker, facts, actions)) = next {
                    self.adopt(worker, &facts, added.last().map(|(_, seq)| *seq));
                    self.todo.extend(actions);
                }
                Ok(response)
            }
        }
    }
}
