//! What an actor does first: finds out whether the worker has a live runtime, and goes on from there.

use subagent_core::model::{LifecycleState, Restart, RuntimeStatus, WorkerAction};
use subagent_protocol::Error;

use super::live::LiveRuntime;
use super::{connection, copied, gone, place_ends, starting};
use crate::store::turns::tool_calls;
use crate::store::workers::{self, details};
use crate::supervisor::live_runtimes::LiveToken;
use crate::supervisor::runtimes::place::RuntimeExit;
use crate::supervisor::runtimes::process::ExitWatch;
use crate::supervisor::runtimes::{journal, locks};
use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::questions;
use crate::supervisor::worker::tasks::limits;

/// Determines the state of the worker when the daemon starts.
pub(crate) async fn recover(actor: &mut Actor) {
    if actor.shared.is_copy(actor.identity.id) {
        return copied::retire_copy(actor).await;
    }
    limits::recall(actor).await;
    // A new worker, or one whose daemon died before it could start a runtime.
    let is_new = actor.runtime.incarnation == 0
        && actor.worker.state == LifecycleState::Starting
        && !actor.runtime.may_live;
    recall(actor, is_new).await;
    if is_new {
        actor.runtime.settled = true;
        starting::start_runtime(actor).await;
        return;
    }
    recall_calls(actor).await;
    if actor.runtime.place.is_placed() {
        return recover_placed(actor).await;
    }
    let lock = locks::try_lock(&actor.identity.directory, locks::RUNTIME);
    if matches!(lock, Ok(Some(_))) {
        actor.journal.is_free();
    }
    if matches!(lock, Ok(None)) {
        // Processes below these belong to the agent, even without a connection.
        actor.shared.live.set_processes(
            &actor.identity.worker_id,
            actor.runtime.stored_process,
            actor.runtime.stored_guard,
        );
    }
    match lock {
        Ok(None) if subagent_failpoint::sabotaged("gone.invent") => gone::gone(actor).await,
        Ok(None) => match LiveToken::take(&actor.shared.live, actor.runtime.place.is_placed()) {
            Ok(live) => adopt_runtime(actor, live).await,
            // The runtime continues. The actor connects when another runtime has ended.
            Err(error) => actor.journal.retry_later(error),
        },
        Ok(Some(lock)) => {
            drop(lock);
            actor.runtime.settled = true;
            if actor.runtime.may_live && begun_for_nothing(actor) {
                actor.worker.link = RuntimeStatus::Starting;
                starting::start_runtime(actor).await;
            } else if actor.runtime.may_live {
                gone::gone(actor).await;
            } else {
                resume_without_runtime(actor).await;
            }
        }
        Err(_) if !locks::directory_exists(&actor.identity.directory) && actor.runtime.may_live => {
            gone::gone(actor).await
        }
        Err(_) if !locks::directory_exists(&actor.identity.directory) => {
            actor.runtime.settled = true;
            resume_without_runtime(actor).await;
        }
        Err(error) => {
            tracing::error!(worker = %actor.identity.worker_id, %error, "a worker cannot be adopted; trying again");
            actor.journal.retry_later(error);
        }
    }
}

/// Determines the state of a placed worker. Only a stream can prove that its runtime has ended.
async fn recover_placed(actor: &mut Actor) {
    if !actor.runtime.may_live {
        actor.runtime.settled = true;
        return resume_without_runtime(actor).await;
    }
    if actor.runtime.is_here(&actor.shared.boot_id) {
        // Processes below these belong to the agent, even without a connection.
        let (runtime, guard) = (actor.runtime.stored_process, actor.runtime.stored_guard);
        actor.shared.live.set_processes(&actor.identity.worker_id, runtime, guard);
    }
    match LiveToken::take(&actor.shared.live, actor.runtime.place.is_placed()) {
        Ok(live) => adopt_runtime(actor, live).await,
        // The runtime continues. The actor connects when another runtime has ended.
        Err(error) => actor.journal.retry_later(error),
    }
}

