//! Starts and stops workers.

pub(crate) mod compose;
pub(crate) mod definition;
pub(crate) mod delegation;
pub(crate) mod environment;
pub(crate) mod placed;
pub(crate) mod places;
pub(crate) mod program;
pub(crate) mod restart;
pub(crate) mod sandbox;
pub(crate) mod scheduled;
pub(crate) mod session_in_use;
pub(crate) mod spec;

use std::sync::Arc;
use std::time::Duration;

use subagent_core::model::{LifecycleState, Worker, WorkerInput};
use subagent_protocol::api::{StartWorker, WorkerStopped, WorkerView, WorktreeEnd, WorktreeView};
use subagent_protocol::ids::{PlaceholderSessionId, WorkerId};
use subagent_protocol::{Code, Error, Result, worker_name};

use super::orders::RequestTarget;
use super::questions::answer_time::check_answer_time;
use super::runtimes::{carrier, locks, stray_processes};
use super::turns::options;
use super::worker::{ActorHandle, Also, Snapshot};
use super::{ApiCaller, Supervisor, controllers, entropy, policy, worktrees};
use crate::store::{
    Durability, Execution, NewName, NewWorker, OwnerCheck, WorkerRow, accounts, requests, workers,
};
use crate::supervisor::views::started_view;
use crate::supervisor::worktrees::lookup::{plan_worktree, worktree_end};

/// Time after which a stop checks the lock files: something that is not a lock may be at their
/// path.
const LOCKS_LOOKED_AT: Duration = Duration::from_secs(5);

/// Maximum length of a session id in bytes, as a runtime accepts it from an agent.
const MAX_SESSION_BYTES: usize = 4096;

