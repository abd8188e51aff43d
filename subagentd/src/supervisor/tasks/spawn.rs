//! Creates a task: stores its worker, row and prompt in one transaction. Its actor starts the
//! prompt when a slot is free.

use std::sync::Arc;

use subagent_core::model::{LifecycleState, Queue, QueuePosition, Queued, Worker, WorkerInput};
use subagent_core::task::check_name;
use subagent_protocol::api::{CallableAgents, RunTask, TaskView};
use subagent_protocol::ids::{PlaceholderSessionId, TurnId, WorkerId};
use subagent_protocol::placement::Placement;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::{TaskCaller, gives_tasks, shown};
use crate::store::schedules::firings;
use crate::store::tasks::{self, NewTask};
use crate::store::{
    Cursor, Durability, Execution, NewName, NewWorker, OwnerCheck, RowId, Tx, WorkerRow, accounts, facts,
    requests, workers,
};
use crate::supervisor::runtimes::carrier;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::start::compose::{self, Composed, TaskPurpose};
use crate::supervisor::start::{delegation, environment, sandbox};
use crate::supervisor::tasks::guarded_task;
use crate::supervisor::turns::text;
use crate::supervisor::worktrees::Planned;
use crate::supervisor::worktrees::lookup::plan_worktree;
use crate::supervisor::{Supervisor, controllers, entropy, hooks, start};

/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 200;
/// Number of words of the prompt that serve as the default description.
const DESCRIBING_WORDS: usize = 5;
/// Maximum size of metadata as JSON, in bytes.
const MAX_METADATA_BYTES: usize = 16 * 1024;

/// The data that one transaction stores.
struct Spawn {
    composed: Composed,
    planned: Option<Planned>,
    shared: Arc<SupervisorState>,
    parent: Option<WorkerRow>,
    owner: Option<OwnerCheck>,
    firing: Option<RowId>,
    worker_id: WorkerId,
    placeholder: PlaceholderSessionId,
    turn_id: TurnId,
    spec: String,
    task: RunTask,
    description: String,
    state_db: String,
}