async fn adopt_runtime(actor: &mut Actor, live: LiveToken) {
    actor.journal.is_free();
    actor.worker.link = RuntimeStatus::Adopted;
    let known = actor.runtime.stored_process.filter(|_| !actor.runtime.place.is_placed());
    let exit = known.and_then(|process| ExitWatch::of(process).ok().flatten()).map(RuntimeExit::Local);
    actor.runtime.live = Some(LiveRuntime::new(live, exit, None));
    place_ends::has_runtime(actor);
    connection::connect(actor).await;
}

/// Reads the policy and, unless the worker is new, facts about stored records: whether the
/// newest one is the guard's proof, and whether some are missing.
async fn recall(actor: &mut Actor, is_new: bool) {
    let (id, number, rules) =
        (actor.identity.id, actor.journal.cursor.number, questions::stored_rules(actor));
    let recalled = actor.shared.store.read(move |connection| {
        let records = || {
            let restores = details::details(connection, id)?.restores == Some(true);
            Ok((workers::is_proof(connection, id, number)?, workers::gaps(connection, id)?, restores))
        };
        Ok((rules(connection), (!is_new).then(records)))
    });
    let (rules, records) = match recalled.await {
        Ok(recalled) => recalled,
        Err(error) => (Err(error), None),
    };
    match rules {
        Ok(rules) => actor.questions.rules_stale = actor.questions.take_rules(rules),
        // Without readable rules, every request waits for the owner.
        Err(error) => {
            tracing::error!(worker = %actor.identity.worker_id, %error, "the rules of a worker cannot be read");
        }
    }
    match records {
        Some(Ok((proof, (gap, in_turn), restores))) => {
            actor.session.restores = restores;
            actor.runtime.clean_end = proof;
            actor.journal.gap |= gap;
            actor.journal.damaged |= in_turn;
        }
        Some(Err::<_, Error>(error)) => {
            tracing::warn!(worker = %actor.identity.worker_id, %error, "the last record cannot be looked at")
        }
        None => {}
    }
}

/// Replays the calls of the open turn for the policy.
async fn recall_calls(actor: &mut Actor) {
    let (Some(mut watch), Some(turn)) =
        (actor.questions.policy.clone(), actor.worker.turn().map(|open| open.no))
    else {
        return;
    };
    let id = actor.identity.id;
    let recalled = actor.shared.store.read(move |connection| {
        tool_calls::for_each_report(connection, id, turn, |record, body| watch.recall(record, body))?;
        Ok(watch)
    });
    match recalled.await {
        Ok(watch) => actor.questions.policy = Some(watch),
        Err(error) => {
            tracing::error!(worker = %actor.identity.worker_id, %error, "the rules do not know the calls of the open turn");
        }
    }
}

/// Returns whether the daemon died before it had started a runtime that is still needed.
pub(super) fn begun_for_nothing(actor: &Actor) -> bool {
    let unborn = actor.journal.cursor.offset == 0
        && !journal::is_begun(&actor.identity.directory, actor.journal.cursor.segment);
    let same_boot = actor.runtime.is_of_this_boot(&actor.shared.boot_id);
    unborn
        && match &actor.worker.state {
            LifecycleState::Starting => true,
            // After a reboot, its journal may be lost.
            LifecycleState::Turn(turn) => same_boot && !turn.dispatching && turn.cancel.is_none(),
            LifecycleState::Idle | LifecycleState::Local(_) | LifecycleState::Error => {
                actor.worker.restart == Restart::Begun
            }
            LifecycleState::Stopping(_) | LifecycleState::Stopped => false,
        }
}

/// Continues what was accepted. No runtime is alive, and the whole journal of the last one was
/// read.
async fn resume_without_runtime(actor: &mut Actor) {
    // The previous daemon may have died before it ended the remaining processes.
    gone::check_leftovers(actor).await;
    let unsent = matches!(&actor.worker.state, LifecycleState::Turn(turn) if !turn.dispatching);
    if (unsent && !actor.worker.holds_turn()) || actor.worker.restart == Restart::Begun {
        actor.worker.link = RuntimeStatus::Starting;
        actor.todo.push_back(WorkerAction::StartRuntime);
    }
}