/// Starts a worker and waits until its agent has a session. In debug mode, only stores the
/// worker.
///
/// # Errors
/// `CONTROLLER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`, `INVALID_ARGUMENT{cwd}`,
/// `SESSION_IN_USE`, `BACKEND_LAUNCHER`. Then those of the agent's start, with the worker left
/// in state `error`.
pub(crate) async fn start_worker(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: StartWorker,
) -> Result<WorkerView> {
    check(&request)?;
    // In its own task: a client that disconnects must not leave a stored worker without an
    // actor, or an environment without a worker.
    let this = supervisor.clone();
    tokio::spawn(async move { start_stored(&this, caller, request).await })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn start_stored(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: StartWorker,
) -> Result<WorkerView> {
    let (owner, key) = supervisor.guarded(caller, "start", &request)?;
    let worker_id = WorkerId::from_random(entropy::random()?);
    let placeholder = PlaceholderSessionId::from_random(entropy::random()?);
    if request.worktree.is_some()
        && let Some(earlier) = supervisor.recall(&key).await?
    {
        // The branch of a repeated request exists already.
        let worker_id: String = super::orders::read_response(earlier)?;
        return started(supervisor, &worker_id).await;
    }
    let placement = carrier::with_program(request.placement.clone(), &supervisor.shared.setup).await?;
    let planned = plan_worktree(supervisor, request.worktree.as_ref(), &request.cwd, &request.env).await?;
    let (mut spec, kept) = delegation::parts(&request)?;
    let own = supervisor.shared.setup.own_folders();
    sandbox::set(&mut spec, &request, planned.as_ref(), own).await?;
    let stored_spec =
        serde_json::to_string(&spec).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    let file = supervisor.shared.setup.runtime_dir.worker_environment(worker_id.as_str());
    environment::write(&file, &kept)?;
    let shared = Arc::clone(&supervisor.shared);
    let (state_db, now) = (supervisor.shared.store.path().display().to_string(), entropy::now());
    let begins = if request.debug_mode { Worker::without_runtime() } else { Worker::new() };
    let stored = supervisor
        .shared
        .store
        .write(Durability::Full, 1, move |tx| {
            requests::once(tx, key.as_ref(), now, |tx| {
                shared.admit_worker()?;
                let choice = &request.choice;
                let controller = controllers::of_new_worker(tx.connection(), choice, &owner, &state_db)?;
                if let Some(session) = &request.resume {
                    session_in_use::check(
                        &workers::list(tx.connection(), None)?,
                        session,
                        &request.launcher,
                    )?;
                }
                let new = NewWorker {
                    worker_id: worker_id.clone(),
                    controller: controller.id,
                    name: request.name.map_or(NewName::OfLauncher, NewName::Chosen),
                    label: request.label,
                    launcher: request.launcher.name,
                    role: request.role,
                    cwd: request.cwd.display().to_string(),
                    spec: stored_spec,
                    placeholder: placeholder.as_str().to_owned(),
                    state: begins.state,
                    placement: placement.or_else(|| shared.setup.placement.clone()),
                };
                let worker = workers::insert(tx, &new, now)?;
                accounts::open(tx, worker, controller.id, None, request.budget)?;
                planned.map_or(Ok(()), |planned| {
                    planned.store(tx, worker_id.as_str(), shared.setup.own_folders(), now)
                })?;
                if let Some(from) = &request.worktree_of {
                    worktrees::take_over(
                        tx,
                        from.as_str(),
                        worker_id.as_str(),
                        shared.setup.own_folders(),
                        now,
                    )?;
                }
                Ok(worker_id)
            })
        })
        .await;
    subagent_failpoint::hit("worker.after_commit");
    if !matches!(stored, Ok((_, Execution::Fresh))) {
        // A repetition uses the worker of the first request.
        environment::remove(&file);
    }
    started(supervisor, stored?.0.as_str()).await
}

async fn started(supervisor: &Supervisor, worker_id: &str) -> Result<WorkerView> {
    let row = supervisor.row(worker_id).await?;
    let handle = match supervisor.roster.live(worker_id) {
        Ok(handle) => handle,
        // The worker was stopped before this daemon started.
        Err(_) if row.state == "stopped" => return Ok(supervisor.view(&row).await),
        Err(_) => supervisor.roster.adopted(&supervisor.shared, &row).await?,
    };
    let mut snapshots = handle.follow();
    let is_decided =
        |snapshot: &Arc<Snapshot>| snapshot.settled && snapshot.worker.state != LifecycleState::Starting;
    let limit = spec::startup(&row) + spec::START_MARGIN;
    let snapshot = loop {
        match tokio::time::timeout(limit, snapshots.wait_for(is_decided)).await {
            Ok(Ok(snapshot)) => break snapshot.clone(),
            Ok(Err(_)) => return Err(supervisor.abandoned()),
            Err(_) => {}
        }
        if snapshots.borrow().pending.is_none() {
            let error = Error::new(Code::BackendTimeout, "the worker's agent is not ready in time");
            return Err(error.retryable().with("workerId", worker_id));
        }
        // An engine's queue takes its time. The limit begins with the place.
        let is_placed = |snapshot: &Arc<Snapshot>| snapshot.pending.is_none() || is_decided(snapshot);
        if snapshots.wait_for(is_placed).await.is_err() {
            return Err(supervisor.abandoned());
        }
    };
    if snapshot.worker.state == LifecycleState::Error {
        let error = snapshot.last_error.clone();
        let error =
            error.unwrap_or_else(|| Error::new(Code::BackendUnavailable, "the agent could not be started"));
        return Err(names_removal(error, worker_id).with("workerId", worker_id));
    }
    let row = supervisor.row(worker_id).await?;
    started_view(supervisor, &row).await
}

/// Stops a worker permanently and waits until none of its processes is left.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`. `STOP_INCOMPLETE{pids}` if a process does
/// not end in time; the guard keeps trying. `STORAGE_ERROR` for a worker that is set aside.
pub(crate) async fn stop_worker(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
) -> Result<WorkerStopped> {
    let row = supervisor.row(worker).await?;
    let (owner, key) = supervisor.guarded(caller, &format!("stop {worker}"), &())?;
    match supervisor.reach(&row, &owner, &key).await {
        Ok(RequestTarget::Live(handle)) => stop(supervisor, &handle, Some(owner), key).await,
        Ok(RequestTarget::Replayed(_)) => past_stop(supervisor, row).await,
        Err(error) if error.code == Code::WorkerStopped => past_stop(supervisor, row).await,
        Err(error) => Err(error),
    }
}

async fn past_stop(supervisor: &Supervisor, row: WorkerRow) -> Result<WorkerStopped> {
    let before =
        crate::supervisor::worktrees::lookup::worktree_of(supervisor, row.worker_id.as_str()).await?;
    let worktree = worktree_end(supervisor, row.worker_id.as_str(), before).await?;
    Ok(worker_stopped(row, worktree))
}

/// Stops a worker for its owner, or, with `None`, for the daemon.
async fn stop(
    supervisor: &Supervisor,
    handle: &ActorHandle,
    owner: Option<OwnerCheck>,
    key: Option<(String, String)>,
) -> Result<WorkerStopped> {
    stop_with(supervisor, handle, owner, key, WorkerInput::Stop, None).await
}

/// Stops a worker with this input, and with another check or change in the same transaction.
pub(super) async fn stop_with(
    supervisor: &Supervisor,
    handle: &ActorHandle,
    owner: Option<OwnerCheck>,
    key: Option<(String, String)>,
    input: WorkerInput,
    also: Option<Also>,
) -> Result<WorkerStopped> {
    let respond = Box::new(|_: &Worker, _: &[_]| serde_json::Value::Null);
    let worker = handle.worker_id.as_str();
    let worktree = crate::supervisor::worktrees::lookup::worktree_of(supervisor, worker).await?;
    supervisor.order_also(handle, owner, key, input, respond, None, also).await?;
    stopped(supervisor, handle, worktree.as_ref()).await?;
    let row = supervisor.row(worker).await?;
    if row.state != "stopped" {
        // The actor reports the stop only after its commit, so another process has changed the
        // row.
        return Err(Error::new(Code::Internal, "the worker has ended, but it is not stored as stopped")
            .with("workerId", worker)
            .with("state", row.state.as_str()));
    }
    let worktree = worktree_end(supervisor, worker, worktree).await?;
    Ok(worker_stopped(row, worktree))
}

async fn stopped(
    supervisor: &Supervisor,
    handle: &ActorHandle,
    worktree: Option<&WorktreeView>,
) -> Result<()> {
    let mut snapshots = handle.follow();
    let is_stopped = |snapshot: &Arc<Snapshot>| snapshot.worker.state == LifecycleState::Stopped;
    let begun = tokio::time::Instant::now();
    if tokio::time::timeout(LOCKS_LOOKED_AT, snapshots.wait_for(is_stopped)).await.is_err() {
        // Without these locks, the end of all processes cannot be proved.
        let directory = supervisor.shared.setup.state_dir.join("runtimes").join(handle.worker_id.as_str());
        for name in [locks::RUNTIME, locks::GUARD] {
            locks::check(&directory, name)?;
        }
    }
    let stopped = snapshots.wait_for(is_stopped);
    match tokio::time::timeout_at(begun + spec::STOP_TIMEOUT, stopped).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) if handle.snapshot.borrow().worker.state == LifecycleState::Stopped => Ok(()),
        Ok(Err(_)) => Err(supervisor.abandoned()),
        Err(_) => {
            if let Some(unreachable) = handle.snapshot.borrow().unreachable.clone() {
                let message = "the worker's place does not answer, so it is unknown what runs there; \
                               the stop is stored and goes on when the place answers";
                return Err(Error::new(Code::StopIncomplete, message)
                    .retryable()
                    .with("workerId", handle.worker_id.as_str())
                    .with("unreachable", serde_json::json!(unreachable))
                    .recommend("repair the connection; repeat the command to wait longer"));
            }
            if let Some(pending) = handle.snapshot.borrow().pending.clone() {
                return Err(placed::is_queued(handle.worker_id.as_str(), &pending));
            }
            let guards = supervisor.shared.guards();
            let guard = guards.iter().find(|(worker, _)| *worker == handle.worker_id);
            if let (None, Some(worktree)) = (guard, worktree) {
                let message = "the worker has ended; its worktree is still being removed";
                return Err(Error::new(Code::WorktreeBusy, message)
                    .retryable()
                    .with("workerId", handle.worker_id.as_str())
                    .with("worktree", worktree.name.as_str())
                    .with("reason", "removing")
                    .recommend("repeat the command to wait longer"));
            }
            // A pid of another machine says nothing here.
            let local = guard.filter(|_| handle.placement.is_none());
            let left = local.map(|(_, guard)| stray_processes::below(guard.pid)).unwrap_or_default();
            Err(Error::new(
                Code::StopIncomplete,
                "not all processes of the worker have ended yet; they are being killed again and again",
            )
            .retryable()
            .with("workerId", handle.worker_id.as_str())
            .with("pids", left)
            .recommend("look at these processes (of another user?); repeat the command to wait longer"))
        }
    }
}

