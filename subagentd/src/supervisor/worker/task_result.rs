//! Validates a task's result against its schema after the last turn, and asks the agent once more
//! if it does not fit. A separate process validates, for a limited time and outside of
//! transactions. One transaction stores the outcome, so a daemon that dies before it leaves
//! nothing.

use serde_json::json;
use subagent_protocol::ids::TurnId;
use subagent_protocol::{Code, Error};

use super::actor::Actor;
use crate::core::queue::{Queued, Urgency};
use crate::core::worker::{Link, State};
use crate::core::{Input, task_result};
use crate::store::Durability;
use crate::store::task_results::{self, Unjudged};
use crate::supervisor::result_check::{Found, look};
use crate::supervisor::shared::is_ending;
use crate::supervisor::{entropy, environment, turns};

impl Actor {
    /// Validates the result of the worker's task if its end waits for that. Returns whether
    /// something changed.
    pub(super) async fn judge_result(&mut self) -> bool {
        let (id, worker) = (self.id, self.worker.clone());
        if !matches!(worker.state, State::Idle | State::Error) {
            return false;
        }
        let read = self.shared.store.read(move |connection| task_results::unjudged(connection, id, &worker));
        let Unjudged { schema, text, asked_again } = match read.await {
            Ok(Some(found)) => found,
            Ok(None) => return false,
            Err(error) => {
                self.looks_at_tasks_later(&error);
                return false;
            }
        };
        let mut ending = self.shared.ending.subscribe();
        let found = tokio::select! {
            biased;
            // The next daemon validates it.
            () = is_ending(&mut ending) => return false,
            found = look(schema.clone(), text) => found,
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                self.looks_at_tasks_later(&Error::new(Code::Internal, error.to_string()));
                return false;
            }
        };
        subagent_failpoint::hit("task_result.before_commit");
        let refused = match found {
            Found::Fits => None,
            Found::Wrong(errors) if asked_again => {
                Some(task_result::not_met(&errors, "nor did it when it was asked for once more"))
            }
            Found::Wrong(errors) if !self.can_be_asked() => {
                Some(task_result::not_met(&errors, "and its agent no longer knows what it did"))
            }
            Found::Wrong(errors) => {
                self.ask_again(&task_result::asked_again(&errors, &schema)).await;
                return true;
            }
            Found::Unknown(why) => {
                let error = json!({"message": why, "path": ""});
                Some(task_result::not_met(&[error], "as far as can be said"))
            }
        };
        let (id, worker, now) = (self.id, self.worker.clone(), entropy::now());
        let settled = self.shared.store.write(Durability::Full, 4, move |tx| {
            let mut added = Vec::new();
            tx.settle_judged(id, &worker, refused, now, &mut added)?;
            Ok(added)
        });
        match settled.await {
            Ok(added) => {
                self.adopt(self.worker.clone(), &[], added.last().map(|(_, seq)| *seq));
                self.tasks.is_news();
                true
            }
            Err(error) => {
                self.looks_at_tasks_later(&error);
                false
            }
        }
    }

    /// Returns whether an agent that knows its work is running or can be started.
    fn can_be_asked(&self) -> bool {
        matches!(self.worker.link, Link::Adopted | Link::Starting | Link::Ready)
            || (self.restores && environment::read(&self.environment).is_ok())
    }

    /// Queues another turn, and records in the same transaction that the agent was asked again.
    async fn ask_again(&mut self, text: &str) {
        let Ok(random) = entropy::random() else {
            self.tasks.is_news();
            return;
        };
        let (message, input) = turns::plain(text);
        let queued = Queued { turn_id: TurnId::from_random(random), message, input, sender: None };
        let input = Input::Enqueue { queued, urgency: Urgency::Delivered, most: usize::MAX };
        // A refusal means that it was asked already.
        let _ = self.apply_if(input, |tx, id, _| tx.ask_again(id)).await;
        subagent_failpoint::hit("task_result.after_commit");
    }
}
