//! A change that somebody asked for: checked, decided by the rules, and stored in one transaction.

use serde_json::Value;
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use tokio::sync::oneshot;

use super::actor::Actor;
use crate::core::{Input, Worker};
use crate::store::{Durability, Once, OwnerCheck};
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
        let (before, after) = points(&input);
        subagent_failpoint::hit(before);
        let step = self.worker.step(input);
        let (id, controller, cursor) = (self.id, self.controller.clone(), self.cursor);
        let now = entropy::now();
        let next =
            step.as_ref().ok().map(|step| (step.worker.clone(), step.facts.clone(), step.actions.clone()));
        let (response, added, once) = self
            .shared
            .store
            .write(Durability::Full, 4, move |tx| {
                let mut added = Vec::new();
                let (response, once) = tx.once(key.as_ref(), now, |tx| {
                    if let Some(owner) = &owner {
                        tx.check_owner(owner, &controller)?;
                    }
                    let step = step?;
                    added = tx.store_facts(id, &step.facts, None, now)?;
                    tx.update_worker(id, &step.worker, cursor, now)?;
                    Ok(respond(&step.worker, &added))
                })?;
                Ok((response, added, once))
            })
            .await?;
        subagent_failpoint::hit(after);
        if let (Once::Now, Some((worker, facts, actions))) = (once, next) {
            self.adopt(worker, &facts, added.last().map(|(_, seq)| *seq));
            self.todo.extend(actions);
        }
        Ok(response)
    }
}

/// The failpoints around the commit of an order.
const fn points(input: &Input) -> (&'static str, &'static str) {
    match input {
        Input::Decide { .. } => ("decision.before_commit", "decision.after_commit"),
        Input::Cancel { .. } => ("cancel.before_commit", "cancel.after_commit"),
        Input::Stop => ("stop.before_commit", "stop.after_commit"),
        Input::Restart { .. } => ("restart.before_commit", "restart.after_commit"),
        _ => ("turn.before_commit", "turn.after_commit"),
    }
}