/// Stops all workers concurrently. They belong to several owners, so no handle is required.
pub(super) async fn stop_all(supervisor: &Supervisor) -> Result<()> {
    let stops = supervisor.shared.last_workers().await?.into_iter().map(|row| {
        let this = supervisor.clone();
        tokio::spawn(async move {
            // One that is set aside is logged as such.
            let Ok(handle) = this.roster.adopted(&this.shared, &row).await else { return Ok(()) };
            stop(&this, &handle, None, None).await.map(drop)
        })
    });
    let mut first = Ok(());
    for stop in stops.collect::<Vec<_>>() {
        let result = stop.await.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
        first = first.and(result);
    }
    first
}

pub(super) fn check(request: &StartWorker) -> Result<()> {
    options::check(&request.options)?;
    request.tags.check()?;
    request.name.as_deref().map_or(Ok(()), worker_name::check)?;
    request.budget.check()?;
    places::check_servers(&request.mcp_servers)?;
    places::check_folders(&request.additional_directories)?;
    policy::check(request)?;
    check_answer_time(request.answer_time)?;
    definition::check(request.agent.as_ref())?;
    delegation::check(request)?;
    sandbox::check(request)?;
    placed::check(request)?;
    program::check(&request.launcher)?;
    if !request.debug_mode {
        // In debug mode, this is checked when an agent is started.
        program::check_backend(&request.launcher)?;
    }
    if let Some(session) = &request.resume {
        let wrong = match () {
            () if session.trim().is_empty() => Some("an empty text names no session"),
            () if session.len() > MAX_SESSION_BYTES => Some("the id of the session is too long"),
            () if request.debug_mode => {
                Some("a worker in debug mode has no agent that could resume a session")
            }
            () => None,
        };
        if let Some(wrong) = wrong {
            return Err(Error::new(Code::InvalidArgument, wrong).with("field", "resume"));
        }
    }
    // That of another machine is looked at there.
    if placed::remote(request).is_none() && (!request.cwd.is_absolute() || !request.cwd.is_dir()) {
        return Err(Error::new(
            Code::InvalidArgument,
            format!("the worker's cwd {} is not an absolute path of a folder", request.cwd.display()),
        )
        .with("cwd", request.cwd.display().to_string()));
    }
    Ok(())
}

