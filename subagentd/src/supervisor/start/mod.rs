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
pub(crate) mod stop;

use std::sync::Arc;

use subagent_core::model::{LifecycleState, Worker};
use subagent_protocol::api::{StartWorker, WorkerView};
use subagent_protocol::ids::{PlaceholderSessionId, WorkerId};
use subagent_protocol::placement::Placement;
use subagent_protocol::{Code, Error, Result, worker_name};

use super::questions::answer_time::check_answer_time;
use super::runtimes::carrier;
use super::turns::options;
use super::worker::Snapshot;
use super::{ApiCaller, Supervisor, controllers, entropy, policy, worktrees};
use crate::store::{Durability, Execution, NewName, NewWorker, accounts, requests, workers};
use crate::supervisor::views::started_view;
use crate::supervisor::worktrees::lookup::plan_worktree;

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
    let elsewhere = placement.as_ref().and_then(Placement::elsewhere);
    let wanted = request.worktree.as_ref();
    let planned = plan_worktree(supervisor, wanted, &request.cwd, &request.env, elsewhere).await?;
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
        if snapshots.borrow().place.pending.is_none() {
            let error = Error::new(Code::BackendTimeout, "the worker's agent is not ready in time");
            return Err(error.retryable().with("workerId", worker_id));
        }
        // An engine's queue takes its time. The limit begins with the place.
        let is_placed = |snapshot: &Arc<Snapshot>| snapshot.place.pending.is_none() || is_decided(snapshot);
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
    use std::time::Duration;

    use subagent_protocol::api::{LauncherSpec, StopWorker};
    use subagent_protocol::bytes64::Bytes64;
    use subagent_protocol::state::WorkerState;

    use super::*;
    use crate::supervisor::start::environment::AgentEnvironment;
    use crate::supervisor::start::spec::Spec;
    use crate::supervisor::start::stop::stop_worker;
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
        let stopped = stop_worker(&supervisor, caller(None), &worker, StopWorker::default()).await.unwrap();
        assert_eq!(stopped.worker_id.as_str(), worker);
        assert_eq!(supervisor.row(&worker).await.unwrap().state, "stopped");
        assert!(!environment_file.exists());
        stop_worker(&supervisor, caller(None), &worker, StopWorker::default())
            .await
            .expect("as often as one likes");
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
            stop_worker(&supervisor, caller(None), &worker, StopWorker::default()).await.unwrap_err(),
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
