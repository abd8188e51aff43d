//! A result that has to meet a schema, at work: it is held against it when the last turn of its task is over, and its agent is
//! asked once more if it does not fit.
//!
//! Schema and text come from others: they are looked at beside the daemon's work, for a bounded time, and never while
//! anything is being stored. What was found is stored at once, with what follows from it; a daemon that dies before that
//! leaves nothing, and the next one looks again.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_config::result_schema::{ResultSchema, STACK_BYTES};
use subagent_protocol::ids::TurnId;
use tokio::sync::{Semaphore, oneshot};

use super::actor::Actor;
use crate::core::queue::{Queued, Urgency};
use crate::core::worker::{Link, State};
use crate::core::{Input, task_result};
use crate::store::Durability;
use crate::store::task_results::{self, Unjudged};
use crate::supervisor::shared::is_ending;
use crate::supervisor::{entropy, environment, turns};

/// So long is a result looked at, the wait for others included.
const LOOK_LIMIT: Duration = Duration::from_secs(5);
/// So many are looked at at the same time: what a schema takes for ever takes no more than that.
static LOOKS: Semaphore = Semaphore::const_new(4);

/// What came of a look.
enum Found {
    Fits,
    /// What is wrong.
    Wrong(Vec<Value>),
    /// Nobody can say, for this reason.
    Unknown(String),
}

impl Actor {
    /// Looks at the result of the worker's task, if that is what its end waits for. Says whether something was done.
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
            // The next daemon looks.
            () = is_ending(&mut ending) => return false,
            found = look(schema.clone(), text) => found,
        };
        subagent_failpoint::hit("task_result.before_commit");
        let refused = match found {
            Found::Fits => None,
            Found::Wrong(errors) if asked_again => {
                Some(task_result::not_met(&errors, "nor did it when it was asked for once more"))
            }
            Found::Wrong(errors) if !self.can_be_asked() => {
                Some(task_result::not_met(&errors, "and its agent cannot be started to say it once more"))
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

    /// Whether there is an agent, or one can be started.
    fn can_be_asked(&self) -> bool {
        self.worker.link != Link::None || environment::read(&self.environment).is_ok()
    }

    /// Its next turn, in one transaction with the note that it was asked.
    async fn ask_again(&mut self, text: &str) {
        let Ok(random) = entropy::random() else {
            self.tasks.is_news();
            return;
        };
        let (message, input) = turns::plain(text);
        let queued = Queued { turn_id: TurnId::from_random(random), message, input, sender: None };
        let input = Input::Enqueue { queued, urgency: Urgency::Delivered, most: usize::MAX };
        // Whoever was faster has asked.
        let _ = self.apply_if(input, |tx, id, _| tx.ask_again(id)).await;
        subagent_failpoint::hit("task_result.after_commit");
    }
}

/// Holds a text against a schema, on a thread with a stack of its own. One that does not come to its end is left behind.
async fn look(schema: Value, text: String) -> Found {
    let looked = async {
        let place = LOOKS.acquire().await.map_err(|error| error.to_string())?;
        let (answer, answered) = oneshot::channel();
        let look = move || {
            let found = match ResultSchema::bounded(&schema) {
                Ok(schema) => match schema.check(&text).errors {
                    errors if errors.is_empty() => Found::Fits,
                    errors => Found::Wrong(errors),
                },
                Err(problem) => Found::Unknown(format!("the schema {problem}")),
            };
            drop(place);
            // Whoever asked may not wait any more.
            let _ = answer.send(found);
        };
        let thread = std::thread::Builder::new().name("result-schema".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(look).map_err(|error| format!("it cannot be looked at: {error}"))?;
        answered.await.map_err(|_| "whoever looked at it has failed".to_owned())
    };
    match tokio::time::timeout(LOOK_LIMIT, looked).await {
        Ok(Ok(found)) => found,
        Ok(Err(why)) => Found::Unknown(why),
        Err(_) => Found::Unknown(format!("it was looked at for {} s without an end", LOOK_LIMIT.as_secs())),
    }
}
