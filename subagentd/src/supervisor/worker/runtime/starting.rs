//! How a worker gets a new runtime. The rules decide what follows from a failure.

use std::path::Path;
use std::time::Duration;

use subagent_core::model::{LifecycleState, RuntimeStatus, WorkerAction, WorkerInput};
use subagent_protocol::start::{AgentProgram, Login, RuntimeLimits, RuntimeStart};
use subagent_protocol::{Code, Error, PROTOCOL, Result};

use super::live::LiveRuntime;
use super::{connection, gone};
use crate::descriptors;
use crate::store::{Cursor, Durability, workers};
use crate::supervisor::runtimes::process::{self, ExitWatch};
use crate::supervisor::runtimes::{daemon_start, journal, locks, stray_processes};
use crate::supervisor::shared::LiveToken;
use crate::supervisor::start::{definition, delegation, environment, program, sandbox};
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
    if let Err(error) = try_start_runtime(actor).await {
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
    }
}

async fn try_start_runtime(actor: &mut Actor) -> Result<()> {
    let live = LiveToken::take(&actor.shared)?;
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
    let failed = |error: std::io::Error| {
        if descriptors::is_reached(&error) {
            return descriptors::too_many("cannot start the worker's runtime");
        }
        Error::new(Code::BackendRuntimeError, format!("the worker's runtime cannot be started: {error}"))
            .with("reasonCategory", "worker")
            .with("command", actor.shared.setup.runtime_program.display().to_string())
            .recommend("check that subagent-runtime is installed beside subagentd")
            .or_storage_full(&error)
    };
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
            let message = "the worker's runtime was killed while it was being started; try again";
            return Err(Error::new(Code::RuntimeLost, message).retryable().with("dispatched", "no"));
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
    actor.runtime.live = Some(LiveRuntime::new(live, exit, Some(child)));
    subagent_failpoint::hit("listening.after_heard");
    connection::store_processes(actor, process, None).await;
    connection::connect(actor).await;
    Ok(())
}

/// Stores that a runtime may be alive from now on, and returns its start parameters.
async fn begin_incarnation(
    actor: &mut Actor,
    program: String,
    kept: environment::AgentEnvironment,
) -> Result<RuntimeStart> {
    let incarnation = actor.runtime.incarnation + 1;
    let cursor =
        Cursor { segment: actor.journal.cursor.segment + 1, offset: 0, number: actor.journal.cursor.number };
    let (id, boot_id) = (actor.identity.id, actor.shared.boot_id.clone());
    let write = actor.shared.store.write(Durability::Full, 1, move |tx| {
        workers::begin_incarnation(tx, id, incarnation, &boot_id)?;
        workers::update_cursor(tx, id, cursor)?;
        workers::instructed(tx.connection(), id)
    });
    let delivered = write.await?;
    subagent_failpoint::hit("incarnation.after_commit");
    journal::remove_before(&actor.identity.directory, cursor.segment);
    actor.runtime.incarnation = incarnation;
    actor.journal.cursor = cursor;
    actor.runtime.boot_id = Some(actor.shared.boot_id.clone());
    actor.runtime.may_live = true;
    actor.runtime.clean_end = false;
    actor.runtime.swept = false;
    actor.journal.damaged = false;
    let launcher = &actor.spec.launcher;
    let mcp_servers = delegation::servers(&kept, launcher.prefix_tools, &actor.shared.setup);
    Ok(RuntimeStart {
        protocol: PROTOCOL,
        worker_id: actor.identity.worker_id.clone(),
        incarnation,
        generation: actor.shared.generation(),
        directory: actor.identity.directory.clone(),
        socket: actor.identity.socket.clone(),
        log: actor.identity.log.clone(),
        segment: cursor.segment,
        first_record: cursor.number + 1,
        // The turn for which this runtime is started was accepted but not sent.
        last_turn: actor.worker.turn().map_or(actor.worker.last_turn, |turn| turn.no - 1),
        boot_id: actor.shared.boot_id.clone(),
        marker: stray_processes::marker(actor.identity.worker_id.as_str(), incarnation),
        agent: AgentProgram {
            program,
            args: launcher.args.clone(),
            cwd: actor.identity.cwd.clone(),
            env: kept.variables,
            umask: actor.spec.umask,
            nofile: actor.spec.nofile,
            sandbox: sandbox::of_agent(actor.spec.sandbox.as_ref(), actor.shared.setup.own_folders()),
        },
        // The session to resume at the start counts only until the worker has one.
        session: actor.session.id.clone().or_else(|| actor.spec.resume.clone()),
        resume_only: actor.session.id.is_none() && actor.spec.resume.is_some(),
        restore_failures: actor.session.restore_failures.clone(),
        timeouts: launcher.timeouts,
        limits: RuntimeLimits::default(),
        roots: [&actor.identity.cwd]
            .into_iter()
            .chain(&actor.spec.additional_directories)
            .chain(actor.spec.policy.iter().filter_map(|policy| policy.memory.as_ref()))
            .cloned()
            .collect(),
        private: actor.shared.setup.own_folders().map(Path::to_owned).into(),
        options: actor.spec.options.clone(),
        mcp_servers,
        additional_directories: actor.spec.additional_directories.clone(),
        instructions: actor
            .spec
            .agent
            .as_ref()
            .map(|agent| definition::instructions(agent, delivered, actor.spec.agent_since.is_some())),
        login: Login { launcher: Some(launcher.name.clone()), method: launcher.auth_method.clone() },
        daemon: daemon_start::of(
            &actor.shared.setup,
            actor.tasks.is_task() || actor.spec.delegation.is_some() || !actor.spec.hooks.is_empty(),
        ),
        client_rules: actor.questions.client_rules(&actor.spec),
    })
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