/// Creates a task. Returns as soon as it is stored.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`, `PAYLOAD_TOO_LARGE`, `TASK_NAME_TAKEN`, `TASK_DEPTH_LIMIT`,
/// `TASK_LIMIT`, and those of composing its worker. `WORKER_STOPPED` for a parent that is
/// stopping or whose own task is over. `ENV_REQUIRED` if the parent's environment is gone.
/// `HOOK_DENIED{hook}` and `HOOK_FAILED{hook}` for hooks of the owner.
/// `BUDGET_EXCEEDED{workerId?}` and `BUDGET_UNKNOWN` for a budget of the parent or above.
pub(crate) async fn run_task(
    supervisor: &Supervisor,
    caller: TaskCaller,
    request: RunTask,
) -> Result<TaskView> {
    check(&request)?;
    // In its own task: a client that disconnects must not leave a stored worker without an
    // actor.
    let this = supervisor.clone();
    tokio::spawn(async move { Box::pin(spawn_task(&this, caller, request)).await })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn spawn_task(supervisor: &Supervisor, caller: TaskCaller, mut request: RunTask) -> Result<TaskView> {
    let parent = match caller.parent() {
        Some(worker) => Some(supervisor.row(worker.as_str()).await?),
        None => None,
    };
    let (gives, firing) = (caller.gives(), caller.firing());
    let (owner, key) = guarded_task(supervisor, caller, "task", &request)?;
    if let Some(earlier) = supervisor.recall(&key).await? {
        let task_id: String = super::super::orders::read_response(earlier)?;
        return spawned(supervisor, &task_id).await;
    }
    let mut composed = composed(supervisor, parent.as_ref().map(|row| (row, gives)), &request).await?;
    start::check(&composed.request)?;
    composed.request.placement =
        carrier::with_program(composed.request.placement.take(), &supervisor.shared.setup).await?;
    let (wanted, cwd) = (composed.request.worktree.as_ref(), &composed.request.cwd);
    let elsewhere = composed.request.placement.as_ref().and_then(Placement::elsewhere);
    let planned = plan_worktree(supervisor, wanted, cwd, &composed.request.env, elsewhere).await?;
    let (mut spec, kept) = delegation::parts(&composed.request)?;
    let own = supervisor.shared.setup.own_folders();
    sandbox::set(&mut spec, &composed.request, planned.as_ref(), own).await?;
    let stored_spec =
        serde_json::to_string(&spec).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    let worker_id = WorkerId::from_random(entropy::random()?);
    let turn_id = TurnId::from_random(entropy::random()?);
    let description = description(&request);
    // Prompts of an agent for its tasks have no hooks.
    if let (Some(place), true) = (&request.manager, hooks::has_of_prompts(&spec.hooks)) {
        let prompt = hooks::PromptSubmission {
            hooks: spec.hooks.clone(),
            worker_id: worker_id.clone(),
            session_id: None,
            cwd: composed.request.cwd.clone(),
            workspace: place.workspace.clone(),
            path: request.name.iter().cloned().collect(),
            turn_id: Some(turn_id.clone()),
            text: request.prompt.clone(),
        };
        if let Some(context) = hooks::of_prompt(&supervisor.shared, prompt).await? {
            request.prompt = format!("{}\n\n{context}", request.prompt);
            text::check_text(&request.prompt)?;
        }
    }
    let file = supervisor.shared.setup.runtime_dir.worker_environment(worker_id.as_str());
    environment::write(&file, &kept)?;
    let spawn = Spawn {
        worker_id,
        parent,
        owner,
        firing,
        placeholder: PlaceholderSessionId::from_random(entropy::random()?),
        turn_id,
        spec: stored_spec,
        description,
        state_db: supervisor.shared.store.path().display().to_string(),
        composed,
        planned,
        shared: Arc::clone(&supervisor.shared),
        task: request,
    };
    if let Some(parent) = &spawn.parent
        && let Ok(handle) = supervisor.roster.live(parent.worker_id.as_str())
    {
        // Followers of the parent read task events from now on.
        handle.gives.send_replace(true);
    }
    let (now, parent) = (entropy::now(), spawn.parent.as_ref().map(|parent| parent.id));
    let stored = supervisor
        .shared
        .store
        .write(Durability::Full, 4, move |tx| {
            requests::once(tx, key.as_ref(), now, |tx| spawn.store(tx, now))
        })
        .await;
    subagent_failpoint::hit("task_spawn.after_commit");
    if !matches!(stored, Ok((_, Execution::Fresh))) {
        // A repetition uses the worker of the first request.
        environment::remove(&file);
    }
    let task_id = stored?.0;
    // The parent's actor starts to track the new task.
    supervisor.shared.changes.wake_actors(parent);
    spawned(supervisor, task_id.as_str()).await
}

/// Checks that a manager's task could be created now, as far as possible without creating it.
///
/// # Errors
/// As [`Self::run_task`].
pub(crate) async fn check_task(supervisor: &Supervisor, request: &RunTask) -> Result<()> {
    check(request)?;
    start::check(&composed(supervisor, None, request).await?.request)
}

/// Composes the worker of the task.
async fn composed(
    supervisor: &Supervisor,
    parent: Option<(&WorkerRow, TaskPurpose)>,
    request: &RunTask,
) -> Result<Composed> {
    let wrong = |message: &str| Error::new(Code::InvalidInput, message).with("field", "manager");
    match (parent, &request.manager) {
        (Some((row, gives)), None) => {
            let (parent, request) = (
                crate::supervisor::start::compose::parent::parent(supervisor, row.clone(), gives).await?,
                request.clone(),
            );
            in_files(supervisor, move || compose::for_parent(&parent, &request)).await
        }
        (None, Some(place)) => {
            let (place, request) = (place.clone(), request.clone());
            in_files(supervisor, move || compose::for_manager(&place, &request)).await
        }
        (Some(_), Some(_)) => Err(wrong("a task of an agent runs in its place; leave out `manager`")),
        (None, None) => Err(wrong("a task of a manager needs `manager`, the place where it runs")),
    }
}

/// Reads definition files, which may be many and large, on a blocking thread and one request at
/// a time.
async fn in_files<T: Send + 'static>(
    supervisor: &Supervisor,
    look: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let one = Arc::clone(&supervisor.shared.locks.composing).lock_owned().await;
    let looked = tokio::task::spawn_blocking(move || {
        let found = look();
        drop(one);
        found
    });
    looked.await.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

/// Lists the agents to which a worker's agent may give tasks.
///
/// # Errors
/// `INVALID_ARGUMENT` for other callers. `FORBIDDEN_FROM_WORKER` for a worker without
/// delegation. Those of its config.
pub(crate) async fn callable_agents(supervisor: &Supervisor, caller: TaskCaller) -> Result<CallableAgents> {
    let Some(worker) = caller.parent() else {
        let message = "only the agent of a worker can ask which agents it may give tasks to";
        return Err(Error::new(Code::InvalidArgument, message).recommend("run `subagent agent list`"));
    };
    let parent = crate::supervisor::start::compose::parent::parent(
        supervisor,
        supervisor.row(worker.as_str()).await?,
        TaskPurpose::Tasks,
    )
    .await?;
    Ok(CallableAgents {
        worker_id: worker.clone(),
        agents: in_files(supervisor, move || compose::callable(&parent)).await?,
    })
}

/// Starts the actor of a task and returns its view.
async fn spawned(supervisor: &Supervisor, task_id: &str) -> Result<TaskView> {
    let row = supervisor.row(task_id).await?;
    if row.state != "stopped" {
        let _ = supervisor.roster.adopted(&supervisor.shared, &row).await?;
    }
    let (id, wanted) = (row.id, task_id.to_owned());
    let read = supervisor.shared.store.read(move |connection| {
        Ok((tasks::of_worker(connection, &wanted)?, tasks::places::next(connection, id)?))
    });
    let (task, next) = read.await?;
    supervisor.shared.changes.wake_actors(next);
    let task = task.ok_or_else(|| supervisor.roster.not_found(task_id))?;
    Ok(shown::view(supervisor, &task, false))
}

impl Spawn {
    /// Stores the worker, its task, and the prompt as its first queued message.
    fn store(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<String> {
        self.shared.admit_worker()?;
        let Self { composed, parent, owner, firing, worker_id, task, .. } = self;
        let worker = composed.request;
        let controller = match (&parent, &owner) {
            (Some(parent), _) => still_runs(tx, parent, now)?,
            (None, Some(owner)) => {
                controllers::of_new_worker(tx.connection(), &worker.choice, owner, &self.state_db)?.id
            }
            // The owner was checked when the schedule was added.
            (None, None) if firing.is_some() => {
                controllers::required(tx.connection(), &worker.choice, None)?.id
            }
            (None, None) => return Err(Error::new(Code::Internal, "a task without a parent or an owner")),
        };
        let begins = Worker { queue: Queue { gated: true, ..Queue::default() }, ..Worker::without_runtime() };
        let id = workers::insert(
            tx,
            &NewWorker {
                worker_id: worker_id.clone(),
                controller,
                name: NewName::OfTask,
                label: worker.label,
                launcher: worker.launcher.name,
                role: worker.role,
                cwd: worker.cwd.display().to_string(),
                spec: self.spec,
                placeholder: self.placeholder.as_str().to_owned(),
                state: LifecycleState::Idle,
                placement: worker.placement.or_else(|| self.shared.setup.placement.clone()),
            },
            now,
        )?;
        let parent_id = parent.as_ref().map(|parent| parent.id);
        accounts::open(tx, id, controller, parent_id, worker.budget)?;
        let terms = serde_json::to_string(&composed.terms)
            .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        let new = NewTask {
            parent: parent_id,
            controller,
            limits: composed.limits,
            name: task.name,
            agent: composed.agent,
            description: self.description,
            prompt: task.prompt.clone(),
            mode: composed.mode,
            terms,
            metadata: task.metadata.into(),
        };
        tasks::insert(tx, id, &worker_id, &new, now)?;
        self.planned.map_or(Ok(()), |planned| {
            planned.store(tx, worker_id.as_str(), self.shared.setup.own_folders(), now)
        })?;
        let (message, input) = text::plain(&task.prompt);
        let queued = Queued { turn_id: self.turn_id, message, input, sender: None };
        let step = begins.step(WorkerInput::Enqueue {
            queued,
            urgency: QueuePosition::Delivered,
            most: usize::MAX,
        })?;
        facts::store(tx, id, &step.facts, None, now)?;
        workers::update(tx, id, &step.worker, Cursor::default(), now)?;
        firing.map_or(Ok(()), |firing| firings::start(tx, firing, (id, &worker_id), None, now))?;
        Ok(worker_id.as_str().to_owned())
    }
}

/// Returns the controller of a parent that is not stopped, may create tasks, and has budget left.
fn still_runs(tx: &Tx<'_>, parent: &WorkerRow, now: Timestamp) -> Result<RowId> {
    let found = crate::store::workers::get(tx.connection(), parent.worker_id.as_str())?;
    match found {
        Some(row) if !matches!(row.state.as_str(), "stopping" | "stopped") => {
            gives_tasks(tx, row.id)?;
            // Errors about other workers' budgets name their worker already.
            accounts::may_give_work(tx, row.id, now).map_err(|error| of_worker(error, &row.worker_id))?;
            Ok(row.controller)
        }
        _ => {
            let message = "the worker is stopped and cannot give tasks";
            Err(Error::new(Code::WorkerStopped, message).with("workerId", parent.worker_id.as_str()))
        }
    }
}

/// Adds the worker to errors about its own budget.
fn of_worker(error: Error, worker: &WorkerId) -> Error {
    match error.facts().scope.0 {
        Some("worker") if !error.details.contains_key("workerId") => error.with("workerId", worker.as_str()),
        _ => error,
    }
}

fn check(request: &RunTask) -> Result<()> {
    let wrong =
        |field: &str, message: String| Err(Error::new(Code::InvalidArgument, message).with("field", field));
    if request.prompt.trim().is_empty() {
        return wrong("prompt", "the prompt of a task is empty".to_owned());
    }
    text::check_text(&request.prompt)?;
    if let Some(name) = &request.name {
        check_name(name)?;
    }
    let described = request.description.as_deref().unwrap_or_default();
    if described.chars().count() > MAX_DESCRIPTION_CHARS {
        return wrong("description", format!("a description has at most {MAX_DESCRIPTION_CHARS} characters"));
    }
    let metadata = serde_json::to_string(&request.metadata).map_or(usize::MAX, |text| text.len());
    if metadata > MAX_METADATA_BYTES {
        return wrong("metadata", format!("the metadata have at most {MAX_METADATA_BYTES} bytes as JSON"));
    }
    Ok(())
}

fn description(request: &RunTask) -> String {
    match request.description.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => text.to_owned(),
        None => {
            let words: Vec<&str> = request.prompt.split_whitespace().take(DESCRIBING_WORDS).collect();
            subagent_core::task::beginning(&words.join(" "), MAX_DESCRIPTION_CHARS).to_owned()
        }
    }
}