fn worker_stopped(row: WorkerRow, worktree: Option<WorktreeEnd>) -> WorkerStopped {
    WorkerStopped {
        worktree,
        worker_id: row.worker_id,
        controller_id: row.controller_id,
        state: subagent_protocol::state::WorkerState::Stopped,
        stopped_at: row.stopped_at.unwrap_or(row.updated_at),
        updated_at: row.updated_at,
    }
}

/// Adds to the error of a failed start how to remove the worker, which still exists.
fn names_removal(error: Error, worker: &str) -> Error {
    let remove = format!("`subagent worker rm --force {worker}` removes the worker.");
    let action = error.facts().recommended_action.0;
    let action =
        action.map_or(remove.clone(), |action| format!("{}. {remove}", action.trim_end_matches('.')));
    error.recommend(action)
}

#[cfg(test)]
pub(super) mod tests {
    use std::future::Future as _;
    use std::task::{Context, Poll, Waker};

    use subagent_protocol::api::LauncherSpec;
    use subagent_protocol::bytes64::Bytes64;
    use subagent_protocol::state::WorkerState;

    use super::*;
    use crate::supervisor::start::environment::AgentEnvironment;
    use crate::supervisor::start::spec::Spec;
    use crate::supervisor::testing::{caller, choice, folder, init, own_process, setup};

