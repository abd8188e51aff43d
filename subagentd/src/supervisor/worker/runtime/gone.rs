//! The loss of a runtime: its process ends, its journal is read to the end, and its remaining
//! processes are waited for.

use subagent_core::model::{LifecycleState, WorkerInput};
use subagent_protocol::{Code, Error};

use super::{connection, place_ends, placed};
use crate::supervisor::runtimes::ended::WorkerPlaces;
use crate::supervisor::runtimes::{locks, process, stray_processes};
use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::ingest::{self, Goal};

/// Handles the end of the runtime's process.
pub(crate) async fn on_exit(actor: &mut Actor) {
    actor.see_end();
    if let Some(mut child) = actor.runtime.live.as_mut().and_then(|runtime| runtime.child.take()) {
        // The process has ended, so this does not block.
        if let Err(error) = child.wait() {
            tracing::warn!(worker = %actor.identity.worker_id, %error, "a runtime could not be reaped");
        }
    }
    match locks::lock_within(&actor.identity.directory, locks::RUNTIME, locks::LOCK_TIMEOUT).await {
        Ok(Some(lock)) => {
            drop(lock);
            gone(actor).await;
        }
        Ok(None) => {
            tracing::error!(worker = %actor.identity.worker_id, "a runtime has ended and its lock is held; looking again");
            actor.runtime.look_again();
        }
        Err(error) => has_no_lock(actor, error).await,
    }
}

async fn has_no_lock(actor: &mut Actor, error: Error) {
    if !locks::directory_exists(&actor.identity.directory) {
        // The directory was removed, so no process holds a lock in it.
        return gone(actor).await;
    }
    tracing::error!(worker = %actor.identity.worker_id, %error, "a runtime's lock cannot be looked at");
    actor.journal.is_blocked(error);
    actor.runtime.look_again();
}

/// Reads the journal to the end and closes what was open. No runtime may be alive.
pub(crate) async fn gone(actor: &mut Actor) {
    if subagent_failpoint::sabotaged("gone.ignore") {
        actor.runtime.live = None;
        return;
    }
    if let Some(child) = actor.runtime.live.take().and_then(|mut runtime| runtime.child.take()) {
        process::reap_later(child);
    }
    if !ingest::ingest_or_retry(actor, Goal::End).await {
        return;
    }
    let lost =
        Error::new(Code::RuntimeLost, "the worker's runtime died before the options were set; try again");
    actor.settings.fail(&lost.retryable());
    // Before the event is visible, and before a restarted daemon would no longer look for it.
    subagent_failpoint::hit("gone.before_unlink");
    let _ = std::fs::remove_file(&actor.identity.socket);
    subagent_failpoint::hit("gone.before_commit");
    actor.runtime.settled = true;
    actor.runtime.may_live = false;
    if let LifecycleState::Turn(turn) = &mut actor.worker.state
        && subagent_failpoint::sabotaged("prompt.again")
    {
        turn.dispatching = false;
    }
    // The unreadable part may have contained the record of a prompt, as after a reboot.
    let rebooted = !actor.runtime.is_of_this_boot(&actor.shared.boot_id)
        || actor.journal.damaged
        || (actor.runtime.place.is_journal_lost() && !actor.runtime.clean_end);
    let clean = actor.runtime.clean_end;
    let place = if clean { None } else { actor.runtime.place.end_of(actor.runtime.incarnation).await };
    actor.apply(WorkerInput::RuntimeGone { clean, rebooted, place }).await;
    subagent_failpoint::hit("gone.after_commit");
    check_leftovers(actor).await;
    if let Some(cooldown) = actor.shared.setup.restart_cooldown
        && !actor.worker.sleeps()
        && !actor.tasks.is_task()
    {
        actor.runtime.revivals.plan(cooldown);
    }
}

/// Reports a worker as stopped, and its guard as gone, only after all its processes have ended.
pub(crate) async fn check_leftovers(actor: &mut Actor) {
    actor.runtime.leftovers.at = None;
    if actor.runtime.live.is_some() {
        return place_ends::end_superseded(actor);
    }
    if actor.stops() {
        // What it would answer is not wanted any more.
        actor.runtime.queue.forget_answer();
        if !place_ends::have_ended(actor, WorkerPlaces::Next) {
            return;
        }
    }
    if is_guard_gone(actor) {
        if actor.runtime.place.is_placed() {
            // The stream has brought the journal that a failed start may have begun.
            ingest::ingest_or_retry(actor, Goal::End).await;
        }
        if !place_ends::have_ended(actor, WorkerPlaces::Earlier) {
            return;
        }
        end_strays(actor).await;
        // Only now: until then, remaining processes belong to the agent, not to the owner.
        actor.shared.live.set_guard(&actor.identity.worker_id, None);
        if !matches!(actor.worker.state, LifecycleState::Stopping(_)) {
            return;
        }
        let has_worktree = actor.spec.has_worktree && !actor.shared.is_copy(actor.identity.id);
        if !has_worktree || actor.worktree.end(&actor.shared, &actor.identity).await {
            actor.apply(WorkerInput::NothingLeft).await;
        }
    } else {
        let pause = actor.runtime.place.pause_of_proof();
        actor.runtime.leftovers.again(pause);
    }
}

/// Returns whether no process of the agent is left, as far as is proved.
fn is_guard_gone(actor: &mut Actor) -> bool {
    if actor.runtime.place.is_placed() {
        // The newest record is the guard's proof, so the place need not be reached.
        return actor.runtime.clean_end || placed::is_guard_gone(actor);
    }
    match locks::try_lock(&actor.identity.directory, locks::GUARD) {
        Ok(lock) => lock.is_some(),
        Err(_) => !locks::directory_exists(&actor.identity.directory),
    }
}

/// Ends processes of the last runtime and its guard, unless the guard proved that there are
/// none. Call it while both locks are free, and before the next runtime, whose processes have
/// another marker.
pub(crate) async fn end_strays(actor: &mut Actor) {
    let incarnation = actor.runtime.incarnation;
    if incarnation == 0 {
        return;
    }
    let is_swept = actor.runtime.swept || actor.runtime.clean_end;
    // A client that has outlived its daemon may have started a container since.
    if !is_swept || actor.stops() {
        actor.runtime.place.end_containers(incarnation).await;
    }
    if is_swept {
        return;
    }
    actor.runtime.swept = true;
    if !actor.runtime.is_here(&actor.shared.boot_id) {
        // After a reboot there are none. On another machine they cannot be reached from here.
        return;
    }
    let killed = stray_processes::end(stray_processes::marker(
        actor.identity.worker_id.as_str(),
        actor.runtime.incarnation,
    ))
    .await;
    if killed > 0 {
        tracing::warn!(worker = %actor.identity.worker_id, killed, "processes that runtime and guard left were ended");
    }
}

pub(crate) async fn reconnect(actor: &mut Actor) {
    if let Some(runtime) = &mut actor.runtime.live {
        runtime.reconnect_at = None;
    }
    if actor.runtime.place.is_placed() {
        // The stream brings the proof, if the runtime has ended.
        return connection::connect(actor).await;
    }
    match locks::try_lock(&actor.identity.directory, locks::RUNTIME) {
        Ok(Some(lock)) => {
            drop(lock);
            on_exit(actor).await;
        }
        Ok(None) => connection::connect(actor).await,
        Err(error) => has_no_lock(actor, error).await,
    }
}
