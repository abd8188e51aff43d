//! The start parameters of a worker's next runtime, and the errors of a failed start.

use std::path::Path;

use subagent_protocol::start::{AgentProgram, Login, RuntimeLimits, RuntimeStart};
use subagent_protocol::{Code, Error, PROTOCOL, Result};

use crate::descriptors;
use crate::store::{Cursor, Durability, workers};
use crate::supervisor::runtimes::{daemon_start, journal, stray_processes};
use crate::supervisor::start::{definition, delegation, environment, sandbox};
use crate::supervisor::worker::actor::Actor;

/// Returns the error of a runtime that could not be started.
pub(super) fn start_failed(program: &Path, error: &std::io::Error) -> Error {
    if descriptors::is_reached(error) {
        return descriptors::too_many("cannot start the worker's runtime");
    }
    Error::new(Code::BackendRuntimeError, format!("the worker's runtime cannot be started: {error}"))
        .with("reasonCategory", "worker")
        .with("command", program.display().to_string())
        .recommend("check that subagent-runtime is installed beside subagentd")
        .or_storage_full(error)
}

/// Returns the error of a runtime that a signal ended before it listened.
pub(super) fn killed_at_start() -> Error {
    let message = "the worker's runtime was killed while it was being started; try again";
    Error::new(Code::RuntimeLost, message).retryable().with("dispatched", "no")
}

/// Returns the size limits of a runtime. Tests make its journal small.
fn limits() -> RuntimeLimits {
    let limits = RuntimeLimits::default();
    if subagent_failpoint::sabotaged("journal.small") {
        return RuntimeLimits { segment_bytes: 100_000, journal_quota_bytes: 500_000, ..limits };
    }
    limits
}

/// Stores that a runtime may be alive from now on, and returns its start parameters.
pub(super) async fn begin_incarnation(
    actor: &mut Actor,
    program: String,
    kept: environment::AgentEnvironment,
) -> Result<RuntimeStart> {
    let incarnation = actor.runtime.incarnation + 1;
    let cursor =
        Cursor { segment: actor.journal.cursor.segment + 1, offset: 0, number: actor.journal.cursor.number };
    // That of a place which was never heard is stored with its first answer.
    let present = actor.runtime.present_boot(&actor.shared.boot_id).unwrap_or_default().to_owned();
    let (id, boot_id) = (actor.identity.id, present.clone());
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
    actor.runtime.boot_id = Some(present);
    actor.runtime.may_live = true;
    actor.runtime.clean_end = false;
    actor.runtime.swept = false;
    actor.runtime.queue.ends.forget();
    actor.journal.damaged = false;
    let launcher = &actor.spec.launcher;
    // Paths of this machine mean nothing on another one, or in a container.
    let is_here = actor.runtime.place.elsewhere().is_none();
    let setup = is_here.then_some(&actor.shared.setup);
    let mcp_servers = delegation::servers(&kept, launcher.prefix_tools, setup);
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
        // Another machine puts its own in the place of this one.
        boot_id: actor.shared.boot_id.clone(),
        container_token: actor.runtime.place.container_token()?,
        lease_ms: actor.runtime.place.elsewhere().and_then(|placement| placement.lease_ms),
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
        limits: limits(),
        roots: [&actor.identity.cwd]
            .into_iter()
            .chain(&actor.spec.additional_directories)
            .chain(actor.spec.policy.iter().filter_map(|policy| policy.memory.as_ref()))
            .cloned()
            .collect(),
        private: match is_here {
            true => actor.shared.setup.own_folders().map(Path::to_owned).into(),
            false => Vec::new(),
        },
        options: actor.spec.options.clone(),
        mcp_servers,
        task_server_there: !is_here && kept.task_token.is_some(),
        additional_directories: actor.spec.additional_directories.clone(),
        instructions: actor
            .spec
            .agent
            .as_ref()
            .map(|agent| definition::instructions(agent, delivered, actor.spec.agent_since.is_some())),
        login: Login { launcher: Some(launcher.name.clone()), method: launcher.auth_method.clone() },
        daemon: is_here
            .then(|| {
                daemon_start::of(
                    &actor.shared.setup,
                    actor.tasks.is_task() || actor.spec.delegation.is_some() || !actor.spec.hooks.is_empty(),
                )
            })
            .flatten(),
        client_rules: actor.questions.client_rules(&actor.spec),
    })
}
