//! How a worker gets a new runtime. The rules decide what follows from a failure.

use std::time::Duration;

use subagent_core::model::{LifecycleState, RuntimeStatus, WorkerAction, WorkerInput};
use subagent_protocol::{Code, Error, Result};

use super::incarnation::{begin_incarnation, killed_at_start, start_failed};
use super::live::LiveRuntime;
use super::{connection, gone, submitting};
use crate::supervisor::live_runtimes::LiveToken;
use crate::supervisor::runtimes::locks;
use crate::supervisor::runtimes::place::RuntimeExit;
use crate::supervisor::runtimes::process::{self, ExitWatch};
use crate::supervisor::runtimes::queued::PlaceTurn;
use crate::supervisor::start::{environment, program};
use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::ingest::{self, Goal};
use crate::supervisor::worker::message::RevivalOutcome;
use crate::supervisor::worker::worktree::OwnWorktree;

/// Time limit from a runtime's start until it listens.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that processes of an earlier agent may delay the start of the next runtime.
const LEFTOVERS_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a runtime. The rules decide what follows from a failure.
pub(crate) async fn start_runtime(actor: &mut Actor) {
    if actor.runtime.live.is_some() {
        // The old runtime still exists. Its hello or its end decides.
        return;
    }
    if actor.spec.has_worktree && actor.worktree.is_awaited(&actor.shared, &actor.identity) {
        return;
    }
    let before = actor.runtime.incarnation;
    let started = match actor.runtime.place.is_placed() {
        true => submitting::try_start(actor).await,
        false => try_start_runtime(actor).await,
    };
    if let Err(error) = started {
        if actor.runtime.incarnation != before
            && let Err(error) = ingest::ingest(actor, Goal::End).await
        {
            // The journal contains only its header: the runtime had not started anything.
            tracing::warn!(worker = %actor.identity.worker_id, %error, "a failed runtime's journal is not read");
        }
        actor.runtime.may_live = false;
        actor.runtime.live = None;
        // A runtime that was killed during its start may have created the socket.
        let _ = std::fs::remove_file(&actor.identity.socket);
        let error = actor.identity.located(error, &actor.spec.launcher.name);
        actor.apply(WorkerInput::SpawnFailed { error }).await;
        if actor.runtime.fenced.is_none() && actor.runtime.place.queue_kind().is_some() {
            // The place of the failed runtime.
            gone::check_leftovers(actor).await;
        }
    }
}

async fn try_start_runtime(actor: &mut Actor) -> Result<()> {
    let live = LiveToken::take(&actor.shared.live, actor.runtime.place.is_placed())?;
    locks::make_directory(&actor.identity.directory)?;
    let held = |what: &str| {
        Error::new(Code::StopIncomplete, format!("{what} of this worker still runs; try again in a moment"))
            .retryable()
    };
    let lock = locks::lock_within(&actor.identity.directory, locks::RUNTIME, locks::LOCK_TIMEOUT).await?;
    let lock = lock.ok_or_else(|| held("an earlier runtime"))?;
    let guard_lock = locks::lock_within(&actor.identity.directory, locks::GUARD, LEFTOVERS_TIMEOUT).await?;
    let guard_lock = guard_lock.ok_or_else(|| held("what an earlier agent left"))?;
    gone::end_strays(actor).await;
    let kept = environment::read(&actor.identity.environment)?;
    let program = program::find(&actor.spec.launcher, &actor.identity.cwd, &kept.variables)?;
    let start = begin_incarnation(actor, program, kept).await?;
    let failed = |error: std::io::Error| start_failed(&actor.shared.setup.runtime_program, &error);
    let started =
        process::start(&actor.shared.setup.runtime_program, &start, lock, guard_lock).map_err(failed)?;
    subagent_failpoint::hit("spawn.after");
    let process = started.process;
    actor.runtime.stored_process = Some(process);
    // Without a watch, the lock reports the end.
    let exit = ExitWatch::of(process).ok().flatten();
    let listening = tokio::task::spawn_blocking(move || started.wait_until_listening());
    let child = match tokio::time::timeout(LISTEN_TIMEOUT, listening).await {
        Ok(Ok(Err(error))) if error.kind() == std::io::ErrorKind::Interrupted => {
            return Err(killed_at_start());
        }
        Ok(Ok(result)) => result.map_err(failed)?,
        Ok(Err(error)) => return Err(failed(std::io::Error::other(error))),
        Err(_) => {
            if let Some(exit) = &exit {
                exit.kill();
            }
            return Err(failed(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                "it did not listen in time",
            )));
        }
    };
    actor.runtime.live = Some(LiveRuntime::new(live, exit.map(RuntimeExit::Local), Some(child)));
    subagent_failpoint::hit("listening.after_heard");
    connection::store_processes(actor, process, None).await;
    connection::connect(actor).await;
    Ok(())
}

/// The making has ended: the runtime that waited for it starts, or has failed.
pub(crate) async fn worktree_made(actor: &mut Actor, made: Result<()>) {
    match made {
        Ok(()) => {
            actor.worktree = OwnWorktree::Ready;
            start_runtime(actor).await;
        }
        Err(error) => {
            actor.worktree = OwnWorktree::Unknown;
            actor.apply(WorkerInput::SpawnFailed { error }).await;
        }
    }
}

/// An engine has answered: the runtime that waited for its place starts, waits on, or has failed.
pub(crate) async fn place_answered(actor: &mut Actor, answer: Result<PlaceTurn>) {
    // A stop withdraws the place.
    if !actor.stops() {
        actor.runtime.queue.answer = Some(answer);
        start_runtime(actor).await;
    }
}

/// Starts a runtime without a message if the worker lacks one and the last attempt is old enough.
/// Must not repeat a prompt (no turn of the runtime is open), nor touch a stopped worker.
pub(crate) fn demand(actor: &mut Actor, cooldown: Duration) -> RevivalOutcome {
    let lacks_one = matches!(actor.worker.state, LifecycleState::Idle | LifecycleState::Local(_))
        && actor.worker.link == RuntimeStatus::None
        && !actor.worker.sleeps()
        && !actor.tasks.is_task()
        && actor.runtime.live.is_none();
    if !lacks_one {
        return RevivalOutcome::Needless;
    }
    if !actor.runtime.revivals.may_begin(cooldown) {
        return RevivalOutcome::TooEarly;
    }
    actor.runtime.revivals.begin();
    actor.worker.link = RuntimeStatus::Starting;
    actor.todo.push_back(WorkerAction::StartRuntime);
    RevivalOutcome::Begun
}