    pub(in crate::supervisor) fn request(dir: &std::path::Path) -> StartWorker {
        StartWorker {
            sandbox: None,
            preferred_sandbox: None,
            placement: None,
            task_env: Vec::new(),
            choice: choice(dir),
            launcher: LauncherSpec {
                name: "none".into(),
                backend_kind: "acp-stdio".into(),
                program: "/bin/false".into(),
                command: String::new(),
                args: vec![],
                timeouts: subagent_protocol::start::Timeouts::default(),
                auth_method: None,
                prefix_tools: false,
            },
            role: "default".into(),
            cwd: dir.into(),
            label: "worker".into(),
            name: None,
            env: vec![(Bytes64(b"API_KEY".to_vec()), Bytes64(b"secret".to_vec()))],
            umask: 0o77,
            nofile: None,
            debug_mode: false,
            detached: false,
            options: subagent_protocol::options::Options::default(),
            mcp_servers: subagent_protocol::mcp::McpServers::default(),
            additional_directories: vec![],
            resume: None,
            idle_timeout_ms: None,
            on_rate_limit: None,
            queue_limit: None,
            tags: subagent_protocol::tags::Tags::default(),
            policy: None,
            answer_time: None,
            budget: subagent_protocol::budget::Limits::default(),
            agent: None,
            delegation: None,
            titles: None,
            hooks: Vec::new(),
            worktree: None,
            worktree_of: None,
        }
    }

    /// Opens a supervisor with a controller.
    pub(in crate::supervisor) async fn supervisor(dir: &std::path::Path) -> Supervisor {
        let supervisor = Supervisor::open(setup(dir)).await.unwrap();
        init(&supervisor, dir, own_process(), None).await.unwrap();
        supervisor
    }

    #[tokio::test]
    async fn a_launcher_without_a_program_is_wrong_input() {
        let dir = folder();
        let supervisor = supervisor(dir.path()).await;
        for field in ["launcher.name", "launcher.backendKind", "launcher.program"] {
            for debug_mode in [false, true] {
                let mut start = StartWorker { debug_mode, ..request(dir.path()) };
                let launcher = &mut start.launcher;
                let emptied = match field {
                    "launcher.name" => &mut launcher.name,
                    "launcher.program" => &mut launcher.program,
                    _ => &mut launcher.backend_kind,
                };
                *emptied = " ".to_owned();
                let error = start_worker(&supervisor, caller(None), start).await.unwrap_err();
                assert_eq!((error.code, &error.details["field"]), (Code::InvalidArgument, &field.into()));
            }
        }
    }

    #[tokio::test]
    async fn a_key_stands_for_the_whole_request() {
        let dir = folder();
        let supervisor = supervisor(dir.path()).await;
        let first = StartWorker { debug_mode: true, ..request(dir.path()) };
        let start = |request: &StartWorker| start_worker(&supervisor, caller(Some("key")), request.clone());
        let worker = start(&first).await.unwrap().worker_id;
        assert_eq!(start(&first).await.unwrap().worker_id, worker);
        let env = vec![(Bytes64(b"API_KEY".to_vec()), Bytes64(b"other".to_vec()))];
        let others = [
            StartWorker { umask: 0o22, ..first.clone() },
            StartWorker { env, ..first.clone() },
            StartWorker { role: "default worker".into(), label: String::new(), ..first.clone() },
        ];
        for other in others {
            assert_eq!(start(&other).await.unwrap_err().code, Code::IdempotencyConflict);
        }
        supervisor.shutdown(false).await.unwrap();
    }

