//! The completion of a task at work: its result is held against its schema when its last turn is
//! over, and its agent is asked once more if it does not fit; then its files are merged
//! (`writeBack`).

// Schema and text come from others: they are looked at in another process, for a bounded time, and
// never while anything is being stored. What was found is stored at once, with what follows from
// it; a daemon that dies before that leaves nothing, and the next one looks again. A merge is
// stored with its task, and a killed one can be repeated.

use serde_json::{Value, json};
use subagent_core::model::{LifecycleState, QueuePosition, Queued, RuntimeStatus, WorkerInput};
use subagent_core::task::result;
use subagent_protocol::ids::TurnId;
use subagent_protocol::{Code, Error};

use crate::store::tasks::results::Incomplete;
use crate::store::{Durability, tasks};
use crate::supervisor::shared::is_ending;
use crate::supervisor::start::environment;
use crate::supervisor::tasks::result_check::{SchemaCheckResult, look};
use crate::supervisor::turns::text;
use crate::supervisor::worker::actor::Actor;
use crate::supervisor::{entropy, worktrees};

/// What is known of a result and its schema.
enum ResultVerdict {
    /// It fits, or there is no schema.
    Fits,
    /// It does not, for this reason.
    Refused(Error),
    /// Its agent was asked once more.
    AskedAgain,
    /// Nothing is known of it yet.
    Unknown,
}

/// Does what the completion of the worker's task waits for. Says whether something was done.
pub(crate) async fn complete(actor: &mut Actor) -> bool {
    let (id, worker) = (actor.identity.id, actor.worker.clone());
    if !matches!(worker.state, LifecycleState::Idle | LifecycleState::Error) {
        return false;
    }
    let read = actor.shared.store.read(move |connection| tasks::results::incomplete(connection, id, &worker));
    let Incomplete { schema, text, writes_back, asked_again } = match read.await {
        Ok(Some(found)) => found,
        Ok(None) => return false,
        Err(error) => {
            actor.tasks.look_later(&actor.identity.worker_id, &error);
            return false;
        }
    };
    let verdict = match schema {
        None => ResultVerdict::Fits,
        Some(schema) => judge(actor, schema, text, asked_again).await,
    };
    let refused = match verdict {
        ResultVerdict::Unknown => return false,
        ResultVerdict::AskedAgain => return true,
        ResultVerdict::Refused(error) => Some(error),
        ResultVerdict::Fits if writes_back && !write_back(actor).await => return false,
        ResultVerdict::Fits => None,
    };
    let (id, worker, now) = (actor.identity.id, actor.worker.clone(), entropy::now());
    let settled = actor.shared.store.write(Durability::Full, 4, move |tx| {
        let mut added = Vec::new();
        tasks::ends::settle_judged(tx, id, &worker, refused, now, &mut added)?;
        Ok(added)
    });
    match settled.await {
        Ok(added) => {
            actor.has_stored(Vec::new(), added.last().map(|(_, seq)| *seq));
            actor.tasks.is_news();
            true
        }
        Err(error) => {
            actor.tasks.look_later(&actor.identity.worker_id, &error);
            false
        }
    }
}

/// Holds a result against its schema.
async fn judge(actor: &mut Actor, schema: Value, text: String, asked_again: bool) -> ResultVerdict {
    let mut ending = actor.shared.ending.subscribe();
    let found = tokio::select! {
        biased;
        // The next daemon looks.
        () = is_ending(&mut ending) => return ResultVerdict::Unknown,
        found = look(schema.clone(), text) => found,
    };
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            actor.tasks.look_later(&actor.identity.worker_id, &Error::new(Code::Internal, error.to_string()));
            return ResultVerdict::Unknown;
        }
    };
    subagent_failpoint::hit("task_result.before_commit");
    match found {
        SchemaCheckResult::Fits => ResultVerdict::Fits,
        SchemaCheckResult::Wrong(errors) if asked_again => {
            ResultVerdict::Refused(result::not_met(&errors, "also after a second request"))
        }
        SchemaCheckResult::Wrong(errors) if !can_be_asked(actor) => {
            ResultVerdict::Refused(result::not_met(&errors, "and the agent has forgotten its work"))
        }
        SchemaCheckResult::Wrong(errors) => {
            ask_again(actor, &result::asked_again(&errors, &schema)).await;
            ResultVerdict::AskedAgain
        }
        SchemaCheckResult::Unknown(why) => {
            let error = json!({"message": why, "path": ""});
            ResultVerdict::Refused(result::not_met(&[error], "as far as can be said"))
        }
    }
}

/// Merges the files of the task. Returns whether the outcome is stored; a failed merge is an outcome
/// too.
async fn write_back(actor: &mut Actor) -> bool {
    let mut ending = actor.shared.ending.subscribe();
    let launcher = actor.spec.launcher.name.clone();
    let stored = tokio::select! {
        biased;
        // The next daemon merges.
        () = is_ending(&mut ending) => return false,
        stored = worktrees::write_back(&actor.shared, &actor.identity.worker_id, launcher, &actor.identity.environment) => stored,
    };
    match stored {
        Ok(seq) => {
            actor.has_stored(Vec::new(), seq);
            true
        }
        Err(error) => {
            actor.tasks.look_later(&actor.identity.worker_id, &error);
            false
        }
    }
}

/// Whether an agent that knows what it did is there, or can be started.
fn can_be_asked(actor: &Actor) -> bool {
    matches!(actor.worker.link, RuntimeStatus::Adopted | RuntimeStatus::Starting | RuntimeStatus::Ready)
        || (actor.session.restores && environment::read(&actor.identity.environment).is_ok())
}

/// Queues another turn, and records in the same transaction that the agent was asked again.
async fn ask_again(actor: &mut Actor, text: &str) {
    let Ok(random) = entropy::random() else {
        actor.tasks.is_news();
        return;
    };
    let (message, input) = text::plain(text);
    let queued = Queued { turn_id: TurnId::from_random(random), message, input, sender: None };
    let input = WorkerInput::Enqueue { queued, urgency: QueuePosition::Delivered, most: usize::MAX };
    // A refusal means that it was asked already.
    let _ = actor.apply_if(input, |tx, id, _| tasks::results::ask_again(tx, id)).await;
    subagent_failpoint::hit("task_result.after_commit");
}