    #[tokio::test]
    async fn a_start_whose_client_went_away_comes_to_its_end() {
        let dir = folder();
        let supervisor = supervisor(dir.path()).await;
        {
            let mut start = Box::pin(start_worker(&supervisor, caller(None), request(dir.path())));
            let polled = start.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending), "it cannot be stored yet");
        }
        let begun = async {
            loop {
                match supervisor.roster.all().pop() {
                    Some(handle) => return handle,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        let handle = tokio::time::timeout(Duration::from_secs(20), begun).await.expect("it has an actor");
        let mut snapshots = handle.follow();
        let over = snapshots.wait_for(|snapshot| snapshot.worker.state == LifecycleState::Error);
        // The runtime program does not exist here, so the actor's start fails.
        tokio::time::timeout(Duration::from_secs(20), over).await.expect("it has tried").unwrap();
        supervisor.shutdown(false).await.unwrap();
    }

    /// Stores a worker without starting its actor.
    async fn orphan(supervisor: &Supervisor, dir: &std::path::Path, spec: String) -> String {
        let worker_id = WorkerId::from_random(entropy::random().unwrap());
        let (id, key) = (worker_id.clone(), choice(dir).workspace_key);
        let store = &supervisor.shared.store;
        let added = store.write(Durability::Full, 1, move |tx| {
            let controller = crate::store::controllers::by_workspace(tx.connection(), &key)?.unwrap();
            let new = NewWorker {
                worker_id: id,
                controller: controller.id,
                name: NewName::OfLauncher,
                label: "worker".into(),
                launcher: "none".into(),
                role: "default".into(),
                cwd: key,
                spec,
                placeholder: "sess_000000000000".into(),
                state: LifecycleState::Starting,
                placement: None,
            };
            workers::insert(tx, &new, entropy::now())
        });
        added.await.unwrap();
        worker_id.as_str().to_owned()
    }

    #[tokio::test]
    async fn a_worker_without_an_actor_is_stopped_all_the_same() {
        let dir = folder();
        let supervisor = supervisor(dir.path()).await;
        let spec = serde_json::to_string(&Spec::of(&request(dir.path()))).unwrap();
        let worker = orphan(&supervisor, dir.path(), spec).await;
        let environment_file = supervisor.shared.setup.runtime_dir.worker_environment(&worker);
        environment::write(&environment_file, &AgentEnvironment::default()).unwrap();
        let stopped = stop_worker(&supervisor, caller(None), &worker).await.unwrap();
        assert_eq!(stopped.worker_id.as_str(), worker);
        assert_eq!(supervisor.row(&worker).await.unwrap().state, "stopped");
        assert!(!environment_file.exists());
        stop_worker(&supervisor, caller(None), &worker).await.expect("as often as one likes");
        supervisor.shutdown(false).await.unwrap();
        // If this daemon had been killed, the next one would remove the files.
        environment::write(&environment_file, &AgentEnvironment::default()).unwrap();
        let next = Supervisor::open(setup(dir.path())).await.unwrap();
        assert!(!environment_file.exists());
        next.shutdown(false).await.unwrap();
    }

    #[tokio::test]
    async fn nothing_is_said_to_be_done_with_a_worker_that_is_set_aside() {
        let dir = folder();
        let supervisor = supervisor(dir.path()).await;
        let worker = orphan(&supervisor, dir.path(), "no spec".into()).await;
        let environment_file = supervisor.shared.setup.runtime_dir.worker_environment(&worker);
        environment::write(&environment_file, &AgentEnvironment::default()).unwrap();
        supervisor.shutdown(false).await.unwrap();
        let supervisor = Supervisor::open(setup(dir.path())).await.unwrap();
        let message = subagent_protocol::api::SendTurn {
            agent: None,
            text: "hi".into(),
            blocks: vec![],
            attachments: vec![],
            simulate: None,
            if_busy: None,
            env: None,
            mcp_servers: subagent_protocol::mcp::McpServers::default(),
        };
        let cancel = subagent_protocol::api::CancelTurn { turn_id: None, reason: None };
        for error in [
            stop_worker(&supervisor, caller(None), &worker).await.unwrap_err(),
            crate::supervisor::turns::send(&supervisor, caller(None), &worker, message).await.unwrap_err(),
            crate::supervisor::turns::cancel(&supervisor, caller(None), &worker, cancel).await.unwrap_err(),
        ] {
            assert_eq!(error.code, Code::StorageError, "{error}");
            assert!(error.message.contains("set aside"), "{error}");
        }
        assert_eq!(
            crate::supervisor::views::show_worker(&supervisor, &worker).await.unwrap().worker.state,
            WorkerState::Error
        );
        assert!(environment_file.exists(), "a repair of the worker needs it");
        supervisor.shutdown(false).await.unwrap();
    }
}
